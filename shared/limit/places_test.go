package limit

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// newLine returns a lot of one item with the policies, at a round time.
func newLine(t reporter, p Patience, policies ...Policy) *lot {
	l := &lot{t: t, now: 1_700_000_000_000, patience: p, items: []Item{{Group: "g", Key: "k"}}}
	for _, policy := range policies {
		policy.Group = "g"
		e, _, err := Register(nil, policy, 1, "", time.Time{})
		if err != nil {
			t.Fatalf("%v", err)
		}
		m, err := NewMeter(e)
		if err != nil {
			t.Fatalf("%v", err)
		}
		l.items[0].Tiers = append(l.items[0].Tiers, Standing{Meter: m})
		l.entries = append(l.entries, e)
	}
	return l
}

// come has tasks of the costs come at once.
func (l *lot) come(n int, units ...int64) []*parked {
	for range n {
		k := &parked{born: len(l.tasks), items: []int{0}, units: [][]int64{units}}
		l.tasks = append(l.tasks, k)
		l.step(k)
	}
	return l.tasks[len(l.tasks)-n:]
}

// pass lets time pass until nobody is left or a time has come, waking sleepers late by what
// late says.
func (l *lot) pass(until int64, late func() int64) {
	for {
		var next *parked
		for _, k := range l.tasks {
			if k.done {
				continue
			}
			if k.slot != nil {
				k.turn = k.slot.Until.UnixMilli()
			} else if k.turn < 0 {
				k.turn = (k.wake+999)/1000*1000 + late()
			}
			if next == nil || k.turn < next.turn {
				next = k
			}
		}
		if next == nil || next.turn > until {
			l.now = max(l.now, until)
			return
		}
		l.now = max(l.now, next.turn)
		if next.slot == nil {
			next.wakes++
		}
		l.step(next)
	}
}

func punctually() int64 { return 0 }

const forever = 1 << 50

func (l *lot) waits() (n int) {
	for _, k := range l.tasks {
		if !k.done {
			n++
		}
	}
	return n
}

var fewSeconds = Patience{Wait: 5 * time.Second}

// Nobody is forgotten, whatever they cost and however late they are woken, and nobody is
// woken again and again.
func TestNoSleeperIsLost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newLot(t, "bucket", "window", "first_use")
		for range rapid.IntRange(1, 40).Draw(t, "tasks") {
			l.step(l.arrive())
			l.now += rapid.Int64Range(0, 100).Draw(t, "pause")
		}
		l.pass(forever, func() int64 { return rapid.Int64Range(0, 60_000).Draw(t, "late") })
		l.strict()
		if n := l.waits(); n > 0 {
			t.Fatalf("%d tasks wait for ever", n)
		}
		for _, k := range l.tasks {
			if k.wakes > 40 {
				t.Fatalf("task %d was woken %d times", k.born, k.wakes)
			}
		}
		for _, i := range l.items {
			if i.Waiting != 0 {
				t.Fatalf("%d are thought to wait for %s", i.Waiting, i.Key)
			}
		}
	})
}

// Woken in time, tasks run in the order in which they came, each woken once.
func TestFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newLot(t, "bucket", "window", "first_use")
		l.draw, l.items, l.patience = nil, l.items[:1], Patience{Wait: 20 * time.Second}
		l.items[0].Tiers = l.items[0].Tiers[:1]
		for range rapid.IntRange(1, 40).Draw(t, "tasks") {
			l.come(1, 1)
		}
		l.pass(forever, punctually)
		var last int64
		for _, k := range l.tasks {
			if k.ranAt < last {
				t.Fatalf("task %d ran at %d, one before it at %d", k.born, k.ranAt, last)
			}
			if last = k.ranAt; k.wakes > 1 {
				t.Fatalf("task %d was woken %d times", k.born, k.wakes)
			}
		}
	})
}

