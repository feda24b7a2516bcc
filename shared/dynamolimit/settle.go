package dynamolimit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
)

// Settle implements [limit.Settler]. An item remembers the last eight reservations
// that were closed or charged on it: a repeated call with the same id settles nothing.
func (l *Limiter) Settle(ctx context.Context, id string, closings []limit.Closing, at time.Time) error {
	ctx, cancel := l.patient.limit(ctx)
	defer cancel()
	tiers := make([]limit.Tier, len(closings))
	names := make([]string, len(closings))
	for i, c := range closings {
		names[i] = c.Charge.Policy
	}
	registry, err := l.policies(ctx, names...)
	if err != nil {
		return err
	}
	s := &settlement{id: id + closingMark, at: at, exact: map[int]bool{}, doubts: l.doubts.of(id)}
	for i, c := range closings {
		m, err := registry.meter(c.Charge.Policy)
		if err != nil {
			return err
		}
		tiers[i] = limit.Tier{Policy: m.Policy(), Key: c.Charge.Key}
		s.closings = append(s.closings, closing{c, tier{tiers[i], m, place{m.Policy().Group, c.Charge.Key}}})
		s.tiers = append(s.tiers, s.closings[i].tier)
	}
	if _, err := limit.Merge(tiers); err != nil {
		return err
	}
	s.places = placesOf(s.tiers)
	if _, _, err = l.carryOut(ctx, &change{
		doing:    fmt.Sprintf("settling %v", tierNames(s.tiers)),
		id:       s.id,
		places:   s.places,
		plan:     s.plan,
		judge:    s.judge,
		renew:    s.renew,
		doubtful: s.doubt,
		unknown: func(cause error) error {
			l.clock.log.Warn("whether a reservation was settled can't be known", "policies", tierNames(s.tiers), "error", cause)
			s.chargeOnly = true
			return errAgain
		},
	}); err != nil {
		l.doubts.keep(id, s.doubts)
		return err
	}
	l.doubts.keep(id, nil)
	return nil
}

// closingMark tells the id of closing a reservation from that of acquiring it.
const closingMark = "c"

type closing struct {
	limit.Closing

	tier tier
}

// A settlement is a reservation being closed.
type settlement struct {
	id       string
	at       time.Time // zero for the clock's
	closings []closing
	tiers    []tier
	places   []place

	// exact holds the places of which the state has to be replaced as it was found,
	// since the charge alone did not tell enough.
	exact map[int]bool

	// doubts are what was known of the items before the first write whose answer was
	// lost: writes go on depending on it, whatever has been seen since.
	doubts marks

	// chargeOnly leaves out what would be given back, since it may have been before;
	// what was charged too little is charged, even if it is for the second time.
	chargeOnly bool
}

// marks are what was known of items, by their place.
type marks map[place]mark

type mark struct {
	seen  int64
	given *givenMark
}

// doubt notes what writes depend on whose answer was lost.
func (s *settlement) doubt(writes []*write) {
	for _, w := range writes {
		if _, ok := s.doubts[w.place]; !ok {
			if s.doubts == nil {
				s.doubts = marks{}
			}
			s.doubts[w.place] = mark{w.seen, w.given}
		}
	}
}

// doubts keeps the marks of reservations whose closing failed with its answer lost,
// for when it is tried again.
type doubts struct {
	mu   sync.Mutex
	kept map[string]marks
}

// mostDoubts bounds the memory that a store out of reach costs. Of more reservations
// than that, a repeated closing depends on what is known then.
const mostDoubts = 1024

func (d *doubts) of(id string) marks {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kept[id]
}

func (d *doubts) keep(id string, m marks) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case m == nil:
		delete(d.kept, id)
	case len(d.kept) < mostDoubts:
		if d.kept == nil {
			d.kept = make(map[string]marks)
		}
		d.kept[id] = m
	}
}

func (s *settlement) time(at time.Time) time.Time {
	if s.at.IsZero() {
		return at
	}
	return s.at
}

func (s *settlement) renew(c *registryCopy) error {
	for i := range s.closings {
		m, err := c.meter(s.closings[i].tier.Policy.Name)
		if err != nil {
			return err
		}
		s.closings[i].tier.meter = m
	}
	return nil
}

func (s *settlement) plan(known []view, at time.Time) ([]*write, error) {
	at = s.time(at)
	var writes []*write
	for i, p := range s.places {
		v := known[i]
		if v.sure && v.item.remembers(s.id) {
			return nil, errDone
		}
		w := &write{place: p, index: i, id: s.id, seen: v.item.writes(), expiry: expiry{known: v.item.expires()}}
		for _, c := range s.closings {
			if c.tier.place != p {
				continue
			}
			if err := s.add(w, c, v, at); err != nil {
				return nil, err
			}
		}
		if m, ok := s.doubts[p]; ok && !s.chargeOnly {
			w.seen, w.given, w.complete = m.seen, m.given, true
		}
		if len(w.plans) > 0 {
			writes = append(writes, w)
		}
	}
	if len(writes) == 0 {
		return nil, errDone
	}
	return writes, nil
}

// add adds to a write what closes one charge.
func (s *settlement) add(w *write, c closing, v view, at time.Time) error {
	if s.chargeOnly && c.Actual <= c.Charge.Units {
		return nil
	}
	policy := c.tier.Policy.Name
	state, err := v.item.state(policy)
	if err != nil {
		return err
	}
	p, needed, stale := c.plan(state, s.exact[w.index] && v.sure, at)
	switch {
	case stale:
		return errStale
	case !needed:
		inForce := c.tier.meter.Terms(at).Era
		if !v.sure && (c.Charge.Era != inForce || state.Era != 0 && state.Era != inForce) {
			return errLook // the settings have changed: what is left of the charge depends on the state
		}
		return nil
	}
	if p.Branch == limit.Lower && w.given == nil {
		w.given = &givenMark{policy, c.Charge.Given}
		if state.Era != 0 {
			w.given.given = state.Given
		}
	}
	if c.Actual > c.Charge.Units {
		w.expiry.extend(c.tier.meter, p.Apply(state), at)
	}
	w.policies = append(w.policies, policy)
	w.plans = append(w.plans, p)
	return nil
}

// plan returns the plan to close a charge: one that is as good for other states than the
// one believed to be stored, or the exact one, of a state that is known.
func (c *closing) plan(state limit.State, exact bool, at time.Time) (p limit.Plan, needed, stale bool) {
	if !exact {
		return c.tier.meter.PlanSettle(state, c.Charge, c.Actual, at)
	}
	next, stale := c.tier.meter.Settle(state, c.Charge, c.Actual, at)
	return limit.Replace(state, next), next != state, stale
}

// judge finds out which plans did not fit the items that were found.
func (s *settlement) judge(known []view, refused []*write, _ time.Time) error {
	for _, w := range refused {
		v := known[w.index]
		for i, p := range w.plans {
			state, err := v.item.state(w.policies[i])
			if err != nil {
				return err
			}
			if v.sure && p.Branch == limit.Lower && !p.Applies(state) {
				s.exact[w.index] = true
			}
		}
	}
	return nil
}
