package limit

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// cronSpec is a parsed cron expression: one bit per value of each field.
type cronSpec struct {
	minutes, hours, days, months, weekdays uint64

	// named are the days given outright, as numbers. One that a month does not
	// have is that month's last day; without this a window "on the 31st" would
	// run on through a month of 30 days and merge two quotas into one.
	named uint64

	// anyDay and anyWeekday say that the field is *. If neither is, a date
	// matches if either field does.
	anyDay, anyWeekday bool
}

type cronField struct {
	name     string
	min, max int
	names    string // of the values from min on, three letters each
}

var (
	minuteField  = cronField{name: "minute", max: 59}
	hourField    = cronField{name: "hour", max: 23}
	dayField     = cronField{name: "day of month", min: 1, max: 31}
	monthField   = cronField{name: "month", min: 1, max: 12, names: "janfebmaraprmayjunjulaugsepoctnovdec"}
	weekdayField = cronField{name: "day of week", max: 7, names: "sunmontuewedthufrisat"}
)

var cronShorthands = map[string]string{
	"@hourly":   "0 * * * *",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@weekly":   "0 0 * * 0",
	"@monthly":  "0 0 1 * *",
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
}

// parseCron reads a five-field expression or one of the usual shorthands.
func parseCron(expr string) (*cronSpec, error) {
	spec := expr
	if full, ok := cronShorthands[spec]; ok {
		spec = full
	}
	fields := strings.Fields(spec)
	if len(fields) != 5 {
		return nil, fmt.Errorf("%q: want five fields: minute, hour, day, month and weekday", expr)
	}
	var c cronSpec
	for i, f := range []struct {
		cronField
		set *uint64
	}{
		{minuteField, &c.minutes}, {hourField, &c.hours}, {dayField, &c.days},
		{monthField, &c.months}, {weekdayField, &c.weekdays},
	} {
		for part := range strings.SplitSeq(fields[i], ",") {
			set, single, err := f.parse(part)
			if err != nil {
				return nil, fmt.Errorf("%q: %s %q: %w", expr, f.name, part, err)
			}
			*f.set |= set
			if single && f.set == &c.days {
				c.named |= set
			}
		}
	}
	c.weekdays |= c.weekdays >> 7 & 1 // 7 is Sunday as well
	c.anyDay, c.anyWeekday = isAny(fields[2]), isAny(fields[4])
	if !c.happens() {
		return nil, fmt.Errorf("%q: no month has such a day, so it never happens", expr)
	}
	return &c, nil
}

func isAny(field string) bool { return field == "*" || field == "?" }

// parse reads one element of a field's list: *, n, a-b, each optionally with
// /step (n/step goes on to the maximum). single says that it was a lone number.
func (f cronField) parse(part string) (set uint64, single bool, err error) {
	values, stepText, stepped := strings.Cut(part, "/")
	step := 1
	if stepped {
		if step, err = strconv.Atoi(stepText); err != nil || step < 1 || step > f.max {
			return 0, false, fmt.Errorf("a step is a number from 1 to %d", f.max)
		}
	}
	low, high := f.min, f.max
	if !isAny(values) {
		from, to, ranged := strings.Cut(values, "-")
		if low, err = f.value(from); err != nil {
			return 0, false, err
		}
		switch {
		case ranged:
			if high, err = f.value(to); err != nil {
				return 0, false, err
			}
			if f.max == 7 && high == 0 && low > 0 { // fri-sun
				high = 7
			}
		case !stepped:
			high, single = low, true
		}
	}
	if low > high {
		return 0, false, errors.New("the range ends before it begins")
	}
	for v := low; v <= high; v += step {
		set |= 1 << v
	}
	return set, single, nil
}

func (f cronField) value(text string) (int, error) {
	if f.names != "" && len(text) == 3 {
		if i := strings.Index(f.names, strings.ToLower(text)); i >= 0 && i%3 == 0 {
			return f.min + i/3, nil
		}
	}
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil || int(n) < f.min || int(n) > f.max {
		return 0, fmt.Errorf("want %d to %d", f.min, f.max)
	}
	return int(n), nil
}

