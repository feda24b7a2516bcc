package dynamolimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
)

// Acquire implements [limit.Acquirer]. Tiers of one group and key cost one request
// when they are admitted as well as when they are denied, unless others get in
// between.
//
// It returns [limit.ErrStoreDown] if the store does not answer until the deadline of
// ctx, or if the answer was lost and can't be found out: the charge may stand then.
func (l *Limiter) Acquire(ctx context.Context, tiers ...limit.Tier) (*limit.Reservation, error) {
	return l.acquire(ctx, newID(), false, tiers)
}

func (l *Limiter) acquire(ctx context.Context, id string, shared bool, tiers []limit.Tier) (*limit.Reservation, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := l.patient.limit(ctx)
	defer cancel()
	resolved, err := l.resolve(ctx, tiers)
	if err != nil {
		return nil, err
	}
	a := &acquisition{l: l, id: id, tiers: resolved}
	for _, t := range resolved {
		if t.Units > 0 {
			a.costly = append(a.costly, t)
		}
	}
	if len(a.costly) == 0 {
		return a.reservation(nil, nil), nil
	}
	a.places = placesOf(a.costly)
	c := &change{
		doing:  fmt.Sprintf("acquiring %v", tierNames(a.costly)),
		id:     a.id,
		shared: shared,
		places: a.places,
		plan:   a.plan,
		judge:  a.judge,
		renew:  func(c *registryCopy) error { return renewTiers(a.costly, c) },
	}
	c.unknown = func(cause error) error { return outOfReach(c, cause) }
	writes, after, err := l.carryOut(ctx, c)
	switch {
	case err != nil:
		return nil, err
	case writes == nil:
		return a.repeated(), nil
	}
	return a.reservation(writes, after), nil
}

// An acquisition is one request on its way.
type acquisition struct {
	l      *Limiter
	id     string
	tiers  []tier // all
	costly []tier // those with a cost above 0
	places []place
}

func renewTiers(tiers []tier, c *registryCopy) error {
	for i := range tiers {
		m, err := c.meter(tiers[i].Policy.Name)
		if err != nil {
			return err
		}
		tiers[i].meter = m
	}
	return nil
}

// plan makes one write per item, each with all its tiers.
func (a *acquisition) plan(known []view, at time.Time) ([]*write, error) {
	if a.remembered(known) {
		return nil, errDone
	}
	writes := make([]*write, len(a.places))
	for i, p := range a.places {
		writes[i] = &write{place: p, index: i, id: a.id, seen: known[i].item.writes(), expiry: expiry{known: known[i].item.expires()}}
	}
	var blocked []limit.Blocked
	predicted := false
	for _, t := range a.costly {
		w := writes[a.indexOf(t.place)]
		v := known[w.index]
		s, err := v.item.state(t.Policy.Name)
		if err != nil {
			return nil, err
		}
		p, d := t.meter.Plan(s, t.Units, at)
		switch {
		case d.Stale:
			return nil, errStale
		case d.Admitted:
			p, unsettled := a.lean(t, v, s, p, at)
			w.policies = append(w.policies, t.Policy.Name)
			w.plans = append(w.plans, p)
			w.unsettled = append(w.unsettled, unsettled)
			w.expiry.extend(t.meter, d.Next, at)
		case v.sure:
			blocked = append(blocked, blockedBy(d, t))
		default:
			predicted = true
		}
	}
	switch {
	case len(blocked) > 0:
		return nil, limit.NewDenied(blocked...)
	case predicted:
		return nil, errLook
	default:
		return writes, nil
	}
}

// lean turns a plan for a state that should be idle by now, if nobody else has used it,
// into one for a state in use, if others usually have. (A window from first use has no
// such plan, as nobody knows where it began.)
func (a *acquisition) lean(t tier, v view, s limit.State, p limit.Plan, at time.Time) (_ limit.Plan, unsettled bool) {
	if v.sure || p.Branch != limit.Idle || s.Era != p.Era || p.Low != p.Base {
		return p, false
	}
	active, known := a.l.views.leansActive(t.place, t.Policy.Name)
	if !known {
		// It was more than half used up when it was seen last: others are at it.
		r, stale := t.meter.Inspect(s, 0, v.at)
		active = !stale && r.Available < r.Limit/2
	}
	if active {
		s.Position = p.Low
		if active, d := t.meter.Plan(s, t.Units, at); d.Admitted && active.Branch == limit.Active {
			return active, true
		}
	}
	return p, true
}

