package dynamodbemu

import "time"

// tokenLifetime is how long a ClientRequestToken makes its transaction idempotent.
const tokenLifetime = 10 * time.Minute

// A usedToken remembers the transaction that a token stands for.
type usedToken struct {
	token   string
	actions string // canonical JSON
	at      time.Time
}

// tokens are the ClientRequestTokens of transactions that succeeded, oldest first.
type tokens struct {
	byToken map[string]*usedToken
	ordered []*usedToken
}

// find returns the transaction of a token that is still alive.
func (t *tokens) find(token string, now time.Time) *usedToken {
	for len(t.ordered) > 0 && now.Sub(t.ordered[0].at) >= tokenLifetime {
		delete(t.byToken, t.ordered[0].token)
		t.ordered = t.ordered[1:]
	}
	return t.byToken[token]
}

func (t *tokens) remember(token, actions string, now time.Time) {
	if t.byToken == nil {
		t.byToken = make(map[string]*usedToken)
	}
	u := &usedToken{token: token, actions: actions, at: now}
	t.byToken[token] = u
	t.ordered = append(t.ordered, u)
}
