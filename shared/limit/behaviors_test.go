package limit_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
)

// How a limiter behaves, one rule per test.

func TestBucketStartsFull(t *testing.T) {
	t.Parallel()
	p := limit.Policy{Name: "p", Rate: limit.PerSecond(10), Burst: 20}
	m := newMemory(t, p)
	wantAvailable(t, m, at(0), p.Key("a"), 30)
	acquire(t, m, at(0), p.Key("a").Cost(30))
	refuse(t, m, at(0), p.Key("a"))
	wantAvailable(t, m, at(1), p.Key("a"), 10)
	wantAvailable(t, m, at(10), p.Key("a"), 30)
}

func TestBucketDripsContinuously(t *testing.T) {
	t.Parallel()
	p := limit.Policy{Name: "p", Rate: limit.PerMinute(60), Max: 2}
	m := newMemory(t, p)
	acquire(t, m, at(0), p.Key("a").Cost(2))
	refuse(t, m, at(0.999), p.Key("a"))
	acquire(t, m, at(1), p.Key("a"))
}

func TestWindowGivesAllAtOnceAndResetsInOneStep(t *testing.T) {
	t.Parallel()
	p := limit.Policy{Name: "p", Window: limit.Every(5 * time.Hour), Max: 500}
	m := newMemory(t, p)
	acquire(t, m, at(1), p.Key("a").Cost(500))
	refuse(t, m, at(5*3600-0.001), p.Key("a"))
	r := inspect(t, m, at(100), p.Key("a"))
	if r.Used != 500 || r.Available != 0 || !r.ResetsAt.Equal(at(5*3600)) {
		t.Errorf("%+v, want 500 used until 5 h", r)
	}
	acquire(t, m, at(5*3600), p.Key("a").Cost(500))
}

func TestWindowFromFirstUseBeginsWithWhatItAdmits(t *testing.T) {
	t.Parallel()
	p := limit.Policy{Name: "p", Window: limit.FromFirstUse(time.Hour), Max: 2}
	m := newMemory(t, p)
	if r := inspect(t, m, at(500), p.Key("a")); !r.ResetsAt.IsZero() {
		t.Errorf("resets at %v before the first use", r.ResetsAt)
	}
	acquire(t, m, at(1000), p.Key("a"))
	acquire(t, m, at(2000), p.Key("a"))
	d := refuse(t, m, at(3000), p.Key("a"))
	if d.RetryAfter != 1600*time.Second {
		t.Errorf("retry after %v, want until one hour after the first use", d.RetryAfter)
	}
	acquire(t, m, at(9999), p.Key("a"))
	if r := inspect(t, m, at(9999), p.Key("a")); !r.ResetsAt.Equal(at(9999 + 3600)) {
		t.Errorf("resets at %v, want an hour after the use that began it", r.ResetsAt)
	}
}

func TestManualPolicyOnlyRefillsByResetOrGrant(t *testing.T) {
	t.Parallel()
	p := limit.Policy{Name: "p", Manual: limit.ByOperator, Max: 3}
	m := newMemory(t, p)
	acquire(t, m, at(0), p.Key("a").Cost(3))
	refuse(t, m, at(1e9), p.Key("a"))
	if err := m.GrantAt(at(1e9), p.Key("a"), 1); err != nil {
		t.Fatal(err)
	}
	acquire(t, m, at(1e9), p.Key("a"))
	if _, err := m.ResetAt(at(1e9), "p", "op"); err != nil {
		t.Fatal(err)
	}
	wantAvailable(t, m, at(1e9), p.Key("a"), 3)
}