func TestACrowdIsSpreadOverItsTime(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		policy Policy
		last   time.Duration // when the 50th task runs
	}{
		{"bucket", Policy{Name: "p", Rate: PerSecond(2), Max: 10}, 20 * time.Second},
		{"window", Policy{Name: "p", Window: Every(10 * time.Second), Max: 10}, 40 * time.Second},
		{"first use", Policy{Name: "p", Window: FromFirstUse(10 * time.Second), Max: 10}, 40 * time.Second},
	} {
		l := newLine(t, fewSeconds, tt.policy)
		began := l.now
		tasks := l.come(50, 1)
		l.pass(forever, punctually)
		if ran := tasks[49].ranAt - began; ran != tt.last.Milliseconds() {
			t.Errorf("%s: the last task ran after %d ms, want %v", tt.name, ran, tt.last)
		}
		for _, k := range tasks {
			if k.wakes > 1 {
				t.Errorf("%s: task %d was woken %d times", tt.name, k.born, k.wakes)
			}
		}
	}
}

// What a window gives at once, a slower tier lets pass one after the other, and nobody is
// woken before his turn.
func TestAWindowsCrowdIsSpreadByTheOtherTier(t *testing.T) {
	t.Parallel()
	l := newLine(t, Patience{}, Policy{Name: "day", Window: Every(10 * time.Minute), Max: 100}, Policy{Name: "second", Rate: PerSecond(1), Max: 5})
	began := l.now
	tasks := l.come(300, 1, 1)
	l.pass(forever, punctually)
	l.strict()
	next := began - began%600_000 + 600_000 // window
	for i, k := range tasks {
		want := began + max(int64(i)-4, 0)*1000
		if n := int64(i) / 100; n > 0 {
			want = next + (n-1)*600_000 + max(int64(i)%100-4, 0)*1000
		}
		if k.ranAt != want || k.wakes > 1 {
			t.Fatalf("task %d ran at %d after %d wake-ups, want %d", i, k.ranAt-began, k.wakes, want-began)
		}
	}
}

func TestNewcomersPassOnlyThoseWhoAreLate(t *testing.T) {
	t.Parallel()
	l := newLine(t, Patience{}, Policy{Name: "p", Rate: PerSecond(1), Max: 2})
	l.come(3, 1) // two run, one takes the place due after a second
	l.now += 500
	if early := l.come(1, 1)[0]; early.done {
		t.Error("a newcomer ran while the one before it was yet to come")
	}
	l.now += 2500 // both are due, and late
	if late := l.come(1, 1)[0]; !late.done {
		t.Error("a newcomer had to wait although those before it are late and there is room")
	}
}

func TestASmallTaskDoesNotPassALargeOne(t *testing.T) {
	t.Parallel()
	l := newLine(t, Patience{}, Policy{Name: "p", Rate: PerSecond(1), Max: 5})
	l.come(1, 5)
	large := l.come(1, 5)[0]
	l.now += 3000 // there is room for three, who would take it away
	if small := l.come(1, 1)[0]; small.done || small.place.Ticket < large.place.Ticket {
		t.Errorf("%+v, want it to wait behind the other", small)
	}
}

func TestASlotIsHeldUntilItsTime(t *testing.T) {
	t.Parallel()
	l := newLine(t, fewSeconds, Policy{Name: "p", Rate: PerSecond(1), Max: 1})
	tasks := l.come(4, 1)
	woken := tasks[2]
	l.step(woken) // two seconds early: the first slot is free, whoever it was meant for
	if woken.slot == nil || woken.slot.Until.UnixMilli() != l.now+1000 {
		t.Fatalf("slot %+v at %d, want one in a second", woken.slot, l.now)
	}
	l.now += 1000
	if other := l.come(1, 1)[0]; other.done {
		t.Error("a newcomer took the slot")
	}
	if s := l.step(woken); s.Action != ToRun || len(s.Plans[0].Tiers[0].State.Branch) > 0 {
		t.Errorf("%+v, want to run without another charge", s)
	}
}

