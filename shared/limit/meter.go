package limit

import (
	"fmt"
	"iter"
	"time"
)

// A Meter is a policy in force: what the registry says of it, ready to judge the
// states of its keys. It is immutable and safe for concurrent use.
//
// The methods of a Meter are pure functions. They take the time, of which whole
// milliseconds from 1970 to 9999 count, and a State, and return the next State
// where there is one. Time never moves a State back: a caller whose clock is
// behind the State's joins its window and its settings.
type Meter struct {
	policy  Policy
	history []segment // oldest first
	planned bool      // whether the last segment is still to come
	reset   int64     // era of the last reset: states of earlier ones are fresh
	resets  *calendar // of a manual policy with a cron
	resetAt int64     // the last boundary of it that was served
}

// NewMeter returns the meter of a registry's entry.
func NewMeter(e Entry) (*Meter, error) {
	if len(e.Terms) == 0 {
		return nil, fmt.Errorf("limit: the registry's entry of policy %q has no terms", e.Policy.Name)
	}
	m := &Meter{policy: e.Policy.normal(), history: make([]segment, len(e.Terms)), reset: e.ResetEra}
	line := -1 // the segment with the latest line that came into force
	for i, t := range e.Terms {
		s, err := newSegment(t)
		if err != nil {
			return nil, fmt.Errorf("limit: policy %q: %w", e.Policy.Name, err)
		}
		s.basis = i
		if line >= 0 && t.Kind == Bucket && t.Max == 0 && !t.Reset {
			// A paused bucket has no line to keep a balance on: the one before it
			// runs on meanwhile, and is resumed from.
			s.basis = line
		}
		if !t.Dropped {
			line = s.basis
		}
		m.history[i] = s
	}
	m.planned = e.Terms[len(e.Terms)-1].Planned
	resets, err := m.policy.Manual.calendar()
	if err != nil {
		return nil, fmt.Errorf("limit: policy %q: %w", e.Policy.Name, err)
	}
	m.resets, m.resetAt = resets, millis(e.ResetAt)
	return m, nil
}

// Policy returns the policy as it is declared, its defaults filled in.
func (m *Meter) Policy() Policy { return m.policy }

// Terms returns the settings in force at a time.
func (m *Meter) Terms(at time.Time) Terms { return m.history[m.inForce(State{}, millis(at))].Terms }

// inForce returns the index of the segment in force at a time, for a State. All
// that the registry has recorded is in force, whatever the caller's clock says;
// only what it plans waits for its time, or for a State that has seen it.
func (m *Meter) inForce(s State, now int64) int {
	last := len(m.history) - 1
	if m.planned && last > 0 && now < m.history[last].since && s.Era < m.history[last].Era {
		return last - 1
	}
	return last
}

// view is a State brought to a time: all that has become of it since it was
// written, and the line it stands on.
type view struct {
	force *segment // says how much is allowed
	seg   *segment // says where the line is: that of force, unless it is paused
	line  line
	now   int64 // the caller's, or later if the State is ahead of it
	level Num   // where the State stands on the line, at the floor or above
	given Num
	hold  int64
	stale bool // the State is of an era the Meter does not know
}

// view brings a State to a time.
func (m *Meter) view(s State, now int64) view {
	return m.viewIn(m.inForce(s, now), s, now)
}

// viewIn is view with segment i in force.
func (m *Meter) viewIn(i int, s State, now int64) view {
	force := &m.history[i]
	seg := &m.history[force.basis]
	v := view{force: force, seg: seg, now: max(now, force.since), given: s.Given, hold: s.Hold}
	pos := s.Position
	switch {
	case s.Era == seg.Era:
	case s.Era == 0 || s.Era < m.reset:
		pos = unseen
	case s.Era > seg.Era:
		// Unknown, or written by a clock so fast that it used settings which were
		// dropped before their time: these count as used up while paused.
		v.stale = s.Era > m.history[len(m.history)-1].Era
		pos = seg.lineAt(unseen, v.now).ceiling
	default:
		pos = m.reprice(s.Era, pos, force.basis)
	}
	v.line = seg.lineAt(pos, v.now)
	v.level = larger(pos, v.line.floor)
	return v
}

// at returns the State of the view at another level.
func (v *view) at(level Num) State {
	return State{Era: v.seg.Era, Position: level, Given: v.given, Hold: v.hold}
}

// available returns the whole units between the level and the ceiling.
func (v *view) available() int64 {
	if !v.level.less(v.line.ceiling) {
		return 0
	}
	return min(v.line.ceiling.sub(v.level).quotient(v.seg.unit), v.force.Max)
}

// units returns n units as a length of the line.
func (v *view) units(n int64) Num { return product(n, v.seg.unit) }

