package limit

import (
	"time"
)

// Patience is how long a function waits for a task's turn while it runs, which costs
// its time but no further wake-up. The zero Patience never waits.
type Patience struct {
	// Wait is the longest that a woken task waits. Wake-ups are asked for as much
	// earlier, so that late ones are still in time; never by more, or punctual ones
	// would come too early and have to be asked for again.
	Wait time.Duration

	// Rest is the longest that a newcomer waits instead of being parked.
	Rest time.Duration

	// Linger is the longest that a function which is done with a task waits for the turn
	// of another one that it takes along, see [Patience.TakeAlong].
	Linger time.Duration

	// Vacated tells that the function has found a place left by a task that had ended: who
	// is first in line is taken along then, late or not, if its turn has come.
	Vacated bool

	// Late is how late wake-ups may come. Defaults to [UsualLateness].
	Late time.Duration
}

// UsualLateness is how late the scheduler of the cloud may deliver.
const UsualLateness = 60 * time.Second

// Share is the part of a function's concurrency that those who wait for one key may
// take up: a fourth.
const Share = 4

// Within returns the patience that a request can afford on a function that runs at
// most so many invocations at once. Tasks wait at the rate at which their tiers admit
// them, so waiting no longer than concurrency / (4 · rate) leaves three fourths of it
// to others.
func (p Patience) Within(concurrency int, items []Item, at time.Time) Patience {
	now := millis(at)
	for n := range items {
		for k := range items[n].Tiers {
			s := &items[n].Tiers[k]
			if s.inert() {
				continue
			}
			// The tier gives units/stock units in a millisecond, and a task takes its cost.
			spot := s.spotAt(now, 0)
			tasks := max(spot.force.Max/max(spot.units, 1), 1)
			most := duration(int64(concurrency) * min(spot.stock(), maxStock) / (Share * tasks))
			p.Wait, p.Rest, p.Linger = min(p.Wait, most), min(p.Rest, most), min(p.Linger, most)
		}
	}
	return p
}

// maxStock keeps products of a stock within range.
const maxStock = 1 << 40

// lead returns how much before a place is due its wake-up is asked for. Where the
// policy keeps units in stock for as long as a wake-up may be late, nothing is lost by
// coming late; and in a window that has not begun nothing can be reserved.
func (p Patience) lead(s *spot) int64 {
	if s.seg.Kind != Bucket {
		return 0
	}
	late := p.Late
	if late == 0 {
		late = UsualLateness
	}
	// A tenth is left for those who are a little behind.
	return max(min(p.Wait.Milliseconds()*9/10, late.Milliseconds()-s.stock()), 0)
}

// An Action is what a task is to do.
type Action string

const (
	ToRun     Action = "run"     // claim and run: it is charged, see [Step.Slot]
	ToWait    Action = "wait"    // wait until the time of its [Step.Slot], then ask [Slot.Finish]
	ToPark    Action = "park"    // sleep under the place it has taken, see [Step.Parked]
	ToKeep    Action = "keep"    // sleep on under the place it has, until WakeAt
	ToFail    Action = "fail"    // it can never run
	ToRefresh Action = "refresh" // get the registry's entries anew and ask again
)

// A Step is a decision about one task. It takes effect when its Plans are carried out,
// those of all items or none; when they don't apply, the items are learned anew and the
// decision is made again.
type Step struct {
	Action  Action
	Plans   []ItemPlan // one per item, in their order; empty ones write nothing
	Blocked []Blocked  // what is in the way, unless the task runs

	Until  time.Time // of ToKeep: when the place is due
	WakeAt time.Time // of ToKeep: when to wake up
	Never  bool      // of ToKeep: no passing of time makes it due

	at       int64
	patience Patience
	due      int64 // of ToWait: when its turn is, as far as is known
	deadline int64 // of ToWait: when its patience is over
	left     bool  // whether it holds no place any more
	earlier  *Slot // the slot that it had before
	item     int   // of ToPark: where the place is
}

// request is a request as it stands at a time.
type request struct {
	items    []Item
	spots    [][]spot
	now      int64
	at       time.Time
	patience Patience
	due      int64 // the first time at which all tiers admit it, and never
	stale    bool
}

func newRequest(items []Item, p Patience, at time.Time) *request {
	r := &request{items: items, now: millis(at), at: at, patience: p}
	r.due = r.now
	r.spots = make([][]spot, 0, len(items))
	for _, item := range items {
		spots := make([]spot, 0, len(item.Tiers))
		for k := range item.Tiers {
			s := &item.Tiers[k]
			spot := s.spotAt(r.now, item.Waiting)
			spots = append(spots, spot)
			r.stale = r.stale || spot.stale
			if !s.inert() {
				r.due = max(r.due, spot.admits(s.Units))
			}
		}
		r.spots = append(r.spots, spots)
	}
	return r
}

