package dynamolimit

import (
	"sync"
	"time"
)

// A view is what is known of an item.
type view struct {
	item item
	// sure says that the item was read or refused a write within the present call,
	// and not just some time before.
	sure bool
	at   time.Time
}

// views remembers what was last seen of the items, to guess how they stand now. A
// wrong guess costs a request and does no harm, except that a view's number of
// writes must not come from an item that has been deleted since: hence oldest.
type views struct {
	mu    sync.Mutex
	items map[place]view
	leans map[leaning]int
}

// A leaning is a policy at a place, of which views remembers how the last guesses came
// out that its view could not settle: whether what should be idle by now if nobody else
// used it was idle, or in use. A busy key makes a limiter expect others, as it should,
// and a quiet one expect none.
type leaning struct {
	place  place
	policy string
}

// surest is how far a leaning goes, and so how many surprises it takes to turn it.
const surest = 4

// leansActive reports whether a state that should be idle is more probably in use, and
// whether anything is known about that.
func (v *views) leansActive(p place, policy string) (active, known bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	n, known := v.leans[leaning{p, policy}]
	return n > 0, known
}

func (v *views) lean(p place, policy string, active bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.leans == nil || len(v.leans) > mostViews {
		v.leans = make(map[leaning]int)
	}
	l := leaning{p, policy}
	if active {
		v.leans[l] = min(v.leans[l]+1, surest)
	} else {
		v.leans[l] = max(v.leans[l]-1, -surest)
	}
}

const (
	mostViews  = 4096
	oldestView = 24 * time.Hour
	reordered  = 2 * time.Second // how late an answer may come behind a newer one
)

func (v *views) get(p place, now time.Time) view {
	v.mu.Lock()
	defer v.mu.Unlock()
	seen, ok := v.items[p]
	if !ok || now.Sub(seen.at) > oldestView {
		return view{}
	}
	return seen
}

// recall returns the views of several places.
func (v *views) recall(places []place, now time.Time) []view {
	known := make([]view, len(places))
	for i, p := range places {
		known[i] = v.get(p, now)
	}
	return known
}

func (v *views) put(p place, i item, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.items == nil {
		v.items = make(map[place]view)
	}
	if _, ok := v.items[p]; !ok && len(v.items) >= mostViews {
		for other := range v.items { // any one: a map is walked in random order
			delete(v.items, other)
			break
		}
	}
	// Answers that overtook each other tell of a different number of writes.
	if seen := v.items[p]; i != nil && i.writes() < seen.item.writes() && now.Sub(seen.at) < reordered {
		return
	}
	v.items[p] = view{item: i, at: now}
}
