package limit_test

import (
	"testing"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
)

// What operators and deployments change, one rule per test.

func TestGrantCapsAndDrainFloors(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]limit.Policy{
		"bucket": bucket(10, time.Hour),
		"window": {Name: "w", Window: limit.Every(time.Hour), Max: 10},
		"first":  {Name: "f", Window: limit.FromFirstUse(time.Hour), Max: 10},
		"manual": {Name: "m", Manual: limit.ByOperator, Max: 10},
	} {
		m := newMemory(t, p)
		for _, step := range []struct{ grant, want int64 }{
			{5, 10}, {-3, 7}, {2, 9}, {100, 10}, {-1000, 0}, {-1, 0}, {4, 4}, {limit.MaxUnits, 10}, {-limit.MaxUnits, 0},
		} {
			if err := m.GrantAt(at(0), p.Key("a"), step.grant); err != nil {
				t.Fatal(err)
			}
			if r := inspect(t, m, at(0), p.Key("a")); r.Available != step.want {
				t.Errorf("%s: after granting %d available %d, want %d", name, step.grant, r.Available, step.want)
			}
		}
		if err := m.GrantAt(at(0), p.Key("a"), -limit.MaxUnits-1); err == nil {
			t.Errorf("%s: a grant out of range is accepted", name)
		}
	}
}

func TestHoldLetsNothingPassAndLeavesTheBalance(t *testing.T) {
	t.Parallel()
	p := bucket(10, 10*time.Second)
	m := newMemory(t, p)
	acquire(t, m, at(0), p.Key("a").Cost(10))
	hold := func(until time.Time) {
		t.Helper()
		if err := m.HoldAt(at(0), p.Key("a"), until); err != nil {
			t.Fatal(err)
		}
	}
	hold(at(60).Add(time.Nanosecond)) // rounded up, never to an earlier end
	hold(at(1))                       // only extends
	d := refuse(t, m, at(0), p.Key("a"))
	if !d.Blocked[0].Held || d.RetryAfter != time.Minute+time.Millisecond {
		t.Errorf("%+v, want it held for a minute", d)
	}
	acquire(t, m, at(0), p.Key("b")) // another key
	r := inspect(t, m, at(30), p.Key("a"))
	if r.Available != 10 || !r.HeldUntil.Equal(at(60.001)) || r.Blocked == nil {
		t.Errorf("%+v, want a full bucket, held", r)
	}
	refuse(t, m, at(60), p.Key("a"))
	acquire(t, m, at(60.001), p.Key("a").Cost(10))
	hold(at(120))
	if err := m.ReleaseAt(at(65), p.Key("a")); err != nil {
		t.Fatal(err)
	}
	acquire(t, m, at(65), p.Key("a"))
}

