package limit

import (
	"math"
	"time"
)

// An Item is what a store keeps of one group and key, and what a request wants of it:
// all that deciding about parked tasks needs to know. The zero values of the stored
// numbers are those of a key never seen.
//
// A task that is throttled takes a place and sleeps until it is due. A place is a
// stretch of the policy's line, as long as the task's cost, behind the places of all
// who came before: so each sleeper has a time of its own, and they do not come back
// together. Places decide who waits until when, and whether a newcomer may pass;
// whether anybody is admitted is decided by the State alone. So places may be rough,
// where a cancelled sleeper leaves a hole or the settings change, and nothing is
// admitted that should not be.
type Item struct {
	Group, Key string

	Waiting int64 // how many sleep under places of the item
	Ticket  int64 // the last ticket given out; tickets count places, and order them
	Tiers   []Standing
}

// A Standing is one tier of a request: the policy in force, the cost, and how the
// item stands under it.
type Standing struct {
	Meter  *Meter
	Units  int64 // the cost, from 0 to MaxUnits
	State  State
	Places Places
}

// Places is where the places of one policy and key end. The zero Places is that of a
// key with none.
type Places struct {
	// Era is the era that Reach is written in. It may lag behind that of the State.
	Era int64

	// Reach is where on the line the last place ends.
	Reach Num

	// Last is the number of the last place: how many units all places ever given out
	// came to. The distance of two places in units is that of their numbers, whatever
	// has become of the line since they were given out.
	Last Num
}

// A Place is what a sleeper holds: it is kept with its task, and in the index of those
// who wait.
type Place struct {
	Group  string `json:"group"`
	Key    string `json:"key"`
	Ticket int64  `json:"ticket"` // orders the sleepers of one item, first come first
	Policy string `json:"policy"` // the one of the item's policies that admits it last
	Number Num    `json:"number"` // of the place under that policy
}

// A spot is where one tier stands at a time: its State brought to the time, and the
// end of its places on the line in force.
type spot struct {
	view
	meter *Meter
	state State
	asked int64
	units int64 // charged, a clamped cost at the capacity
	cost  Num   // the same as a length of the line
	fits  bool  // whether the cost can fit under the settings in force
	tail  Num   // where the next place begins, at the level or above
	reach Num   // where the places end, which may have fallen behind
	live  bool  // whether one more place can be added to Reach as it is stored
}

// spotAt brings a tier to a time. Places count only while somebody waits.
func (s *Standing) spotAt(now, waiting int64) spot {
	p := spot{meter: s.Meter, state: s.State, asked: now, view: s.Meter.view(s.State, now)}
	p.units, p.fits = s.Meter.charge(s.Units, p.force)
	p.cost = p.view.units(p.units)
	p.tail = p.level
	if p.hold > now {
		// While it is held the line runs on, and what it allows beyond the capacity is
		// lost: nobody's place lies before the hold's end.
		p.tail = larger(p.tail, p.seg.lineAt(p.level, p.hold).floor)
	}
	if waiting > 0 && s.Places.Era != 0 {
		reach := s.Meter.carried(s.State, s.Places, p.force.basis)
		p.live = s.Places.Era == p.seg.Era && s.State.Era == p.seg.Era && !reach.less(p.tail)
		p.tail = larger(p.tail, reach)
		p.reach = reach
	}
	return p
}

// Expiry returns the time from which a store may forget the tier, and false if it never
// may: as [Meter.Expiry], and not while places are to come.
func (s *Standing) Expiry(at time.Time) (time.Time, bool) {
	expires, ok := s.Meter.Expiry(s.State, at)
	if s.Places.Era == 0 || !ok {
		return expires, ok
	}
	places, ok := s.Meter.Expiry(State{Era: s.Places.Era, Position: s.Places.Reach}, at)
	if places.After(expires) {
		expires = places
	}
	return expires, ok
}

// inert reports whether the tier does not matter to the request.
func (s *Standing) inert() bool { return s.Units == 0 }

// next returns where a place of a length ends that begins after a position. A place
// does not straddle two windows.
func (s *segment) next(after, length Num) Num {
	if s.Kind != FixedWindow {
		return after.add(length)
	}
	w := s.windowFrom(after)
	if end := after.add(length); !product(w.start, s.scale).plus(NumOf(s.Max)).less(end) {
		return end
	}
	return product(w.end, s.scale).add(length)
}

// windowFrom returns the window that a position lies in.
func (s *segment) windowFrom(pos Num) span {
	start := max(larger(pos, Num{}).quotient(s.scale), 0)
	if s.calendar == nil {
		return span{start, start + s.Window.period.Milliseconds()}
	}
	return s.calendar.at(start)
}

// windowBefore returns the window before another. Windows from first use are taken to
// follow one another, as they do while somebody waits.
func (s *segment) windowBefore(w span) span {
	if s.calendar == nil {
		return span{max(w.start-s.Window.period.Milliseconds(), 0), w.start}
	}
	return s.calendar.at(max(w.start-1, 0))
}

// never is later than any time.
const never = math.MaxInt64

// reached returns the first time, now or later, at which the line in force reaches a
// position, and never if no passing of time makes it.
func (p *spot) reached(pos Num) int64 {
	return p.meter.reached(p.force, pos, max(p.now, p.hold))
}

