package limit

import (
	"fmt"
	"sync/atomic"
	"time"
	_ "time/tzdata" // a zone means the same on every machine, those without zone files included
)

// A Window says when fixed windows begin and end. It is a plain, comparable
// value; the zero Window is none.
//
// The calendar windows (days, weeks, months, cron) follow the clock on the wall
// of their time zone. A boundary that falls into an hour skipped in spring
// happens at the first instant after the gap; in an hour repeated in autumn only
// the first occurrence counts. So a day may have 23 or 25 hours, but never does
// a day have two windows or share one.
type Window struct {
	kind   windowKind
	period time.Duration // of every and first_use
	anchor int64         // milliseconds of the epoch; a boundary, see From
	set    bool          // whether an anchor was given
	zone   string        // of the calendar kinds
	spec   string        // of cron
}

type windowKind string

const (
	windowEvery    windowKind = "every"
	windowFirstUse windowKind = "first_use"
	windowDaily    windowKind = "daily"
	windowWeekly   windowKind = "weekly"
	windowMonthly  windowKind = "monthly"
	windowCron     windowKind = "cron"
)

// Every returns windows of length d, one after the other, with a boundary at the
// Unix epoch, or at the anchor given by [Window.From].
func Every(d time.Duration) Window { return Window{kind: windowEvery, period: d} }

// FromFirstUse returns windows of length d of which each begins with the first
// cost it admits, as in "500 per 5 hours from your first message".
func FromFirstUse(d time.Duration) Window { return Window{kind: windowFirstUse, period: d} }

// Days returns one window per calendar day in an IANA time zone, such as
// "Europe/Paris" or "UTC", from midnight or from the time of day of an anchor.
func Days(zone string) Window { return Window{kind: windowDaily, zone: zone} }

// Weeks returns one window per week, from Monday's midnight or from the weekday
// and time of day of an anchor.
func Weeks(zone string) Window { return Window{kind: windowWeekly, zone: zone} }

// Months returns one window per month, from the first's midnight or from the day
// and time of day of an anchor. In a month without the anchor's day the window
// begins on its last day: after 31 January comes 28 February, then 31 March.
func Months(zone string) Window { return Window{kind: windowMonthly, zone: zone} }

// Cron returns windows that begin at the times of a five-field cron expression
// (minute, hour, day, month, weekday) in an IANA time zone.
//
// Fields take numbers, ranges, lists, steps, * and English names; day of month
// and day of week, when both are restricted, match if either does. A day of the
// month that is named outright is clamped like the steps of [Months]: 0 0 31 * *
// begins a window on the last day of every month. Days from a range or a step
// are not.
func Cron(spec, zone string) Window { return Window{kind: windowCron, spec: spec, zone: zone} }

// From returns the window with its boundaries counted from an anchor: at the
// instant itself for [Every], at its day and time of day in the window's zone
// for [Days], [Weeks] and [Months]. The anchor counts in whole milliseconds (for
// the calendar kinds, whole seconds), may lie in the past or the future, and is
// refused for the other kinds.
func (w Window) From(anchor time.Time) Window {
	w.anchor, w.set = anchor.UnixMilli(), true
	return w
}

// String returns the window as "every 5h0m0s", "daily Europe/Paris" and the like.
func (w Window) String() string {
	switch w.kind {
	case windowEvery, windowFirstUse:
		return fmt.Sprintf("%s %v", w.kind, w.period)
	case windowCron:
		return fmt.Sprintf("%s %q %s", w.kind, w.spec, w.zone)
	default:
		return fmt.Sprintf("%s %s", w.kind, w.zone)
	}
}

func (w Window) validate(bad *InvalidPolicyError) {
	switch w.kind {
	case windowEvery, windowFirstUse:
		validatePeriod(bad, "window.interval_ms", w.period)
	case windowDaily, windowWeekly, windowMonthly:
		if _, err := loadZone(w.zone); err != nil {
			bad.add("window.zone", "%v", err)
		}
	case windowCron:
		validateCron(bad, "window", w.spec, w.zone)
	default:
		bad.add("window.kind", "%q: use one of Every, FromFirstUse, Days, Weeks, Months, Cron", string(w.kind))
	}
	w.validateMembers(bad)
	if w.set && (w.anchor < 0 || w.anchor > horizon) {
		bad.add("window.anchor", "want a time from 1970 to 9999")
	}
}

// validateMembers refuses what does not go with the kind.
func (w Window) validateMembers(bad *InvalidPolicyError) {
	periodic := w.kind == windowEvery || w.kind == windowFirstUse
	if w.period != 0 && !periodic {
		bad.add("window.interval_ms", "a %s window has none", w.kind)
	}
	if w.zone != "" && periodic {
		bad.add("window.zone", "a %s window has none", w.kind)
	}
	if w.spec != "" && w.kind != windowCron {
		bad.add("window.cron", "a %s window has none", w.kind)
	}
	if w.set && (w.kind == windowFirstUse || w.kind == windowCron) {
		bad.add("window.anchor", "a %s window has no anchor", w.kind)
	}
}

func validateCron(bad *InvalidPolicyError, field, spec, zone string) {
	if _, err := loadZone(zone); err != nil {
		bad.add(field+".zone", "%v", err)
	}
	if _, err := parseCron(spec); err != nil {
		bad.add(field+".cron", "%v", err)
	}
}

// loadZone is time.LoadLocation without its two surprises: "" and "Local" mean
// something else on every machine.
func loadZone(name string) (*time.Location, error) {
	if name == "" || name == "Local" {
		return nil, fmt.Errorf("%q: want an IANA time zone such as \"Europe/Paris\" or \"UTC\"", name)
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%q: not a known IANA time zone", name)
	}
	return loc, nil
}

// A span is a window: from start on, before end. Milliseconds of the epoch.
type span struct{ start, end int64 }

func (s span) holds(t int64) bool { return s.start <= t && t < s.end }

// A calendar finds the window that holds a time. It remembers the last answer,
// since most questions fall into the same window.
type calendar struct {
	find func(t int64) span
	last atomic.Pointer[span]
}

func (c *calendar) at(t int64) span {
	if s := c.last.Load(); s != nil && s.holds(t) {
		return *s
	}
	s := c.find(t)
	s.start = max(s.start, 0) // no time is before 1970, so nor need a start be
	c.last.Store(&s)
	return s
}

// calendar returns the windows of a valid w that is not from first use.
func (w Window) calendar() (*calendar, error) {
	if w.kind == windowEvery {
		d := w.period.Milliseconds()
		return &calendar{find: func(t int64) span {
			start := t - mod(t-w.anchor, d)
			return span{start, start + d}
		}}, nil
	}
	loc, err := loadZone(w.zone)
	if err != nil {
		return nil, err
	}
	switch w.kind {
	case windowDaily, windowWeekly, windowMonthly:
		steps := steps{loc: loc, unit: w.kind, anchor: w.localAnchor(loc)}
		return &calendar{find: steps.span}, nil
	case windowCron:
		spec, err := parseCron(w.spec)
		if err != nil {
			return nil, err
		}
		return &calendar{find: cronIn{spec, loc}.span}, nil
	}
	return nil, fmt.Errorf("window kind %q has no calendar", w.kind)
}

// mod is the remainder of a/b that has the sign of b.
func mod(a, b int64) int64 { return ((a % b) + b) % b }

// calendar returns the boundaries at which a manual policy is reset, nil if it
// has none.
func (m Manual) calendar() (*calendar, error) {
	if m.mode != manualOnCron {
		return nil, nil
	}
	return Cron(m.cron, m.zone).calendar()
}
