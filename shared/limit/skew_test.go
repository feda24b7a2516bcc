package limit_test

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-dev/sluice/shared/limit"
)

// With clocks within D of each other, no interval of length W admits more than the
// capacity and what refills in W + D, however long it goes on.
func TestSkewedClocksDoNotAccumulate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := terms{
			refill:   rapid.Int64Range(1, 5).Draw(t, "refill"),
			interval: rapid.SampledFrom([]int64{10, 1000}).Draw(t, "interval"),
			max:      rapid.Int64Range(1, 10).Draw(t, "max"),
		}
		p := limit.Policy{Name: "p", Rate: limit.Per(c.refill, time.Duration(c.interval)*time.Millisecond), Max: c.max}
		m := newMemory(t, p)
		skew := rapid.Int64Range(0, 5000).Draw(t, "D")
		now := int64(1 << 40)
		var admitted []event // by true time
		for range rapid.IntRange(1, 100).Draw(t, "tries") {
			now += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 2*c.interval)).Draw(t, "pause")
			clock := time.UnixMilli(now + rapid.Int64Range(0, skew).Draw(t, "skew"))
			n := rapid.Int64Range(1, c.max).Draw(t, "units")
			if m.AllowAt(clock, p.Key("k").Cost(n)) {
				admitted = append(admitted, event{at: now, units: whole(n)})
			}
		}
		for i := range admitted {
			sum := new(big.Rat)
			for _, e := range admitted[i:] {
				sum.Add(sum, e.units)
				allowed := new(big.Rat).SetFrac64(c.refill*(e.at-admitted[i].at+skew), c.interval)
				if allowed.Add(allowed, whole(c.max)); sum.Cmp(allowed) > 0 {
					t.Fatalf("%v admitted from %d to %d, at most %v allowed", sum, admitted[i].at, e.at, allowed)
				}
			}
		}
	})
}

// A window may be joined by a slow clock after its end, and by a fast one before its
// beginning; no window admits more than its maximum either way.
func TestSkewedClocksShareWindows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := limit.Policy{Name: "p", Window: limit.Every(time.Second), Max: rapid.Int64Range(1, 5).Draw(t, "max")}
		m := newMemory(t, p)
		now := int64(1 << 40)
		admitted := make(map[int64]int64) // by the window that the limiter says it is
		for range rapid.IntRange(1, 100).Draw(t, "tries") {
			now += rapid.Int64Range(0, 500).Draw(t, "pause")
			clock := time.UnixMilli(now + rapid.Int64Range(0, 700).Draw(t, "skew"))
			r, err := m.InspectAt(clock, p.Key("k"))
			if err != nil {
				t.Fatal(err)
			}
			if m.AllowAt(clock, p.Key("k")) {
				window := r.ResetsAt.UnixMilli()
				if admitted[window]++; admitted[window] > p.Max {
					t.Fatalf("%d admitted in the window that ends at %v", admitted[window], r.ResetsAt)
				}
			}
		}
	})
}