// charge returns what a cost comes to under the terms in force, in units, and
// whether it can ever fit under them.
func (m *Meter) charge(cost int64, force *segment) (int64, bool) {
	switch {
	case cost <= force.Max:
		return cost, true
	case m.policy.OverMax == Clamp && force.Max > 0:
		return force.Max, true
	default:
		return cost, false
	}
}

// A Decision is the answer to a cost.
type Decision struct {
	Admitted bool

	// Next is the State to store if Admitted, else the State given.
	Next State

	// Charge is the receipt by which the cost can be settled, if Admitted.
	Charge Charge

	// Blocked says what is in the way, unless Admitted or Stale. Its Policy is
	// set, its Key is the caller's to fill in.
	Blocked Blocked

	// Stale says that the State is of an era that the Meter does not know: get
	// the registry's entry anew and decide again.
	Stale bool
}

// Decide judges a cost, from 0 to MaxUnits, on a State at a time. A cost of 0 is
// admitted by anything and changes nothing.
func (m *Meter) Decide(s State, cost int64, at time.Time) Decision {
	if cost == 0 {
		return Decision{Admitted: true, Next: s, Charge: Charge{Policy: m.policy.Name}}
	}
	now := millis(at)
	v := m.view(s, now)
	if v.stale {
		return Decision{Next: s, Stale: true}
	}
	units, fits := m.charge(cost, v.force)
	after := v.level.add(v.units(units))
	if !fits || v.line.ceiling.less(after) || s.Hold > now {
		return Decision{Next: s, Blocked: m.blocked(s, v, cost, now)}
	}
	return Decision{
		Admitted: true,
		Next:     v.at(after),
		Charge:   m.receipt(&v, units, after),
	}
}

// blocked says why and until when a cost does not fit a State.
func (m *Meter) blocked(s State, v view, cost, now int64) Blocked {
	b := Blocked{
		Policy:    m.policy.Name,
		Cost:      cost,
		Available: v.available(),
		Held:      s.Hold > now,
	}
	due, ok := m.due(s, v, cost)
	switch most := m.most(); {
	case ok:
		b.Verdict, b.Wait = Later, duration(max(due-now, 1))
	case m.policy.OverMax == Reject && most > 0 && cost > most:
		b.Verdict = Never
	default:
		b.Verdict, b.Wait = UntilChanged, m.lookAgain(now)
	}
	return b
}

// lookAgain returns when to look whether something has changed: when the policy's
// cron resets it, which someone has to do, and soon if that is overdue.
func (m *Meter) lookAgain(now int64) time.Duration {
	if m.resets == nil {
		return LookAgain
	}
	w := m.resets.at(now)
	if w.start > m.resetAt {
		return lookAgainSoon
	}
	return min(duration(w.end-now), LookAgain)
}

// due returns the first time at which a cost is admitted if nothing else
// happens, and false if no passing of time admits it.
func (m *Meter) due(s State, v view, cost int64) (int64, bool) {
	due, ok := int64(0), false
	if units, fits := m.charge(cost, v.force); fits {
		due, ok = v.seg.due(v.line, v.level, v.units(units), v.now)
		due = max(due, s.Hold)
	}
	last := len(m.history) - 1
	if next := &m.history[last]; next != v.force && (!ok || due >= next.since) {
		// The planned change comes first: what it makes of the State decides.
		return m.due(s, m.viewIn(last, s, next.since), cost)
	}
	return due, ok
}

// most returns the largest cost that the policy can hold, as it is declared or
// while an override lasts. An override that lowers it makes costs wait, not fail.
func (m *Meter) most() int64 {
	most := m.policy.Capacity()
	if i := m.inForce(State{}, 0); m.history[i].Max > most {
		most = m.history[i].Max
	}
	return most
}

// reprice takes a position of an earlier era to the line of segment i: the time
// before each change is priced by the settings before it.
func (m *Meter) reprice(era int64, pos Num, i int) Num {
	if !m.knows(era) {
		// The settings it was written in are forgotten. What is certain to mint
		// nothing: used up when the oldest that are known came into force.
		pos = m.history[0].lineAt(unseen, m.history[0].since).ceiling
	}
	for from, to := range m.changes(era, i) {
		pos = reprice(from, to, pos)
	}
	return pos
}

func (m *Meter) knows(era int64) bool { return era >= m.history[0].Era }

// changes yields the changes of line from an era, or the oldest known after it, up
// to segment i.
func (m *Meter) changes(era int64, i int) iter.Seq2[*segment, *segment] {
	return func(yield func(from, to *segment) bool) {
		from := len(m.history) - 1
		for from > 0 && m.history[from].Era > era {
			from--
		}
		from = m.history[from].basis
		for j := from + 1; j <= i; j++ {
			if m.history[j].basis != j || m.history[j].Dropped {
				continue
			}
			if !yield(&m.history[from], &m.history[j]) {
				return
			}
			from = j
		}
	}
}
