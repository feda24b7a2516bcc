package limit

import (
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// ledger is another account of one bucket: it keeps what happened and, at the end, goes
// through it in order of time and in exact fractions.
type ledger []entry

type entry struct {
	at    int64
	terms *Terms // settings from then on, full if they reset
	grant int64
	run   int64
}

// check fails the test if a run found less than its cost.
func (l ledger) check(t reporter) {
	slices.SortStableFunc(l, func(a, b entry) int { return int(a.at - b.at) })
	var at int64
	var terms Terms
	balance, granted := new(big.Rat), new(big.Rat)
	for _, e := range l {
		if terms.Refill > 0 {
			drip := big.NewRat(terms.Refill*(e.at-at), terms.Interval.Milliseconds())
			balance.Add(balance, drip)
		}
		capacity := new(big.Rat).SetInt64(terms.Max)
		if balance.Cmp(capacity) > 0 {
			balance.Set(capacity)
		}
		at = e.at
		switch {
		case e.terms != nil:
			full := balance.Cmp(capacity) == 0
			terms = *e.terms
			if capacity.SetInt64(terms.Max); full || terms.Reset || balance.Cmp(capacity) > 0 {
				balance.Set(capacity)
			}
		case e.grant > 0:
			// What goes beyond full is not lost while slots are given out for times to
			// come: a grant of n allows n more, no matter when.
			balance.Add(balance, new(big.Rat).SetInt64(e.grant))
			if beyond := new(big.Rat).Sub(balance, capacity); beyond.Sign() > 0 {
				granted.Add(granted, beyond)
				balance.Set(capacity)
			}
		case e.grant < 0:
			if balance.Add(balance, new(big.Rat).SetInt64(e.grant)); balance.Sign() < 0 {
				balance.SetInt64(0)
			}
		default:
			if balance.Sub(balance, new(big.Rat).SetInt64(e.run)); balance.Sign() < 0 {
				granted.Add(granted, balance)
				balance.SetInt64(0)
			}
			if granted.Sign() < 0 {
				t.Fatalf("a run of %d units at %d found too little, by %v", e.run, e.at, granted)
			}
		}
	}
}

// Whatever operators do while tasks sleep and wait: never more runs than is there, nobody
// runs during a hold, and nobody is lost.
func TestOperatorsMoveTheLineUnderSleepers(t *testing.T) {
	t.Parallel()
	ran := 0
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{Name: "p", Rate: Per(rapid.Int64Range(1, 4).Draw(t, "refill"), time.Second), Max: rapid.Int64Range(1, 6).Draw(t, "max")}
		l := newLine(t, Patience{Wait: time.Duration(rapid.IntRange(0, 14).Draw(t, "wait")) * time.Second}, p)
		first := l.entries[0].Terms[0]
		first.Reset = true
		var account ledger
		account = append(account, entry{at: 0, terms: &first})
		var holds [][2]int64
		late := func() int64 { return rapid.Int64Range(0, 20_000).Draw(t, "late") }
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			for range rapid.IntRange(0, 12).Draw(t, "tasks") {
				l.come(1, rapid.Int64Range(1, 2).Draw(t, "units"))
			}
			l.pass(l.now+rapid.Int64Range(0, 30_000).Draw(t, "pause"), late)
			l.operateAny(t, &account, &holds)
			if rapid.Bool().Draw(t, "pulls") {
				l.pull(5 * time.Second)
			}
		}
		l.amend(0, func(e Entry) (Entry, error) { return e.ClearOverride("", l.at()), nil })
		cleared := l.entries[0].Terms[len(l.entries[0].Terms)-1]
		account = append(account, entry{at: l.now, terms: &cleared})
		for range 200 {
			l.pull(time.Minute)
			l.pass(l.now+60_000, late)
		}
		l.pass(forever-1, late)
		for _, k := range l.tasks {
			if !k.done {
				t.Fatalf("task %d sleeps for ever", k.born)
			}
		}
		for _, r := range l.runs {
			account = append(account, entry{at: r.at, run: r.units})
			for _, h := range holds {
				if h[0] < r.at && r.at < h[1] {
					t.Fatalf("a run at %d, held from %d to %d", r.at, h[0], h[1])
				}
			}
		}
		account.check(t)
		ran += len(l.runs)
	})
	t.Logf("figure parking_runs_under_operators = %d", ran)
}

