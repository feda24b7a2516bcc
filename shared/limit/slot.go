package limit

import (
	"slices"
	"time"
)

// A Slot is a task's turn that is known before it has come: what it was charged for a
// run at a time to come. A function waits until then and asks [Slot.Finish].
type Slot struct {
	Until    time.Time // when the task may run, if Finish says so
	Deadline time.Time // when the patience is over
	Charges  []Charge  // of the tiers that are charged
	Left     bool      // whether the task has left the place it had
	Waits    bool      // whether Until lay ahead
}

// Slot returns what a step to run or to wait has charged, given the items as they are
// after its plans.
func (s Step) Slot(items []Item) Slot {
	slot := Slot{Left: s.left, Deadline: whenever(max(s.deadline, s.at)), Waits: s.Action == ToWait}
	if s.earlier != nil {
		slot.Charges = slices.Clone(s.earlier.Charges)
		slot.Left = slot.Left || s.earlier.Left
	}
	until := s.at
	r := newRequest(items, s.patience, whenever(s.at))
	r.each(func(n, k int, st *Standing, p *spot) {
		plan := s.Plans[n].Tiers[k].State
		if plan.Branch == "" {
			if s.Action == ToWait && slot.charge(items[n].Key, st) < 0 {
				until = max(until, p.admits(st.Units))
			}
			return
		}
		charge := plan.Charge(st.State)
		charge.Key = items[n].Key
		slot.add(charge, plan.Delta, p)
		if s.Action == ToWait {
			until = max(until, p.reached(st.State.Position))
			if plan.Branch == Exact {
				until = max(until, s.due)
			}
		}
	})
	slot.Until = whenever(until)
	return slot
}

// charge returns the index of a tier's charge, or -1.
func (s *Slot) charge(key string, st *Standing) int {
	return slices.IndexFunc(s.Charges, func(c Charge) bool { return c.Policy == st.Meter.policy.Name && c.Key == key })
}

// add notes a charge for a length of the line. Where a tier is charged a second time, for
// what of the first charge had refilled, the two count as one that lies as low as it may:
// so nothing is given back later that has refilled by then.
func (s *Slot) add(c Charge, length Num, p *spot) {
	i := slices.IndexFunc(s.Charges, func(o Charge) bool { return o.Policy == c.Policy && o.Key == c.Key })
	if i < 0 {
		s.Charges = append(s.Charges, c)
		return
	}
	if old := s.Charges[i]; length.less(p.cost) && old.Era == c.Era {
		c.Position = old.reach(c.Given).add(length)
		c.Own = smaller(c.Position, old.Own)
	}
	s.Charges[i] = c
}

// reach returns where a charge ends, at the lowest, after so much was given back.
func (c *Charge) reach(given Num) Num {
	return larger(c.Own, c.Position.sub(larger(given.sub(c.Given), Num{})))
}

// punctual is how much after its time a function may wake up and still count as having
// run on time, like one that takes as long to make its call.
const punctual = 1000

// Finish decides about a task whose slot's time has come: whether nothing has happened
// to it since, such as a hold or a change of the policy, and whether the tiers that
// could not be reserved have room. It is asked on the items as they are: read anew, by a
// consistent read. If all is well, the task runs; else it waits on within its patience,
// or gives the slot up and goes to sleep. place is the one it was woken under, or nil.
func (s Slot) Finish(items []Item, place *Place, p Patience, at time.Time) Step {
	r := newRequest(items, p, at)
	if r.stale {
		return Step{Action: ToRefresh}
	}
	if _, fails := r.blocked(); fails && len(s.Charges) == 0 {
		f := r.step(ToFail)
		if place != nil && !s.Left {
			r.leave(&f, *place)
		}
		return f
	}
	run := r.step(ToRun)
	run.earlier, run.deadline = &s, millis(s.Deadline)
	due := r.now
	r.each(func(n, k int, st *Standing, spot *spot) {
		missing, ready := spot.missing(s.charged(items[n].Key, st), millis(s.Until))
		due = max(due, ready, spot.hold)
		if missing == (Num{}) {
			return
		}
		t, plan := spot.chargeNow(missing)
		due = max(due, t)
		run.Plans[n].Tiers[k].State = plan
	})
	switch {
	case due <= r.now:
		if place != nil && !s.Left {
			r.leave(&run, *place)
		}
		return run
	case due <= millis(s.Deadline):
		wait := r.step(ToWait)
		wait.earlier, wait.deadline, wait.at = &s, millis(s.Deadline), due
		return wait
	}
	return s.yield(r, place)
}

// charged returns a tier's charge, or nil.
func (s *Slot) charged(key string, st *Standing) *Charge {
	if i := s.charge(key, st); i >= 0 {
		return &s.Charges[i]
	}
	return nil
}

