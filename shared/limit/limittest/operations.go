package limittest

import (
	"errors"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
)

// operations are the rules of operators' verbs and of changes.
var operations = map[string]func(*bundle){
	"grant caps and drain floors": func(b *bundle) {
		for _, p := range b.declare(
			limit.Policy{Name: "b", Rate: limit.Per(10, limit.MaxPeriod)},
			limit.Policy{Name: "w", Window: every(time.Hour), Max: 10},
			limit.Policy{Name: "f", Window: limit.FromFirstUse(time.Hour), Max: 10},
			limit.Policy{Name: "m", Manual: limit.ByOperator, Max: 10},
		) {
			for _, step := range []struct{ grant, want int64 }{
				{5, 10}, {-3, 7}, {2, 9}, {100, 10}, {-1000, 0}, {-1, 0}, {4, 4}, {limit.MaxUnits, 10}, {-limit.MaxUnits, 0},
			} {
				b.grant(p.Key("a"), step.grant)
				if r := b.inspect(p.Key("a")); r.Available != step.want {
					b.Errorf("%s: after granting %d available %d, want %d", p.Name, step.grant, r.Available, step.want)
				}
			}
			if err := b.Grant(b.Context(), p.Key("a"), -limit.MaxUnits-1); err == nil {
				b.Errorf("%s: a grant out of range is accepted", p.Name)
			}
		}
	},
	"hold lets nothing pass and leaves the balance": func(b *bundle) {
		p := b.one(bucket(10, 10*time.Second))
		hold := func(until time.Time) {
			if err := b.Hold(b.Context(), p.Key("a"), until); err != nil {
				b.Fatal(err)
			}
		}
		b.at(0)
		b.acquire(p.Key("a").Cost(10))
		hold(after(60))
		hold(after(1)) // only extends
		if d := b.refuse(p.Key("a")); !d.Blocked[0].Held || d.RetryAfter != time.Minute {
			b.Errorf("%+v, want it held for a minute", d)
		}
		b.acquire(p.Key("b")) // another key
		b.at(30)
		if r := b.inspect(p.Key("a")); r.Available != 10 || !r.HeldUntil.Equal(after(60)) || r.Blocked == nil {
			b.Errorf("%+v, want a full bucket, held", r)
		}
		b.at(60)
		b.acquire(p.Key("a").Cost(10))
		hold(after(120))
		b.at(65)
		b.refuse(p.Key("a"))
		if err := b.Release(b.Context(), p.Key("a")); err != nil {
			b.Fatal(err)
		}
		b.acquire(p.Key("a"))
		if err := b.Release(b.Context(), p.Key("never seen")); err != nil {
			b.Errorf("releasing what is not held: %v", err)
		}
	},
	"hold on a fresh key": func(b *bundle) {
		p := b.declare(limit.Policy{Name: "x", Group: "g", Rate: limit.PerSecond(10)}, limit.Policy{Name: "y", Group: "g", Rate: limit.PerHour(10)})
		if err := b.Hold(b.Context(), p[0].Key("a"), b.clock().Add(time.Hour)); err != nil {
			b.Fatal(err)
		}
		if d := b.refuse(p[0].Key("a"), p[1].Key("a")); len(d.Blocked) != 1 || !d.Blocked[0].Held {
			b.Errorf("%+v, want the first tier held", d)
		}
		b.acquire(p[1].Key("a"))
	},
	"reset makes every key fresh in one write": func(b *bundle) {
		for _, p := range b.declare(
			limit.Policy{Name: "d", Window: limit.Days("UTC"), Max: 10},
			limit.Policy{Name: "b", Rate: limit.Per(10, limit.MaxPeriod)},
			limit.Policy{Name: "f", Window: limit.FromFirstUse(time.Hour), Max: 10},
			limit.Policy{Name: "m", Manual: limit.ByOperator, Max: 10},
		) {
			var held []*limit.Reservation
			for _, key := range []string{"a", "b", "c"} {
				held = append(held, b.acquire(p.Key(key).Cost(9)))
			}
			b.reset(p)
			for _, key := range []string{"a", "b", "c", "new"} {
				b.wantAvailable(p.Key(key), 10)
				b.acquire(p.Key(key).Cost(5))
			}
			for _, r := range held { // of an earlier generation: nothing comes back
				b.refund(r)
			}
			for _, key := range []string{"a", "b", "c"} {
				b.wantAvailable(p.Key(key), 5)
			}
		}
	},
	"override is partial and survives a deploy": func(b *bundle) {
		p := b.one(limit.Policy{Name: "p", Rate: limit.PerSecond(10), Burst: 10})
		b.at(100)
		b.acquire(p.Key("a").Cost(20))
		b.override(p, limit.Override{Refill: new(int64(5)), By: "op"}) // capacity and interval stay as declared
		b.at(101)
		b.wantAvailable(p.Key("a"), 5)
		p.Burst = 90
		b.deploy(1, p)
		b.at(102)
		b.wantAvailable(p.Key("a"), 10)
		b.at(200)
		b.wantAvailable(p.Key("a"), 100)
		b.acquire(p.Key("a").Cost(100))
		b.clearOverride(p)
		b.at(201)
		b.wantAvailable(p.Key("a"), 10)
	},
	"override expires by itself": func(b *bundle) {
		p := b.one(bucket(10, 10*time.Second))
		b.at(0)
		b.acquire(p.Key("a").Cost(10))
		b.override(p, limit.Override{Max: new(int64(0)), Expires: after(60)})
		b.at(30)
		if d := b.refuse(p.Key("a")); d.Blocked[0].Verdict != limit.Later || d.RetryAfter != 30*time.Second {
			b.Errorf("%+v, want a wait for the override's end", d)
		}
		b.at(60)
		b.acquire(p.Key("a").Cost(10)) // refilled meanwhile
		b.wantAvailable(p.Key("a"), 0)
	},
	"pausing and resuming mints nothing": func(b *bundle) {
		for _, p := range b.declare(
			limit.Policy{Name: "b", Rate: limit.Per(10, limit.MaxPeriod)},
			limit.Policy{Name: "w", Window: every(time.Hour), Max: 10},
			limit.Policy{Name: "m", Manual: limit.ByOperator, Max: 10},
		) {
			b.acquire(p.Key("a").Cost(10))
			b.override(p, limit.Override{Max: new(int64(0))})
			for _, key := range []string{"a", "fresh"} {
				if d := b.refuse(p.Key(key)); d.Never || d.Blocked[0].Verdict != limit.UntilChanged {
					b.Errorf("%s: %+v, want until changed", p.Name, d)
				}
			}
			b.clearOverride(p)
			b.refuse(p.Key("a"))
			b.wantAvailable(p.Key("fresh"), 10)
		}
	},
	"lowered max makes large costs wait, not fail": func(b *bundle) {
		p := b.one(bucket(10, time.Minute))
		b.override(p, limit.Override{Max: new(int64(5))})
		if d := b.refuse(p.Key("a").Cost(8)); d.Never || d.Blocked[0].Verdict != limit.UntilChanged {
			b.Errorf("%+v, want until changed: the override may be lifted", d)
		}
		if d := b.refuse(p.Key("a").Cost(11)); !d.Never {
			b.Errorf("%+v, want never: not even the declared policy allows it", d)
		}
	},
	"change prices the time before at the old rate": func(b *bundle) {
		p := b.one(bucket(100, 100*time.Second))
		b.at(0)
		b.acquire(p.Key("a").Cost(100))
		b.at(50)
		b.override(p, limit.Override{Refill: new(int64(1000))})
		b.at(52)
		// Looked at only now: 50 s at 1/s and 2 s at 10/s, not 52 s at 10/s.
		b.wantAvailable(p.Key("a"), 70)
		b.acquire(p.Key("a").Cost(70))
		b.wantAvailable(p.Key("a"), 0)
		b.at(53)
		b.acquire(p.Key("a").Cost(10))
		b.refuse(p.Key("a"))
	},
	"change carries balances and use over": func(b *bundle) {
		to := func(n int64) limit.Override { return limit.Override{Max: &n} }
		for _, c := range []struct {
			name            string
			policy          limit.Policy
			used            int64
			change          limit.Override
			available, less int64 // then, and after one more cost of 1
		}{
			{"lowered", limit.Policy{Rate: limit.Per(10, limit.MaxPeriod)}, 3, to(5), 5, 4},
			{"below-use", limit.Policy{Rate: limit.Per(10, limit.MaxPeriod)}, 8, to(5), 2, 1},
			{"raised", limit.Policy{Rate: limit.Per(10, limit.MaxPeriod)}, 8, to(20), 2, 1},
			{"full", limit.Policy{Rate: limit.Per(10, limit.MaxPeriod)}, 0, to(20), 20, 19},
			{"window", limit.Policy{Window: limit.Days("UTC"), Max: 10}, 8, to(5), 0, 0},
			{"window-up", limit.Policy{Window: limit.Days("UTC"), Max: 10}, 8, to(20), 12, 11},
			{"manual", limit.Policy{Manual: limit.ByOperator, Max: 10}, 8, to(20), 12, 11},
			{"shorter", limit.Policy{Window: every(2 * time.Hour), Max: 10}, 8, limit.Override{Interval: new(time.Hour)}, 2, 1},
			{"first-use", limit.Policy{Window: limit.FromFirstUse(2 * time.Hour), Max: 10}, 8, limit.Override{Interval: new(time.Hour)}, 2, 1},
		} {
			c.policy.Name = c.name
			p := b.one(c.policy)
			b.acquire(p.Key("a").Cost(c.used))
			b.override(p, c.change)
			b.wantAvailable(p.Key("a"), c.available)
			b.try(p.Key("a"))
			b.wantAvailable(p.Key("a"), c.less)
		}
	},
	"reservations settle across a change": func(b *bundle) {
		p := b.one(limit.Policy{Name: "p", Window: limit.Days("UTC"), Max: 10})
		r := b.acquire(p.Key("a").Cost(8))
		b.override(p, limit.Override{Max: new(int64(20))})
		b.wantAvailable(p.Key("a"), 12)
		b.refund(r)
		b.wantAvailable(p.Key("a"), 20)
		again := b.acquire(p.Key("a").Cost(8))
		b.override(p, limit.Override{Max: new(int64(30))})
		b.settle(again, p.Key("a").Cost(9))
		b.wantAvailable(p.Key("a"), 21)
	},
	"older release works with what is stored": func(b *bundle) {
		p := b.one(bucket(10, 24*time.Hour))
		newer := p
		newer.Burst = 10
		b.deploy(5, newer)
		b.wantAvailable(p.Key("a"), 20)
		b.deploy(3, p)
		b.wantAvailable(p.Key("a"), 20)
		if err := b.Declare(b.Context(), 5, p); !errors.Is(err, limit.ErrReleaseConflict) {
			b.Errorf("another definition at the same release: error %v, want ErrReleaseConflict", err)
		}
		b.deploy(5, newer)
		b.wantAvailable(p.Key("a"), 20)
	},
	"policies tells what is in force, and by whom": func(b *bundle) {
		p := b.declare(bucket(10, time.Hour), limit.Policy{Name: "w", Window: limit.Days("Europe/Paris"), Max: 1000})
		b.override(p[1], limit.Override{Max: new(int64(2000)), By: "ada"})
		b.reset(p[1])
		entries, err := b.Policies(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		found := 0
		for _, e := range entries {
			switch e.Policy.Name {
			case p[0].Name:
				found++
				if !e.Policy.Equal(p[0]) || e.Override != nil {
					b.Errorf("%+v, want it as declared", e)
				}
			case p[1].Name:
				found++
				if !e.Policy.Equal(p[1]) || e.Override == nil || *e.Override.Max != 2000 || e.Override.By != "ada" || e.Generation != 1 || len(e.Changes) < 3 {
					b.Errorf("%+v, want the override, a reset and the log", e)
				}
			}
		}
		if found != 2 {
			b.Errorf("%d of 2 policies among %d entries", found, len(entries))
		}
	},
	"verbs on an unknown policy say so": func(b *bundle) {
		unknown := limit.Policy{Name: b.named + "unknown"}
		_, override := b.SetOverride(b.Context(), unknown.Name, limit.Override{Max: new(int64(1))})
		_, cleared := b.ClearOverride(b.Context(), unknown.Name, "")
		_, reset := b.Reset(b.Context(), unknown.Name, "")
		_, inspected := b.Inspect(b.Context(), unknown.Key("a"))
		for verb, err := range map[string]error{
			"SetOverride": override, "ClearOverride": cleared, "Reset": reset, "Inspect": inspected,
			"Grant": b.Grant(b.Context(), unknown.Key("a"), 1), "Hold": b.Hold(b.Context(), unknown.Key("a"), after(1e6)),
			"Release": b.Release(b.Context(), unknown.Key("a")),
		} {
			if !errors.Is(err, limit.ErrUnknownPolicy) {
				b.Errorf("%s: error %v, want ErrUnknownPolicy", verb, err)
			}
		}
	},
	"bad overrides are refused, naming the field": func(b *bundle) {
		p := b.one(limit.Policy{Name: "w", Window: limit.Days("UTC"), Max: 10})
		for _, o := range []limit.Override{{}, {Max: new(int64(-1))}, {Refill: new(int64(5))}, {Max: new(int64(1)), Expires: b.clock().Add(-time.Hour)}} {
			var bad *limit.InvalidPolicyError
			if _, err := b.SetOverride(b.Context(), p.Name, o); !errors.As(err, &bad) {
				b.Errorf("%v: error %v, want an InvalidPolicyError", &o, err)
			}
		}
	},
}
