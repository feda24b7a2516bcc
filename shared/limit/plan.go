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
//	Lower   e = Era and p ≥ Low and (no g or g ≤ High)          p = p − Delta, g = g + Delta, from 0 if absent
//	Exact   e, p, g as in Old, or no e if Old is fresh          e, p, g as in New
//
// all of them with e = Era as part of the update, with (no h or h ≤ HeldBy) as part
// of the condition if HeldBy is set, and without an update of h.
// [Plan.Applies] and [Plan.Apply] say the same in Go.
type Plan struct {
	Branch    Branch
	Era       int64
	Low, High Num
	Base      Num
	Delta     Num
	Reset     int64
	Absent    bool
	HeldBy    int64
	Old, New  State

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

// Applies reports whether the plan's condition holds for a State.
func (p Plan) Applies(s State) bool {
	if p.HeldBy != 0 && s.Hold > p.HeldBy {
		return false
	}
	current := s.Era == p.Era
	switch p.Branch {
	case Active:
		return p.Absent && s.Era == 0 || current && !s.Position.less(p.Low) && !p.High.less(s.Position)
	case Idle:
		return s.Era < p.Reset || s.Era == 0 || current && s.Position.less(p.Low)
	case Lower:
		return current && !s.Position.less(p.Low) && !p.High.less(s.Given)
	case Exact:
		return s.Era == p.Old.Era && (s.Era == 0 || s.Position == p.Old.Position && s.Given == p.Old.Given)
	}
	return false
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
		HeldBy: max(now, 1),
		Reset:  m.reset,
		policy: m.policy.Name,
		units:  d.Charge.Units,
	}
	firstUse := v.seg.Kind == FixedWindow && v.seg.calendar == nil
	fresh := guess.Era == 0 || guess.Era < m.reset
	switch {
	case !fresh && guess.Era != p.Era:
		p.Branch, p.Old, p.New = Exact, guess, d.Next
		p.Base = d.Charge.Own
	case fresh && m.guessActive(&v), !fresh && !guess.Position.less(v.line.floor):
		p.Branch, p.Absent = Active, !firstUse
		p.High = v.line.ceiling.sub(p.Delta)
	default:
		if p.Branch = Idle; firstUse {
			// What began after this is still open.
			p.Low = product(max(v.now-v.seg.Window.period.Milliseconds()+1, 0), v.seg.scale)
		}
	}
	return p, d
}

// slowRefill tells a key that was not seen yet but exists more probably in use (above)
// from one more probably idle (below). Either guess admits a key that does not exist.
const slowRefill = 10 * time.Minute

func (m *Meter) guessActive(v *view) bool {
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
	v := m.view(State{Era: c.Era, Position: c.Position, Given: c.Given}, now)
	actual, _ = m.charge(actual, v.force)
	if c.Era != v.seg.Era || guess.Era != 0 && guess.Era != c.Era {
		next, stale := m.Settle(guess, c, actual, at)
		return Plan{Branch: Exact, Old: guess, New: next, Era: next.Era}, next != guess, stale
	}
	p = Plan{Era: c.Era, Low: v.line.floor, Base: v.line.floor, Reset: m.reset}
	if actual > c.Units {
		p.Branch, p.Absent, p.Delta, p.High = Active, true, v.units(actual-c.Units), maxNum
		if guess.Era != 0 && guess.Position.less(v.line.floor) {
			p.Branch = Idle
		}
		return p, true, false
	}
	// As much as can come back if nobody else was given anything, and the most that
	// others may have been given for it to be right.
	p.Branch, p.Delta = Lower, m.refundable(&v, c, c.Units-actual)
	if p.Low = p.Low.add(p.Delta); c.Own.less(p.Low) {
		p.High = c.Position.add(c.Given).sub(p.Low)
	} else {
		p.High = maxNum
	}
	return p, p.Delta != Num{}, false
}
