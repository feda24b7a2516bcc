package limit_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
)

// Faults that people reported in limiters, each with a small input and the right
// outcome.

// at returns the time s seconds after the epoch.
func at(s float64) time.Time { return time.UnixMilli(int64(s * 1000)) }

// tb is what testing.T and rapid.T have in common.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func newMemory(t tb, policies ...limit.Policy) *limit.Memory {
	t.Helper()
	m, err := limit.NewMemory(policies...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func bucket(n int64, d time.Duration) limit.Policy {
	return limit.Policy{Name: "bucket", Rate: limit.Per(n, d)}
}

// denial returns the Denied of an error, nil if there was none, and fails the test
// on any other error.
func denial(t tb, err error) *limit.Denied {
	t.Helper()
	var denied *limit.Denied
	if err != nil && !errors.As(err, &denied) {
		t.Fatalf("error %v, want a denial or none", err)
	}
	return denied
}

func acquire(t testing.TB, m *limit.Memory, at time.Time, tiers ...limit.Tier) *limit.Reservation {
	t.Helper()
	r, err := m.AcquireAt(at, tiers...)
	if err != nil {
		t.Fatalf("at %v: %v", at.UTC(), err)
	}
	return r
}

func refuse(t testing.TB, m *limit.Memory, at time.Time, tiers ...limit.Tier) *limit.Denied {
	t.Helper()
	_, err := m.AcquireAt(at, tiers...)
	d := denial(t, err)
	if d == nil {
		t.Fatalf("at %v: %v admitted, want a denial", at.UTC(), tiers)
	}
	return d
}

func inspect(t testing.TB, m *limit.Memory, at time.Time, tier limit.Tier) limit.Reading {
	t.Helper()
	r, err := m.InspectAt(at, tier)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func wantAvailable(t testing.TB, m *limit.Memory, at time.Time, tier limit.Tier, want int64) {
	t.Helper()
	if r := inspect(t, m, at, tier); r.Available != want {
		t.Errorf("at %v: available %d, want %d", at.UTC(), r.Available, want)
	}
}

func TestClockSteppingBackNeitherMintsNorDrains(t *testing.T) {
	t.Parallel()
	p := limit.Policy{Name: "bucket", Rate: limit.PerSecond(1), Max: 10}
	m := newMemory(t, p)
	for _, s := range []float64{100, 99, 101} {
		acquire(t, m, at(s), p.Key("a"))
	}
	wantAvailable(t, m, at(101), p.Key("a"), 8)
}

func TestClockSteppingBackJoinsTheLaterWindow(t *testing.T) {
	t.Parallel()
	p := limit.Policy{Name: "window", Window: limit.Every(time.Minute), Max: 3}
	m := newMemory(t, p)
	acquire(t, m, at(60), p.Key("a").Cost(2))
	acquire(t, m, at(59), p.Key("a"))
	if d := refuse(t, m, at(59), p.Key("a")); d.RetryAfter != 61*time.Second {
		t.Errorf("retry after %v, want 1m1s: when the later window ends", d.RetryAfter)
	}
	wantAvailable(t, m, at(61), p.Key("a"), 0)
}

func TestCostAgainstCapacity(t *testing.T) {
	t.Parallel()
	p := bucket(10, time.Minute)
	m := newMemory(t, p)
	d := refuse(t, m, at(0), p.Key("a").Cost(11))
	if !d.Never || d.RetryAfter != 0 || d.Blocked[0].Verdict != limit.Never {
		t.Errorf("cost above capacity: %+v, want never and no retry time", d)
	}
	acquire(t, m, at(0), p.Key("a").Cost(10))
	wantAvailable(t, m, at(0), p.Key("a"), 0)
	acquire(t, m, at(0), p.Key("a").Cost(0)) // inert, although nothing is left
	wantAvailable(t, m, at(0), p.Key("a"), 0)
	var invalid *limit.InvalidRequestError
	if _, err := m.AcquireAt(at(0), p.Key("a").Cost(-1)); !errors.As(err, &invalid) {
		t.Errorf("negative cost: error %v, want an InvalidRequestError", err)
	}
}

func TestRefusalConsumesNothing(t *testing.T) {
	t.Parallel()
	t.Run("one limit", func(t *testing.T) {
		t.Parallel()
		p := bucket(10, time.Hour)
		m := newMemory(t, p)
		acquire(t, m, at(0), p.Key("a").Cost(8))
		refuse(t, m, at(0), p.Key("a").Cost(5))
		acquire(t, m, at(0), p.Key("a"))
		wantAvailable(t, m, at(0), p.Key("a"), 1)
	})
	t.Run("two tiers", func(t *testing.T) {
		t.Parallel()
		short := limit.Policy{Name: "short", Window: limit.Every(time.Minute), Max: 10}
		long := limit.Policy{Name: "long", Window: limit.Every(30 * time.Minute), Max: 30}
		m := newMemory(t, short, long)
		for i := range 31 {
			m.AllowAt(at(float64(i)), short.Key("a"), long.Key("a"))
		}
		if r := inspect(t, m, at(31), long.Key("a")); r.Used != 10 {
			t.Errorf("the long tier shows %d used, want 10", r.Used)
		}
	})
	t.Run("user and global", func(t *testing.T) {
		t.Parallel()
		user := limit.Policy{Name: "user", Rate: limit.PerHour(1)}
		global := limit.Policy{Name: "global", Rate: limit.PerHour(10)}
		m := newMemory(t, user, global)
		for range 20 {
			m.AllowAt(at(0), global.Global(), user.Key("u"))
		}
		if r := inspect(t, m, at(0), global.Global()); r.Used != 1 {
			t.Errorf("the global tier shows %d used, want 1", r.Used)
		}
	})
}

// A store tells a repeated request by its id; what can be repeated here is a close.
func TestRepeatedCloseDoesNotGiveBackTwice(t *testing.T) {
	t.Parallel()
	p := bucket(10, time.Hour)
	m := newMemory(t, p)
	r := acquire(t, m, at(0), p.Key("a").Cost(4))
	acquire(t, m, at(0), p.Key("a").Cost(4))
	for range 3 {
		if err := r.RefundAt(t.Context(), at(0)); err != nil {
			t.Fatal(err)
		}
	}
	wantAvailable(t, m, at(0), p.Key("a"), 6)
}

func TestContentionIsNotLimited(t *testing.T) {
	t.Parallel()
	p := bucket(1000, 24*time.Hour)
	m := newMemory(t, p)
	start := time.Now()
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			if _, err := m.AcquireAt(start, p.Key("a")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if r := inspect(t, m, start, p.Key("a")); r.Used != 200 {
		t.Errorf("used %d, want 200", r.Used)
	}
}

func TestNoRoundingDrift(t *testing.T) {
	t.Parallel()
	t.Run("3 per second on a fresh key", func(t *testing.T) {
		t.Parallel()
		p := limit.Policy{Name: "p", Rate: limit.PerSecond(3)}
		m := newMemory(t, p)
		acquire(t, m, at(1), p.Key("a").Cost(3))
		if d := refuse(t, m, at(1), p.Key("a")); d.RetryAfter != 334*time.Millisecond {
			t.Errorf("retry after %v, want 334ms, a third of a second rounded up", d.RetryAfter)
		}
		refuse(t, m, at(1.333), p.Key("a"))
		acquire(t, m, at(1.334), p.Key("a"))
		acquire(t, m, at(1.667), p.Key("a")) // not 1.668: what was rounded is not lost
		acquire(t, m, at(2), p.Key("a"))
	})
	t.Run("the countdown of 6 per minute polled every second", func(t *testing.T) {
		t.Parallel()
		p := limit.Policy{Name: "p", Rate: limit.PerMinute(6)}
		m := newMemory(t, p)
		acquire(t, m, at(0), p.Key("a").Cost(6))
		for s := range 10 {
			want := time.Duration(10-s) * time.Second
			if d := refuse(t, m, at(float64(s)), p.Key("a")); d.RetryAfter != want {
				t.Errorf("at %ds: retry after %v, want %v", s, d.RetryAfter, want)
			}
		}
		acquire(t, m, at(10), p.Key("a"))
	})
	t.Run("999 per second polled every millisecond", func(t *testing.T) {
		t.Parallel()
		p := limit.Policy{Name: "p", Rate: limit.PerSecond(999)}
		m := newMemory(t, p)
		acquire(t, m, at(0), p.Key("a").Cost(999))
		for ms := range 1000 {
			inspect(t, m, time.UnixMilli(int64(ms)), p.Key("a"))
		}
		wantAvailable(t, m, at(0.999), p.Key("a"), 998)
		wantAvailable(t, m, at(1), p.Key("a"), 999)
	})
	t.Run("1 per second burst 5 polled every 600 ms for 12 s", func(t *testing.T) {
		t.Parallel()
		p := limit.Policy{Name: "p", Rate: limit.PerSecond(1), Max: 5}
		m := newMemory(t, p)
		admitted := 0
		for i := range 21 {
			if m.AllowAt(time.UnixMilli(int64(i)*600), p.Key("a")) {
				admitted++
			}
		}
		if admitted != 17 {
			t.Errorf("admitted %d, want 17: 5 at first and 12 refilled", admitted)
		}
	})
}

func TestLargeNumbersAreExact(t *testing.T) {
	t.Parallel()
	week := limit.Policy{Name: "week", Rate: limit.Per(1_000_000, 7*24*time.Hour)}
	m := newMemory(t, week)
	start := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	acquire(t, m, start, week.Key("a").Cost(1_000_000))
	wantAvailable(t, m, start.Add(7*24*time.Hour-time.Millisecond), week.Key("a"), 999_999)
	wantAvailable(t, m, start.Add(7*24*time.Hour), week.Key("a"), 1_000_000)
	wantAvailable(t, m, start.Add(100*365*24*time.Hour), week.Key("a"), 1_000_000)

	for _, n := range []int64{1 << 31, 1<<53 - 1} {
		for name, p := range map[string]limit.Policy{
			"fast":   {Name: "p", Rate: limit.Per(n, time.Millisecond)},
			"slow":   {Name: "p", Rate: limit.Per(n, limit.MaxPeriod)},
			"sparse": {Name: "p", Rate: limit.Per(1, limit.MaxPeriod), Max: n},
			"window": {Name: "p", Window: limit.Every(limit.MaxPeriod), Max: n},
			"first":  {Name: "p", Window: limit.FromFirstUse(limit.MaxPeriod), Max: n},
			"manual": {Name: "p", Manual: limit.ByOperator, Max: n},
		} {
			m := newMemory(t, p)
			acquire(t, m, start, p.Key("a").Cost(n-1))
			wantAvailable(t, m, start, p.Key("a"), 1)
			acquire(t, m, start, p.Key("a"))
			if d := refuse(t, m, start, p.Key("a").Cost(n)); d.Never || d.RetryAfter <= 0 {
				t.Errorf("%s %d: %+v", name, n, d)
			}
			if r := inspect(t, m, start, p.Key("a")); r.Used != n {
				t.Errorf("%s: used %d, want %d", name, r.Used, n)
			}
		}
	}
	above := limit.Policy{Name: "p", Manual: limit.ByOperator, Max: 1<<53 + 1}
	if err := above.Validate(); err == nil || !strings.Contains(err.Error(), "max: ") {
		t.Errorf("2^53+1: error %v, want one that names max", err)
	}
	p := limit.Policy{Name: "p", Rate: limit.PerSecond(1)}
	if _, err := newMemory(t, p).AcquireAt(start, p.Key("a").Cost(1<<53)); err == nil {
		t.Error("a cost of 2^53 is accepted")
	}
}

func TestWaitIsNeverZeroNorShort(t *testing.T) {
	t.Parallel()
	window := limit.Policy{Name: "w", Window: limit.Every(time.Minute), Max: 10}
	m := newMemory(t, window)
	acquire(t, m, at(0), window.Key("a").Cost(10))
	if d := refuse(t, m, at(59.4), window.Key("a")); d.RetryAfter != 600*time.Millisecond {
		t.Errorf("10 per 60 s refused at 59.4 s: retry after %v, want 600ms", d.RetryAfter)
	}
	if d := refuse(t, m, at(59.4).Add(999*time.Microsecond), window.Key("a")); d.RetryAfter != 600*time.Millisecond {
		t.Errorf("retry after %v, want it rounded up to 600ms", d.RetryAfter)
	}
	acquire(t, m, at(60), window.Key("a"))

	fast := limit.Policy{Name: "f", Window: limit.Every(100 * time.Millisecond), Max: 1}
	m = newMemory(t, fast)
	for i := range 50 {
		now := time.UnixMilli(int64(i) * 100)
		acquire(t, m, now, fast.Key("a"))
		if d := refuse(t, m, now.Add(99*time.Millisecond), fast.Key("a")); d.RetryAfter != time.Millisecond {
			t.Errorf("retry after %v, want 1ms", d.RetryAfter)
		}
	}

	second := limit.Policy{Name: "s", Rate: limit.PerSecond(1)}
	m = newMemory(t, second)
	for s := range 60 {
		acquire(t, m, at(float64(s)), second.Key("a"))
	}
}

func TestZeroAndNegativeSettings(t *testing.T) {
	t.Parallel()
	paused := limit.Policy{Name: "p", Manual: limit.ByOperator, Max: 0}
	m := newMemory(t, paused)
	d := refuse(t, m, at(0), paused.Key("a"))
	if d.Never || d.Blocked[0].Verdict != limit.UntilChanged || d.RetryAfter < time.Hour {
		t.Errorf("limit 0: %+v, want blocked until changed, looked at rarely", d)
	}
	for field, p := range map[string]limit.Policy{
		"interval_ms":        {Name: "p", Rate: limit.Per(1, 0)},
		"refill":             {Name: "p", Rate: limit.PerSecond(-1)},
		"max":                {Name: "p", Rate: limit.PerSecond(1), Max: -1},
		"burst":              {Name: "p", Rate: limit.PerSecond(1), Burst: -1},
		"window.interval_ms": {Name: "p", Window: limit.Every(0), Max: 1},
	} {
		err := p.Validate()
		var bad *limit.InvalidPolicyError
		if !errors.As(err, &bad) || len(bad.Fields) != 1 || bad.Fields[0].Field != field {
			t.Errorf("error %v, want one about %s", err, field)
		}
	}
}

func TestMonthsAreClamped(t *testing.T) {
	t.Parallel()
	first := time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)
	monthly := limit.Policy{Name: "m", Window: limit.Months("UTC").From(first), Max: 1}
	cron := limit.Policy{Name: "c", Window: limit.Cron("0 0 31 * *", "UTC"), Max: 1}
	m := newMemory(t, monthly, cron)
	now := first
	for _, want := range []string{"2027-02-28", "2027-03-31", "2027-04-30", "2027-05-31", "2027-06-30", "2027-07-31", "2027-08-31"} {
		for _, p := range []limit.Policy{monthly, cron} {
			if r := inspect(t, m, now, p.Key("a")); r.ResetsAt.Format(time.DateOnly) != want {
				t.Errorf("%s: the window of %s resets at %s, want %s", p.Name, now.Format(time.DateOnly), r.ResetsAt.Format(time.DateOnly), want)
			}
			acquire(t, m, now, p.Key("a"))
		}
		now, _ = time.Parse(time.DateOnly, want)
	}
}

func TestEndedWindowReadsAsFresh(t *testing.T) {
	t.Parallel()
	p := limit.Policy{Name: "w", Window: limit.FromFirstUse(time.Hour), Max: 5}
	m := newMemory(t, p)
	acquire(t, m, at(0), p.Key("a").Cost(5))
	wantAvailable(t, m, at(3599), p.Key("a"), 0)
	wantAvailable(t, m, at(3900), p.Key("a"), 5)
}

func TestKeysNeverCollide(t *testing.T) {
	t.Parallel()
	ab := limit.Policy{Name: "a.b", Rate: limit.PerHour(1)}
	a := limit.Policy{Name: "a", Rate: limit.PerHour(1)}
	m := newMemory(t, ab, a)
	acquire(t, m, at(0), ab.Key("c"))
	acquire(t, m, at(0), a.Key("b.c"))
	acquire(t, m, at(0), a.Key("b:c"))
	acquire(t, m, at(0), a.Key(""))
	acquire(t, m, at(0), a.Key("\u00e9"))  // composed
	acquire(t, m, at(0), a.Key("e\u0301")) // decomposed
	acquire(t, m, at(0), a.Key(strings.Repeat("x", limit.MaxKeyBytes)))
	for _, key := range []string{strings.Repeat("x", 2049), strings.Repeat("x", limit.MaxKeyBytes+1), "\xff"} {
		var invalid *limit.InvalidRequestError
		if _, err := m.AcquireAt(at(0), a.Key(key)); !errors.As(err, &invalid) {
			t.Errorf("key of %d bytes: error %v, want an InvalidRequestError", len(key), err)
		}
	}
}

func TestRefundAcrossAWindowEdge(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]limit.Window{"every": limit.Every(time.Hour), "first use": limit.FromFirstUse(time.Hour), "days": limit.Days("UTC")} {
		p := limit.Policy{Name: "w", Window: w, Max: 10}
		m := newMemory(t, p)
		old := acquire(t, m, at(0), p.Key("a").Cost(6))
		next := at(24 * 3600)
		acquire(t, m, next, p.Key("a").Cost(6))
		if err := old.RefundAt(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		if r := inspect(t, m, next, p.Key("a")); r.Available != 4 {
			t.Errorf("%s: available %d, want 4: the new window is not credited", name, r.Available)
		}
	}
}

func TestResetOncePerBoundary(t *testing.T) {
	t.Parallel()
	p := limit.Policy{Name: "m", Manual: limit.ResetOn("0 0 * * *", "UTC"), Max: 10}
	noon := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	e, _, err := limit.Register(nil, p, 1, "deploy", noon)
	if err != nil {
		t.Fatal(err)
	}
	if _, due := e.ResetDue("cron", noon.Add(11*time.Hour)); due {
		t.Error("reset before its boundary")
	}
	midnight := noon.Add(12 * time.Hour)
	e, due := e.ResetDue("cron", midnight.Add(time.Second))
	if !due || e.Generation != 1 {
		t.Errorf("due %v, generation %d, want the first reset", due, e.Generation)
	}
	if _, again := e.ResetDue("cron", midnight.Add(2*time.Second)); again {
		t.Error("the reset runs twice")
	}
	e, due = e.ResetDue("cron", midnight.Add(3*24*time.Hour+time.Minute)) // three boundaries missed
	if !due || e.Generation != 2 || !e.ResetAt.Equal(midnight.Add(3*24*time.Hour)) {
		t.Errorf("due %v, generation %d, reset at %v, want one reset for the current boundary", due, e.Generation, e.ResetAt)
	}
}

func TestMemoryResetsManualPoliciesOnTheirCron(t *testing.T) {
	t.Parallel()
	p := limit.Policy{Name: "m", Manual: limit.ResetOn("0 0 * * *", "UTC"), Max: 10}
	m := newMemory(t, p)
	acquire(t, m, at(10), p.Key("a").Cost(10))
	if d := refuse(t, m, at(86399), p.Key("a")); d.Blocked[0].Verdict != limit.UntilChanged {
		t.Errorf("%+v, want until changed", d)
	}
	old := acquire(t, m, at(86400), p.Key("a").Cost(4))
	wantAvailable(t, m, at(4*86400), p.Key("a"), 10) // three boundaries later
	if err := old.RefundAt(context.Background(), at(4*86400)); err != nil {
		t.Fatal(err)
	}
	acquire(t, m, at(4*86400), p.Key("a").Cost(10))
	wantAvailable(t, m, at(4*86400), p.Key("a"), 0)
}
