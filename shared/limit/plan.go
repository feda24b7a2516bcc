package limit

import "time"

// A Plan is a write of one State that a store can carry out in one conditional
// update, without having read the State: it is made on a guess, and its condition
// holds exactly for the States on which the guess is right. A store that finds the
// condition false learns the State, judges it with [Meter.Decide] or makes a new
// Plan from it.
//
// With e, p, g and h for Era, Position, Given and Hold, the conditions and updates
// of the four branches are
//
//	Active  (Absent and no e) or (e = Era and Low ≤ p ≤ High)   p = p + Delta, from Base if absent
//	Idle    no e or e < Reset or (e = Era and p < Low)          p = Base + Delta
//	Lower   e = Era and Low ≤ p ≤ High and (no g or g ≤ Given)  p = p − Delta, g = g + Delta, from 0 if absent
//	Exact   e, p, g as in Old, or no e if Old is fresh          e, p, g as in New
//
// all of them with e = Era as part of the update, with (no h or h ≤ HeldBy) as part
// of the condition unless AnyHold, and without an update of h.
// [Plan.Applies] and [Plan.Apply] say the same in Go.
type Plan struct {
	Branch    Branch
	Era       int64 // written, and required of a State that is not fresh
	Low, High Num   // bounds of the position
	Base      Num   // where the position is taken to be if it counts for nothing
	Delta     Num   // by which the position changes, above 0
	Given     Num   // Lower: the most that may have been given back before
	Reset     int64 // Idle: States of earlier eras are fresh
	Absent    bool  // Active: whether it also applies to a State that does not exist
	HeldBy    int64 // the latest end of a hold that does not hold, in milliseconds
	AnyHold   bool  // whether holds are of no account
	Old, New  State // Exact

	policy string
	units  int64
}

// A Branch is a guess at how a State stands to its policy's line.
type Branch string

const (
	Active Branch = "active" // at the floor or above
	Idle   Branch = "idle"   // below the floor, in an ended window, or fresh
	Lower  Branch = "lower"  // high enough to be given back to
	Exact  Branch = "exact"  // as the guess to the last digit
)

// Replace returns the plan that puts next in the place of old, whatever holds: how a
// store carries out [Meter.Grant], and [Meter.Settle] once it knows the State. A hold
// is not part of it; stores raise or remove h by itself.
func Replace(old, next State) Plan {
	return Plan{Branch: Exact, Era: next.Era, Old: old, New: next, AnyHold: true}
}

// Applies reports whether the plan's condition holds for a State.
func (p Plan) Applies(s State) bool {
	if !p.AnyHold && s.Hold > p.HeldBy {
		return false
	}
	absent := s.Era == 0
	switch p.Branch {
	case Active:
		return p.Absent && absent || p.within(s)
	case Idle:
		return absent || s.Era < p.Reset || s.Era == p.Era && s.Position.less(p.Low)
	case Lower:
		return p.within(s) && !p.Given.less(s.Given)
	default:
		s.Hold = p.Old.Hold
		return s == p.Old || absent && p.Old.Era == 0
	}
}

func (p *Plan) within(s State) bool {
	return s.Era == p.Era && !s.Position.less(p.Low) && !p.High.less(s.Position)
}

// Apply returns the State after the plan's update.
func (p Plan) Apply(s State) State {
	if p.Branch == Exact {
		return State{Era: p.New.Era, Position: p.New.Position, Given: p.New.Given, Hold: s.Hold}
	}
	switch {
	case p.Branch == Idle || s.Era == 0:
		s.Position = p.Base.add(p.Delta)
	case p.Branch == Active:
		s.Position = s.Position.add(p.Delta)
	case p.Branch == Lower:
		s.Position, s.Given = s.Position.sub(p.Delta), s.Given.add(p.Delta)
	}
	s.Era = p.Era
	return s
}

// Charge returns the receipt of an acquiring plan that was carried out, given the
// State it led to. A store that does not learn that State passes the zero State: the
// receipt is then good for a refund until as much as was charged has refilled.
func (p Plan) Charge(after State) Charge {
	c := Charge{Policy: p.policy, Units: p.units, Era: p.Era, Position: after.Position, Own: p.Base.add(p.Delta), Given: after.Given}
	if p.Branch == Exact {
		c.Own = p.Base
	}
	if after.Era == 0 {
		c.Position = c.Own
	}
	return c
}