func TestATaskThatFindsTooManyGoesToTheEnd(t *testing.T) {
	t.Parallel()
	l := newLine(t, fewSeconds, Policy{Name: "p", Rate: PerSecond(1), Max: 1})
	tasks := l.come(12, 1)
	l.now += 11_000 // nobody was woken so far; now all are, at once
	for _, k := range tasks[1:] {
		l.step(k)
	}
	waiting := 0
	for _, k := range tasks[1:7] {
		if k.done || k.slot != nil {
			waiting++
		}
	}
	if waiting != 6 { // one at once, five within the patience
		t.Errorf("%d of the first six run or wait", waiting)
	}
	for i, k := range tasks[7:] {
		if !k.asleep || k.place.Ticket != int64(12+i) {
			t.Errorf("%+v, want it asleep with the ticket %d", k, 12+i)
		}
	}
	l.pass(forever, punctually)
	l.strict()
}

func TestHoldsStopSleepersAndTheirSlots(t *testing.T) {
	t.Parallel()
	l := newLine(t, fewSeconds, Policy{Name: "p", Rate: PerSecond(1), Max: 1})
	tasks := l.come(20, 1)
	l.pass(l.now+5500, punctually)
	until := l.now + 60_000
	l.operate(0, func(s State) State { return s.HoldUntil(time.UnixMilli(until)) })
	ran := len(l.runs)
	l.pass(until-1, punctually)
	if len(l.runs) != ran {
		t.Errorf("%d tasks ran during the hold", len(l.runs)-ran)
	}
	l.pass(forever, punctually)
	l.strict()
	var last int64
	for _, k := range tasks {
		if k.wakes > 3 {
			t.Errorf("task %d was woken %d times", k.born, k.wakes)
		}
		if last = max(last, k.ranAt); k.ranAt == 0 {
			t.Errorf("task %d never ran", k.born)
		}
	}
	// Six ran before and at most as many lost their slots; the others follow one by one.
	if after := last - until; after > 20_000 {
		t.Errorf("the last one ran %d ms after the hold", after)
	}
}

func TestNobodyWaitsAfterAllHaveRun(t *testing.T) {
	t.Parallel()
	l := newLine(t, fewSeconds, Policy{Name: "p", Rate: PerSecond(1), Max: 1}, Policy{Name: "q", Rate: PerMinute(30), Max: 30})
	l.come(90, 1, 1)
	l.pass(forever, func() int64 { return 700 })
	if w := l.items[0].Waiting; w != 0 {
		t.Errorf("%d are thought to wait", w)
	}
	l.strict()
}

// operate has an operator change the State of a tier. Places are left as they are.
func (l *lot) operate(tier int, change func(State) State) {
	s := &l.items[0].Tiers[tier]
	s.State = change(s.State)
}

// amend changes the policy of a tier.
func (l *lot) amend(tier int, change func(Entry) (Entry, error)) {
	l.t.Helper()
	e, err := change(l.entries[tier])
	if err != nil {
		l.t.Fatalf("%v", err)
	}
	m, err := NewMeter(e)
	if err != nil {
		l.t.Fatalf("%v", err)
	}
	l.entries[tier], l.items[0].Tiers[tier].Meter = e, m
}

// sleepers are the entries of the index.
func (l *lot) sleepers() (entries []Sleeper, tasks []*parked) {
	for _, k := range l.tasks {
		if k.asleep {
			tasks = append(tasks, k)
		}
	}
	slices.SortFunc(tasks, func(a, b *parked) int { return int(a.place.Ticket - b.place.Ticket) })
	for _, k := range tasks {
		entries = append(entries, Sleeper{Place: *k.place, Units: k.units[0], Asked: time.UnixMilli(k.wake)})
	}
	return entries, tasks
}

