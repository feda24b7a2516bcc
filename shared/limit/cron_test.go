package limit

import (
	"strings"
	"testing"
	"time"
)

func TestCronRefusesWhatItDoesNotMean(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ spec, about string }{
		{"", "five fields"},
		{"* * * *", "five fields"},
		{"0 * * * * *", "five fields"},
		{"@every 1h", "five fields"},
		{"CRON_TZ=UTC 0 0 * * *", "five fields"},
		{"60 * * * *", `minute "60": want 0 to 59`},
		{"* 24 * * *", `hour "24"`},
		{"* * 0 * *", `day of month "0": want 1 to 31`},
		{"* * 32 * *", "day of month"},
		{"* * * 13 *", "month"},
		{"* * * foo *", "month"},
		{"* * * * 8", "day of week"},
		{"* * * * frid", "day of week"},
		{"5-3 * * * *", "ends before it begins"},
		{"*/0 * * * *", "a step"},
		{"*/-1 * * * *", "a step"},
		{"*/60 * * * *", "a step"},
		{"1-2-3 * * * *", "minute"},
		{"-1 * * * *", "minute"},
		{"+1 * * * *", "minute"},
		{"1,,2 * * * *", "minute"},
		{"0x1 * * * *", "minute"},
		{"0 0 30-31 2 *", "never happens"},
		{"0 0 31-31 4,6,9,11 *", "never happens"},
	} {
		if _, err := parseCron(c.spec); err == nil || !strings.Contains(err.Error(), c.about) {
			t.Errorf("%q: error %v, want one about %q", c.spec, err, c.about)
		}
	}
}

func TestCronFields(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec string
		same string
	}{
		{"*/15 * * * *", "0,15,30,45 * * * *"},
		{"10/20 * * * *", "10,30,50 * * * *"},
		{"0 8-18/5 * * *", "0 8,13,18 * * *"},
		{"0 0 * JAN-mar *", "0 0 * 1,2,3 *"},
		{"0 0 * * Mon-Fri", "0 0 * * 1-5"},
		{"0 0 * * fri-sun", "0 0 * * 0,5,6"},
		{"0 0 * * 7", "0 0 * * 0"},
		{"0 0 ? * ?", "0 0 * * *"},
		{"  0   0 * *  * ", "0 0 * * *"},
		{"@monthly", "0 0 1 * *"},
	} {
		got, err := parseCron(c.spec)
		if err != nil {
			t.Errorf("%q: %v", c.spec, err)
			continue
		}
		want, err := parseCron(c.same)
		if err != nil {
			t.Fatal(err)
		}
		got.weekdays, want.weekdays = got.weekdays&0x7f, want.weekdays&0x7f
		if *got != *want {
			t.Errorf("%q is %+v, %q is %+v", c.spec, got, c.same, want)
		}
	}
}

// No expression that is accepted makes the search for a boundary fail: it ends, the
// window holds the time asked for, and its neighbors meet it.
func FuzzCron(f *testing.F) {
	for _, spec := range []string{"0 0 31 * *", "*/7 3-9/2 */2 feb sat", "59 23 29 2 *", "0 0 29-29 2 7", "@hourly", "1,2,3 * 31 4 1-5", "30 2 * * *"} {
		f.Add(spec, int64(1_900_000_000_000))
	}
	zones := []*time.Location{mustZone("UTC"), mustZone("Europe/Paris"), mustZone("Australia/Lord_Howe"), mustZone("Pacific/Apia")}
	f.Fuzz(func(t *testing.T, spec string, at int64) {
		c, err := parseCron(spec)
		if err != nil {
			return
		}
		at = min(max(at, 0), horizon)
		s := cronIn{c, zones[int(uint64(at)%uint64(len(zones)))]}
		w := s.span(at)
		if !w.holds(at) {
			t.Fatalf("%q: the window %+v does not hold %d", spec, w, at)
		}
		if next := s.span(w.end); next.start != w.end || next.end <= next.start {
			t.Fatalf("%q: the window %+v is followed by %+v", spec, w, next)
		}
		if before := s.span(w.start - 1); before.end != w.start {
			t.Fatalf("%q: the window %+v is preceded by %+v", spec, w, before)
		}
		if again := s.span(w.end - 1); again != w {
			t.Fatalf("%q: the window %+v ends as %+v", spec, w, again)
		}
	})
}
