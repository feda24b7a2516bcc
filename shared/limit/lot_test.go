package limit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// lot is a store of items with tasks that come, wait, sleep and run: all that can happen
// to parked tasks, in any order. Decisions are made on what somebody saw of the items,
// now or earlier, and take effect only if their plans apply to what is there.
type lot struct {
	t        reporter
	draw     *rapid.T // draws which view a decision is made on; nil for the latest
	patience Patience
	items    []Item
	entries  []Entry // of the tiers of the first item, in some tests
	seen     [][]Item
	now      int64
	tasks    []*parked
	runs     []*ran
	retries  int
}

type reporter interface {
	Helper()
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// parked is a task.
type parked struct {
	items  []int // of the lot
	units  [][]int64
	place  *Place
	wake   int64 // when its wake-up is due, if it sleeps
	slot   *Slot
	asleep bool
	done   bool
	turn   int64 // when it is woken or its slot's time comes, -1 if that is yet to be drawn
	wakes  int
	born   int
	ranAt  int64
}

// ran is an admission, as the oracle sees it.
type ran struct {
	item, tier int
	at, units  int64
	charge     Charge
	settled    bool
}

func (l *lot) at() time.Time { return time.UnixMilli(l.now) }

// view returns the items of a task as somebody saw them.
func (l *lot) view(k *parked, snapshot []Item) []Item {
	items := make([]Item, len(k.items))
	for i, n := range k.items {
		items[i] = snapshot[n]
		items[i].Tiers = slices.Clone(items[i].Tiers)
		for j := range items[i].Tiers {
			items[i].Tiers[j].Units = k.units[i][j]
		}
	}
	return items
}

func snapshot(items []Item) []Item {
	s := slices.Clone(items)
	for i := range s {
		s[i].Tiers = slices.Clone(s[i].Tiers)
	}
	return s
}

// carryOut carries plans out if all of them apply.
func (l *lot) carryOut(k *parked, plans []ItemPlan) bool {
	items := l.view(k, l.items)
	for i, p := range plans {
		if !p.Applies(items[i]) {
			return false
		}
	}
	l.seen = append(l.seen, snapshot(l.items))
	for i, p := range plans {
		l.items[k.items[i]] = p.Apply(items[i])
	}
	return true
}

// decide has a task take its next step, on a stale view of the items at first.
func (l *lot) decide(k *parked) Step {
	known := l.items
	// When a slot's time has come, the items are read anew.
	if n := len(l.seen); n > 0 && k.slot == nil && l.draw != nil && rapid.Bool().Draw(l.draw, "stale") {
		known = l.seen[rapid.IntRange(max(n-6, 0), n-1).Draw(l.draw, "seen")]
	}
	for {
		items := l.view(k, known)
		var step Step
		switch {
		case k.slot != nil:
			step = k.slot.Finish(items, k.place, l.patience, l.at())
		case k.place != nil:
			step = Wake(items, *k.place, l.patience, l.at())
		default:
			step = Arrive(items, l.patience, l.at())
		}
		if step.Action == ToRefresh {
			l.t.Fatalf("%+v is stale", items)
		}
		if l.carryOut(k, step.Plans) {
			return step
		}
		if &known[0] == &l.items[0] {
			l.t.Fatalf("to %s does not apply to the items that it was decided on, at %d: %s", step.Action, l.now, describe(step.Plans, items))
		}
		l.retries++
		known = l.items
	}
}

// describe lists what plans say, and what they are to be carried out on.
func describe(plans []ItemPlan, items []Item) string {
	var b strings.Builder
	for n, p := range plans {
		fmt.Fprintf(&b, "\n%s: %d wait, %s", items[n].Key, items[n].Waiting, p.Crowd)
		for k, t := range p.Tiers {
			s := items[n].Tiers[k]
			fmt.Fprintf(&b, "\n  %s %d units %+v %+v", t.Policy, s.Units, s.State, s.Places)
			if t.State.Branch != "" {
				fmt.Fprintf(&b, "\n    %+v", t.State)
			}
			if t.Places.Branch != "" {
				fmt.Fprintf(&b, "\n    %+v", t.Places)
			}
		}
	}
	return b.String()
}

// step has a task that is due do what comes next.
func (l *lot) step(k *parked) Step {
	before := k.slot
	s := l.decide(k)
	items := l.view(k, l.items)
	l.t.Logf("%d: task %d, to %s: %s", l.now, k.born, s.Action, describe(s.Plans, items))
	switch s.Action {
	case ToRun:
		k.ranAt = l.now
		slot := s.Slot(items)
		l.ran(k, before, s, slot)
		k.done, k.asleep, k.slot = true, false, nil
	case ToWait:
		slot := s.Slot(items)
		if slot.Until.UnixMilli() < l.now {
			l.t.Fatalf("a slot at %v, before %d", slot.Until, l.now)
		}
		k.slot, k.asleep = &slot, false
	case ToPark:
		p := s.Parked(items)
		k.place, k.slot, k.asleep, k.wake, k.turn = &p.Place, nil, true, p.WakeAt.UnixMilli(), -1
		if k.wake < l.now || p.Until.Before(p.WakeAt) {
			l.t.Fatalf("at %d parked %+v", l.now, p)
		}
	case ToKeep:
		k.slot, k.asleep, k.wake, k.turn = nil, true, s.WakeAt.UnixMilli(), -1
	case ToFail:
		k.done, k.asleep, k.slot = true, false, nil
	}
	return s
}

// ran notes an admission on every tier: what a slot was charged before counts at the time
// of the slot, what was charged just now counts now.
func (l *lot) ran(k *parked, before *Slot, s Step, slot Slot) {
	for i, n := range k.items {
		for j := range l.items[n].Tiers {
			if k.units[i][j] == 0 {
				continue
			}
			name, key := l.items[n].Tiers[j].Meter.policy.Name, l.items[n].Key
			c := slices.IndexFunc(slot.Charges, func(c Charge) bool { return c.Policy == name && c.Key == key })
			if c < 0 {
				l.t.Fatalf("no charge of %s among %+v", name, slot.Charges)
			}
			at := l.now
			if s.Plans[i].Tiers[j].State.Branch == "" {
				if before == nil {
					l.t.Fatalf("%s was never charged", name)
				}
				if until := before.Until.UnixMilli(); l.now-until <= 1000 {
					at = until
				}
			}
			charge := slot.Charges[c]
			l.runs = append(l.runs, &ran{item: n, tier: j, at: at, units: charge.Units, charge: charge})
		}
	}
}

// settle has a run turn out to have cost something else.
func (l *lot) settle(r *ran, actual int64) {
	s := &l.items[r.item].Tiers[r.tier]
	next, stale := s.Meter.Settle(s.State, r.charge, actual, l.at())
	if stale {
		l.t.Fatalf("stale")
	}
	l.seen = append(l.seen, snapshot(l.items))
	s.State = next
	l.t.Logf("%d: run of %d settled from %d to %d: %+v", l.now, r.at, r.units, actual, next)
	r.units = actual
	r.settled = true
}

// newLot draws one or two items of one to three tiers.
func newLot(t *rapid.T, kinds ...string) *lot {
	l := &lot{t: t, draw: t, now: rapid.Int64Range(0, 1<<41).Draw(t, "start")}
	l.patience = Patience{
		Wait: time.Duration(rapid.SampledFrom([]int{0, 2000, 5000, 14000}).Draw(t, "wait")) * time.Millisecond,
		Rest: time.Duration(rapid.SampledFrom([]int{0, 3000}).Draw(t, "rest")) * time.Millisecond,
	}
	for n := range rapid.IntRange(1, 2).Draw(t, "items") {
		item := Item{Group: "g", Key: string(rune('k' + n))}
		for k := range rapid.IntRange(1, 3).Draw(t, "tiers") {
			item.Tiers = append(item.Tiers, Standing{Meter: drawMeter(t, string(rune('a'+k)), kinds)})
		}
		l.items = append(l.items, item)
	}
	return l
}

func drawMeter(t *rapid.T, name string, kinds []string) *Meter {
	p := Policy{Name: name, Group: "g", Max: rapid.Int64Range(1, 8).Draw(t, "max")}
	period := time.Duration(rapid.SampledFrom([]int{1000, 3000, 60_000}).Draw(t, "period")) * time.Millisecond
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "bucket":
		p.Rate = Per(rapid.Int64Range(1, 5).Draw(t, "refill"), period)
	case "window":
		p.Window = Every(period)
	case "first_use":
		p.Window = FromFirstUse(period)
	case "manual":
		p.Manual = ByOperator
	}
	e, _, err := Register(nil, p, 1, "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return inForceMeter(t, e)
}

func inForceMeter(t interface{ Fatal(...any) }, e Entry) *Meter {
	m, err := NewMeter(e)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// arrive has a new task come.
func (l *lot) arrive() *parked {
	k := &parked{born: len(l.tasks)}
	for n := range l.items {
		if n > 0 && rapid.Bool().Draw(l.draw, "one item") {
			break
		}
		k.items = append(k.items, n)
		units := make([]int64, len(l.items[n].Tiers))
		for j := range units {
			most := l.items[n].Tiers[j].Meter.policy.Capacity()
			units[j] = rapid.SampledFrom([]int64{0, 1, 1, 1, 2, most}).Draw(l.draw, "units")
			units[j] = min(units[j], most)
		}
		k.units = append(k.units, units)
	}
	l.tasks = append(l.tasks, k)
	return k
}

// strict fails the test if any stretch of time saw more than its policy allows.
func (l *lot) strict() {
	for n := range l.items {
		for j := range l.items[n].Tiers {
			p := l.items[n].Tiers[j].Meter.policy
			var runs []*ran
			for _, r := range l.runs {
				if r.item == n && r.tier == j && r.units > 0 {
					runs = append(runs, r)
				}
			}
			slices.SortFunc(runs, func(a, b *ran) int { return int(a.at - b.at) })
			switch p.Kind() {
			case Bucket:
				strictBucket(l.t, p, runs)
			case FixedWindow:
				strictWindow(l.t, p, runs)
			default:
				strictManual(l.t, p, runs)
			}
		}
	}
}

func strictBucket(t reporter, p Policy, runs []*ran) {
	interval := p.Rate.Interval.Milliseconds()
	for i := range runs {
		var units int64
		for _, r := range runs[i:] {
			units += r.units
			if span := r.at - runs[i].at; units*interval > p.Capacity()*interval+p.Rate.Tokens*span {
				t.Fatalf("%s: %d units from %d to %d", p.Name, units, runs[i].at, r.at)
			}
		}
	}
}

// strictWindow counts by window, where it is known when windows begin. A window from first
// use may have been opened by a task that gave up: of those it is only checked that no
// stretch as long sees more than two windows allow.
func strictWindow(t reporter, p Policy, runs []*ran) {
	length := p.Window.period.Milliseconds()
	for i := range runs {
		end, most := runs[i].at+length, 2*p.Max
		if p.Window.kind == windowEvery {
			end, most = runs[i].at-runs[i].at%length+length, p.Max
		}
		var units int64
		for _, r := range runs[i:] {
			if r.at < end {
				units += r.units
			}
		}
		if units > most {
			t.Fatalf("%s: %d units from %d to %d", p.Name, units, runs[i].at, end)
		}
	}
}

func strictManual(t reporter, p Policy, runs []*ran) {
	var units int64
	for _, r := range runs {
		if units += r.units; units > p.Max {
			t.Fatalf("%s: %d units", p.Name, units)
		}
	}
}

// Whatever comes, wakes, waits, gives up and is settled in whatever order, on whatever
// view of the store: no stretch of time sees more than a policy allows.
func TestParkingIsStrict(t *testing.T) {
	t.Parallel()
	admitted, retried := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		l := newLot(t, "bucket", "bucket", "window", "first_use", "manual")
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			l.now += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 300), rapid.Int64Range(0, 5000), rapid.Int64Range(0, 70_000)).Draw(t, "pause")
			l.happen()
		}
		l.strict()
		admitted, retried = admitted+len(l.runs), retried+l.retries
	})
	t.Logf("figure parking_admissions made_again=%d = %d", retried, admitted)
}