func TestHoldOutlastsAResetAndAnOverride(t *testing.T) {
	t.Parallel()
	p := bucket(10, 10*time.Second)
	m := newMemory(t, p)
	if err := m.HoldAt(at(0), p.Key("a"), at(60)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.ResetAt(at(1), p.Name, "op"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.SetOverrideAt(at(1), p.Name, limit.Override{Max: new(int64(50))}); err != nil {
		t.Fatal(err)
	}
	if d := refuse(t, m, at(2), p.Key("a")); d.RetryAfter != 58*time.Second {
		t.Errorf("retry after %v, want the hold's end: it is the vendor's, not the policy's", d.RetryAfter)
	}
	acquire(t, m, at(60), p.Key("a").Cost(50))
}

func TestResetMakesEveryKeyFreshInOneWrite(t *testing.T) {
	t.Parallel()
	p := limit.Policy{Name: "p", Window: limit.Days("UTC"), Max: 10}
	m := newMemory(t, p)
	var held []*limit.Reservation
	for _, key := range []string{"a", "b", "c"} {
		held = append(held, acquire(t, m, at(0), p.Key(key).Cost(9)))
	}
	if _, err := m.ResetAt(at(1), "p", "op"); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b", "c", "new"} {
		wantAvailable(t, m, at(1), p.Key(key), 10)
		acquire(t, m, at(1), p.Key(key).Cost(5))
	}
	for _, r := range held { // of an earlier generation: nothing comes back
		if err := r.RefundAt(t.Context(), at(2)); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"a", "b", "c"} {
		wantAvailable(t, m, at(2), p.Key(key), 5)
	}
}

func TestOverrideIsPartialAndSurvivesADeploy(t *testing.T) {
	t.Parallel()
	p := limit.Policy{Name: "p", Rate: limit.PerSecond(10), Burst: 10}
	m := newMemory(t, p)
	acquire(t, m, at(100), p.Key("a").Cost(20))
	// Half the refill; capacity and interval stay as declared.
	if _, err := m.SetOverrideAt(at(100), "p", limit.Override{Refill: new(int64(5)), By: "op"}); err != nil {
		t.Fatal(err)
	}
	wantAvailable(t, m, at(101), p.Key("a"), 5)
	p2 := p
	p2.Burst = 90
	if err := m.DeclareAt(at(101), 1, p2); err != nil {
		t.Fatal(err)
	}
	wantAvailable(t, m, at(102), p.Key("a"), 10)
	wantAvailable(t, m, at(200), p.Key("a"), 100)
	acquire(t, m, at(200), p.Key("a").Cost(100))
	if _, err := m.ClearOverrideAt(at(200), "p", "op"); err != nil {
		t.Fatal(err)
	}
	wantAvailable(t, m, at(201), p.Key("a"), 10)
}

func TestOverrideExpiresByItself(t *testing.T) {
	t.Parallel()
	p := bucket(10, 10*time.Second)
	m := newMemory(t, p)
	acquire(t, m, at(0), p.Key("a").Cost(10))
	if _, err := m.SetOverrideAt(at(0), p.Name, limit.Override{Max: new(int64(0)), Expires: at(60)}); err != nil {
		t.Fatal(err)
	}
	d := refuse(t, m, at(30), p.Key("a"))
	if d.Blocked[0].Verdict != limit.Later || d.RetryAfter != 30*time.Second {
		t.Errorf("%+v, want a wait for the override's end", d)
	}
	acquire(t, m, at(60), p.Key("a").Cost(10)) // refilled meanwhile
	wantAvailable(t, m, at(60), p.Key("a"), 0)
}

func TestPausingAndResumingMintsNothing(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]limit.Policy{
		"bucket": bucket(10, time.Hour),
		"window": {Name: "w", Window: limit.Every(time.Hour), Max: 10},
		"manual": {Name: "m", Manual: limit.ByOperator, Max: 10},
	} {
		m := newMemory(t, p)
		acquire(t, m, at(0), p.Key("a").Cost(10))
		if _, err := m.SetOverrideAt(at(1), p.Name, limit.Override{Max: new(int64(0))}); err != nil {
			t.Fatal(err)
		}
		d := refuse(t, m, at(2), p.Key("a"))
		if d.Never || d.Blocked[0].Verdict != limit.UntilChanged {
			t.Errorf("%s: %+v, want until changed", name, d)
		}
		if d := refuse(t, m, at(2), p.Key("fresh")); d.Never {
			t.Errorf("%s: a fresh key is refused for ever: %+v", name, d)
		}
		if _, err := m.ClearOverrideAt(at(3), p.Name, "op"); err != nil {
			t.Fatal(err)
		}
		refuse(t, m, at(3), p.Key("a"))
		wantAvailable(t, m, at(3), p.Key("fresh"), 10)
	}
}

func TestLoweredMaxMakesLargeCostsWaitNotFail(t *testing.T) {
	t.Parallel()
	p := bucket(10, time.Minute)
	m := newMemory(t, p)
	if _, err := m.SetOverrideAt(at(0), p.Name, limit.Override{Max: new(int64(5))}); err != nil {
		t.Fatal(err)
	}
	if d := refuse(t, m, at(0), p.Key("a").Cost(8)); d.Never || d.Blocked[0].Verdict != limit.UntilChanged {
		t.Errorf("%+v, want until changed: the override may be lifted", d)
	}
	if d := refuse(t, m, at(0), p.Key("a").Cost(11)); !d.Never {
		t.Errorf("%+v, want never: not even the declared policy allows it", d)
	}
}

func TestChangePricesTheTimeBeforeAtTheOldRate(t *testing.T) {
	t.Parallel()
	p := bucket(100, 100*time.Second)
	m := newMemory(t, p)
	acquire(t, m, at(0), p.Key("a").Cost(100))
	if _, err := m.SetOverrideAt(at(50), p.Name, limit.Override{Refill: new(int64(1000))}); err != nil {
		t.Fatal(err)
	}
	// Looked at only now: 50 s at 1/s and 2 s at 10/s, not 52 s at 10/s.
	wantAvailable(t, m, at(52), p.Key("a"), 70)
}

