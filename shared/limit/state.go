package limit

import (
	"math"
	"time"
)

// A State is what is stored about one policy and key: a position on the policy's
// line. The zero State is that of a key never seen, which is fresh: full.
//
// A State is a plain value; only a [Meter] can say what it means at a time.
type State struct {
	// Era is the era of the policy that Position is written in. Every change of
	// a policy's settings and every reset begins a new one. 0 in a fresh State.
	Era int64

	// Position is how far the line is used up.
	Position Num

	// Given counts how far Position has ever been lowered, by refunds and grants.
	// It only grows, and lets a refund tell what others gave back in between.
	Given Num

	// Hold is the time before which nothing passes, in milliseconds of the Unix
	// epoch, 0 if there is none. It may lie in the past.
	Hold int64
}

// unseen is the position of a fresh State: below every floor and every window.
var unseen = NumOf(-1)

// horizon is the last millisecond of the year 9999. Times are brought into the
// range from the Unix epoch to there.
const horizon = 253_402_300_799_999

func millis(t time.Time) int64 { return min(max(t.UnixMilli(), 0), horizon) }

// millisUp is millis rounded up: a hold until t ends no sooner than t.
func millisUp(t time.Time) int64 {
	ms := millis(t)
	if ms < horizon && time.UnixMilli(ms).Before(t) {
		ms++
	}
	return ms
}

// duration returns the duration of ms milliseconds, or the longest there is.
func duration(ms int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(ms, most)) * time.Millisecond
}

// Window positions count the start of the window in units of a scale, and within
// it the units used. The scale is above every amount that can be used in a
// window, so that a window's ceiling lies below the next one's floor. It is a
// power of ten, as small as it may be: a position then keeps within 28 digits,
// to which some stores round, unless the maximum itself is enormous.
const (
	scaleUsual = 1_000_000_000_000_000
	scaleAbove = 10_000_000_000_000 // a larger maximum takes the larger scale
	scaleLarge = 1_000_000_000_000_000_000
)

func (t Terms) scale() int64 {
	switch {
	case t.Kind != FixedWindow:
		return 0
	case t.Max > scaleAbove:
		return scaleLarge
	default:
		return scaleUsual
	}
}

// segment is a stretch of a policy's life under one set of terms, ready to
// reckon with.
type segment struct {
	Terms
	since    int64     // Terms.Since in milliseconds
	unit     int64     // length of one unit (a token) on the line
	rate     int64     // bucket: how far the line rises per millisecond
	scale    int64     // window: length of a millisecond on the line
	calendar *calendar // window: nil if from first use
	basis    int       // index of the segment whose line is used, see NewMeter
}

func newSegment(t Terms) (segment, error) {
	s := segment{Terms: t, since: millis(t.Since), unit: 1}
	switch t.Kind {
	case Bucket:
		s.rate, s.unit = Rate{Tokens: t.Refill, Interval: t.Interval}.lowest()
	case FixedWindow:
		s.scale = t.scale()
		if t.Window.kind == windowFirstUse {
			return s, nil
		}
		var err error
		if s.calendar, err = t.Window.calendar(); err != nil {
			return segment{}, err
		}
	}
	return s, nil
}

// line is a policy's line at one time.
type line struct {
	floor, ceiling Num
	window         span // the window, of a window
}

// lineAt returns the line at a time, for a state at pos: a state that is ahead of
// the time, written by a caller whose clock is, keeps its window.
func (s *segment) lineAt(pos Num, now int64) line {
	var l line
	switch s.Kind {
	case Bucket:
		l.floor = product(now, s.rate)
	case FixedWindow:
		l.window = s.windowAt(pos, now)
		l.floor = product(l.window.start, s.scale)
	}
	l.ceiling = l.floor.plus(product(s.Max, s.unit))
	return l
}

func (s *segment) windowAt(pos Num, now int64) span {
	start := int64(-1)
	if pos.hi >= 0 {
		start = pos.quotient(s.scale)
	}
	if s.calendar == nil {
		length := s.Window.period.Milliseconds()
		if start < 0 || now-start >= length {
			start = now
		}
		return span{start, start + length}
	}
	if current := s.calendar.at(now); start < current.end {
		return current
	}
	return s.calendar.at(start)
}

// due returns the first time at which a cost, in positions and at most the
// capacity, fits a state at a level, and false if time alone never lets it.
func (s *segment) due(l line, level, cost Num, now int64) (int64, bool) {
	excess := level.add(cost).sub(l.ceiling)
	switch {
	case excess.hi < 0 || excess == Num{}:
		return now, true
	case s.Kind == Bucket:
		wait := excess.quotientUp(s.rate)
		if wait > math.MaxInt64-now {
			return math.MaxInt64, true
		}
		return now + wait, true
	case s.Kind == FixedWindow:
		return l.window.end, true
	default:
		return 0, false
	}
}