// admits returns the first time at which the tier admits a cost, places apart.
func (p *spot) admits(cost int64) int64 {
	if t, ok := p.meter.due(p.state, p.view, cost); ok {
		return max(t, p.asked)
	}
	return never
}

// each calls f for every tier that matters.
func (r *request) each(f func(n, k int, s *Standing, p *spot)) {
	for n := range r.items {
		for k := range r.items[n].Tiers {
			if s := &r.items[n].Tiers[k]; !s.inert() {
				f(n, k, s, &r.spots[n][k])
			}
		}
	}
}

func (r *request) blocked() (blocked []Blocked, fails bool) {
	r.each(func(n, _ int, s *Standing, _ *spot) {
		if d := s.Meter.Decide(s.State, s.Units, r.at); !d.Admitted {
			d.Blocked.Key = r.items[n].Key
			blocked = append(blocked, d.Blocked)
			fails = fails || d.Blocked.Verdict == Never
		}
	})
	return blocked, fails
}

func (r *request) step(a Action) Step {
	s := Step{Action: a, at: r.now, patience: r.patience, Plans: make([]ItemPlan, len(r.items))}
	for n := range r.items {
		s.Plans[n] = blankPlan(&r.items[n])
	}
	if a != ToRun {
		s.Blocked, _ = r.blocked()
	}
	return s
}

// Arrive decides about a task that holds no place. It runs if every tier has room for
// it and nobody who is due is waiting; or it waits, if its turn comes soon; or it is
// parked.
func Arrive(items []Item, p Patience, at time.Time) Step {
	r := newRequest(items, p, at)
	if r.stale {
		return Step{Action: ToRefresh}
	}
	if _, fails := r.blocked(); fails {
		return r.step(ToFail)
	}
	if r.due <= r.now && r.clear(r.now) {
		s := r.run()
		r.passing(&s, r.now)
		return s
	}
	// All newcomers see the same, so only what they can reserve may they wait for.
	if soon := r.now + p.Rest.Milliseconds(); r.due > r.now && r.due <= soon && r.reservable() && r.clear(soon) {
		s := r.wait(soon)
		r.passing(&s, soon)
		return s
	}
	return r.park(nil)
}

// clear reports whether all places are due by a time.
func (r *request) clear(by int64) bool {
	all := true
	r.each(func(n, _ int, _ *Standing, p *spot) {
		if r.items[n].Waiting > 0 && p.reach != (Num{}) && p.reached(p.reach) > by {
			all = false
		}
	})
	return all
}

// passing makes it a condition of a step that all places are due by a time.
func (r *request) passing(s *Step, by int64) {
	r.each(func(n, k int, st *Standing, p *spot) {
		plan := PlacePlan{Branch: PlaceClear, Era: st.Places.Era, High: st.Places.Reach}
		if st.Places.Era == 0 || st.Places.Era == p.seg.Era {
			plan.Era = p.seg.Era
			plan.High = larger(plan.High, p.ceilingAt(by))
		}
		s.Plans[n].Crowd = CrowdClear
		s.Plans[n].Tiers[k].Places = plan
	})
}

// ceilingAt returns the line's ceiling at a time within the settings in force.
func (p *spot) ceilingAt(t int64) Num { return p.seg.lineAt(unseen, max(t, p.now)).ceiling }

// run charges every tier now.
func (r *request) run() Step {
	s := r.step(ToRun)
	r.each(func(n, k int, st *Standing, _ *spot) {
		s.Plans[n].Tiers[k].State, _ = st.Meter.Plan(st.State, st.Units, r.at)
	})
	return s
}

// reservable reports whether every tier that is in the way can be reserved.
func (r *request) reservable() bool {
	all := true
	r.each(func(_, _ int, s *Standing, p *spot) {
		all = all && (p.admits(s.Units) <= r.now || p.reservable(r.due))
	})
	return all
}

// reservable reports whether a tier can be charged now for a run at a later time. What
// it is charged must not have refilled by then, for somebody else might be admitted by
// that; and a window is not charged before it begins.
func (p *spot) reservable(t int64) bool {
	then := p.meter.view(p.state, t)
	return then.seg == p.seg && then.force == p.force && p.rounds(then.level) && !then.line.ceiling.less(then.level.add(p.cost))
}

// rounds reports whether a level is the present one but for what refills within the
// millisecond to which times are rounded up. (That much may be missing where a cost is
// the whole capacity.)
func (p *spot) rounds(level Num) bool {
	return level == p.level || p.seg.Kind == Bucket && level.sub(p.level).less(NumOf(p.seg.rate))
}

// wait reserves what can be reserved, for a run within the time until the deadline. The
// other tiers are charged when the time has come.
func (r *request) wait(deadline int64) Step {
	s := r.step(ToWait)
	s.deadline, s.due = deadline, r.due
	r.each(func(n, k int, _ *Standing, p *spot) {
		if p.reservable(r.due) {
			s.Plans[n].Tiers[k].State = p.reserve(r.due, deadline)
		}
	})
	return s
}

