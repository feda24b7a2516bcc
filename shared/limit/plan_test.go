package limit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// life is one key's States under an entry that changes: all that other callers can
// make of a State between a guess and the write planned on it.
type life struct {
	entry   Entry
	meter   *Meter
	now     int64
	states  []State // oldest first
	charges []Charge
}

func newLife(t *rapid.T) *life {
	maximum := rapid.OneOf(rapid.Int64Range(1, 12), rapid.Int64Range(1, MaxUnits)).Draw(t, "max")
	period := time.Duration(rapid.SampledFrom([]int64{1, 1000, 3_600_000}).Draw(t, "period")) * time.Millisecond
	p := rapid.SampledFrom([]Policy{
		{Name: "p", Max: maximum, Rate: Per(rapid.Int64Range(1, 20).Draw(t, "refill"), period)},
		{Name: "p", Max: maximum, Window: Every(period)},
		{Name: "p", Max: maximum, Window: FromFirstUse(period)},
		{Name: "p", Max: maximum, Window: Days("Europe/Paris")},
		{Name: "p", Max: maximum, Manual: ByOperator},
	}).Draw(t, "policy")
	if rapid.Bool().Draw(t, "clamp") {
		p.OverMax = Clamp
	}
	e, _, err := Register(nil, p, 1, "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	l := &life{now: rapid.Int64Range(0, 1<<41).Draw(t, "start"), states: []State{{}}}
	l.adopt(t, e)
	return l
}

func (l *life) adopt(t *rapid.T, e Entry) {
	m, err := NewMeter(e)
	if err != nil {
		t.Fatal(err)
	}
	l.entry, l.meter = e, m
}

func (l *life) state() State { return l.states[len(l.states)-1] }

func (l *life) cost(t *rapid.T) int64 {
	return rapid.OneOf(rapid.Int64Range(1, 5), rapid.Int64Range(1, l.meter.policy.Capacity())).Draw(t, "cost")
}

// step lets something happen to the key or its policy.
func (l *life) step(t *rapid.T) {
	l.now = max(l.now+rapid.OneOf(rapid.Just(int64(0)), rapid.Just(int64(0)), rapid.Just(int64(0)), rapid.Int64Range(-20, 200), rapid.Int64Range(0, 4000), rapid.Int64Range(0, 1<<27)).Draw(t, "pause"), 0)
	at, s := time.UnixMilli(l.now), l.state()
	switch rapid.SampledFrom([]string{"acquire", "acquire", "acquire", "settle", "settle", "grant", "drain", "hold", "override", "reset"}).Draw(t, "verb") {
	case "acquire":
		if d := l.meter.Decide(s, l.cost(t), at); d.Admitted {
			s = d.Next
			l.charges = append(l.charges, d.Charge)
		}
	case "settle":
		if len(l.charges) > 0 {
			i := rapid.IntRange(0, len(l.charges)-1).Draw(t, "charge")
			s, _ = l.meter.Settle(s, l.charges[i], rapid.Int64Range(0, 12).Draw(t, "actual"), at)
			l.charges = append(l.charges[:i:i], l.charges[i+1:]...)
		}
	case "grant":
		s, _ = l.meter.Grant(s, l.cost(t), at)
	case "drain":
		s, _ = l.meter.Grant(s, -l.cost(t), at)
	case "hold":
		s = s.HoldUntil(at.Add(time.Duration(rapid.IntRange(0, 50).Draw(t, "hold")) * time.Millisecond))
	case "override":
		o := Override{Max: new(rapid.Int64Range(0, 12).Draw(t, "override"))}
		if rapid.Bool().Draw(t, "expires") {
			o.Expires = at.Add(time.Duration(rapid.IntRange(1, 500).Draw(t, "expiry")) * time.Millisecond)
		}
		e, err := l.entry.SetOverride(o, at)
		if err != nil {
			t.Fatal(err)
		}
		l.adopt(t, e)
	case "reset":
		l.adopt(t, l.entry.Reset("", at))
	}
	l.states = append(l.states, s)
}

func (l *life) run(t *rapid.T) {
	for range rapid.IntRange(0, 25).Draw(t, "steps") {
		l.step(t)
	}
}

// Whatever was guessed, a plan that applies does exactly what deciding on the true
// State would have done; and on a right guess it always applies.
func TestPlanDoesWhatDecideDoes(t *testing.T) {
	t.Parallel()
	planned, applied := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		l := newLife(t)
		l.run(t)
		at := time.UnixMilli(l.now)
		cost := l.cost(t)
		guess := rapid.SampledFrom(append([]State{{}}, l.states...)).Draw(t, "guess")
		plan, d := l.meter.Plan(guess, cost, at)
		if !d.Admitted {
			return
		}
		planned++
		if guess.Era != 0 && !plan.Applies(guess) || guess.Era == 0 && guess.Hold <= l.now && !plan.Applies(State{Hold: guess.Hold}) && plan.Branch != Exact {
			t.Fatalf("%+v does not apply to its own guess %+v", plan, guess)
		}
		for _, truth := range append([]State{{}, guess}, l.states...) {
			if !plan.Applies(truth) {
				continue
			}
			applied++
			want := l.meter.Decide(truth, cost, at)
			got := plan.Apply(truth)
			if !want.Admitted || got != want.Next {
				t.Fatalf("%+v on %+v makes %+v, want %+v", plan, truth, got, want)
			}
			if c := plan.Charge(got); c != want.Charge {
				t.Fatalf("receipt %+v, want %+v", c, want.Charge)
			}
		}
	})
	t.Logf("figure plans_checked of=decide states=%d = %d", applied, planned)
}

