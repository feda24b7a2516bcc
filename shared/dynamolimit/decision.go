package dynamolimit

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
)

// A decision is a step of package limit on its way to the table.
type decision struct {
	id     string
	turn   *Turn
	decide decide
	tiers  []tier // all
	costly []tier // those with a cost above 0
	places []place

	// ctx is that of the call, for the request that a plan may have to make first.
	ctx context.Context //nolint:containedctx // a decision lives as long as its call

	// step is the last one planned, items are those it was planned for, and writes
	// carry it out.
	step   limit.Step
	items  []limit.Item
	writes []*write
	// announced are the places whose key was put into the list of those with sleepers.
	announced map[place]bool
	// told says that the items are known as the step left them.
	told bool

	// sent is what the writes that were sent last were to do, as part of change.
	sent   limit.Action
	change *change
}

func newDecision(t *Turn, by decide, resolved []tier) *decision {
	d := &decision{id: newID(), turn: t, decide: by, tiers: resolved, announced: map[place]bool{}}
	for _, r := range resolved {
		if r.Units > 0 {
			d.costly = append(d.costly, r)
		}
	}
	d.places = placesOf(d.costly)
	return d
}

// carryOut returns the step that was carried out, and the items as it left them.
func (d *decision) carryOut(ctx context.Context) (limit.Step, []limit.Item, error) {
	d.ctx = ctx
	c := &change{
		doing:  fmt.Sprintf("taking the turn of a task under %v", tierNames(d.costly)),
		id:     d.id,
		places: d.places,
		plan:   d.plan,
		judge:  func([]view, []*write, time.Time) error { return nil }, // plan does
		renew:  func(c *registryCopy) error { return renewTiers(d.costly, c) },
	}
	c.unknown = func(cause error) error { return outOfReach(c, cause) }
	d.change = c
	writes, found, err := d.turn.l.carryOut(ctx, c)
	if err != nil {
		return limit.Step{}, nil, err
	}
	after := make([]limit.Item, len(d.items))
	copy(after, d.items)
	d.told = true
	step := d.step
	if len(writes) == 0 && len(d.writes) > 0 {
		// They were carried out by a request that arrived twice, of which the second failed.
		writes, found = d.writes, make([]item, len(d.writes))
	}
	if len(writes) > 0 {
		step = *writes[0].crowding.step
	}
	for i, w := range writes {
		after[w.index] = w.crowding.plan.Apply(w.crowding.before)
		switch {
		case found[i] != nil:
			if after[w.index], err = found[i].crowded(w.place, d.costly); err != nil {
				return limit.Step{}, nil, err
			}
		case !w.crowding.pinned:
			d.told = false
			for k := range after[w.index].Tiers {
				after[w.index].Tiers[k].State = limit.State{} // gives back the least
			}
		}
	}
	return step, after, nil
}

// plan decides, and makes one write of each item that the decision changes.
func (d *decision) plan(known []view, at time.Time) ([]*write, error) {
	sure := true
	d.items = make([]limit.Item, len(d.places))
	for n, p := range d.places {
		sure = sure && known[n].sure
		i, err := known[n].item.crowded(p, d.costly)
		if err != nil {
			return nil, err
		}
		d.items[n] = i
	}
	l := d.turn.l
	patience := d.turn.patience
	if l.concurrency > 0 {
		patience = patience.Within(l.concurrency, d.items, at)
	}
	d.step = d.decide(d.turn, d.items, patience, at)
	if d.turn.uncounted {
		uncount(&d.step)
	}
	if d.step.Action == limit.ToRefresh {
		return nil, errStale
	}
	d.rename()
	d.writes = nil
	for n, p := range d.step.Plans {
		if !p.Empty() {
			d.writes = append(d.writes, d.write(n, known[n]))
		}
	}
	switch sleeps := d.step.Action != limit.ToRun && d.step.Action != limit.ToWait; {
	case !sure && (sleeps || len(d.writes) == 0):
		return nil, errLook
	case len(d.writes) == 0:
		return nil, errDone
	}
	d.sent = d.step.Action
	return d.writes, d.finishWrites(known, at)
}