// pull wakes earlier whom [PullForward] says, and returns how many.
func (l *lot) pull(slack time.Duration) int {
	entries, tasks := l.sleepers()
	pulls := PullForward(l.items[0], slices.Values(entries), l.patience, slack, l.at())
	for _, p := range pulls {
		tasks[p.Index].wake, tasks[p.Index].turn = p.WakeAt.UnixMilli(), -1
	}
	return len(pulls)
}

func TestAsManyAreWokenAsCanRun(t *testing.T) {
	t.Parallel()
	bucket := Policy{Name: "p", Rate: PerMinute(1), Max: 10}
	credit := Policy{Name: "p", Manual: ByOperator, Max: 10}
	for _, tt := range []struct {
		name   string
		policy Policy
		change func(l *lot)
		want   int
	}{
		{"nothing", bucket, func(*lot) {}, 0},
		{"grant", bucket, func(l *lot) { l.grant(4) }, 5}, // and one that refills meanwhile
		{"grant of credit", credit, func(l *lot) { l.grant(4) }, 4},
		{"reset", bucket, func(l *lot) {
			l.amend(0, func(e Entry) (Entry, error) { return e.Reset("", l.at()), nil })
		}, 11},
		{"reset of credit", credit, func(l *lot) {
			l.amend(0, func(e Entry) (Entry, error) { return e.Reset("", l.at()), nil })
		}, 10},
		{"raised rate", bucket, func(l *lot) {
			l.amend(0, func(e Entry) (Entry, error) { return e.SetOverride(Override{Refill: new(int64(20))}, l.at()) })
		}, 20},
		{"paused", bucket, func(l *lot) {
			l.amend(0, func(e Entry) (Entry, error) { return e.SetOverride(Override{Max: new(int64(0))}, l.at()) })
		}, 0},
	} {
		l := newLine(t, fewSeconds, tt.policy)
		l.come(50, 1)
		l.now += 100
		tt.change(l)
		if n := l.pull(5 * time.Second); n != tt.want {
			t.Errorf("%s: %d are woken, want %d", tt.name, n, tt.want)
		}
		if n := l.pull(5 * time.Second); n != 0 {
			t.Errorf("%s: %d are woken a second time", tt.name, n)
		}
		ran := len(l.runs)
		l.pass(l.now+60_000, punctually)
		if n := len(l.runs) - ran; n < tt.want-1 || n > tt.want+1 {
			t.Errorf("%s: %d ran within a minute, %d were woken", tt.name, n, tt.want)
		}
	}
}

func (l *lot) grant(n int64) {
	l.operate(0, func(s State) State {
		next, _ := l.items[0].Tiers[0].Meter.Grant(s, n, l.at())
		return next
	})
}

func TestHolesCloseUp(t *testing.T) {
	t.Parallel()
	l := newLine(t, fewSeconds, Policy{Name: "p", Rate: PerSecond(1), Max: 1})
	tasks := l.come(300, 1)
	for _, k := range tasks[10:280] { // cancelled
		k.done, k.asleep = true, false
	}
	began := l.now
	for range 5 {
		l.pull(time.Minute)
		l.pass(l.now+60_000, punctually)
	}
	if last := tasks[299].ranAt - began; last == 0 || last > 120_000 {
		t.Errorf("the last of 30 ran after %d ms", last)
	}
}

func TestTheDeadAreAskedForAgain(t *testing.T) {
	t.Parallel()
	l := newLine(t, fewSeconds, Policy{Name: "p", Rate: PerSecond(1), Max: 1})
	dead := l.come(2, 1)[1]
	dead.turn = forever // its wake-up is lost
	l.pass(l.now+119_000, punctually)
	if n := l.pull(time.Minute); n != 0 {
		t.Errorf("%d are woken again before two minutes", n)
	}
	l.pass(l.now+10_000, punctually)
	if n := l.pull(time.Minute); n != 1 {
		t.Errorf("%d are woken again, want the one", n)
	}
	l.pass(forever-1, punctually)
	if !dead.done {
		t.Error("it is still asleep")
	}
}