func TestChangeCarriesBalancesAndUseOver(t *testing.T) {
	t.Parallel()
	max := func(n int64) limit.Override { return limit.Override{Max: &n} }
	for _, c := range []struct {
		name            string
		policy          limit.Policy
		used            int64
		change          limit.Override
		available, less int64 // then and after one more cost of 1
	}{
		{"bucket lowered", bucket(10, time.Hour), 3, max(5), 5, 4},
		{"bucket lowered below its use", bucket(10, time.Hour), 8, max(5), 2, 1},
		{"bucket raised", bucket(10, time.Hour), 8, max(20), 2, 1},
		{"full bucket raised", bucket(10, time.Hour), 0, max(20), 20, 19},
		{"window lowered", limit.Policy{Name: "w", Window: limit.Days("UTC"), Max: 10}, 8, max(5), 0, 0},
		{"window raised", limit.Policy{Name: "w", Window: limit.Days("UTC"), Max: 10}, 8, max(20), 12, 11},
		{"manual raised", limit.Policy{Name: "m", Manual: limit.ByOperator, Max: 10}, 8, max(20), 12, 11},
		{"window shortened", limit.Policy{Name: "w", Window: limit.Every(2 * time.Hour), Max: 10}, 8, limit.Override{Interval: new(time.Hour)}, 2, 1},
		{"first use shortened", limit.Policy{Name: "w", Window: limit.FromFirstUse(2 * time.Hour), Max: 10}, 8, limit.Override{Interval: new(time.Hour)}, 2, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := newMemory(t, c.policy)
			acquire(t, m, at(0), c.policy.Key("a").Cost(c.used))
			if _, err := m.SetOverrideAt(at(0), c.policy.Name, c.change); err != nil {
				t.Fatal(err)
			}
			wantAvailable(t, m, at(0), c.policy.Key("a"), c.available)
			m.AllowAt(at(0), c.policy.Key("a"))
			wantAvailable(t, m, at(0), c.policy.Key("a"), c.less)
		})
	}
}

// What stores may forget, as it is as good as new, reads like a key never seen after a change, too.
func TestChangeOpensNoWindowFromFirstUse(t *testing.T) {
	t.Parallel()
	p := limit.Policy{Name: "p", Window: limit.FromFirstUse(time.Hour), Max: 5}
	m := newMemory(t, p)
	acquire(t, m, at(0), p.Key("a").Cost(5))
	p.Max = 8
	if err := m.DeclareAt(at(7200), 1, p); err != nil {
		t.Fatal(err)
	}
	r, err := m.InspectAt(at(7260), p.Key("a"))
	if err != nil || r.Used != 0 || !r.ResetsAt.IsZero() {
		t.Fatalf("inspect: %+v, %v, want no open window", r, err)
	}
	acquire(t, m, at(7320), p.Key("a").Cost(8))
	if r, err = m.InspectAt(at(7320), p.Key("a")); err != nil || !r.ResetsAt.Equal(at(7320+3600)) {
		t.Fatalf("inspect: %+v, %v, want the window to end an hour after its first use", r, err)
	}
}

func TestChangeOfKindCarriesUseOver(t *testing.T) {
	t.Parallel()
	kinds := []limit.Policy{
		{Name: "p", Rate: limit.PerDay(10)},
		{Name: "p", Window: limit.Days("UTC"), Max: 10},
		{Name: "p", Window: limit.FromFirstUse(time.Hour), Max: 10},
		{Name: "p", Manual: limit.ByOperator, Max: 10},
		{Name: "p", Window: limit.Every(limit.MaxPeriod), Max: 1 << 52},
		{Name: "p", Window: limit.Every(limit.MaxPeriod), Max: 10},
	}
	for _, from := range kinds {
		for _, to := range kinds {
			m := newMemory(t, from)
			acquire(t, m, at(10), from.Key("a").Cost(4))
			if err := m.DeclareAt(at(10), 1, to); err != nil {
				t.Fatal(err)
			}
			r := inspect(t, m, at(10), to.Key("a"))
			carried := r.Available == to.Capacity()-4 // what was used is
			if from.Kind() == limit.Bucket || to.Kind() == limit.Bucket {
				carried = carried || r.Available == min(from.Capacity()-4, to.Capacity()) // what was left is
			}
			if r.Available != 0 && !carried {
				t.Errorf("from %+v to %+v: available %d", from, to, r.Available)
			}
			wantAvailable(t, m, at(10), to.Key("fresh"), to.Capacity())
		}
	}
}
