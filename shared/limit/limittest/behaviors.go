package limittest

import (
	"errors"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
)

// behaviors are the rules of admitting and settling.
var behaviors = map[string]func(*bundle){
	"bucket starts full and drips continuously": func(b *bundle) {
		p := b.one(limit.Policy{Name: "p", Rate: limit.PerMinute(60), Burst: 20, Max: 10})
		b.wantAvailable(p.Key("a"), 30)
		b.acquire(p.Key("a").Cost(30))
		b.refuse(p.Key("a"))
		b.at(0.999)
		b.refuse(p.Key("a"))
		b.at(1)
		b.acquire(p.Key("a"))
		b.refuse(p.Key("a"))
		b.at(11)
		b.wantAvailable(p.Key("a"), 10)
		b.at(1000)
		b.wantAvailable(p.Key("a"), 30)
	},
	"window gives all at once and resets in one step": func(b *bundle) {
		p := b.one(limit.Policy{Name: "p", Window: every(5 * time.Hour), Max: 500})
		b.at(1)
		b.acquire(p.Key("a").Cost(500))
		b.at(5*3600 - 0.001)
		b.refuse(p.Key("a"))
		if r := b.inspect(p.Key("a")); r.Used != 500 || r.Available != 0 || !r.ResetsAt.Equal(after(5*3600)) {
			b.Errorf("%+v, want 500 used until 5 h", r)
		}
		b.at(5 * 3600)
		b.acquire(p.Key("a").Cost(500))
	},
	"window from first use begins with what it admits": func(b *bundle) {
		p := b.one(limit.Policy{Name: "p", Window: limit.FromFirstUse(time.Hour), Max: 2})
		b.at(1000)
		b.acquire(p.Key("a"))
		b.at(2000)
		b.acquire(p.Key("a"))
		b.at(3000)
		if d := b.refuse(p.Key("a")); d.RetryAfter != 1600*time.Second {
			b.Errorf("retry after %v, want until one hour after the first use", d.RetryAfter)
		}
		b.at(9999)
		b.acquire(p.Key("a"))
		if r := b.inspect(p.Key("a")); !r.ResetsAt.Equal(after(9999 + 3600)) {
			b.Errorf("resets at %v, want an hour after the use that began it", r.ResetsAt)
		}
	},
	"manual policy only refills by reset or grant": func(b *bundle) {
		p := b.one(limit.Policy{Name: "p", Manual: limit.ByOperator, Max: 3})
		b.acquire(p.Key("a").Cost(3))
		if d := b.refuse(p.Key("a")); d.Blocked[0].Verdict != limit.UntilChanged || d.RetryAfter <= 0 {
			b.Errorf("%+v, want until changed", d)
		}
		b.grant(p.Key("a"), 1)
		b.acquire(p.Key("a"))
		b.refuse(p.Key("a"))
		b.reset(p)
		b.wantAvailable(p.Key("a"), 3)
		b.at(1e9)
		b.acquire(p.Key("a").Cost(3))
		b.at(2e9)
		b.refuse(p.Key("a"))
	},
	"tiers are atomic, without leak": func(b *bundle) {
		p := b.declare(
			limit.Policy{Name: "5h", Group: "llm", Window: every(5 * time.Hour), Max: 500},
			limit.Policy{Name: "weekly", Group: "llm", Window: every(7 * 24 * time.Hour), Max: 5000},
			limit.Policy{Name: "opus.weekly", Group: "llm", Window: every(7 * 24 * time.Hour), Max: 2},
			limit.Policy{Name: "tokens", Rate: limit.PerMinute(1_000_000)},
		)
		tiers := []limit.Tier{p[0].Key("u"), p[1].Key("u"), p[2].Key("u"), p[3].Key("u").Cost(1500)}
		b.acquire(tiers...)
		b.acquire(tiers...)
		for range 10 {
			d := b.refuse(tiers...)
			if len(d.Blocked) != 1 || d.Blocked[0].Policy != p[2].Name || d.Blocked[0].Key != "u" || d.RetryAfter <= 0 || d.RetryAfter > 7*24*time.Hour {
				b.Errorf("%+v, want it blocked by opus for the week", d)
			}
		}
		for _, tier := range tiers[:3] {
			b.wantUsed(tier, 2)
		}
		if r := b.inspect(tiers[3]); r.Available < 997_000 {
			b.Errorf("%d tokens left, want 997,000", r.Available)
		}
	},
	"subset by name": func(b *bundle) {
		p := b.declare(limit.Policy{Name: "5h", Window: every(5 * time.Hour), Max: 500}, limit.Policy{Name: "opus", Window: every(7 * 24 * time.Hour), Max: 1})
		tiers := []limit.Tier{p[0].Key("u"), p[1].Key("u")}
		b.acquire(tiers...)
		some, err := limit.Only(tiers, p[0].Name)
		if err != nil {
			b.Fatal(err)
		}
		b.acquire(some...)
		b.wantUsed(tiers[0], 2)
		b.wantUsed(tiers[1], 1)
	},
	"unknown policy is an error and charges nothing": func(b *bundle) {
		p := b.one(bucket(1, time.Hour))
		_, err := b.Acquire(b.Context(), p.Key("a"), limit.Policy{Name: b.named + "other", Rate: limit.PerSecond(1)}.Key("a"))
		if !errors.Is(err, limit.ErrUnknownPolicy) {
			b.Errorf("error %v, want ErrUnknownPolicy", err)
		}
		b.wantAvailable(p.Key("a"), 1)
	},
	"only the name of a tier's policy matters": func(b *bundle) {
		p := b.one(bucket(1, time.Hour))
		b.acquire(limit.Policy{Name: p.Name, Rate: limit.PerSecond(1000)}.Key("a"))
		b.refuse(limit.Policy{Name: p.Name}.Key("a"))
	},
	"same policy and key twice is one tier with the sum": func(b *bundle) {
		p := b.one(bucket(10, 24*time.Hour))
		b.acquire(p.Key("a").Cost(3), p.Key("a").Cost(4), p.Key("b"))
		b.wantAvailable(p.Key("a"), 3)
		b.wantAvailable(p.Key("b"), 9)
		if d := b.refuse(p.Key("a").Cost(2), p.Key("a").Cost(2)); len(d.Blocked) != 1 || d.Blocked[0].Cost != 4 {
			b.Errorf("%+v, want one tier with a cost of 4", d)
		}
		if d := b.refuse(p.Key("a").Cost(6), p.Key("a").Cost(5)); !d.Never {
			b.Error("a sum above the capacity can be admitted later")
		}
	},
	"cost 0 is inert": func(b *bundle) {
		p := b.declare(bucket(1, 24*time.Hour), limit.Policy{Name: "paused", Manual: limit.ByOperator})
		r := b.acquire(p[0].Key("a"), p[1].Key("a").Cost(0))
		b.refund(r)
		b.wantAvailable(p[0].Key("a"), 1)
		b.acquire(p[1].Key("a").Cost(0))
		b.acquire()
	},
	"40 concurrent for 10 admit exactly 10": func(b *bundle) {
		for _, p := range b.declare(
			bucket(10, 24*time.Hour),
			limit.Policy{Name: "w", Window: limit.FromFirstUse(time.Hour), Max: 10},
			limit.Policy{Name: "d", Window: limit.Days("UTC"), Max: 10},
			limit.Policy{Name: "m", Manual: limit.ByOperator, Max: 10},
		) {
			if n := together(40, func(int) bool { return b.try(p.Key("a")) }); n != 10 {
				b.Errorf("%s: %d admitted, want 10", p.Name, n)
			}
		}
	},
	"clamp runs on a full bucket": func(b *bundle) {
		p := b.one(limit.Policy{Name: "p", Rate: limit.PerSecond(10), OverMax: limit.Clamp})
		r := b.acquire(p.Key("a").Cost(50))
		b.at(0.5)
		if d := b.refuse(p.Key("a").Cost(50)); d.Never || d.RetryAfter != 500*time.Millisecond {
			b.Errorf("%+v, want it to wait for a full bucket", d)
		}
		b.settle(r, p.Key("a").Cost(40)) // 40 are clamped to what was charged
		b.wantAvailable(p.Key("a"), 5)
		b.at(1)
		b.acquire(p.Key("a").Cost(50))
	},
	"settle gives back and charges": func(b *bundle) {
		p := b.declare(bucket(1000, 24*365*time.Hour), limit.Policy{Name: "other", Rate: limit.PerDay(10)})
		r := b.acquire(p[0].Key("a").Cost(600), p[1].Key("a"))
		var invalid *limit.InvalidRequestError
		if err := r.Settle(b.Context(), p[0].Key("b").Cost(1)); !errors.As(err, &invalid) {
			b.Errorf("settling a tier that is not reserved: error %v", err)
		}
		b.settle(r, p[0].Key("a").Cost(100))
		b.wantAvailable(p[0].Key("a"), 900)
		b.wantAvailable(p[1].Key("a"), 9) // not named: stays charged
		b.settle(r, p[0].Key("a").Cost(900))
		b.wantAvailable(p[0].Key("a"), 900) // closed already
		more := b.acquire(p[0].Key("a").Cost(100))
		b.settle(more, p[0].Key("a").Cost(300))
		b.wantAvailable(p[0].Key("a"), 600)
	},
	"settle over several items": func(b *bundle) {
		p := b.declare(limit.Policy{Name: "x", Rate: limit.PerDay(100)}, limit.Policy{Name: "y", Window: limit.Days("UTC"), Max: 100}, limit.Policy{Name: "z", Manual: limit.ByOperator, Max: 100})
		r := b.acquire(p[0].Key("a").Cost(50), p[1].Key("a").Cost(50), p[2].Key("a").Cost(50))
		b.settle(r, p[0].Key("a").Cost(10), p[1].Key("a").Cost(60), p[2].Key("a").Cost(0))
		b.wantAvailable(p[0].Key("a"), 90)
		b.wantAvailable(p[1].Key("a"), 40)
		b.wantAvailable(p[2].Key("a"), 100)
	},
	"a reservation is closed by its receipt": func(b *bundle) {
		p := b.declare(bucket(10, 24*time.Hour), limit.Policy{Name: "w", Group: "g", Window: limit.Days("UTC"), Max: 10}, limit.Policy{Name: "v", Group: "g", Window: limit.Days("UTC"), Max: 10})
		for _, tiers := range [][]limit.Tier{{p[0].Key("a").Cost(4)}, {p[1].Key("a").Cost(4), p[2].Key("a").Cost(4)}, {p[0].Key("b").Cost(4), p[1].Key("b").Cost(4)}} {
			r := limit.NewReservation(b.acquire(tiers...).Receipt(), b.settler)
			b.refund(r)
			for _, t := range tiers {
				b.wantAvailable(t, 10)
			}
		}
	},
	"settle puts a bucket into debt": func(b *bundle) {
		p := b.one(bucket(10, 10*time.Second))
		b.at(0)
		r := b.acquire(p.Key("a").Cost(10))
		b.settle(r, p.Key("a").Cost(15))
		if r := b.inspect(p.Key("a")); r.Available != 0 || r.Used != 15 || !r.FullAt.Equal(after(15)) {
			b.Errorf("%+v, want 15 used and full in 15 s", r)
		}
		if d := b.refuse(p.Key("a")); d.RetryAfter != 6*time.Second {
			b.Errorf("retry after %v, want 6s", d.RetryAfter)
		}
	},
	"settle puts an idle bucket into debt": func(b *bundle) {
		p := b.one(bucket(10, 10*time.Second))
		r := b.acquire(p.Key("a").Cost(4))
		b.at(1000)
		b.settle(r, p.Key("a").Cost(7))
		b.wantAvailable(p.Key("a"), 7)
	},
	"refund is capped at what has not refilled": func(b *bundle) {
		p := b.one(bucket(10, 10*time.Second))
		b.at(0)
		first := b.acquire(p.Key("a").Cost(4))
		b.at(3)
		second := b.acquire(p.Key("a").Cost(8))
		b.refund(first) // of the first four tokens three have refilled
		b.wantAvailable(p.Key("a"), 2)
		b.refund(second)
		b.wantAvailable(p.Key("a"), 10)
		b.at(9)
		b.wantAvailable(p.Key("a"), 10)
	},
	// Two charges of a burst, the first given back at once. When five have refilled
	// so has the second, and giving it back as well would let 15 pass at one instant.
	"refund after an earlier one mints nothing": func(b *bundle) {
		p := b.one(bucket(10, 10*time.Second))
		b.at(0)
		first, second := b.acquire(p.Key("a").Cost(5)), b.acquire(p.Key("a").Cost(5))
		b.refund(first)
		b.at(5)
		b.acquire(p.Key("a").Cost(10))
		b.refund(second)
		b.wantAvailable(p.Key("a"), 0)
	},
	"refunds in any order at one instant lose nothing": func(b *bundle) {
		p := b.one(bucket(15, 24*365*time.Hour))
		for n, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			key := string(rune('a' + n))
			var held [3]*limit.Reservation
			for i := range held {
				held[i] = b.acquire(p.Key(key).Cost(5))
			}
			for _, i := range order {
				b.refund(held[i])
			}
			b.wantAvailable(p.Key(key), 15)
		}
	},
	"concurrent reservations and refunds come out even": func(b *bundle) {
		p := b.declare(limit.Policy{Name: "m", Group: "g", Manual: limit.ByOperator, Max: 1000}, limit.Policy{Name: "d", Group: "g", Rate: limit.Per(1000, limit.MaxPeriod)})
		failed := together(20, func(int) bool {
			for range 5 {
				r, err := b.Acquire(b.Context(), p[0].Key("a").Cost(2), p[1].Key("a").Cost(3))
				if err != nil || r.Settle(b.Context(), p[0].Key("a").Cost(1), p[1].Key("a").Cost(0)) != nil {
					return true
				}
			}
			return false
		})
		if failed > 0 {
			b.Errorf("%d of 20 callers failed", failed)
		}
		b.wantUsed(p[0].Key("a"), 100)
		b.wantUsed(p[1].Key("a"), 0)
	},
	"denied names every tier and the longest wait": func(b *bundle) {
		p := b.declare(
			limit.Policy{Name: "short", Rate: limit.PerSecond(1)}, limit.Policy{Name: "free", Rate: limit.PerSecond(1)}, limit.Policy{Name: "long", Rate: limit.PerMinute(1)},
			limit.Policy{Name: "shorts", Group: "g", Rate: limit.PerSecond(1)}, limit.Policy{Name: "frees", Group: "g", Rate: limit.PerSecond(1)}, limit.Policy{Name: "longs", Group: "g", Rate: limit.PerMinute(1)},
		)
		b.at(0)
		for _, set := range [][]limit.Policy{p[:3], p[3:]} {
			short, free, long := set[0].Key("a"), set[1].Key("a"), set[2].Key("a")
			b.acquire(short, long)
			d := b.refuse(short, free, long)
			if len(d.Blocked) != 2 || d.Blocked[0].Policy != set[0].Name || d.Blocked[1].Policy != set[2].Name || d.RetryAfter != time.Minute {
				b.Errorf("%+v, want short and long, and a minute", d)
			}
		}
	},
	"inspect and a denial agree": func(b *bundle) {
		p := b.one(bucket(6, time.Minute))
		b.at(0)
		b.acquire(p.Key("a").Cost(5))
		r := b.inspect(p.Key("a").Cost(3))
		if r.Limit != 6 || r.Available != 1 || r.Used != 5 || r.Blocked == nil || r.Blocked.Wait != 20*time.Second || !r.FullAt.Equal(after(50)) {
			b.Errorf("%+v (%+v), want 5 of 6 used, full at 50 s, a cost of 3 in 20 s", r, r.Blocked)
		}
		if d := b.refuse(p.Key("a").Cost(3)); d.RetryAfter != 20*time.Second || d.Blocked[0].Available != 1 {
			b.Errorf("%+v, want 20 s", d)
		}
		b.at(20)
		if r := b.inspect(p.Key("a").Cost(3)); r.Blocked != nil {
			b.Errorf("still blocked: %+v", r.Blocked)
		}
		b.at(500)
		if r := b.inspect(p.Key("a")); !r.FullAt.Equal(after(500)) || r.Used != 0 {
			b.Errorf("%+v, want it full", r)
		}
	},
}