func TestTiersAreAtomicWithoutLeak(t *testing.T) {
	t.Parallel()
	fiveHours := limit.Policy{Name: "5h", Window: limit.Every(5 * time.Hour), Max: 500}
	weekly := limit.Policy{Name: "weekly", Window: limit.Every(7 * 24 * time.Hour), Max: 5000}
	opus := limit.Policy{Name: "opus", Window: limit.Every(7 * 24 * time.Hour), Max: 2}
	tokens := limit.Policy{Name: "tokens", Rate: limit.PerMinute(1_000_000)}
	m := newMemory(t, fiveHours, weekly, opus, tokens)
	tiers := []limit.Tier{fiveHours.Key("u"), weekly.Key("u"), opus.Key("u"), tokens.Key("u").Cost(1500)}
	acquire(t, m, at(0), tiers...)
	acquire(t, m, at(0), tiers...)
	for range 10 {
		d := refuse(t, m, at(0), tiers...)
		if len(d.Blocked) != 1 || d.Blocked[0].Policy != "opus" || d.Blocked[0].Key != "u" || d.RetryAfter != 7*24*time.Hour {
			t.Errorf("%+v, want it blocked by opus for the week", d)
		}
	}
	for _, tier := range tiers[:3] {
		if r := inspect(t, m, at(0), tier); r.Used != 2 {
			t.Errorf("%v: used %d, want 2", tier, r.Used)
		}
	}
	wantAvailable(t, m, at(0), tokens.Key("u"), 997_000)
}

func TestSubsetByName(t *testing.T) {
	t.Parallel()
	fiveHours := limit.Policy{Name: "5h", Window: limit.Every(5 * time.Hour), Max: 500}
	opus := limit.Policy{Name: "opus", Window: limit.Every(7 * 24 * time.Hour), Max: 1}
	m := newMemory(t, fiveHours, opus)
	tiers := []limit.Tier{fiveHours.Key("u"), opus.Key("u")}
	acquire(t, m, at(0), tiers...)
	some, err := limit.Only(tiers, "5h")
	if err != nil {
		t.Fatal(err)
	}
	acquire(t, m, at(0), some...)
	if _, err := limit.Only(tiers, "5h", "opsu"); !errors.Is(err, limit.ErrUnknownPolicy) {
		t.Errorf("a misspelled name: error %v, want ErrUnknownPolicy", err)
	}
}

func TestUnknownPolicyIsAnError(t *testing.T) {
	t.Parallel()
	known, unknown := bucket(1, time.Second), limit.Policy{Name: "other", Rate: limit.PerSecond(1)}
	m := newMemory(t, known)
	if _, err := m.AcquireAt(at(0), known.Key("a"), unknown.Key("a")); !errors.Is(err, limit.ErrUnknownPolicy) {
		t.Errorf("error %v, want ErrUnknownPolicy", err)
	}
	wantAvailable(t, m, at(0), known.Key("a"), 1)
}

func TestSamePolicyAndKeyTwiceIsOneTierWithTheSum(t *testing.T) {
	t.Parallel()
	p := bucket(10, time.Hour)
	m := newMemory(t, p)
	acquire(t, m, at(0), p.Key("a").Cost(3), p.Key("a").Cost(4), p.Key("b"))
	wantAvailable(t, m, at(0), p.Key("a"), 3)
	wantAvailable(t, m, at(0), p.Key("b"), 9)
	d := refuse(t, m, at(0), p.Key("a").Cost(2), p.Key("a").Cost(2))
	if len(d.Blocked) != 1 || d.Blocked[0].Cost != 4 {
		t.Errorf("%+v, want one tier with a cost of 4", d)
	}
	if d := refuse(t, m, at(0), p.Key("a").Cost(6), p.Key("a").Cost(5)); !d.Never {
		t.Error("a sum above the capacity can be admitted later")
	}
}

func TestZeroCostIsInert(t *testing.T) {
	t.Parallel()
	p := bucket(1, time.Hour)
	paused := limit.Policy{Name: "paused", Manual: limit.ByOperator}
	m := newMemory(t, p, paused)
	r := acquire(t, m, at(0), p.Key("a"), paused.Key("a").Cost(0))
	if err := r.RefundAt(t.Context(), at(0)); err != nil {
		t.Fatal(err)
	}
	wantAvailable(t, m, at(0), p.Key("a"), 1)
}