func (l *lot) operateAny(t *rapid.T, account *ledger, holds *[][2]int64) {
	l.now++ // no run is of the same millisecond
	defer func() { l.now++ }()
	switch rapid.SampledFrom([]string{"grant", "drain", "hold", "reset", "override", "clear"}).Draw(t, "operation") {
	case "grant":
		n := rapid.Int64Range(1, 4).Draw(t, "grant")
		l.grant(n)
		*account = append(*account, entry{at: l.now, grant: n})
	case "drain":
		n := rapid.Int64Range(1, 4).Draw(t, "drain")
		have := l.available()
		l.grant(-n)
		// What is drained is what the limiter has, which is never more than there is.
		if n = min(n, have); n > 0 {
			*account = append(*account, entry{at: l.now, grant: -n})
		}
	case "hold":
		until := l.now + rapid.Int64Range(1, 60_000).Draw(t, "hold")
		l.operate(0, func(s State) State { return s.HoldUntil(time.UnixMilli(until)) })
		*holds = append(*holds, [2]int64{l.now, until})
	case "reset":
		l.amend(0, func(e Entry) (Entry, error) { return e.Reset("", l.at()), nil })
		l.changed(account)
	case "override":
		o := Override{Refill: new(rapid.Int64Range(1, 4).Draw(t, "new refill")), Max: new(rapid.Int64Range(2, 6).Draw(t, "new max"))}
		l.amend(0, func(e Entry) (Entry, error) { return e.SetOverride(o, l.at()) })
		l.changed(account)
	case "clear":
		l.amend(0, func(e Entry) (Entry, error) { return e.ClearOverride("", l.at()), nil })
		l.changed(account)
	}
}

func (l *lot) changed(account *ledger) {
	terms := l.entries[0].Terms[len(l.entries[0].Terms)-1]
	*account = append(*account, entry{at: l.now, terms: &terms})
}

func (l *lot) available() int64 {
	s := l.items[0].Tiers[0]
	r, _ := s.Meter.Inspect(s.State, 1, l.at())
	return r.Available
}

// A hold moves everybody by as long as it lasts: the order stays, and each is woken once
// more at most.
func TestAHoldKeepsTheOrder(t *testing.T) {
	t.Parallel()
	l := newLine(t, fewSeconds, Policy{Name: "p", Rate: PerSecond(1), Max: 1})
	tasks := l.come(100, 1)
	l.pass(l.now+10_000, punctually)
	until := l.now + 30_000
	l.operate(0, func(s State) State { return s.HoldUntil(time.UnixMilli(until)) })
	l.pass(forever, punctually)
	l.strict()
	inOrder := 0
	for i := 1; i < len(tasks); i++ {
		if tasks[i].wakes > 3 {
			t.Errorf("task %d was woken %d times", i, tasks[i].wakes)
		}
		if tasks[i].ranAt >= tasks[i-1].ranAt {
			inOrder++
		}
	}
	if inOrder < 90 { // those who were in slots come back a little later
		t.Errorf("only %d of 99 ran after the one before them", inOrder)
	}
}

// A slower rate lets everybody wait longer, in the same order, and costs each sleeper one
// more wake-up at most.
func TestALoweredRateKeepsTheOrder(t *testing.T) {
	t.Parallel()
	l := newLine(t, fewSeconds, Policy{Name: "p", Rate: PerSecond(4), Max: 4})
	tasks := l.come(100, 1)
	l.pass(l.now+3000, punctually)
	l.now++
	began := l.now
	l.amend(0, func(e Entry) (Entry, error) { return e.SetOverride(Override{Refill: new(int64(1))}, l.at()) })
	l.pass(forever, punctually)
	inOrder := 0
	for i := 1; i < len(tasks); i++ {
		if tasks[i].wakes > 3 {
			t.Errorf("task %d was woken %d times", i, tasks[i].wakes)
		}
		if tasks[i].ranAt >= tasks[i-1].ranAt {
			inOrder++
		}
	}
	if inOrder < 75 {
		t.Errorf("only %d of 99 ran after the one before them", inOrder)
	}
	if took := tasks[99].ranAt - began; took < 80_000 || took > 100_000 {
		t.Errorf("the last one ran after %d ms, 84 were waiting", took)
	}
}

// A crowd that was cancelled leaves nothing behind.
func TestADisbandedCrowdLeavesNothing(t *testing.T) {
	t.Parallel()
	l := newLine(t, Patience{}, Policy{Name: "p", Rate: PerSecond(1), Max: 2})
	for _, k := range l.come(50, 1) {
		k.done, k.asleep = true, false
	}
	old := DisbandCrowd(l.items[0])
	l.come(1, 1)
	if old.Applies(l.items[0]) {
		t.Error("a crowd can be disbanded although somebody has joined it")
	}
	l.tasks[50].done, l.tasks[50].asleep = true, false
	l.items[0] = DisbandCrowd(l.items[0]).Apply(l.items[0])
	l.now += 1000
	if k := l.come(1, 1)[0]; !k.done {
		t.Error("a newcomer has to wait behind nobody")
	}
	if k := l.come(1, 1)[0]; k.wake != l.now+1000 || l.items[0].Waiting != 1 {
		t.Errorf("the next one sleeps for %d ms, %d wait", k.wake-l.now, l.items[0].Waiting)
	}
}