func (m *Meter) reached(force *segment, pos Num, now int64) int64 {
	seg := &m.history[force.basis]
	t := int64(never)
	switch {
	case force.Max == 0:
	case seg.Kind == Bucket:
		t = larger(pos.sub(product(force.Max, seg.unit)), Num{}).quotientUp(seg.rate)
	case seg.Kind == FixedWindow:
		t = larger(pos, Num{}).quotient(seg.scale)
	case !NumOf(force.Max).less(pos):
		t = now
	}
	t = max(t, now)
	last := len(m.history) - 1
	if next := &m.history[last]; next != force && m.planned && t >= next.since && next.since >= now {
		// A planned change comes first, and the place is carried over by it.
		pos = m.carry(seg, &m.history[next.basis], pos, seg.lineAt(unseen, next.since).ceiling, nil)
		return m.reached(next, pos, next.since)
	}
	return t
}

// carried returns the end of places on the line of segment i.
func (m *Meter) carried(s State, pl Places, i int) Num {
	to := &m.history[i]
	if pl.Era == to.Era {
		return pl.Reach
	}
	j := len(m.history) - 1
	for j >= 0 && m.history[j].Era != pl.Era {
		j--
	}
	if j < 0 || pl.Era > to.Era {
		return unseen // of settings forgotten or dropped: they are all due
	}
	from := &m.history[m.history[j].basis]
	if s.Era == pl.Era {
		// The key was not used since the change: what the places are ahead of is known.
		v := m.viewIn(i, s, to.since)
		return m.carry(from, to, pl.Reach, larger(s.Position, from.lineAt(s.Position, to.since).floor), &v.level)
	}
	return m.carry(from, to, pl.Reach, from.lineAt(unseen, to.since).ceiling, nil)
}

// carry takes the end of places from the line of one segment to that of another: as
// many units ahead of what is used up when the second comes into force. Where that is
// unknown, all that the first allowed by then counts as used, for somebody waits.
func (m *Meter) carry(from, to *segment, reach, used Num, level *Num) Num {
	ahead := from.unitsBetween(used, reach)
	l := to.lineAt(unseen, to.since)
	start := l.ceiling
	switch {
	case level != nil:
		start = *level
	case from.Era < m.reset && to.Era >= m.reset:
		start = l.floor
	}
	return to.advance(start, ahead)
}

// farWindows is how many windows places are followed ahead: beyond, a place is only
// known to be far off.
const farWindows = 10_000

// unitsBetween returns how many units of a line lie between two positions, rounded up.
func (s *segment) unitsBetween(from, to Num) int64 {
	if !from.less(to) {
		return 0
	}
	if s.Kind != FixedWindow {
		return to.sub(from).quotientUp(s.unit)
	}
	w, units := s.windowFrom(from), int64(0)
	for range farWindows {
		if ceiling := product(w.start, s.scale).plus(NumOf(s.Max)); !ceiling.less(to) {
			return sumUnits(units, larger(to.sub(from), Num{}).quotient(1))
		} else if from.less(ceiling) {
			units = sumUnits(units, ceiling.sub(from).quotient(1))
		}
		w = s.windowFrom(product(w.end, s.scale))
		from = product(w.start, s.scale)
	}
	return units
}

// advance returns the position so many units ahead of another.
func (s *segment) advance(from Num, units int64) Num {
	if s.Kind != FixedWindow {
		return from.add(product(units, s.unit))
	}
	w := s.windowFrom(from)
	for range farWindows {
		room := larger(product(w.start, s.scale).plus(NumOf(s.Max)).sub(from), Num{}).quotient(1)
		if units <= room || s.Max == 0 {
			break
		}
		units -= room
		w = s.windowFrom(product(w.end, s.scale))
		from = product(w.start, s.scale)
	}
	return from.add(NumOf(min(units, s.Max)))
}

// retreat returns the position so many units behind another, or an earlier one than
// floor if it lies before that.
func (s *segment) retreat(from Num, units int64, floor Num) Num {
	if s.Kind != FixedWindow {
		return from.sub(product(units, s.unit))
	}
	w := s.windowFrom(from)
	for range farWindows {
		start := product(w.start, s.scale)
		used := larger(from.sub(start), Num{}).quotient(1)
		if units < used || start.less(floor) || w.start == 0 {
			break
		}
		units -= used
		w = s.windowBefore(w)
		from = product(w.start, s.scale).add(NumOf(s.Max))
	}
	return from.sub(NumOf(units))
}

func sumUnits(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// position returns where on the line in force a place ends now.
func (p *spot) position(pl Places, number Num) Num {
	behind := larger(pl.Last.sub(number), Num{}).quotient(1)
	return p.seg.retreat(p.reach, behind, p.line.floor)
}

// stock is how long the policy takes to give its capacity again, in milliseconds: so
// long after a place is due its units are not lost yet.
func (p *spot) stock() int64 {
	switch p.seg.Kind {
	case Bucket:
		return p.view.units(p.force.Max).quotient(p.seg.rate)
	case FixedWindow:
		return p.line.window.end - p.line.window.start
	default:
		return never
	}
}

// whenever returns the time of t, in milliseconds.
func whenever(t int64) time.Time { return timeOf(t) }