func TestFortyConcurrentForTenAdmitExactlyTen(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]limit.Policy{
		"bucket": bucket(10, 24*time.Hour),
		"window": {Name: "w", Window: limit.FromFirstUse(time.Hour), Max: 10},
		"manual": {Name: "m", Manual: limit.ByOperator, Max: 10},
	} {
		m := newMemory(t, p)
		var admitted atomic.Int64
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() {
				if m.Allow(p.Key("a")) {
					admitted.Add(1)
				}
			})
		}
		wg.Wait()
		if n := admitted.Load(); n != 10 {
			t.Errorf("%s: %d admitted, want 10", name, n)
		}
	}
}

func TestClampRunsOnAFullBucket(t *testing.T) {
	t.Parallel()
	p := limit.Policy{Name: "p", Rate: limit.PerSecond(10), OverMax: limit.Clamp}
	m := newMemory(t, p)
	r := acquire(t, m, at(1), p.Key("a").Cost(50))
	wantAvailable(t, m, at(1), p.Key("a"), 0)
	if d := refuse(t, m, at(1.5), p.Key("a").Cost(50)); d.Never || d.RetryAfter != 500*time.Millisecond {
		t.Errorf("%+v, want it to wait for a full bucket", d)
	}
	if err := r.SettleAt(t.Context(), at(1), p.Key("a").Cost(40)); err != nil {
		t.Fatal(err)
	}
	wantAvailable(t, m, at(1), p.Key("a"), 0) // 40 are clamped to what was charged
	acquire(t, m, at(2), p.Key("a").Cost(50))
}

func TestSettleGivesBackAndCharges(t *testing.T) {
	t.Parallel()
	p := bucket(1000, time.Hour)
	other := limit.Policy{Name: "other", Rate: limit.PerHour(10)}
	m := newMemory(t, p, other)
	r := acquire(t, m, at(0), p.Key("a").Cost(600), other.Key("a"))
	var invalid *limit.InvalidRequestError
	if err := r.SettleAt(t.Context(), at(0), p.Key("b").Cost(1)); !errors.As(err, &invalid) {
		t.Errorf("settling a tier that is not reserved: error %v", err)
	}
	if err := r.SettleAt(t.Context(), at(0), p.Key("a").Cost(100)); err != nil {
		t.Fatal(err)
	}
	wantAvailable(t, m, at(0), p.Key("a"), 900)
	wantAvailable(t, m, at(0), other.Key("a"), 9) // not named: stays charged
	if err := r.SettleAt(t.Context(), at(0), p.Key("a").Cost(900)); err != nil {
		t.Fatal(err)
	}
	wantAvailable(t, m, at(0), p.Key("a"), 900) // closed already
}

func TestSettlePutsABucketIntoDebt(t *testing.T) {
	t.Parallel()
	p := bucket(10, 10*time.Second)
	m := newMemory(t, p)
	r := acquire(t, m, at(0), p.Key("a").Cost(10))
	if err := r.SettleAt(t.Context(), at(0), p.Key("a").Cost(15)); err != nil {
		t.Fatal(err)
	}
	if r := inspect(t, m, at(0), p.Key("a")); r.Available != 0 || r.Used != 15 || !r.FullAt.Equal(at(15)) {
		t.Errorf("%+v, want 15 used and full in 15 s", r)
	}
	if d := refuse(t, m, at(0), p.Key("a")); d.RetryAfter != 6*time.Second {
		t.Errorf("retry after %v, want 6s", d.RetryAfter)
	}
}