// happen lets one thing happen.
func (l *lot) happen() {
	var waiting, asleep []*parked
	for _, k := range l.tasks {
		switch {
		case k.slot != nil:
			waiting = append(waiting, k)
		case k.asleep:
			asleep = append(asleep, k)
		}
	}
	verb := rapid.SampledFrom([]string{"arrive", "arrive", "wake", "wake", "start", "start", "start", "settle", "give up"}).Draw(l.draw, "verb")
	switch {
	case verb == "wake" && len(asleep) > 0:
		l.step(rapid.SampledFrom(asleep).Draw(l.draw, "sleeper"))
	case verb == "start" && len(waiting) > 0:
		k := rapid.SampledFrom(waiting).Draw(l.draw, "waiting")
		l.now = max(l.now, k.slot.Until.UnixMilli()+rapid.SampledFrom([]int64{0, 0, 0, 10, 999, 2500}).Draw(l.draw, "late"))
		l.step(k)
	case verb == "settle" && len(l.runs) > 0:
		r := rapid.SampledFrom(l.runs).Draw(l.draw, "run")
		if r.at <= l.now && !r.settled { // a reservation is closed once
			l.settle(r, rapid.Int64Range(0, r.units).Draw(l.draw, "actual"))
		}
	case verb == "give up" && len(waiting) > 0:
		k := rapid.SampledFrom(waiting).Draw(l.draw, "waiting")
		plans := k.slot.GiveUp(l.view(k, l.items), l.at())
		if !l.carryOut(k, plans) {
			l.t.Fatalf("can't give up")
		}
		l.t.Logf("%d: task %d gives up: %s", l.now, k.born, describe(plans, l.view(k, l.items)))
		k.slot, k.done = nil, true
	default:
		l.step(l.arrive())
	}
}