// missing returns how much of a tier's cost is not covered by its charge for a run that
// was due at until, and when what is covered is due.
func (p *spot) missing(c *Charge, until int64) (Num, int64) {
	if c == nil || !p.covers(c) {
		return p.cost, p.now
	}
	reach := c.reach(p.given)
	if c.Era != p.seg.Era {
		reach = p.meter.reprice(c.Era, c.Position, p.force.basis)
	}
	if p.now-until <= punctual && p.refilled(reach, min(until, p.now)) == (Num{}) {
		return Num{}, p.reached(reach)
	}
	return p.refilled(reach, p.now), p.reached(reach)
}

// covers reports whether it is known what has become of a charge. After a reset, nothing
// has; and where settings have changed and something was given back, it is not known
// whether it was before or after.
func (p *spot) covers(c *Charge) bool {
	return c.Era == p.seg.Era || c.Era >= p.meter.reset && c.Era < p.seg.Era && p.meter.knows(c.Era) && c.Given == p.given
}

// refilled returns how much of a cost that reaches up to a position has refilled by a time.
func (p *spot) refilled(reach Num, t int64) Num {
	floor := p.seg.lineAt(p.level, t).floor
	return smaller(larger(floor.sub(reach.sub(p.cost)), Num{}), p.cost)
}

// chargeNow returns the plan to charge a length of the line now, and when that fits.
func (p *spot) chargeNow(length Num) (int64, Plan) {
	after := p.level.add(length)
	if p.line.ceiling.less(after) || p.hold > p.now {
		t := p.reached(after)
		if p.seg.Kind == FixedWindow {
			t = max(p.line.window.end, p.hold)
		}
		return max(t, p.now+1), Plan{}
	}
	plan := Plan{
		Branch: Active, Era: p.seg.Era, Reset: p.meter.reset, HeldBy: p.now,
		Low: p.line.floor, High: p.line.ceiling.sub(length), Base: p.line.floor, Delta: length,
		policy: p.meter.policy.Name, units: p.units,
	}
	switch {
	case p.state.Era == p.seg.Era && !p.state.Position.less(p.line.floor):
	case p.state.Era == p.seg.Era || p.state.Era == 0 || p.state.Era < p.meter.reset:
		plan.Branch, plan.Low = Idle, p.openSince()
	default:
		plan.Branch, plan.Old, plan.New = Exact, p.state, p.at(after)
		plan.Base = p.line.floor.add(length)
	}
	return p.now, plan
}

// GiveUp returns the plans by which a task gives its slot up and does not sleep on: it
// was cancelled, or somebody else runs it.
func (s Slot) GiveUp(items []Item, at time.Time) []ItemPlan {
	r := newRequest(items, Patience{}, at)
	plans := make([]ItemPlan, len(items))
	for n := range items {
		plans[n] = blankPlan(&items[n])
	}
	s.giveBack(r, plans)
	return plans
}

// giveBack plans to give back what a slot was charged, where no later slot was given
// out: one that was would be given out a second time. Slots of settings that have
// changed are all given back, for none of them will be used as it is.
func (s *Slot) giveBack(r *request, plans []ItemPlan) {
	r.each(func(n, k int, st *Standing, p *spot) {
		c := s.charged(r.items[n].Key, st)
		if c == nil {
			return
		}
		next := st.State
		switch {
		case c.Era != p.seg.Era:
			next, _ = st.Meter.Settle(st.State, *c, 0, r.at)
		case st.State.Era == c.Era && st.State.Position == c.Position && st.State.Given == c.Given:
			unrefilled := larger(c.Position.sub(p.line.floor), Num{})
			next.Position = c.Position.sub(smaller(p.view.units(c.Units), unrefilled))
		}
		if next != st.State {
			plans[n].Tiers[k].State = Replace(st.State, next)
		}
	})
}

// yield gives the slot up and sends the task back to sleep.
func (s *Slot) yield(r *request, place *Place) Step {
	back := make([]ItemPlan, len(r.items))
	for n := range r.items {
		back[n] = blankPlan(&r.items[n])
	}
	s.giveBack(r, back)
	after := make([]Item, len(r.items))
	for n := range r.items {
		after[n] = back[n].Apply(r.items[n])
	}
	q := newRequest(after, r.patience, r.at)
	var step Step
	if place != nil {
		step = q.sleep(*place, q.placeDue(*place), s.Left)
	} else {
		step = q.park(nil)
	}
	for n := range step.Plans {
		for k := range step.Plans[n].Tiers {
			plan, pl := &step.Plans[n].Tiers[k], r.items[n].Tiers[k].Places
			plan.State = back[n].Tiers[k].State
			if plan.State.Branch != "" && plan.Places.Branch == PlaceAppend {
				// The place was found behind a State that its condition does not see.
				length, units := plan.Places.Length, NumOf(plan.Places.Units)
				plan.Places = PlacePlan{Branch: PlaceExact, Old: pl, New: Places{Era: pl.Era, Reach: pl.Reach.add(length), Last: pl.Last.add(units)}}
			}
		}
	}
	return step
}