func TestRefundIsCappedAtWhatHasNotRefilled(t *testing.T) {
	t.Parallel()
	p := bucket(10, 10*time.Second)
	m := newMemory(t, p)
	first := acquire(t, m, at(0), p.Key("a").Cost(4))
	second := acquire(t, m, at(3), p.Key("a").Cost(8))
	// Of the first four tokens three have refilled.
	if err := first.RefundAt(t.Context(), at(3)); err != nil {
		t.Fatal(err)
	}
	wantAvailable(t, m, at(3), p.Key("a"), 2)
	if err := second.RefundAt(t.Context(), at(3)); err != nil {
		t.Fatal(err)
	}
	wantAvailable(t, m, at(3), p.Key("a"), 10)
	wantAvailable(t, m, at(9), p.Key("a"), 10)
}

// Two charges of a burst, the first given back at once. When five have refilled so
// has the second, and giving it back as well would let 15 pass at one instant.
func TestRefundAfterAnEarlierOneMintsNothing(t *testing.T) {
	t.Parallel()
	p := bucket(10, 10*time.Second)
	m := newMemory(t, p)
	first := acquire(t, m, at(0), p.Key("a").Cost(5))
	second := acquire(t, m, at(0), p.Key("a").Cost(5))
	if err := first.RefundAt(t.Context(), at(0)); err != nil {
		t.Fatal(err)
	}
	acquire(t, m, at(5), p.Key("a").Cost(10))
	if err := second.RefundAt(t.Context(), at(5)); err != nil {
		t.Fatal(err)
	}
	wantAvailable(t, m, at(5), p.Key("a"), 0)
}

func TestRefundsInAnyOrderAtOneInstantLoseNothing(t *testing.T) {
	t.Parallel()
	p := bucket(15, time.Hour)
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		m := newMemory(t, p)
		var held [3]*limit.Reservation
		for i := range held {
			held[i] = acquire(t, m, at(0), p.Key("a").Cost(5))
		}
		for _, i := range order {
			if err := held[i].RefundAt(t.Context(), at(0)); err != nil {
				t.Fatal(err)
			}
		}
		wantAvailable(t, m, at(0), p.Key("a"), 15)
	}
}

func TestPlainWaitAndInspectAgree(t *testing.T) {
	t.Parallel()
	p := bucket(6, time.Minute)
	m := newMemory(t, p)
	acquire(t, m, at(0), p.Key("a").Cost(5))
	r := inspect(t, m, at(0), p.Key("a").Cost(3))
	if r.Limit != 6 || r.Available != 1 || r.Used != 5 || r.Blocked == nil || r.Blocked.Wait != 20*time.Second || !r.FullAt.Equal(at(50)) {
		t.Errorf("%+v (%+v), want 5 of 6 used, full at 50 s, a cost of 3 in 20 s", r, r.Blocked)
	}
	if r := inspect(t, m, at(20), p.Key("a").Cost(3)); r.Blocked != nil {
		t.Errorf("still blocked: %+v", r.Blocked)
	}
	if r := inspect(t, m, at(500), p.Key("a")); !r.FullAt.Equal(at(500)) || r.Used != 0 {
		t.Errorf("%+v, want it full", r)
	}
}

func TestDeniedNamesEveryTierAndTheLongestWait(t *testing.T) {
	t.Parallel()
	short := limit.Policy{Name: "short", Rate: limit.PerSecond(1)}
	long := limit.Policy{Name: "long", Rate: limit.PerMinute(1)}
	free := limit.Policy{Name: "free", Rate: limit.PerSecond(1)}
	m := newMemory(t, short, long, free)
	acquire(t, m, at(0), short.Key("a"), long.Key("a"))
	d := refuse(t, m, at(0), short.Key("a"), free.Key("a"), long.Key("a"))
	if len(d.Blocked) != 2 || d.Blocked[0].Policy != "short" || d.Blocked[1].Policy != "long" || d.RetryAfter != time.Minute {
		t.Errorf("%+v, want short and long, and a minute", d)
	}
	want := `limit: denied: short["a"]: cost 1, available 0, retry after 1s; long["a"]: cost 1, available 0, retry after 1m0s`
	if d.Error() != want {
		t.Errorf("error %q, want %q", d.Error(), want)
	}
}
