package scheduleremu

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// cron is a cron expression of six fields: minutes, hours, day of month,
// day of week (1 is Sunday) and year. Its grammar is the service's own:
// either day field is "?", and the days may use L, W and #.
type cron struct {
	minutes, hours, months, years map[int]bool
	day                           func(date time.Time) bool
}

const (
	firstYear = 1970
	lastYear  = 2199
)

var (
	monthNames = []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}
	dayNames   = []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}
)

func parseCron(text string) (*cron, error) {
	f := strings.Fields(strings.ToUpper(text))
	if len(f) != 6 {
		return nil, fmt.Errorf("a cron expression has 6 fields, not %d", len(f))
	}
	c := &cron{}
	var err error
	for _, field := range []struct {
		values    *map[int]bool
		text      string
		low, high int
		names     []string
	}{
		{&c.minutes, f[0], 0, 59, nil}, {&c.hours, f[1], 0, 23, nil},
		{&c.months, f[3], 1, 12, monthNames}, {&c.years, f[5], firstYear, lastYear, nil},
	} {
		if *field.values, err = parseField(field.text, field.low, field.high, field.names); err != nil {
			return nil, err
		}
	}
	switch {
	case f[2] == "?" && f[4] == "?", f[2] != "?" && f[4] != "?":
		return nil, errors.New("one of day of month and day of week must be ?, the other must not")
	case f[4] == "?":
		c.day, err = parseDayOfMonth(f[2])
	default:
		c.day, err = parseDayOfWeek(f[4])
	}
	return c, err
}

// parseField reads a list of values, ranges and steps: "1,5-7,*/10".
func parseField(text string, low, high int, names []string) (map[int]bool, error) {
	values := map[int]bool{}
	for item := range strings.SplitSeq(text, ",") {
		span, stepText, stepped := strings.Cut(item, "/")
		step := 1
		if stepped {
			var err error
			if step, err = strconv.Atoi(stepText); err != nil || step < 1 {
				return nil, fmt.Errorf("%q has no valid step", item)
			}
		}
		first, last := low, high
		if span != "*" {
			from, to, ranged := strings.Cut(span, "-")
			var err error
			if first, err = parseValue(from, low, high, names); err != nil {
				return nil, err
			}
			switch {
			case ranged:
				if last, err = parseValue(to, low, high, names); err != nil {
					return nil, err
				}
			case !stepped:
				last = first
			}
		}
		if last < first {
			return nil, fmt.Errorf("%q runs backwards", item)
		}
		for v := first; v <= last; v += step {
			values[v] = true
		}
	}
	return values, nil
}

func parseValue(text string, low, high int, names []string) (int, error) {
	for i, name := range names {
		if text == name {
			return low + i, nil
		}
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < low || v > high {
		return 0, fmt.Errorf("%q is not between %d and %d", text, low, high)
	}
	return v, nil
}

func daysInMonth(date time.Time) int {
	return time.Date(date.Year(), date.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// weekdayNear is the day of the month that is a weekday and nearest to day,
// within the month.
func weekdayNear(date time.Time, day int) int {
	switch time.Date(date.Year(), date.Month(), day, 0, 0, 0, 0, time.UTC).Weekday() {
	case time.Saturday:
		if day == 1 {
			return 3
		}
		return day - 1
	case time.Sunday:
		if day == daysInMonth(date) {
			return day - 2
		}
		return day + 1
	default:
		return day
	}
}

func parseDayOfMonth(text string) (func(time.Time) bool, error) {
	switch {
	case text == "L":
		return func(d time.Time) bool { return d.Day() == daysInMonth(d) }, nil
	case text == "LW":
		return func(d time.Time) bool { return d.Day() == weekdayNear(d, daysInMonth(d)) }, nil
	case strings.HasSuffix(text, "W"):
		day, err := parseValue(strings.TrimSuffix(text, "W"), 1, 31, nil)
		return func(d time.Time) bool { return day <= daysInMonth(d) && d.Day() == weekdayNear(d, day) }, err
	}
	days, err := parseField(text, 1, 31, nil)
	return func(d time.Time) bool { return days[d.Day()] }, err
}

func parseDayOfWeek(text string) (func(time.Time) bool, error) {
	weekday := func(d time.Time) int { return int(d.Weekday()) + 1 }
	if day, nth, ok := strings.Cut(text, "#"); ok {
		want, err := parseValue(day, 1, 7, dayNames)
		if err != nil {
			return nil, err
		}
		n, err := parseValue(nth, 1, 5, nil)
		return func(d time.Time) bool { return weekday(d) == want && (d.Day()-1)/7+1 == n }, err
	}
	if day, ok := strings.CutSuffix(text, "L"); ok {
		if day == "" {
			return func(d time.Time) bool { return d.Weekday() == time.Saturday }, nil
		}
		want, err := parseValue(day, 1, 7, dayNames)
		return func(d time.Time) bool { return weekday(d) == want && d.Day()+7 > daysInMonth(d) }, err
	}
	days, err := parseField(text, 1, 7, dayNames)
	return func(d time.Time) bool { return days[weekday(d)] }, err
}

// next finds the first time after a moment, day by day. A local time that a
// day does not have, because the clock is put forward, does not fire; one that
// a day has twice fires the first time only.
func (c *cron) next(after time.Time, zone *time.Location) (time.Time, bool) {
	local := after.In(zone)
	date := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC)
	for ; date.Year() <= lastYear; date = date.AddDate(0, 0, 1) {
		if !c.years[date.Year()] || !c.months[int(date.Month())] || !c.day(date) {
			continue
		}
		for hour := range 24 {
			if !c.hours[hour] {
				continue
			}
			for minute := range 60 {
				if !c.minutes[minute] {
					continue
				}
				t := earlier(time.Date(date.Year(), date.Month(), date.Day(), hour, minute, 0, 0, zone))
				if t.Hour() == hour && t.Minute() == minute && t.After(after) {
					return t, true
				}
			}
		}
	}
	return time.Time{}, false
}

// earlier is the first of the two times that share t's local time while the
// clock is put back, and t at all other times.
func earlier(t time.Time) time.Time {
	_, offset := t.Zone()
	_, before := t.Add(-3 * time.Hour).Zone()
	first := t.Add(time.Duration(offset-before) * time.Second)
	if before > offset && first.Hour() == t.Hour() && first.Minute() == t.Minute() {
		return first
	}
	return t
}
