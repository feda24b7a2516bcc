package limit

import "time"

// A Charge is the receipt of one admitted tier. It is a plain value that can be
// stored or sent (as JSON) and is all that settling needs to know.
type Charge struct {
	Policy string `json:"policy"`
	Key    string `json:"key"`
	Units  int64  `json:"units"` // charged, below the cost if that was clamped
	Era    int64  `json:"era,omitzero"`

	// Position is where the charge brought the State's position, Own where it
	// would have brought that of a full one, and Given what the State had been
	// given back by then. They tell how much of the charge has not refilled.
	Position Num `json:"position,omitzero"`
	Own      Num `json:"own,omitzero"`
	Given    Num `json:"given,omitzero"`
}

func (m *Meter) receipt(v *view, units int64, after Num) Charge {
	return Charge{
		Policy:   m.policy.Name,
		Units:    units,
		Era:      v.seg.Era,
		Position: after,
		Own:      v.line.floor.add(v.units(units)),
		Given:    v.given,
	}
}

// Settle closes a charge at its actual cost, from 0 to MaxUnits, and returns the
// next State. What was charged too much is given back as far as it has not
// refilled since, and not at all once its window or the policy's reset is over;
// what was charged too little is charged now and may put the State into debt,
// below zero, whatever holds.
//
// stale says that the State or the charge is of an era that the Meter does not
// know: get the registry's entry anew. The caller sees to it that a charge is
// settled once.
func (m *Meter) Settle(s State, c Charge, actual int64, at time.Time) (next State, stale bool) {
	v := m.view(s, millis(at))
	if v.stale || c.Era > m.history[len(m.history)-1].Era {
		return s, true
	}
	switch actual = m.actual(c, actual, v.force); {
	case actual > c.Units:
		return v.at(v.charged(actual - c.Units)), false
	case actual < c.Units && s.Era != 0:
		if level := v.lowered(m.refundable(&v, c, c.Units-actual)); level != v.level {
			return v.lower(level), false
		}
	}
	return s, false
}

// actual returns what an actual cost comes to: a policy that clamps costs does not
// charge more than its capacity afterwards either.
func (m *Meter) actual(c Charge, actual int64, force *segment) int64 {
	if actual > c.Units && m.policy.OverMax == Clamp && force.Max > 0 {
		return max(c.Units, min(actual, force.Max))
	}
	return actual
}

// charged returns the level after more units, without regard to the ceiling.
func (v *view) charged(units int64) Num {
	level := v.level.add(v.units(units))
	if v.seg.Kind == FixedWindow {
		// A debt ends with its window.
		level = v.line.floor.add(v.seg.within(level.sub(v.line.floor)))
	}
	return level
}

// lowered returns the level after giving back a length of the line, never below
// the floor.
func (v *view) lowered(by Num) Num { return larger(v.level.sub(by), v.line.floor) }

// lower returns the State at a level below the view's, and counts what it gives.
func (v *view) lower(level Num) State {
	s := v.at(level)
	s.Given = v.given.add(v.level.sub(level))
	return s
}

// refundable returns how much of n units of a charge, as a length of the line,
// has not refilled since.
//
// The units of a charge lie on the line just below the position that it led to,
// and those that the floor has passed have refilled. What others gave back since
// has moved them down, for they now stand behind fewer. (Going by the position at
// the time would mint: of two charges of 5 on a bucket of 10, the first refunded
// at once, the second would count as unrefilled for twice as long as it takes to
// refill.) Some of that was given back by charges after this one, so the position
// may be underestimated; but it is never below Own, so nothing is lost that is
// refunded before anything has refilled.
func (m *Meter) refundable(v *view, c Charge, n int64) Num {
	left, reach := product(n, v.seg.unit), c.Own
	switch {
	case c.Era == v.seg.Era:
		given := larger(v.given.sub(c.Given), Num{})
		reach = larger(reach, c.Position.sub(given))
	case c.Era < m.reset || c.Era > v.seg.Era || !m.knows(c.Era):
		return Num{}
	default:
		// Settings have changed. What had not refilled by then is carried over,
		// and goes on refilling.
		left = NumOf(n)
		for from, to := range m.changes(c.Era, v.force.basis) {
			unrefilled := reach.sub(from.lineAt(reach, to.since).floor)
			left = smaller(left, convert(larger(unrefilled, Num{}), 1, from.unit))
			reach = reprice(from, to, reach)
		}
		left = convert(left, v.seg.unit, 1)
	}
	return smaller(left, larger(reach.sub(v.line.floor), Num{}))
}
