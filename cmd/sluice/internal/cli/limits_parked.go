package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

// mostKeys is how many keys with parked tasks are looked at, which takes 20 requests.
const mostKeys = 1000

// parkedKeys are the keys on which tasks are parked, by the group of policies: the tasks
// of a group stand in one line.
type parkedKeys struct {
	byGroup map[string][]parkedKey
	more    bool // there are other keys, not looked at
}

// parkedKey is a key and how many tasks are parked on it.
type parkedKey struct {
	Key   string `json:"key"`
	Tasks int64  `json:"tasks"`
}

// readParked reads how many tasks are parked on each key, the most first.
func readParked(ctx context.Context, l *dynamolimit.Limiter) (*parkedKeys, error) {
	crowds, more, err := l.FirstCrowds(ctx, mostKeys)
	if err != nil {
		return nil, err
	}
	p := &parkedKeys{byGroup: map[string][]parkedKey{}, more: more}
	for _, c := range crowds {
		p.byGroup[c.Group] = append(p.byGroup[c.Group], parkedKey{c.Key, c.Waiting})
	}
	for _, keys := range p.byGroup {
		slices.SortFunc(keys, func(a, b parkedKey) int {
			return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(a.Key, b.Key))
		})
	}
	return p, nil
}

// on returns the keys of a policy.
func (p *parkedKeys) on(policy limit.Policy) []parkedKey {
	return p.byGroup[cmp.Or(policy.Group, policy.Name)]
}

// parkedCount is how many tasks are parked on a policy.
type parkedCount struct {
	Tasks int64 `json:"tasks"`
	Keys  int   `json:"keys"`
	// AtLeast tells that not all keys have been looked at.
	AtLeast bool `json:"at_least,omitzero"`
}

func (p *parkedKeys) count(policy limit.Policy) parkedCount {
	keys := p.on(policy)
	c := parkedCount{Keys: len(keys), AtLeast: p.more}
	for _, k := range keys {
		c.Tasks += k.Tasks
	}
	return c
}

// String words the count.
func (c parkedCount) String() string {
	text := fmt.Sprint(c.Tasks)
	if c.Keys > 0 {
		text += " on " + plural(int64(c.Keys), "key")
	}
	if c.AtLeast {
		text = "at least " + text
	}
	return text
}

// words names the keys with the most parked tasks, empty for nobody.
func (p *parkedKeys) words(policy limit.Policy) string {
	const shown = 5
	keys := p.on(policy)
	if len(keys) == 0 && !p.more {
		return ""
	}
	var names []string
	for _, k := range keys[:min(len(keys), shown)] {
		name := "no key"
		if k.Key != "" {
			name = fmt.Sprintf("%q", k.Key)
		}
		names = append(names, fmt.Sprintf("%s %d", name, k.Tasks))
	}
	if len(keys) > shown {
		names = append(names, "…")
	}
	text := p.count(policy).String()
	if len(names) > 0 {
		text += ": " + strings.Join(names, ", ")
	}
	return text
}

// parkedOnKey words how many tasks are parked on a key, empty for nobody.
func parkedOnKey(n int64, policy limit.Policy) string {
	if n == 0 {
		return ""
	}
	text := plural(n, "task")
	if policy.Group != "" && policy.Group != policy.Name {
		text += ", under any policy of the group " + policy.Group
	}
	return text
}

// listedEntry is a registry's entry with what is parked on its policy.
type listedEntry struct {
	limit.Entry

	parked parkedCount
}

// MarshalJSON writes the entry with one more member.
func (e listedEntry) MarshalJSON() ([]byte, error) {
	entry, err := json.Marshal(e.Entry)
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		Entry  jsontext.Value `json:",embed"`
		Parked parkedCount    `json:"parked"`
	}{entry, e.parked})
}

// plural words a number of things.
func plural(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