// happens reports whether any date can match.
func (c *cronSpec) happens() bool {
	for m := time.January; m <= time.December; m++ {
		if c.months>>m&1 == 1 && (c.anyDay || !c.anyWeekday || c.daysOf(2000, m) != 0) {
			return true
		}
	}
	return false
}

// daysOf returns the matching days of a month, going by the day field alone.
func (c *cronSpec) daysOf(y int, m time.Month) uint64 {
	last := daysIn(y, m)
	days := c.days & (1<<(last+1) - 1)
	if c.named>>(last+1) != 0 {
		days |= 1 << last
	}
	return days
}

func (c *cronSpec) matches(date time.Time) bool {
	y, m, d := date.Date()
	byDay := c.daysOf(y, m)>>d&1 == 1
	byWeekday := c.weekdays>>date.Weekday()&1 == 1
	switch {
	case c.anyDay:
		return byWeekday
	case c.anyWeekday:
		return byDay
	default:
		return byDay || byWeekday
	}
}

// around walks from the day of a wall time into both directions, skipping the
// months that don't match. The longest walk is eight years, between leap days.
func (c *cronSpec) around(wall int64) (from, to int64) {
	second := mod(wall, day)
	today := time.Unix(wall-second, 0).UTC()
	before, after := c.inDay(second)
	if !c.date(today) {
		before, after = -1, -1
	}
	if before < 0 {
		d := c.walk(today, -1)
		last, _ := c.inDay(day - 1)
		from = d.Unix() + last
	} else {
		from = today.Unix() + before
	}
	if after < 0 {
		d := c.walk(today, +1)
		_, first := c.inDay(-1)
		to = d.Unix() + first
	} else {
		to = today.Unix() + after
	}
	return from, to
}

func (c *cronSpec) date(d time.Time) bool {
	return c.months>>d.Month()&1 == 1 && c.matches(d)
}

// walk returns the nearest matching date after (+1) or before (-1) a date.
func (c *cronSpec) walk(d time.Time, direction int) time.Time {
	for {
		d = d.AddDate(0, 0, direction)
		for c.months>>d.Month()&1 == 0 { // on to the nearest end of the next month
			y, m, _ := d.Date()
			if direction > 0 {
				d = time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC)
			} else {
				d = time.Date(y, m, 0, 0, 0, 0, 0, time.UTC)
			}
		}
		if c.matches(d) {
			return d
		}
	}
}

// inDay returns the last time of day at or before a second of the day and the
// first after it, in seconds, each -1 if there is none.
func (c *cronSpec) inDay(second int64) (before, after int64) {
	h, m := second/3600, second%3600/60
	if second < 0 {
		h, m = 0, -1
	}
	before, after = -1, -1
	hourNow := c.hours>>h&1 == 1
	if past := c.minutes & (1<<(m+1) - 1); hourNow && past != 0 {
		before = h*3600 + highest(past)*60
	} else if past := c.hours & (1<<h - 1); past != 0 {
		before = highest(past)*3600 + highest(c.minutes)*60
	}
	if ahead := c.minutes >> (m + 1) << (m + 1); hourNow && ahead != 0 {
		after = h*3600 + lowest(ahead)*60
	} else if ahead := c.hours >> (h + 1) << (h + 1); ahead != 0 {
		after = lowest(ahead)*3600 + lowest(c.minutes)*60
	}
	return before, after
}

func highest(set uint64) int64 { return int64(bits.Len64(set)) - 1 }
func lowest(set uint64) int64  { return int64(bits.TrailingZeros64(set)) }

// cronIn is a cron expression in a time zone.
type cronIn struct {
	*cronSpec
	loc *time.Location
}

func (c cronIn) span(t int64) span { return spanAt(t, c.loc, c) }
