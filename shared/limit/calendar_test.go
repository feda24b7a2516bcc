package limit

import (
	"slices"
	"testing"
	"time"
)

func mustZone(name string) *time.Location {
	loc, err := loadZone(name)
	if err != nil {
		panic(err)
	}
	return loc
}

func spanOf(t testing.TB, w Window, at time.Time) (start, end time.Time) {
	t.Helper()
	c, err := w.calendar()
	if err != nil {
		t.Fatal(err)
	}
	s := c.at(at.UnixMilli())
	return time.UnixMilli(s.start), time.UnixMilli(s.end)
}

func TestBoundaryInASkippedHourIsTheInstantAfterTheGap(t *testing.T) {
	t.Parallel()
	paris := mustZone("Europe/Paris")
	daily := Days("Europe/Paris").From(time.Date(2027, 1, 1, 2, 30, 0, 0, paris))
	for _, w := range []Window{daily, Cron("30 2 * * *", "Europe/Paris"), Cron("*/10 2 * * *", "Europe/Paris")} {
		// On 28 March 2027 the clock goes from 2:00 to 3:00.
		gap := time.Date(2027, 3, 28, 3, 0, 0, 0, paris)
		if _, end := spanOf(t, w, gap.Add(-time.Millisecond)); !end.Equal(gap) {
			t.Errorf("%v: before the gap the window ends %v, want %v", w, end.In(paris), gap)
		}
		start, end := spanOf(t, w, gap)
		if !start.Equal(gap) || end.In(paris).Day() != 29 {
			t.Errorf("%v: after the gap the window is %v to %v", w, start.In(paris), end.In(paris))
		}
	}
}

func TestBoundaryInARepeatedHourCountsOnce(t *testing.T) {
	t.Parallel()
	paris := mustZone("Europe/Paris")
	daily := Days("Europe/Paris").From(time.Date(2027, 1, 1, 2, 30, 0, 0, paris))
	for _, w := range []Window{daily, Cron("30 2 * * *", "Europe/Paris")} {
		// On 31 October 2027 the clock goes from 3:00 back to 2:00, at 1:00 UTC.
		first := time.Date(2027, 10, 31, 0, 30, 0, 0, time.UTC)
		next := time.Date(2027, 11, 1, 1, 30, 0, 0, time.UTC)
		for _, at := range []time.Time{first, first.Add(time.Hour - time.Second), first.Add(time.Hour), first.Add(2 * time.Hour)} {
			if start, end := spanOf(t, w, at); !start.Equal(first) || !end.Equal(next) {
				t.Errorf("%v at %v: the window is %v to %v, want %v to %v", w, at, start.UTC(), end.UTC(), first, next)
			}
		}
	}
}

func TestDaysHave23To25Hours(t *testing.T) {
	t.Parallel()
	paris := mustZone("Europe/Paris")
	for day, want := range map[time.Time]time.Duration{
		time.Date(2027, 3, 28, 12, 0, 0, 0, paris):  23 * time.Hour,
		time.Date(2027, 6, 1, 12, 0, 0, 0, paris):   24 * time.Hour,
		time.Date(2027, 10, 31, 12, 0, 0, 0, paris): 25 * time.Hour,
	} {
		if start, end := spanOf(t, Days("Europe/Paris"), day); end.Sub(start) != want || start.In(paris).Hour() != 0 {
			t.Errorf("%v: the window is %v to %v, want %v", day, start.In(paris), end.In(paris), want)
		}
	}
}