// Plan decides a cost above 0 on a guess and returns the plan to carry it out, or,
// if the guess predicts a refusal, the zero Plan. The guess is the State last seen,
// or the zero State for a key not seen yet.
func (m *Meter) Plan(guess State, cost int64, at time.Time) (Plan, Decision) {
	d := m.Decide(guess, cost, at)
	if !d.Admitted {
		return Plan{}, d
	}
	now := millis(at)
	v := m.view(guess, now)
	p := Plan{
		Era:    v.seg.Era,
		Low:    v.line.floor,
		Base:   v.line.floor,
		Delta:  v.units(d.Charge.Units),
		HeldBy: now,
		Reset:  m.reset,
		policy: m.policy.Name,
		units:  d.Charge.Units,
	}
	// A planned change that the guess has seen, written by a clock ahead of ours, is not in force
	// yet for a State that does not exist.
	ahead := m.inForce(guess, now) != m.inForce(State{}, now)
	switch unknown := guess.Era == 0; {
	case !unknown && (guess.Era != p.Era || ahead) && guess.Era >= m.reset:
		p.Branch, p.Old, p.New = Exact, guess, d.Next
		p.Base = d.Charge.Own
	case unknown && v.guessActive(), guess.Era == p.Era && !guess.Position.less(v.line.floor):
		p.Branch = Active
		p.Absent = unknown || v.seg.Kind != FixedWindow // else absence is news
		p.High = v.line.ceiling.sub(p.Delta)
	default:
		p.Branch, p.Low = Idle, v.openSince()
	}
	return p, d
}

// openSince returns the position below which a State has nothing in use. It is the
// floor, except for windows from first use, of which one that began after this is
// still open.
func (v *view) openSince() Num {
	if v.seg.Kind == FixedWindow && v.seg.calendar == nil {
		return product(max(v.now-v.seg.Window.period.Milliseconds()+1, 0), v.seg.scale)
	}
	return v.line.floor
}

// slowRefill tells a key that was not seen yet but exists more probably in use (above)
// from one more probably idle (below). Either guess admits a key that does not exist.
const slowRefill = 10 * time.Minute

// guessActive reports whether a State that was never seen is better guessed active.
func (v *view) guessActive() bool {
	switch v.seg.Kind {
	case Bucket:
		return v.units(v.seg.Max).quotientUp(v.seg.rate) > slowRefill.Milliseconds()
	case FixedWindow:
		return v.seg.calendar != nil && v.line.window.end-v.line.window.start > slowRefill.Milliseconds()
	default:
		return true
	}
}

// PlanSettle returns the plan to settle a charge, and false if nothing needs to be
// written. The guess is the State last seen or the zero State; unlike [Meter.Plan],
// this needs none to be right, except after a change of the settings: the charge
// itself tells where the State stood. stale is as in [Meter.Settle].
func (m *Meter) PlanSettle(guess State, c Charge, actual int64, at time.Time) (p Plan, write, stale bool) {
	now := millis(at)
	if c.Era > m.history[len(m.history)-1].Era {
		return Plan{}, false, true
	}
	charged := State{Era: c.Era, Position: c.Position, Given: c.Given}
	v := m.view(charged, now)
	if c.Era != v.seg.Era || guess.Era != 0 && guess.Era != c.Era {
		next, stale := m.Settle(guess, c, actual, at)
		return Replace(guess, next), next != guess, stale
	}
	actual = m.actual(c, actual, v.force)
	p = Plan{Era: c.Era, Reset: m.reset, High: maxNum, Given: maxNum, AnyHold: true}
	if actual > c.Units {
		v := m.view(State{}, now)
		p.Branch, p.Absent, p.Low, p.Base, p.Delta = Active, true, v.openSince(), v.line.floor, v.units(actual-c.Units)
		if guess.Era != 0 && guess.Position.less(p.Low) {
			p.Branch = Idle
		}
		return p, true, false
	}
	// As much as can come back if nobody else was given anything; else, the most that
	// others may have been given for it still to be right.
	p.Branch, p.Delta = Lower, m.refundable(&v, c, c.Units-actual)
	if p.Low = v.line.floor.add(p.Delta); c.Own.less(p.Low) {
		p.Given = c.Position.add(c.Given).sub(p.Low)
	}
	if v.seg.Kind == FixedWindow {
		p.High = v.line.floor.add(NumOf(v.seg.scale - 1)) // of the charge's own window
	}
	return p, p.Delta != Num{}, false
}
