package dynamolimit_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

// A bucket in DynamoDB does what a rate.Limiter does, reserving and cancelling
// included. Times are whole eighths of a second and rates whole numbers, so that the
// other side's floating point is exact. What is reserved is cancelled at the moment
// of reserving, if at all: later, the two agree only roughly on what has refilled.
func TestBucketAgreesWithTimeRate(t *testing.T) {
	t.Parallel()
	var histories, steps atomic.Int64
	rapid.Check(t, func(r *rapid.T) {
		histories.Add(1)
		perSecond := rapid.Int64Range(1, 1000).Draw(r, "rate")
		burst := rapid.Int64Range(1, 1000).Draw(r, "burst")
		p := limit.Policy{Name: "p", Rate: limit.PerSecond(perSecond), Max: burst}
		now := time.Unix(rapid.Int64Range(1_800_000_000, 1_900_000_000).Draw(r, "start"), 0)
		clock := func() time.Time { return now }
		c := newCloud(untimely{t, r}, at(clock))
		ours := newLimiter(c, "limiter", unhurried(dynamolimit.WithClock(clock), dynamolimit.WithPolicies(1, p))...)
		theirs := rate.NewLimiter(rate.Limit(perSecond), int(burst))
		theirs.AllowN(now, 0)
		type pair struct {
			ours   *limit.Reservation
			theirs *rate.Reservation
		}
		var open []pair
		for range rapid.IntRange(1, 40).Draw(r, "steps") {
			steps.Add(1)
			if pause := rapid.OneOf(rapid.Just(0), rapid.IntRange(0, 8), rapid.IntRange(0, 8000)).Draw(r, "pause"); pause > 0 {
				now = now.Add(time.Duration(pause) * time.Second / 8)
				open = nil
			}
			if len(open) > 0 && rapid.IntRange(0, 3).Draw(r, "cancel") == 0 {
				i := rapid.IntRange(0, len(open)-1).Draw(r, "which")
				if err := open[i].ours.Refund(context.Background()); err != nil {
					r.Fatal(err)
				}
				open[i].theirs.CancelAt(now)
				open = append(open[:i], open[i+1:]...)
			} else {
				n := rapid.Int64Range(1, burst).Draw(r, "n")
				res, err := ours.Acquire(context.Background(), p.Key("k").Cost(n))
				var denied *limit.Denied
				switch {
				case err == nil:
					them := theirs.ReserveN(now, int(n))
					if them.DelayFrom(now) != 0 {
						r.Fatalf("%d: ours admits it, theirs waits %v", n, them.DelayFrom(now))
					}
					open = append(open, pair{res, them})
				case !errors.As(err, &denied):
					r.Fatal(err)
				case theirs.AllowN(now, int(n)):
					r.Fatalf("%d: theirs admits it, ours does not: %v", n, err)
				}
			}
			reading, err := ours.Inspect(context.Background(), p.Key("k"))
			if them := theirs.TokensAt(now); err != nil || reading.Available != int64(them) {
				r.Fatalf("ours has %d (%v), theirs %v", reading.Available, err, them)
			}
		}
	})
	if !t.Failed() {
		t.Logf("figure differential_histories against=x/time/rate limiter=dynamodb steps=%d = %d", steps.Load(), histories.Load())
	}
}
