package limit_test

import (
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/sluice-dev/sluice/shared/limit"
)

// A bucket does what a rate.Limiter does, reserving and cancelling included. (Times
// are whole eighths of a second and rates whole numbers, so that the other side's
// floating point is exact. It keeps tokens that have not been there yet, ours does not:
// a reservation that would have to wait is cancelled at once. And it gives nothing
// back later than the moment of a reservation, where ours gives back what has not
// refilled; so cancelling is compared at that moment.)
func TestBucketAgreesWithTimeRate(t *testing.T) {
	t.Parallel()
	histories, steps := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		histories++
		perSecond := magnitudes(1<<20).Draw(t, "rate")
		burst := magnitudes(1<<20).Draw(t, "burst")
		p := limit.Policy{Name: "p", Rate: limit.PerSecond(perSecond), Max: burst}
		ours := newMemory(t, p)
		theirs := rate.NewLimiter(rate.Limit(perSecond), int(burst))
		now := time.UnixMilli(rapid.Int64Range(0, 1<<30).Draw(t, "start") * 1000)
		theirs.AllowN(now, 0)
		type pair struct {
			ours   *limit.Reservation
			theirs *rate.Reservation
		}
		var open []pair
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			steps++
			if pause := rapid.OneOf(rapid.Just(0), rapid.IntRange(0, 8), rapid.IntRange(0, 800)).Draw(t, "pause"); pause > 0 {
				now = now.Add(time.Duration(pause) * time.Second / 8)
				open = nil
			}
			n := magnitudes(burst).Draw(t, "n")
			switch rapid.SampledFrom([]string{"allow", "reserve", "reserve", "cancel"}).Draw(t, "verb") {
			case "allow":
				if us, them := ours.AllowAt(now, p.Key("k").Cost(n)), theirs.AllowN(now, int(n)); us != them {
					t.Fatalf("%d: ours admits %v, theirs %v", n, us, them)
				}
			case "reserve":
				r, err := ours.AcquireAt(now, p.Key("k").Cost(n))
				if denied := denial(t, err); denied != nil {
					if theirs.AllowN(now, int(n)) {
						t.Fatalf("%d: theirs admits it, ours does not: %v", n, err)
					}
					if len(open) == 0 { // theirs is not quite the same after it was asked
						wait := theirs.ReserveN(now, int(n))
						if up := denied.RetryAfter - wait.DelayFrom(now); up < -time.Microsecond || up > time.Millisecond {
							t.Fatalf("%d: ours waits %v, theirs %v", n, denied.RetryAfter, wait.DelayFrom(now))
						}
						wait.CancelAt(now)
					}
					break
				}
				them := theirs.ReserveN(now, int(n))
				if delay := them.DelayFrom(now); delay != 0 {
					t.Fatalf("%d: ours admits it, theirs waits %v", n, delay)
				}
				open = append(open, pair{r, them})
			case "cancel":
				if len(open) > 0 {
					i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
					if err := open[i].ours.RefundAt(t.Context(), now); err != nil {
						t.Fatal(err)
					}
					open[i].theirs.CancelAt(now)
					open = append(open[:i], open[i+1:]...)
				}
			}
			r, err := ours.InspectAt(now, p.Key("k"))
			if them := theirs.TokensAt(now); err != nil || r.Available != int64(them) {
				t.Fatalf("ours has %d (%v), theirs %v", r.Available, err, them)
			}
		}
	})
	t.Logf("figure differential_histories against=x/time/rate limiter=memory steps=%d = %d", steps, histories)
}
