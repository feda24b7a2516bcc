package limit

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors of a limiter, for errors.Is. A refusal is none of them but a [*Denied],
// a bad request an [*InvalidRequestError].
var (
	// ErrUnknownPolicy says that a tier names a policy that is not registered.
	ErrUnknownPolicy = errors.New("limit: unknown policy")

	// ErrStoreBusy says that the store's item was contended until the deadline. Nothing is
	// known to be charged; it says nothing about the limit.
	ErrStoreBusy = errors.New("limit: the store is busy")

	// ErrStoreDown says that the store could not be reached or did not answer. Callers
	// fail closed: without an answer nothing is admitted.
	ErrStoreDown = errors.New("limit: the store can't be reached")

	// ErrStoreDenied says that the store refused the caller's credentials or permissions,
	// which time does not cure.
	ErrStoreDenied = errors.New("limit: the store denies access")
)

// LookAgain is how long a denial waits that no time ends: a paused policy or an
// empty manual one is looked at once a day, in case the news of a change is lost. A
// policy that is reset on a cron is also looked at then, and every minute while that
// reset is overdue.
const LookAgain = 24 * time.Hour

const lookAgainSoon = time.Minute

// A Verdict says what a tier in the way is waiting for.
type Verdict string

const (
	// Later: the cost fits after [Blocked.Wait], which is never too short.
	Later Verdict = "later"
	// UntilChanged: no passing of time lets the cost in, only a grant, a reset
	// or a change of the policy: it is paused, or a manual policy without
	// enough left. [Blocked.Wait] is when to look again, see [LookAgain].
	UntilChanged Verdict = "until_changed"
	// Never: the cost is above what the policy can ever hold.
	Never Verdict = "never"
)

// Blocked is one tier that stands in the way of a request.
type Blocked struct {
	Policy    string
	Key       string
	Cost      int64
	Available int64 // what it has now
	Verdict   Verdict
	Wait      time.Duration // above 0, in whole milliseconds; 0 if Never
	Held      bool          // whether a hold is in the way
}

// String says what blocks and until when.
func (b Blocked) String() string {
	who := fmt.Sprintf("%s[%q]: cost %d, available %d", b.Policy, b.Key, b.Cost, b.Available)
	switch {
	case b.Verdict == Never:
		return who + ", can never be admitted"
	case b.Verdict == UntilChanged:
		return who + ", waits for a change, grant or reset"
	case b.Held:
		return fmt.Sprintf("%s, held, retry after %v", who, b.Wait)
	default:
		return fmt.Sprintf("%s, retry after %v", who, b.Wait)
	}
}

// Denied is the error of a request that was not admitted. No tier was charged.
type Denied struct {
	// Blocked holds every tier in the way, in the order of the request.
	Blocked []Blocked

	// RetryAfter is the longest wait among them: trying sooner is in vain, and
	// trying then succeeds unless others come first. It is above 0
	// except when Never.
	RetryAfter time.Duration

	// Never says that a tier can never admit its cost, so that trying again is
	// of no use.
	Never bool
}

// NewDenied returns the Denied of the tiers in the way, at least one.
func NewDenied(blocked ...Blocked) *Denied {
	d := &Denied{Blocked: blocked}
	for _, b := range blocked {
		d.Never = d.Never || b.Verdict == Never
		d.RetryAfter = max(d.RetryAfter, b.Wait)
	}
	if d.Never {
		d.RetryAfter = 0
	}
	return d
}

func (d *Denied) Error() string {
	var b strings.Builder
	b.WriteString("limit: denied: ")
	for i, t := range d.Blocked {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(t.String())
	}
	return b.String()
}