func TestCalendarAnchors(t *testing.T) {
	t.Parallel()
	paris := mustZone("Europe/Paris")
	at := time.Date(2027, 6, 16, 12, 0, 0, 0, paris) // a Wednesday
	for _, c := range []struct {
		w          Window
		start, end string
	}{
		{Days("Europe/Paris"), "2027-06-16 00:00", "2027-06-17 00:00"},
		{Weeks("Europe/Paris"), "2027-06-14 00:00", "2027-06-21 00:00"},
		{Months("Europe/Paris"), "2027-06-01 00:00", "2027-07-01 00:00"},
		{Days("Europe/Paris").From(time.Date(2030, 1, 1, 14, 0, 0, 0, paris)), "2027-06-15 14:00", "2027-06-16 14:00"},
		{Weeks("Europe/Paris").From(time.Date(2026, 1, 2, 14, 0, 0, 0, paris)), "2027-06-11 14:00", "2027-06-18 14:00"},
		{Months("Europe/Paris").From(time.Date(2026, 1, 31, 14, 0, 0, 0, paris)), "2027-05-31 14:00", "2027-06-30 14:00"},
		{Every(5 * time.Hour).From(time.Date(2027, 6, 16, 11, 0, 0, 0, paris)), "2027-06-16 11:00", "2027-06-16 16:00"},
		{Every(5 * time.Hour).From(time.Date(2027, 6, 16, 13, 0, 0, 0, paris)), "2027-06-16 08:00", "2027-06-16 13:00"},
		{Cron("0 9 * * mon-fri", "Europe/Paris"), "2027-06-16 09:00", "2027-06-17 09:00"},
		{Cron("@weekly", "Europe/Paris"), "2027-06-13 00:00", "2027-06-20 00:00"},
		{Cron("0 0 1 */3 *", "Europe/Paris"), "2027-04-01 00:00", "2027-07-01 00:00"},
		{Cron("0 0 29-29 2 *", "Europe/Paris"), "2024-02-29 00:00", "2028-02-29 00:00"},
		{Cron("0 0 29 2 *", "Europe/Paris"), "2027-02-28 00:00", "2028-02-29 00:00"},
		{Cron("0 0 15,31 * *", "Europe/Paris"), "2027-06-15 00:00", "2027-06-30 00:00"},
		{Cron("0 0 13 * fri", "Europe/Paris"), "2027-06-13 00:00", "2027-06-18 00:00"},
	} {
		start, end := spanOf(t, c.w, at)
		const layout = "2006-01-02 15:04"
		if s, e := start.In(paris).Format(layout), end.In(paris).Format(layout); s != c.start || e != c.end {
			t.Errorf("%v: the window is %s to %s, want %s to %s", c.w, s, e, c.start, c.end)
		}
	}
}

// The rule, taken literally: a boundary happens at the first instant at which the
// clock has shown its wall time or a later one. All minutes around the strangest
// changes of clocks are tried.
func TestCalendarsAgreeWithAWatchedClock(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		zone string
		from time.Time
	}{
		{"UTC", time.Date(2027, 2, 26, 0, 0, 0, 0, time.UTC)},
		{"Europe/Paris", time.Date(2027, 3, 27, 0, 0, 0, 0, time.UTC)},
		{"Europe/Paris", time.Date(2027, 10, 30, 0, 0, 0, 0, time.UTC)},
		{"America/New_York", time.Date(2027, 11, 6, 0, 0, 0, 0, time.UTC)},
		{"Australia/Lord_Howe", time.Date(2027, 4, 2, 0, 0, 0, 0, time.UTC)},  // half an hour back
		{"Australia/Lord_Howe", time.Date(2027, 10, 1, 0, 0, 0, 0, time.UTC)}, // and forth
		{"America/Sao_Paulo", time.Date(2018, 11, 3, 0, 0, 0, 0, time.UTC)},   // midnight skipped
		{"America/Sao_Paulo", time.Date(2018, 2, 17, 0, 0, 0, 0, time.UTC)},   // midnight repeated
		{"America/St_Johns", time.Date(2010, 11, 6, 0, 0, 0, 0, time.UTC)},    // 0:01 back to 23:01
		{"Pacific/Apia", time.Date(2011, 12, 29, 0, 0, 0, 0, time.UTC)},       // a whole day skipped
		{"Pacific/Kwajalein", time.Date(1993, 8, 19, 0, 0, 0, 0, time.UTC)},   // another
		{"America/Juneau", time.Date(1983, 10, 29, 0, 0, 0, 0, time.UTC)},     // two hours back
		{"Africa/Casablanca", time.Date(2026, 2, 14, 0, 0, 0, 0, time.UTC)},   // back for Ramadan
		{"Antarctica/Troll", time.Date(2027, 10, 30, 0, 0, 0, 0, time.UTC)},   // two hours
	} {
		loc := mustZone(c.zone)
		minutes := watch(loc, c.from.AddDate(0, 0, -35), c.from.AddDate(0, 0, 3))
		for _, w := range []Window{
			Days(c.zone), Weeks(c.zone), Months(c.zone),
			Days(c.zone).From(time.Date(2001, 1, 1, 2, 15, 0, 0, loc)),
			Months(c.zone).From(time.Date(2001, 1, 31, 0, 30, 0, 0, loc)),
			Cron("*/20 * * * *", c.zone), Cron("45 0,2,23 * * *", c.zone), Cron("0 12 31 * *", c.zone), Cron("30 1 * * 0", c.zone),
		} {
			checkWatched(t, w, loc, c.from, minutes)
		}
	}
}

