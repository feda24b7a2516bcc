package dynamolimit_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

// The processes of these tests have their own memory and one table. Nothing refills.
func twoProcesses(t *testing.T, policies ...limit.Policy) (first, second *dynamolimit.Limiter) {
	t.Helper()
	now := time.Date(2100, time.January, 4, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	c := newCloud(t, at(clock))
	first, second = newLimiter(c, "first", dynamolimit.WithClock(clock)), newLimiter(c, "second", dynamolimit.WithClock(clock))
	if err := first.Declare(t.Context(), 1, policies...); err != nil {
		t.Fatal(err)
	}
	return first, second
}

func wantUsed(t *testing.T, l *dynamolimit.Limiter, tier limit.Tier, want int64) {
	t.Helper()
	if r, err := l.Inspect(t.Context(), tier); err != nil || r.Used != want {
		t.Errorf("%v: %d used, want %d (%v)", tier, r.Used, want, err)
	}
}

func TestARequestRepeatedInAnotherProcessIsNotChargedAgain(t *testing.T) {
	t.Parallel()
	p := limit.Policy{Name: "p", Rate: limit.Per(10, limit.MaxPeriod), OverMax: limit.Clamp}
	q := limit.Policy{Name: "q", Window: limit.FromFirstUse(time.Hour), Max: 5}
	for name, tiers := range map[string][]limit.Tier{
		"one item":                 {p.Key("a").Cost(4)},
		"which it has emptied":     {p.Key("a").Cost(10)},
		"clamped":                  {p.Key("a").Cost(11)},
		"several items":            {p.Key("a").Cost(4), q.Key("a").Cost(5)},
		"several tiers, one inert": {p.Key("a").Cost(4), q.Key("b").Cost(0)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := twoProcesses(t, p, q)
			if _, err := first.AcquireOnce(t.Context(), "id", tiers...); err != nil {
				t.Fatal(err)
			}
			used := min(tiers[0].Units, 10)
			for _, l := range []*dynamolimit.Limiter{first, second, second} {
				r, err := l.AcquireOnce(t.Context(), "id", tiers...)
				if err != nil {
					t.Fatal(err)
				}
				if c := r.Receipt().Charges; len(c) != len(tiers) || c[0].Units != used || c[0].Key != "a" {
					t.Errorf("charged %+v", c)
				}
				wantUsed(t, second, tiers[0], used)
			}
			if name == "several items" {
				wantUsed(t, second, tiers[1], 5)
			}
			// Another request is another one.
			_, err := second.AcquireOnce(t.Context(), "id2", p.Key("a").Cost(7))
			if _, denied := errors.AsType[*limit.Denied](err); !denied {
				t.Errorf("%v, want a denial", err)
			}
		})
	}
}

func TestARepeatedRequestsReservationGivesNothingBack(t *testing.T) {
	t.Parallel()
	p := limit.Policy{Name: "p", Rate: limit.Per(10, limit.MaxPeriod)}
	first, second := twoProcesses(t, p)
	original, err := first.AcquireOnce(t.Context(), "id", p.Key("a").Cost(4))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		actual, want int64
	}{{0, 4}, {6, 6}} {
		r, err := second.AcquireOnce(t.Context(), "id", p.Key("a").Cost(4))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Settle(t.Context(), p.Key("a").Cost(step.actual)); err != nil {
			t.Fatal(err)
		}
		wantUsed(t, second, p.Key("a"), step.want)
	}
	if err := original.Refund(t.Context()); err != nil { // it is closed
		t.Fatal(err)
	}
	wantUsed(t, first, p.Key("a"), 6)
}

func TestAnItemForgetsARequestAfterEightOthers(t *testing.T) {
	t.Parallel()
	p := limit.Policy{Name: "p", Rate: limit.Per(100, limit.MaxPeriod)}
	first, second := twoProcesses(t, p)
	repeat := func(l *dynamolimit.Limiter) {
		t.Helper()
		if _, err := l.AcquireOnce(t.Context(), "id", p.Key("a").Cost(10)); err != nil {
			t.Fatal(err)
		}
	}
	repeat(second)
	for i := range 7 {
		if _, err := first.AcquireOnce(t.Context(), fmt.Sprint("other", i), p.Key("a")); err != nil {
			t.Fatal(err)
		}
	}
	repeat(first)
	wantUsed(t, first, p.Key("a"), 17)
	if _, err := first.Acquire(t.Context(), p.Key("a")); err != nil {
		t.Fatal(err)
	}
	repeat(first)
	wantUsed(t, first, p.Key("a"), 28)
}
