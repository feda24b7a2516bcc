package cli

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/shared/task"
)

// errTooLong is about a duration that does not fit 64 bits of nanoseconds.
var errTooLong = errors.New("is too long: 106751d (292 years) is the most, give a time for what lies further off")

// parseDuration reads a duration in Go's syntax with the units d (24 hours) and w (7
// days) besides: 90s, 1h30m, 1.5d, 2w3d.
func parseDuration(s string) (time.Duration, error) {
	rest, negative := strings.CutPrefix(s, "-")
	if !negative {
		rest = strings.TrimPrefix(rest, "+")
	}
	switch rest {
	case "":
		return 0, errors.New("is no duration: write a number and a unit, such as 90s, 1h30m or 7d")
	case "0":
		return 0, nil
	}
	var sum time.Duration
	for rest != "" {
		number, unit, after := splitTerm(rest)
		d, err := parseTerm(number, unit)
		if err != nil {
			return 0, err
		}
		if sum += d; sum < 0 {
			return 0, errTooLong
		}
		rest = after
	}
	if negative {
		sum = -sum
	}
	return sum, nil
}

// splitTerm takes the first number and its unit off.
func splitTerm(s string) (number, unit, rest string) {
	digit := func(r rune) bool { return r >= '0' && r <= '9' || r == '.' }
	end := strings.IndexFunc(s, func(r rune) bool { return !digit(r) })
	if end < 0 {
		return s, "", ""
	}
	number, rest = s[:end], s[end:]
	if end = strings.IndexFunc(rest, digit); end < 0 {
		return number, rest, ""
	}
	return number, rest[:end], rest[end:]
}

func parseTerm(number, unit string) (time.Duration, error) {
	factor := int64(1)
	goUnit := unit
	switch unit {
	case "ns", "us", "µs", "μs", "ms", "s", "m", "h":
	case "d":
		factor, goUnit = 24, "h"
	case "w":
		factor, goUnit = 7*24, "h"
	case "":
		return 0, fmt.Errorf("has no unit behind %s: write %[1]ss for seconds, or one of ms, s, m, h, d, w", number)
	case "y", "yr", "year", "years", "Y":
		return 0, fmt.Errorf("has the unit %s, and years differ: write days (10 years are about 3652d) or give a time", unit)
	default:
		return 0, fmt.Errorf("has the unknown unit %q: use ms, s, m, h, d (24h) or w (7d)", unit)
	}
	if number == "" || strings.Count(number, ".") > 1 || strings.Trim(number, ".") == "" {
		return 0, fmt.Errorf("has no number before %s: write it such as 90s, 1h30m or 7d", unit)
	}
	d, err := time.ParseDuration(number + goUnit)
	if err != nil || int64(d) > math.MaxInt64/factor { // the number and unit are well formed: it does not fit
		return 0, errTooLong
	}
	return time.Duration(int64(d) * factor), nil
}

// parseTime reads a time with its zone.
func parseTime(s string) (time.Time, error) {
	at, err := task.ParseTime(s)
	if err != nil {
		return at, errors.New("must be a time of the years 1 to 9999 with its zone, such as 2027-01-01T09:30:00Z or 2027-01-01T10:30:00+01:00")
	}
	return at, nil
}

// parseSince reads a time, or how long before now.
func parseSince(s string, now time.Time) (time.Time, error) {
	const year = len("2027")
	if strings.Contains(s, ":") || len(s) > year && s[year] == '-' {
		return parseTime(s)
	}
	d, err := parseDuration(s)
	if err == nil && d < 0 {
		err = errors.New("is negative: 1h is an hour ago")
	}
	return now.Add(-d), err
}

// absolute writes a time as a clock on this machine shows it.
func absolute(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 MST") }

// relative writes a time as seen from now: in 5m, 3h12m ago.
func relative(now, t time.Time) string {
	ms := t.UnixMilli() - now.UnixMilli()
	switch {
	case ms >= 1000:
		return "in " + span(ms)
	case ms <= -1000:
		return span(-ms) + " ago"
	case ms < 0:
		return "just now"
	}
	return "now"
}

// both writes a time absolute and relative.
func both(now, t time.Time) string { return absolute(t) + " (" + relative(now, t) + ")" }

// span writes milliseconds in the two largest units that say something, rounded: 12ms,
// 2.3s, 45s, 3m12s, 5h, 2d4h, 3650d. A Duration would end at 292 years.
func span(ms int64) string {
	const (
		tenth  = 100
		second = 1000
		minute = 60 * second
		hour   = 60 * minute
		day    = 24 * hour
	)
	rounded := func(unit int64) int64 { return (ms + unit/2) / unit * unit }
	two := func(ms, large int64, name string, small int64, smallName string) string {
		if rest := ms % large / small; rest > 0 {
			return fmt.Sprintf("%d%s%d%s", ms/large, name, rest, smallName)
		}
		return fmt.Sprintf("%d%s", ms/large, name)
	}
	switch {
	case ms < second:
		return fmt.Sprintf("%dms", ms)
	case rounded(tenth) < 10*second:
		ms = rounded(tenth)
		return strings.TrimSuffix(fmt.Sprintf("%d.%d", ms/second, ms%second/tenth), ".0") + "s"
	case rounded(second) < minute:
		return fmt.Sprintf("%ds", rounded(second)/second)
	case rounded(second) < hour:
		return two(rounded(second), minute, "m", second, "s")
	case rounded(minute) < day:
		return two(rounded(minute), hour, "h", minute, "m")
	case rounded(hour) < 100*day:
		return two(rounded(hour), day, "d", hour, "h")
	}
	return fmt.Sprintf("%dd", rounded(day)/day)
}