// minute is one minute on the watch, and the wall times that the clock shows for the
// first time then: one, none while it repeats an hour, many after a gap.
type minute struct {
	at    time.Time
	shown []time.Time // as if it were UTC
}

func watch(loc *time.Location, from, to time.Time) []minute {
	wallOf := func(now time.Time) time.Time {
		l := now.In(loc)
		return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), 0, 0, time.UTC)
	}
	var minutes []minute
	shown := wallOf(from)
	for now := from; now.Before(to); now = now.Add(time.Minute) {
		m := minute{at: now}
		for wall := wallOf(now); shown.Before(wall); {
			shown = shown.Add(time.Minute)
			m.shown = append(m.shown, shown)
		}
		minutes = append(minutes, m)
	}
	return minutes
}

func checkWatched(t *testing.T, w Window, loc *time.Location, from time.Time, minutes []minute) {
	t.Helper()
	calendar, err := w.calendar()
	if err != nil {
		t.Fatal(err)
	}
	boundary := isBoundary(w, loc)
	var start time.Time // of the window, once a boundary has been seen
	var before span
	for _, m := range minutes {
		if slices.ContainsFunc(m.shown, boundary) {
			start = m.at
		}
		if m.at.Before(from) {
			continue
		}
		got := calendar.find(m.at.UnixMilli())
		if !got.holds(m.at.UnixMilli()) || got.start != start.UnixMilli() {
			t.Fatalf("%v at %v: the window is %v to %v, want it to begin %v", w, m.at.In(loc),
				time.UnixMilli(got.start).In(loc), time.UnixMilli(got.end).In(loc), start.In(loc))
		}
		if before.end != 0 && got != before && got.start != before.end {
			t.Fatalf("%v at %v: the window before ended %v", w, m.at.In(loc), time.UnixMilli(before.end).In(loc))
		}
		before = got
	}
}

// isBoundary says in the plainest way whether a wall time is a boundary.
func isBoundary(w Window, loc *time.Location) func(wall time.Time) bool {
	anchor := time.Date(1970, 1, 5, 0, 0, 0, 0, time.UTC)
	if w.kind == windowMonthly {
		anchor = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if w.set {
		a := time.UnixMilli(w.anchor).In(loc)
		anchor = time.Date(a.Year(), a.Month(), a.Day(), a.Hour(), a.Minute(), 0, 0, time.UTC)
	}
	return func(wall time.Time) bool {
		lastDay := func() bool { return wall.AddDate(0, 0, 1).Day() == 1 }
		atTime := wall.Hour() == anchor.Hour() && wall.Minute() == anchor.Minute()
		switch w.kind {
		case windowDaily:
			return atTime
		case windowWeekly:
			return atTime && wall.Weekday() == anchor.Weekday()
		case windowMonthly:
			return atTime && (wall.Day() == anchor.Day() || wall.Day() < anchor.Day() && lastDay())
		}
		switch w.spec {
		case "*/20 * * * *":
			return wall.Minute()%20 == 0
		case "45 0,2,23 * * *":
			return wall.Minute() == 45 && (wall.Hour() == 0 || wall.Hour() == 2 || wall.Hour() == 23)
		case "0 12 31 * *":
			return wall.Minute() == 0 && wall.Hour() == 12 && lastDay()
		case "30 1 * * 0":
			return wall.Minute() == 30 && wall.Hour() == 1 && wall.Weekday() == time.Sunday
		}
		panic("no rule for " + w.String())
	}
}