// reserve returns the plan to charge a tier for a run at t or, if others reserve at the
// same time, until the deadline.
func (p *spot) reserve(t, deadline int64) Plan {
	plan := Plan{
		Branch: Active, Era: p.seg.Era, Reset: p.meter.reset, HeldBy: t,
		Base: p.line.floor, Delta: p.cost,
		Low:    p.seg.lineAt(p.level, t).floor,
		policy: p.meter.policy.Name, units: p.units,
	}
	if level := larger(p.level, plan.Low); p.state.Era != p.seg.Era || level != p.level {
		plan.Branch, plan.Old = Exact, p.state
		plan.New = p.at(level.add(p.cost))
		plan.Base = p.line.floor.add(p.cost)
		return plan
	}
	if p.state.Position.less(p.line.floor) {
		plan.Branch, plan.Low = Idle, p.openSince()
		return plan
	}
	if p.meter.view(p.state, deadline).seg != p.seg || p.seg.Kind == FixedWindow {
		deadline = t
	}
	plan.High = p.seg.lineAt(p.level, deadline).ceiling.sub(p.cost)
	return plan
}

// Wake decides about a task that was woken under a place. It runs if every tier has
// room for it, whoever else waits: others who are due are late, and those who come
// early find it taken. It waits if it will within its patience. Else it sleeps on, under
// the place it has as long as that is to come, or under a new one behind all others.
func Wake(items []Item, place Place, p Patience, at time.Time) Step {
	r := newRequest(items, p, at)
	if r.stale {
		return Step{Action: ToRefresh}
	}
	if _, fails := r.blocked(); fails {
		s := r.step(ToFail)
		r.leave(&s, place)
		return s
	}
	horizon := r.now + p.Wait.Milliseconds()
	own := r.placeDue(place)
	switch {
	case r.due <= r.now:
		s := r.run()
		r.leave(&s, place)
		return s
	case r.due <= horizon && (r.reservable() || own.due <= horizon):
		s := r.wait(horizon)
		if !s.empty() {
			r.leave(&s, place)
		}
		return s
	}
	return r.sleep(place, own, false)
}

func (s *Step) empty() bool {
	for _, p := range s.Plans {
		if !p.Empty() {
			return false
		}
	}
	return true
}

// leave has the task give up its place.
func (r *request) leave(s *Step, place Place) {
	for n := range r.items {
		if r.holds(n, place) {
			s.Plans[n].Crowd, s.left = CrowdLeave, true
		}
	}
}

// holds reports whether a place is one of item n.
func (r *request) holds(n int, place Place) bool {
	return r.items[n].Group == place.Group && r.items[n].Key == place.Key
}

// own is where a sleeper's own place stands.
type own struct {
	item, tier int
	due        int64
	ahead      bool // whether it is still ahead of what is used up when it is due
}

// placeDue finds a sleeper's place. One that is nowhere any more counts as due.
func (r *request) placeDue(place Place) own {
	o := own{item: -1, due: r.now}
	r.each(func(n, k int, s *Standing, p *spot) {
		if !r.holds(n, place) || s.Meter.policy.Name != place.Policy || s.Places.Era == 0 {
			return
		}
		pos := p.position(s.Places, place.Number)
		o.item, o.tier, o.due = n, k, p.reached(pos)
		o.ahead = o.due == never || p.ahead(pos, o.due)
		o.due = r.spread(n, k, pos, o.due)
	})
	return o
}

// ahead reports whether a position lies ahead of all that will have refilled by a time.
func (p *spot) ahead(pos Num, t int64) bool {
	then := p.meter.view(p.state, t)
	return then.seg != p.seg || then.line.floor.less(pos)
}

// sleep sends a woken task back to sleep. left says that it has left its place.
func (r *request) sleep(place Place, o own, left bool) Step {
	horizon := r.now + r.patience.Wait.Milliseconds()
	elsewhere := int64(0)
	r.each(func(n, _ int, s *Standing, p *spot) {
		if n != o.item {
			elsewhere = max(elsewhere, p.admits(s.Units))
		}
	})
	if o.item < 0 || o.due <= horizon || !o.ahead || elsewhere > max(o.due, horizon) {
		if left {
			return r.park(nil)
		}
		return r.park(&place)
	}
	s := r.step(ToKeep)
	if left {
		s.Plans[o.item].Crowd = CrowdReturn
	}
	s.Until, s.WakeAt, s.Never = r.sleepTimes(o.due, &r.spots[o.item][o.tier])
	return s
}

// sleepTimes returns when a place due at a time is, and when to wake up for it.
func (r *request) sleepTimes(due int64, p *spot) (until, wake time.Time, isNever bool) {
	if due == never {
		again := whenever(r.now + LookAgain.Milliseconds())
		return again, again, true
	}
	return whenever(due), whenever(max(due-r.patience.lead(p), r.now)), false
}
