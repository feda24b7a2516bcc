package limittest

import (
	"errors"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
)

// cases are faults that people reported in limiters, each with a small input and the
// right outcome.
var cases = map[string]func(*bundle){
	"a clock stepping back neither mints nor drains": func(b *bundle) {
		p := b.one(limit.Policy{Name: "p", Rate: limit.PerSecond(1), Max: 10})
		for _, s := range []float64{100, 99, 101} {
			b.at(s)
			b.acquire(p.Key("a"))
		}
		b.wantAvailable(p.Key("a"), 8)
	},
	"a clock stepping back joins the later window": func(b *bundle) {
		p := b.one(limit.Policy{Name: "p", Window: every(time.Minute), Max: 3})
		b.at(60)
		b.acquire(p.Key("a").Cost(2))
		b.at(59)
		b.acquire(p.Key("a"))
		if d := b.refuse(p.Key("a")); d.RetryAfter != 61*time.Second {
			b.Errorf("retry after %v, want 1m1s: when the later window ends", d.RetryAfter)
		}
		b.at(61)
		b.wantAvailable(p.Key("a"), 0)
	},
	"cost against capacity": func(b *bundle) {
		p := b.one(bucket(10, 24*time.Hour))
		if d := b.refuse(p.Key("a").Cost(11)); !d.Never || d.RetryAfter != 0 || d.Blocked[0].Verdict != limit.Never {
			b.Errorf("cost above capacity: %+v, want never and no retry time", d)
		}
		b.acquire(p.Key("a").Cost(10))
		b.wantAvailable(p.Key("a"), 0)
		b.acquire(p.Key("a").Cost(0)) // inert, although nothing is left
		b.wantAvailable(p.Key("a"), 0)
		for _, cost := range []int64{-1, limit.MaxUnits + 1} {
			var invalid *limit.InvalidRequestError
			if _, err := b.Acquire(b.Context(), p.Key("a").Cost(cost)); !errors.As(err, &invalid) {
				b.Errorf("cost %d: error %v, want an InvalidRequestError", cost, err)
			}
		}
	},
	"a refusal consumes nothing, one limit": func(b *bundle) {
		p := b.one(bucket(10, 24*365*time.Hour))
		b.acquire(p.Key("a").Cost(8))
		b.refuse(p.Key("a").Cost(5))
		b.acquire(p.Key("a"))
		b.wantAvailable(p.Key("a"), 1)
	},
	"a refusal consumes nothing, two tiers": func(b *bundle) {
		p := b.declare(
			limit.Policy{Name: "short", Window: every(time.Minute), Max: 10}, limit.Policy{Name: "long", Window: every(30 * time.Minute), Max: 30},
			limit.Policy{Name: "shorter", Group: "g", Window: every(time.Minute), Max: 10}, limit.Policy{Name: "longer", Group: "g", Window: every(30 * time.Minute), Max: 30},
		)
		for i := range 31 {
			b.at(float64(i))
			b.try(p[0].Key("a"), p[1].Key("a"))
			b.try(p[2].Key("a"), p[3].Key("a"))
		}
		b.wantUsed(p[1].Key("a"), 10)
		b.wantUsed(p[3].Key("a"), 10)
	},
	"a refusal consumes nothing, user and global": func(b *bundle) {
		p := b.declare(limit.Policy{Name: "user", Rate: limit.PerDay(1)}, limit.Policy{Name: "global", Rate: limit.PerDay(10)})
		for range 20 {
			b.try(p[1].Global(), p[0].Key("u"))
		}
		b.wantUsed(p[1].Global(), 1)
	},
	"a second close gives nothing back": func(b *bundle) {
		p := b.one(bucket(10, 24*365*time.Hour))
		r := b.acquire(p.Key("a").Cost(4))
		b.acquire(p.Key("a").Cost(4))
		for range 3 {
			b.refund(r)
			if r.Receipt().ID != "" { // a retry elsewhere
				b.refund(limit.NewReservation(r.Receipt(), b.settler))
			}
		}
		b.wantAvailable(p.Key("a"), 6)
	},
	"contention is not reported as limited": func(b *bundle) {
		p := b.one(bucket(1000, 24*365*time.Hour))
		if n := together(200, func(int) bool { return b.try(p.Key("a")) }); n != 200 {
			b.Errorf("%d of 200 granted", n)
		}
		b.wantUsed(p.Key("a"), 200)
	},
	"no rounding drift, 3 per second on a fresh key": func(b *bundle) {
		p := b.one(limit.Policy{Name: "p", Rate: limit.PerSecond(3)})
		b.at(1)
		b.acquire(p.Key("a").Cost(3))
		if d := b.refuse(p.Key("a")); d.RetryAfter != 334*time.Millisecond {
			b.Errorf("retry after %v, want 334ms, a third of a second rounded up", d.RetryAfter)
		}
		b.at(1.333)
		b.refuse(p.Key("a"))
		for _, s := range []float64{1.334, 1.667, 2} { // not 1.668: what was rounded is not lost
			b.at(s)
			b.acquire(p.Key("a"))
		}
	},
	"no rounding drift, the countdown of 6 per minute polled every second": func(b *bundle) {
		p := b.one(limit.Policy{Name: "p", Rate: limit.PerMinute(6)})
		b.at(0)
		b.acquire(p.Key("a").Cost(6))
		for s := range 10 {
			b.at(float64(s))
			if d := b.refuse(p.Key("a")); d.RetryAfter != time.Duration(10-s)*time.Second {
				b.Errorf("at %ds: retry after %v, want %ds", s, d.RetryAfter, 10-s)
			}
		}
		b.at(10)
		b.acquire(p.Key("a"))
	},
	"no rounding drift, 999 per second polled every millisecond": func(b *bundle) {
		p := b.one(limit.Policy{Name: "p", Rate: limit.PerSecond(999)})
		b.at(0)
		b.acquire(p.Key("a").Cost(999))
		for ms := 1; ms < 1000; ms += 7 {
			b.moveTo(start.Add(time.Duration(ms) * time.Millisecond))
			b.refuse(p.Key("a").Cost(999))
		}
		b.at(0.999)
		b.wantAvailable(p.Key("a"), 998)
		b.at(1)
		b.wantAvailable(p.Key("a"), 999)
	},
	"no rounding drift, 1 per second burst 5 polled every 600 ms": func(b *bundle) {
		p := b.one(limit.Policy{Name: "p", Rate: limit.PerSecond(1), Max: 5})
		admitted := 0
		for i := range 21 {
			b.moveTo(start.Add(time.Duration(i) * 600 * time.Millisecond))
			if b.try(p.Key("a")) {
				admitted++
			}
		}
		if admitted != 17 {
			b.Errorf("admitted %d, want 17: 5 at first and 12 refilled", admitted)
		}
	},
	"an idle week refills a large bucket": func(b *bundle) {
		p := b.one(limit.Policy{Name: "p", Rate: limit.Per(1_000_000, 7*24*time.Hour)})
		b.at(0)
		b.acquire(p.Key("a").Cost(1_000_000))
		b.at(7*24*3600 - 0.001)
		b.wantAvailable(p.Key("a"), 999_999)
		b.at(7 * 24 * 3600)
		b.wantAvailable(p.Key("a"), 1_000_000)
		b.acquire(p.Key("a").Cost(1_000_000))
		b.at(100 * 24 * 3600)
		b.wantAvailable(p.Key("a"), 1_000_000)
	},
	"large numbers are exact": func(b *bundle) {
		for _, n := range []int64{1 << 31, limit.MaxUnits} {
			suffix := map[bool]string{true: "-large"}[n == limit.MaxUnits]
			for _, p := range b.declare(
				limit.Policy{Name: "slow" + suffix, Rate: limit.Per(n, limit.MaxPeriod)},
				limit.Policy{Name: "sparse" + suffix, Rate: limit.Per(1, limit.MaxPeriod), Max: n},
				limit.Policy{Name: "window" + suffix, Window: every(limit.MaxPeriod), Max: n},
				limit.Policy{Name: "first" + suffix, Window: limit.FromFirstUse(limit.MaxPeriod), Max: n},
				limit.Policy{Name: "manual" + suffix, Manual: limit.ByOperator, Max: n},
			) {
				b.acquire(p.Key("a").Cost(n - 1))
				if got := b.inspect(p.Key("a")).Available; got != 1 && (p.Kind() != limit.Bucket || !b.suite.RealTime) {
					b.Errorf("%s: %d available, want 1", p.Name, got)
				}
				b.acquire(p.Key("a"))
				if d := b.refuse(p.Key("a").Cost(n)); d.Never || d.RetryAfter <= 0 {
					b.Errorf("%s: %+v", p.Name, d)
				}
			}
		}
		above := limit.Policy{Name: b.named + "p", Manual: limit.ByOperator, Max: 1<<53 + 1}
		if err := b.Declare(b.Context(), 0, above); err == nil || !strings.Contains(err.Error(), "max: ") {
			b.Errorf("2^53+1: error %v, want one that names max", err)
		}
	},
	"the wait is never zero nor short": func(b *bundle) {
		p := b.declare(
			limit.Policy{Name: "w", Window: every(time.Minute), Max: 10},
			limit.Policy{Name: "f", Window: every(100 * time.Millisecond), Max: 1},
			limit.Policy{Name: "s", Rate: limit.PerSecond(1)},
		)
		b.at(0)
		b.acquire(p[0].Key("a").Cost(10))
		b.at(59.4)
		if d := b.refuse(p[0].Key("a")); d.RetryAfter != 600*time.Millisecond {
			b.Errorf("10 per 60 s refused at 59.4 s: retry after %v, want 600ms", d.RetryAfter)
		}
		b.at(60)
		b.acquire(p[0].Key("a"))
		for i := range 20 {
			now := after(100).Add(time.Duration(i) * 100 * time.Millisecond)
			b.moveTo(now)
			b.acquire(p[1].Key("a"))
			b.moveTo(now.Add(99 * time.Millisecond))
			if d := b.refuse(p[1].Key("a")); d.RetryAfter != time.Millisecond {
				b.Errorf("retry after %v, want 1ms", d.RetryAfter)
			}
		}
		for s := range 20 {
			b.at(float64(200 + s))
			b.acquire(p[2].Key("a"))
		}
	},
	"zero and negative settings": func(b *bundle) {
		paused := b.one(limit.Policy{Name: "paused", Manual: limit.ByOperator, Max: 0})
		if d := b.refuse(paused.Key("a")); d.Never || d.Blocked[0].Verdict != limit.UntilChanged || d.RetryAfter < time.Hour {
			b.Errorf("limit 0: %+v, want blocked until changed, looked at rarely", d)
		}
		for field, p := range map[string]limit.Policy{
			"interval_ms":        {Rate: limit.Per(1, 0)},
			"refill":             {Rate: limit.PerSecond(-1)},
			"max":                {Rate: limit.PerSecond(1), Max: -1},
			"window.interval_ms": {Window: limit.Every(0), Max: 1},
		} {
			p.Name = b.named + "bad"
			if err := b.Declare(b.Context(), 0, p); err == nil || !strings.Contains(err.Error(), field+": ") {
				b.Errorf("error %v, want one about %s", err, field)
			}
		}
	},
	"months are clamped": func(b *bundle) {
		first := time.Date(2101, 1, 31, 0, 0, 0, 0, time.UTC)
		p := b.declare(
			limit.Policy{Name: "m", Window: limit.Months("UTC").From(first), Max: 1},
			limit.Policy{Name: "c", Window: limit.Cron("0 0 31 * *", "UTC"), Max: 1},
		)
		b.moveTo(first)
		for _, want := range []string{"2101-02-28", "2101-03-31", "2101-04-30", "2101-05-31", "2101-06-30"} {
			for _, q := range p {
				if r := b.inspect(q.Key("a")); r.ResetsAt.Format(time.DateOnly) != want {
					b.Errorf("%s: resets at %s, want %s", q.Name, r.ResetsAt.Format(time.DateOnly), want)
				}
				b.acquire(q.Key("a"))
				b.refuse(q.Key("a"))
			}
			next, err := time.Parse(time.DateOnly, want)
			if err != nil {
				b.Fatal(err)
			}
			b.moveTo(next)
		}
	},
	"an ended window reads as fresh": func(b *bundle) {
		p := b.one(limit.Policy{Name: "w", Window: limit.FromFirstUse(time.Hour), Max: 5})
		b.at(0)
		b.acquire(p.Key("a").Cost(5))
		b.at(3599)
		b.wantAvailable(p.Key("a"), 0)
		b.at(3900)
		b.wantAvailable(p.Key("a"), 5)
		b.acquire(p.Key("a").Cost(5))
	},
	"keys never collide": func(b *bundle) {
		p := b.declare(
			limit.Policy{Name: "a", Rate: limit.PerDay(1)}, limit.Policy{Name: "a.b", Rate: limit.PerDay(1)}, limit.Policy{Name: "a-b", Rate: limit.PerDay(1)}, limit.Policy{Name: "a_b", Rate: limit.PerDay(1)},
			limit.Policy{Name: "x.y", Group: "g", Rate: limit.PerDay(1)}, limit.Policy{Name: "x-y", Group: "g", Rate: limit.PerDay(1)}, limit.Policy{Name: "x_y", Group: "g", Rate: limit.PerDay(1)},
			limit.Policy{Name: "x_dy", Group: "g", Rate: limit.PerDay(1)}, limit.Policy{Name: "x__y", Group: "g", Rate: limit.PerDay(1)}, limit.Policy{Name: "x_hy", Group: "g", Rate: limit.PerDay(1)},
		)
		long := strings.Repeat("x", limit.MaxKeyBytes-1)
		tiers := []limit.Tier{
			p[1].Key("c"), p[0].Key("b.c"), p[0].Key("b:c"), p[0].Key(""), p[2].Key("c"), p[3].Key("c"), p[0].Key("b\x00c"), p[0].Key("b c"),
			p[0].Key("\u00e9"), p[0].Key("e\u0301"), // composed and decomposed
			p[0].Key(long + "x"), p[0].Key(long + "y"), p[0].Key(long), p[0].Key(strings.Repeat("x", 256)), p[0].Key(strings.Repeat("x", 257)),
		}
		for _, q := range p[4:] {
			tiers = append(tiers, q.Key("a"))
		}
		for _, t := range tiers {
			b.acquire(t)
		}
		for _, t := range tiers {
			b.refuse(t)
		}
		for _, key := range []string{strings.Repeat("x", 2049), long + "xx", "\xff"} {
			var invalid *limit.InvalidRequestError
			if _, err := b.Acquire(b.Context(), p[0].Key(key)); !errors.As(err, &invalid) {
				b.Errorf("key of %d bytes: error %v, want an InvalidRequestError", len(key), err)
			}
		}
	},
	"more tiers than fit are refused early": func(b *bundle) {
		var policies []limit.Policy
		for i := range limit.MaxTiersPerItem + 1 {
			policies = append(policies, limit.Policy{Name: "p" + string(rune('a'+i)), Group: "g", Rate: limit.PerDay(10)})
		}
		var together, apart []limit.Tier
		for i, p := range b.declare(policies...) {
			together = append(together, p.Key("a"))
			apart = append(apart, p.Key(string(rune('a'+i))))
		}
		for want, tiers := range map[string][]limit.Tier{"at most 16": together, "at most 10": apart[:limit.MaxItems+1]} {
			var invalid *limit.InvalidRequestError
			if _, err := b.Acquire(b.Context(), tiers...); !errors.As(err, &invalid) || !strings.Contains(err.Error(), want) {
				b.Errorf("error %v, want an InvalidRequestError that says %q", err, want)
			}
		}
		r := b.acquire(together[:limit.MaxTiersPerItem]...)
		b.wantAvailable(together[15], 9)
		b.refund(r)
		b.wantAvailable(together[15], 10)
		r = b.acquire(apart[:limit.MaxItems]...)
		b.wantAvailable(apart[9], 9)
		b.refund(r)
		b.wantAvailable(apart[9], 10)
	},
	"freed and dead slots come back": func(b *bundle) {
		p := b.one(limit.Policy{Name: "p", Rate: limit.PerSecond(1)})
		b.at(0)
		b.acquire(p.Key("a"))
		b.at(1)
		held := b.acquire(p.Key("a")) // the holder of this slot gives it back
		b.refund(held)
		b.acquire(p.Key("a"))
		b.refuse(p.Key("a"))
		b.at(2)
		b.acquire(p.Key("a"))
	},
	"a refund across a window edge credits nothing": func(b *bundle) {
		for name, w := range map[string]limit.Window{"every": every(time.Hour), "first-use": limit.FromFirstUse(time.Hour), "days": limit.Days("UTC")} {
			p := b.one(limit.Policy{Name: name, Window: w, Max: 10})
			b.at(0)
			old := b.acquire(p.Key("a").Cost(6))
			b.at(24 * 3600)
			b.acquire(p.Key("a").Cost(6))
			b.refund(old)
			if got := b.inspect(p.Key("a")).Available; got != 4 {
				b.Errorf("%s: available %d, want 4: the new window is not credited", name, got)
			}
		}
	},
	"manual policies are reset once per boundary": func(b *bundle) {
		p := b.one(limit.Policy{Name: "m", Manual: limit.ResetOn("0 0 * * *", "UTC"), Max: 10})
		due := func() {
			if b.ResetDue == nil {
				return
			}
			if err := b.ResetDue(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		b.at(10)
		b.acquire(p.Key("a").Cost(10))
		b.at(86399)
		due()
		if d := b.refuse(p.Key("a")); d.Blocked[0].Verdict != limit.UntilChanged {
			b.Errorf("%+v, want until changed", d)
		}
		b.at(86400)
		due()
		old := b.acquire(p.Key("a").Cost(4))
		due() // a second run
		b.wantAvailable(p.Key("a"), 6)
		b.at(4 * 86400) // three boundaries later
		due()
		b.wantAvailable(p.Key("a"), 10)
		b.refund(old)
		b.acquire(p.Key("a").Cost(10))
		b.refuse(p.Key("a"))
	},
}
