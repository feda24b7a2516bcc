package limit

import "time"

// Calendar windows are found on the wall clock of their zone. A wall time is
// written as the Unix seconds it would have in UTC, so that days and weeks are
// plain arithmetic; only two functions know about zones: instant, which says
// when a wall time happens, and reached, which says how far a wall clock has got.

const (
	day  = int64(24 * 60 * 60)
	week = 7 * day
)

// wallTimes are the boundaries of a calendar, as wall times.
type wallTimes interface {
	// around returns the last boundary at or before a wall time, and the first
	// after it.
	around(wall int64) (from, to int64)
}

// spanAt returns the window that holds t, in milliseconds.
func spanAt(t int64, loc *time.Location, times wallTimes) span {
	from, to := times.around(reached(t, loc))
	return span{instant(from, loc) * 1000, instant(to, loc) * 1000}
}

// reached returns the latest wall time that the clock in loc has shown by t. It
// is what the clock shows, except that a clock put back has already shown more:
// the boundaries of a repeated hour are past when it is repeated.
func reached(t int64, loc *time.Location) int64 {
	now := time.UnixMilli(t).In(loc)
	wall := wallOf(now)
	if start, _ := now.ZoneBounds(); !start.IsZero() {
		wall = max(wall, wallOf(start.Add(-time.Second)))
	}
	return wall
}

// instant returns the Unix seconds at which the clock in loc first shows a wall
// time or, if that is skipped, the first instant after the gap.
func instant(wall int64, loc *time.Location) int64 {
	t := atWall(wall, loc)
	start, end := t.ZoneBounds()
	switch shown := wallOf(t); {
	case shown > wall: // skipped, t lies after the gap
		return start.Unix()
	case shown < wall: // skipped, t lies before the gap
		return end.Unix()
	}
	if start.IsZero() {
		return t.Unix()
	}
	_, offset := start.Add(-time.Second).Zone()
	if earlier := wall - int64(offset); earlier < start.Unix() {
		return earlier // shown twice: by the clock before it was put back
	}
	return t.Unix()
}

func wallOf(t time.Time) int64 {
	_, offset := t.Zone()
	return t.Unix() + int64(offset)
}

// atWall returns an instant at which the clock in loc shows a wall time; which
// one of two, or one on either side of a gap, is not said.
func atWall(wall int64, loc *time.Location) time.Time {
	y, m, d := time.Unix(wall, 0).UTC().Date()
	return time.Date(y, m, d, 0, 0, int(mod(wall, day)), 0, loc)
}

// steps are the boundaries of daily, weekly and monthly windows.
type steps struct {
	loc    *time.Location
	unit   windowKind
	anchor int64 // wall time of one boundary
}

func (s steps) span(t int64) span { return spanAt(t, s.loc, s) }

func (s steps) around(wall int64) (from, to int64) {
	switch s.unit {
	case windowDaily:
		from = wall - mod(wall-s.anchor, day)
		return from, from + day
	case windowWeekly:
		from = wall - mod(wall-s.anchor, week)
		return from, from + week
	}
	y, m, _ := time.Unix(wall, 0).UTC().Date()
	if from = s.inMonth(y, m); from <= wall {
		return from, s.inMonth(y, m+1)
	}
	return s.inMonth(y, m-1), from
}

// inMonth returns the boundary of a month: the anchor's day and time of day, on
// the month's last day if it is shorter.
func (s steps) inMonth(y int, m time.Month) int64 {
	anchor := time.Unix(s.anchor, 0).UTC()
	first := time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
	d := min(anchor.Day(), daysIn(first.Year(), first.Month()))
	return first.Unix() + int64(d-1)*day + mod(s.anchor, day)
}

func daysIn(y int, m time.Month) int {
	return time.Date(y, m+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// localAnchor returns the wall time from which w counts its days, weeks or
// months: that of its anchor, else midnight of a Monday or of a first.
func (w Window) localAnchor(loc *time.Location) int64 {
	switch {
	case w.set:
		return wallOf(time.UnixMilli(w.anchor).In(loc))
	case w.kind == windowWeekly:
		return 4 * day // the epoch was a Thursday
	default:
		return 0
	}
}