// rename gives the writes another id if they are to do something else than those before.
// Of writes with one id, of which one was carried out without an answer, it is not known
// which: a task that was parked must not be taken for one that was charged. Should those
// before be carried out yet, what they charge is lost.
func (d *decision) rename() {
	if d.sent != "" && d.sent != d.step.Action {
		d.id = newID()
		d.change.id = d.id
	}
}

// write starts the write of an item.
func (d *decision) write(n int, known view) *write {
	return &write{
		place: d.places[n], index: n, id: d.id, seen: known.item.writes(),
		expiry:   expiry{known: known.item.expires()},
		crowding: &crowding{plan: d.step.Plans[n], before: d.items[n], step: &d.step},
	}
}

// finishWrites adds to the writes what depends on all of them.
func (d *decision) finishWrites(known []view, at time.Time) error {
	step := d.step
	for _, w := range d.writes {
		w.crowding.step = &step
		if len(d.writes) > 1 && (step.Action != limit.ToRun || d.turn.slot.Charges != nil) {
			w.crowding.pin()
		}
		after := w.crowding.plan.Apply(w.crowding.before)
		for k, t := range w.crowding.plan.Tiers {
			meter := after.Tiers[k].Meter
			if t.State.Branch == "" {
				if w.crowding.plan.Crowd != "" {
					w.expiry.extend(meter, after.Tiers[k].State, at)
				}
				continue
			}
			p, unsettled := d.lean(w.place, meter, known[w.index], w.crowding, k, at)
			w.policies = append(w.policies, t.Policy)
			w.plans = append(w.plans, p)
			w.unsettled = append(w.unsettled, unsettled)
			w.expiry.extend(meter, after.Tiers[k].State, at)
		}
	}
	if step.Action == limit.ToPark {
		d.lastAsLongAs(d.predicted(), at)
	}
	return d.announce()
}

// lean does for a newcomer that may run what [acquisition.lean] does for a request.
func (d *decision) lean(p place, m *limit.Meter, v view, c *crowding, k int, at time.Time) (limit.Plan, bool) {
	plan := c.plan.Tiers[k].State
	if d.step.Action != limit.ToRun || plan.Branch != limit.Idle {
		return plan, false
	}
	s := c.before.Tiers[k]
	a := &acquisition{l: d.turn.l}
	return a.lean(tier{limit.Tier{Policy: m.Policy(), Units: s.Units}, m, p}, v, s.State, plan, at)
}

// predicted returns when the place that is being taken will be due, if nobody gets in
// between.
func (d *decision) predicted() time.Time {
	after := make([]limit.Item, len(d.items))
	for n := range d.items {
		after[n] = d.step.Plans[n].Apply(d.items[n])
	}
	return d.step.Parked(after).Until
}

// lastAsLongAs has the items last until a place is due.
func (d *decision) lastAsLongAs(due, at time.Time) {
	for _, w := range d.writes {
		if w.expiry.at != never && due.After(at) {
			w.expiry.at = max(w.expiry.at, min(due.Unix()+spare, never))
			w.expiry.least = max(w.expiry.least, min(due.Unix(), never))
		}
	}
}

// announce puts the key of a first sleeper into the list of those with sleepers, before
// it goes to sleep.
func (d *decision) announce() error {
	for _, w := range d.writes {
		c := w.crowding.plan.Crowd
		if c != limit.CrowdFound && (c != limit.CrowdReturn || w.crowding.before.Waiting > 0) || d.announced[w.place] {
			continue
		}
		if err := d.turn.l.announce(d.ctx, w.place); err != nil {
			return err
		}
		d.announced[w.place] = true
	}
	return nil
}