// judge returns a [*limit.Denied] if the items known for sure are in the way.
func (a *acquisition) judge(known []view, _ []*write, at time.Time) error {
	if a.remembered(known) {
		return nil
	}
	var blocked []limit.Blocked
	for _, t := range a.costly {
		v := known[a.indexOf(t.place)]
		if !v.sure {
			continue
		}
		s, err := v.item.state(t.Policy.Name)
		if err != nil {
			return err
		}
		switch d := t.meter.Decide(s, t.Units, at); {
		case d.Stale:
			return errStale
		case !d.Admitted:
			blocked = append(blocked, blockedBy(d, t))
		}
	}
	if len(blocked) > 0 {
		return limit.NewDenied(blocked...)
	}
	return nil
}

func blockedBy(d limit.Decision, t tier) limit.Blocked {
	b := d.Blocked
	b.Key = t.Key
	return b
}

func (a *acquisition) indexOf(p place) int {
	for i, q := range a.places {
		if p == q {
			return i
		}
	}
	panic("unreachable: the places are those of the tiers")
}

// reservation returns the receipt of the writes that were carried out.
func (a *acquisition) reservation(writes []*write, after []item) *limit.Reservation {
	charges := make([]limit.Charge, len(a.tiers))
	for i, t := range a.tiers {
		charges[i] = limit.Charge{Policy: t.Policy.Name, Key: t.Key}
		if t.Units == 0 {
			continue
		}
		for n, w := range writes {
			if w.place != t.place {
				continue
			}
			for j, policy := range w.policies {
				if policy == t.Policy.Name {
					s, err := after[n].state(policy)
					if err != nil {
						s = limit.State{}
					}
					charges[i] = w.plans[j].Charge(s)
					charges[i].Key = t.Key
				}
			}
		}
	}
	return limit.NewReservation(limit.Receipt{ID: a.id, Charges: charges}, a.l)
}

// tierNames are the names of policies for an error, which goes into logs: keys are chosen
// from inputs, which logs must not hold.
func tierNames(tiers []tier) []string {
	names := make([]string, len(tiers))
	for i, t := range tiers {
		names[i] = t.Policy.Name
	}
	return names
}

// Inspect implements [limit.Limiter] with one read.
func (l *Limiter) Inspect(ctx context.Context, t limit.Tier) (limit.Reading, error) {
	r, _, err := l.InspectParked(ctx, t)
	return r, err
}

// InspectParked is [Limiter.Inspect] that also says how many tasks are parked on the key:
// those that wait for their turn under any policy of the group, since they stand in one
// line. It takes the same read.
func (l *Limiter) InspectParked(ctx context.Context, t limit.Tier) (r limit.Reading, parked int64, err error) {
	ctx, cancel := l.patient.limit(ctx)
	defer cancel()
	resolved, err := l.resolve(ctx, []limit.Tier{t})
	if err != nil {
		return limit.Reading{}, 0, err
	}
	for try := 0; ; try++ {
		at := l.clock.now()
		items, err := l.read(ctx, placesOf(resolved))
		if err != nil {
			return limit.Reading{}, 0, err
		}
		s, err := items[0].state(t.Policy.Name)
		if err != nil {
			return limit.Reading{}, 0, err
		}
		if r, stale := resolved[0].meter.Inspect(s, resolved[0].Units, at); !stale {
			r.Key = t.Key
			if r.Blocked != nil {
				r.Blocked.Key = t.Key
			}
			waiting, err := items[0].whole(waitingAttribute)
			return r, max(waiting, 0), err
		}
		if try == mostRenewals {
			return limit.Reading{}, 0, errors.Join(limit.ErrStoreBusy, fmt.Errorf("inspecting a key of %s: its policy changes all the time", t.Policy.Name))
		}
		c, err := l.refresh(ctx, l.registry.copied.Load())
		if err != nil {
			return limit.Reading{}, 0, err
		}
		if err := renewTiers(resolved, c); err != nil {
			return limit.Reading{}, 0, err
		}
	}
}
