package cli

import (
	"strings"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	good := map[string]time.Duration{
		"0":               0,
		"0s":              0,
		"90s":             90 * time.Second,
		"1h30m":           90 * time.Minute,
		"1.5h":            90 * time.Minute,
		".5s":             500 * time.Millisecond,
		"250ms":           250 * time.Millisecond,
		"7d":              7 * day,
		"1.5d":            36 * time.Hour,
		"2w3d":            17 * day,
		"1d12h":           36 * time.Hour,
		"-5m":             -5 * time.Minute,
		"+5m":             5 * time.Minute,
		"87600h":          3650 * day,
		"3650d":           3650 * day,
		"2562047h":        2562047 * time.Hour,
		"106751d":         106751 * day,
		"106751d23h47m":   106751*day + 23*time.Hour + 47*time.Minute,
		"1µs":             time.Microsecond,
		"9223372036s":     9223372036 * time.Second,
		"0.000000001s":    time.Nanosecond,
		"000000000001m1s": 61 * time.Second,
	}
	for text, want := range good {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("parseDuration(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	bad := map[string]string{
		"":                      "is no duration",
		"-":                     "is no duration",
		"90":                    "has no unit behind 90",
		"1h30":                  "has no unit behind 30",
		"10y":                   "has the unit y",
		"1M":                    `unknown unit "M"`,
		"1mo":                   `unknown unit "mo"`,
		"1 h":                   `unknown unit " h"`,
		"1h 30m":                `unknown unit "h "`,
		"h":                     "no number before h",
		"tomorrow":              "unknown unit",
		"1.2.3s":                "no number",
		".s":                    "no number",
		"1e3s":                  "unknown unit",
		"2562048h":              "too long",
		"106752d":               "too long",
		"15251w":                "too long",
		"106751d24h":            "too long",
		"9999999999d":           "too long",
		"99999999999999999999s": "too long",
		"--5s":                  `unknown unit "-"`,
	}
	for text, want := range bad {
		if got, err := parseDuration(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parseDuration(%q) = %v, %v, want an error with %q", text, got, err, want)
		}
	}
}

func TestSpanWritesTwoUnitsAtMost(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for want, d := range map[string]time.Duration{
		"0ms":    0,
		"340ms":  340 * time.Millisecond,
		"2.3s":   2340 * time.Millisecond,
		"2s":     2 * time.Second,
		"9.9s":   9949 * time.Millisecond,
		"10s":    9950 * time.Millisecond,
		"1m":     59500 * time.Millisecond,
		"3m12s":  192 * time.Second,
		"1h":     time.Hour - 10*time.Millisecond,
		"5h3m":   5*time.Hour + 3*time.Minute + 20*time.Second,
		"1d":     day - time.Second,
		"7d":     7*day - time.Second,
		"12d4h":  12*day + 4*time.Hour,
		"3650d":  3650 * day,
		"99d23h": 99*day + 23*time.Hour,
	} {
		if got := span(d.Milliseconds()); got != want {
			t.Errorf("span(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestRelativeReachesBeyondADuration(t *testing.T) {
	t.Parallel()
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for want, at := range map[string]time.Time{
		"in 2912078d": time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		"in 1m":       now.Add(time.Minute),
		"2d ago":      now.AddDate(0, 0, -2),
		"now":         now.Add(999 * time.Millisecond),
		"just now":    now.Add(-999 * time.Millisecond),
	} {
		if got := relative(now, at); got != want {
			t.Errorf("relative(%v) = %q, want %q", at, got, want)
		}
	}
}

func TestParseSinceTakesADurationOrATime(t *testing.T) {
	t.Parallel()
	now := time.Date(2027, 1, 8, 0, 0, 0, 0, time.UTC)
	week := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, text := range []string{"7d", "1w", "168h", "2027-01-01T00:00:00Z", "2027-01-01T01:00:00+01:00"} {
		if got, err := parseSince(text, now); err != nil || !got.Equal(week) {
			t.Errorf("parseSince(%q) = %v, %v, want %v", text, got, err, week)
		}
	}
	for _, text := range []string{"2027-01-01", "2027-01-01T00:00:00", "-7d", "", "00:00", "monday"} {
		if got, err := parseSince(text, now); err == nil {
			t.Errorf("parseSince(%q) = %v, want an error", text, got)
		}
	}
}