func TestSettlePlanDoesWhatSettleDoes(t *testing.T) {
	t.Parallel()
	planned, applied := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		l := newLife(t)
		l.run(t)
		if len(l.charges) == 0 {
			return
		}
		at := time.UnixMilli(l.now)
		c := rapid.SampledFrom(l.charges).Draw(t, "charge")
		actual := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 12)).Draw(t, "actual")
		truth := l.state()
		guess := rapid.SampledFrom([]State{{}, truth, l.states[len(l.states)/2]}).Draw(t, "guess")
		want, stale := l.meter.Settle(truth, c, actual, at)
		if stale {
			t.Fatal("stale")
		}
		plan, write, stale := l.meter.PlanSettle(guess, c, actual, at)
		switch {
		case stale:
			t.Fatal("stale")
		case !write:
			if guess == truth && want != truth {
				t.Fatalf("nothing planned for %+v, want %+v", truth, want)
			}
		case plan.Applies(truth):
			planned, applied = planned+1, applied+1
			if got := plan.Apply(truth); got != want {
				t.Fatalf("%+v on %+v makes %+v, want %+v", plan, truth, got, want)
			}
		default:
			planned++
			if guess == truth && plan.Branch == Exact {
				t.Fatalf("%+v does not apply to its own guess %+v", plan, truth)
			}
		}
	})
	t.Logf("figure plans_checked of=settle applied=%d = %d", applied, planned)
}

// A refund is planned on what others can have been given back at most. If they were
// given more, it waits to be judged on the State.
func TestSettlePlanIsBoundByWhatOthersWereGiven(t *testing.T) {
	t.Parallel()
	m := meterOf(t, Policy{Name: "p", Rate: Per(10, 10*time.Second)})
	at := func(s int64) time.Time { return time.Unix(1000+s, 0) }
	first := m.Decide(State{}, 5, at(0))
	second := m.Decide(first.Next, 5, at(0))
	plan, write, _ := m.PlanSettle(State{}, second.Charge, 0, at(6))
	if !write || !plan.Applies(second.Next) {
		t.Fatalf("%+v does not apply to %+v", plan, second.Next)
	}
	// The first gives back at once, and its place is taken when both have refilled.
	s, _ := m.Settle(second.Next, first.Charge, 0, at(0))
	third := m.Decide(s, 10, at(5))
	if !third.Admitted {
		t.Fatal("the bucket is not full")
	}
	if plan.Applies(third.Next) {
		t.Errorf("%+v gives back to %+v what has refilled", plan, third.Next)
	}
	if next, _ := m.Settle(third.Next, second.Charge, 0, at(6)); next != third.Next {
		t.Errorf("settled to %+v, want nothing given back to %+v", next, third.Next)
	}
}

// A State is kept until no charge on it can be given back, not just until it is full:
// forgotten sooner, it would not know what others were given.
func TestStateIsKeptForItsOpenCharges(t *testing.T) {
	t.Parallel()
	m := meterOf(t, Policy{Name: "p", Rate: Per(10, 10*time.Second)})
	now := int64(1_000_000)
	first := m.Decide(State{}, 5, time.UnixMilli(now))
	second := m.Decide(first.Next, 5, time.UnixMilli(now))
	s, _ := m.Settle(second.Next, first.Charge, 0, time.UnixMilli(now))
	if fresh, ok := m.freshAt(s, now); !ok || fresh != now+10_000 {
		t.Errorf("fresh after %d ms, want 10 s", fresh-now)
	}
}

func meterOf(t *testing.T, p Policy) *Meter {
	t.Helper()
	e, _, err := Register(nil, p, 1, "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewMeter(e)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