func TestPatienceLeavesConcurrencyToOthers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		policy Policy
		units  int64
		want   time.Duration
	}{
		{Policy{Name: "p", Rate: PerSecond(200)}, 1, 1250 * time.Millisecond},
		{Policy{Name: "p", Rate: PerSecond(200)}, 10, 12500 * time.Millisecond},
		{Policy{Name: "p", Rate: PerSecond(1)}, 1, 14 * time.Second},
		{Policy{Name: "p", Rate: PerDay(1000)}, 1, 14 * time.Second},
		{Policy{Name: "p", Window: Every(time.Second), Max: 500}, 1, 500 * time.Millisecond},
		{Policy{Name: "p", Manual: ByOperator, Max: 5}, 1, 14 * time.Second},
	} {
		l := newLine(t, Patience{}, tt.policy)
		l.items[0].Tiers[0].Units = tt.units
		if p := (Patience{Wait: 14 * time.Second}).Within(1000, l.items, l.at()); p.Wait != tt.want {
			t.Errorf("%v at a cost of %d: %v, want %v", tt.policy, tt.units, p.Wait, tt.want)
		}
	}
}

func TestLateSleepersAreTakenAlong(t *testing.T) {
	t.Parallel()
	l := newLine(t, Patience{Linger: 2 * time.Second}, Policy{Name: "p", Rate: PerSecond(1), Max: 1})
	l.come(5, 1)
	entries, _ := l.sleepers() // asked for 1, 2, 3 and 4 seconds later
	for _, tt := range []struct {
		after time.Duration
		luck  float64
		when  time.Duration
		ok    bool
	}{
		{time.Second, 0.1, 4 * time.Second, true},  // waits until the first is late
		{time.Second, 0.9, 4 * time.Second, false}, // others will
		{3500 * time.Millisecond, 0.9, 4 * time.Second, true},
		{6 * time.Second, 0.9, 6 * time.Second, true},
	} {
		at := l.at().Add(tt.after)
		when, ok := l.patience.TakeAlong(l.items[0], entries, tt.luck, at)
		if ok != tt.ok || ok && !when.Equal(l.at().Add(tt.when)) {
			t.Errorf("after %v with luck %v: %v %v, want %v %v", tt.after, tt.luck, when.Sub(l.at()), ok, tt.when, tt.ok)
		}
	}
	if _, ok := l.patience.TakeAlong(l.items[0], nil, 0, l.at()); ok {
		t.Error("somebody is taken along where nobody waits")
	}
	l.now += 6000
	l.patience.Wait = time.Minute
	for _, k := range l.tasks[1:] { // four come at once: one runs, three have a slot each
		l.step(k)
	}
	if _, ok := l.patience.TakeAlong(l.items[0], entries, 0, l.at()); ok {
		t.Error("somebody is taken along for whom there is no room soon")
	}
}

func TestACostThatCanNeverFitFails(t *testing.T) {
	t.Parallel()
	l := newLine(t, fewSeconds, Policy{Name: "p", Rate: PerSecond(1), Max: 5})
	l.come(1, 5)
	k := l.come(1, 4)[0]
	smaller := Policy{Name: "p", Group: "g", Rate: PerSecond(1), Max: 3}
	l.amend(0, func(e Entry) (Entry, error) {
		e, _, err := Register(&e, smaller, 2, "", l.at())
		return e, err
	})
	l.now += 4000
	if s := l.step(k); s.Action != ToFail || len(s.Blocked) != 1 || s.Blocked[0].Verdict != Never {
		t.Errorf("%+v, want it to fail", s)
	}
	if l.items[0].Waiting != 0 {
		t.Errorf("%d are thought to wait", l.items[0].Waiting)
	}
}

func TestAPausedPolicyIsLookedAtOnceADay(t *testing.T) {
	t.Parallel()
	l := newLine(t, fewSeconds, Policy{Name: "p", Rate: PerSecond(1), Max: 5})
	l.amend(0, func(e Entry) (Entry, error) { return e.SetOverride(Override{Max: new(int64(0))}, l.at()) })
	k := l.come(1, 1)[0]
	if k.wake-l.now != LookAgain.Milliseconds() {
		t.Errorf("it sleeps for %d ms", k.wake-l.now)
	}
	l.pass(l.now+LookAgain.Milliseconds()+1000, punctually)
	if k.wakes != 1 || !k.asleep || k.wake-l.now < LookAgain.Milliseconds()-2000 {
		t.Errorf("%+v at %d", k, l.now)
	}
	l.amend(0, func(e Entry) (Entry, error) { return e.ClearOverride("", l.at()), nil })
	if n := l.pull(time.Minute); n != 1 {
		t.Errorf("%d are woken", n)
	}
	l.pass(l.now+2000, punctually)
	if !k.done {
		t.Error("it sleeps on")
	}
}

func TestAnItemOutlivesItsPlaces(t *testing.T) {
	t.Parallel()
	l := newLine(t, Patience{}, Policy{Name: "p", Rate: PerDay(1), Max: 1})
	l.come(100, 1)
	s := l.items[0].Tiers[0]
	if expires, ok := s.Expiry(l.at()); !ok || expires.Before(l.at().Add(99*24*time.Hour)) {
		t.Errorf("it may be forgotten at %v (%v), in 99 days the last one runs", expires, ok)
	}
	s.Places = Places{}
	if expires, ok := s.Expiry(l.at()); !ok || expires.After(l.at().Add(40*24*time.Hour)) {
		t.Errorf("without places it may be forgotten only at %v (%v)", expires, ok)
	}
}
