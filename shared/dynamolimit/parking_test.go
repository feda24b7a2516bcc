package dynamolimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

var (
	perSecond = limit.Policy{Name: "second", Group: "vendor", Rate: limit.PerSecond(1), Burst: 1}
	perMinute = limit.Policy{Name: "minute", Group: "vendor", Rate: limit.Per(30, time.Minute)}
	perHour   = limit.Policy{Name: "hour", Window: limit.Every(time.Hour), Max: 20}

	patient = limit.Patience{Wait: 14 * time.Second, Rest: 2 * time.Second}
)

// wake has a task taken out of the index and woken.
func wake(ctx context.Context, l *dynamolimit.Limiter, task string, p limit.Place, tiers []limit.Tier, patience limit.Patience) (*dynamolimit.Turn, error) {
	s, err := l.Take(ctx, dynamolimit.Task{ID: task}, p)
	if err != nil {
		return nil, err
	}
	return s.Wake(ctx, tiers, patience)
}

// parked is a task in the model.
type parked struct {
	name  string
	place limit.Place
	slot  limit.Slot
	turn  *dynamolimit.Turn
	held  *limit.Place
}

// A parkModel is the pure decisions on items in memory.
type parkModel struct {
	t     *testing.T
	items []limit.Item
}

func newParkModel(t *testing.T, policies ...limit.Policy) *parkModel {
	m := &parkModel{t: t}
	for _, p := range policies {
		e, _, err := limit.Register(nil, p, 1, "", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		meter, err := limit.NewMeter(e)
		if err != nil {
			t.Fatal(err)
		}
		group := meter.Policy().Group
		i := slices.IndexFunc(m.items, func(i limit.Item) bool { return i.Group == group })
		if i < 0 {
			i = len(m.items)
			m.items = append(m.items, limit.Item{Group: group, Key: "k"})
		}
		m.items[i].Tiers = append(m.items[i].Tiers, limit.Standing{Meter: meter, Units: 1})
	}
	return m
}

func (m *parkModel) apply(plans []limit.ItemPlan) {
	for n, p := range plans {
		if !p.Applies(m.items[n]) {
			m.t.Fatalf("%+v does not apply to %+v", p, m.items[n])
		}
		m.items[n] = p.Apply(m.items[n])
	}
}

// check compares a turn with a step of the model, which it carries out.
func (m *parkModel) check(task *parked, what string, step limit.Step, turn *dynamolimit.Turn, err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatalf("%s of %s: %v", what, task.name, err)
	}
	m.apply(step.Plans)
	want := dynamolimit.Turn{Action: step.Action, Blocked: step.Blocked}
	switch step.Action {
	case limit.ToWait, limit.ToRun:
		task.slot = step.Slot(m.items)
		if step.Action == limit.ToWait {
			// What is in the way is as it was supposed to be, not as it was found.
			want.Until, want.Blocked = task.slot.Until, turn.Blocked
		}
	case limit.ToPark:
		p := step.Parked(m.items)
		want.Place, want.Until, want.WakeAt, want.Never = p.Place, p.Until, p.WakeAt, p.Never
	case limit.ToKeep:
		want.Place, want.Until, want.WakeAt, want.Never = *task.held, step.Until, step.WakeAt, step.Never
	}
	got := dynamolimit.Turn{Action: turn.Action, Blocked: turn.Blocked, Until: turn.Until, Place: turn.Place, WakeAt: turn.WakeAt, Never: turn.Never}
	if !reflect.DeepEqual(got, want) { //nolint:govet // turns hold no errors
		m.t.Fatalf("%s of %s:\n got %+v\nwant %+v", what, task.name, got, want)
	}
	if step.Action == limit.ToRun && len(m.items) == 1 {
		if charges := turn.Reservation.Receipt().Charges; !reflect.DeepEqual(charges, task.slot.Charges) {
			m.t.Fatalf("%s of %s is charged %+v, want %+v", what, task.name, charges, task.slot.Charges)
		}
	}
	task.turn, task.place = turn, want.Place
}

// The table decides as the pure functions do, whichever of several limiters is asked.
func TestTurnsAgreeWithThePureDecisions(t *testing.T) {
	t.Parallel()
	for name, policies := range map[string][]limit.Policy{
		"one tier": {perSecond}, "two tiers": {perSecond, perMinute}, "a window": {perHour},
		"two items": {perSecond, perHour}, "all": {perSecond, perMinute, perHour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(3) {
				synctest.Test(t, func(t *testing.T) { playTurns(t, seed, policies) })
			}
		})
	}
}

func playTurns(t *testing.T, seed uint64, policies []limit.Policy) {
	ctx := context.Background()
	c := newCloud(t, cloud.Options{})
	r := rand.New(rand.NewPCG(seed, 1))
	limiters := make([]*dynamolimit.Limiter, 2)
	for i := range limiters {
		limiters[i] = newLimiter(c, fmt.Sprint("caller", i), dynamolimit.WithPolicies(1, policies...))
	}
	model := newParkModel(t, policies...)
	var tiers []limit.Tier
	for _, p := range policies {
		tiers = append(tiers, p.Key("k"))
	}
	var asleep, waits []*parked
	for n := range 100 {
		if r.IntN(3) == 0 {
			time.Sleep(time.Duration(r.IntN(4000)) * time.Millisecond)
		}
		l := limiters[r.IntN(len(limiters))]
		var task *parked
		switch what := r.IntN(10); {
		case what < 4:
			task = &parked{name: fmt.Sprint("t", n)}
			turn, err := l.Arrive(ctx, dynamolimit.Task{ID: task.name}, tiers, patient)
			model.check(task, "arrival", limit.Arrive(model.items, patient, time.Now()), turn, err)
		case what < 7 && len(asleep) > 0:
			i := r.IntN(min(len(asleep), 3))
			task = asleep[i]
			asleep = slices.Delete(asleep, i, i+1)
			place := task.place
			task.held = &place
			turn, err := wake(ctx, l, task.name, place, tiers, patient)
			model.check(task, "wake-up", limit.Wake(model.items, place, patient, time.Now()), turn, err)
		case what < 9 && len(waits) > 0:
			task = waits[0]
			waits = waits[1:]
			time.Sleep(time.Until(task.turn.Until))
			turn, err := task.turn.Finish(ctx)
			model.check(task, "finish", task.slot.Finish(model.items, task.held, patient, time.Now()), turn, err)
		case len(waits) > 0:
			task = waits[len(waits)-1]
			waits = waits[:len(waits)-1]
			if err := task.turn.GiveUp(ctx); err != nil {
				t.Fatal(err)
			}
			model.apply(task.slot.GiveUp(model.items, time.Now()))
			continue
		default:
			continue
		}
		switch task.turn.Action {
		case limit.ToWait:
			waits = append(waits, task)
		case limit.ToPark, limit.ToKeep:
			asleep = append(asleep, task)
		}
	}
	crowds, err := limiters[0].Crowds(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range model.items {
		n := slices.IndexFunc(crowds, func(c dynamolimit.Crowd) bool { return c.Group == i.Group })
		var got int64
		if n >= 0 {
			got = crowds[n].Waiting
		}
		if got != max(i.Waiting, 0) {
			t.Errorf("%d wait on %s, want %d", got, i.Group, i.Waiting)
		}
	}
}

// Hundreds of callers that arrive, wake up and wait at the same time never run more than
// the policies allow, and all run in the end.
func TestManyCallersAtOnceStayWithinThePolicies(t *testing.T) {
	t.Parallel()
	for name, policies := range map[string][]limit.Policy{"one tier": {perSecond}, "two tiers": {perSecond, perMinute}, "two items": {perSecond, perHour}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { crowd(t, policies) })
		})
	}
}

func crowd(t *testing.T, policies []limit.Policy) {
	const tasks = 30
	c := newCloud(t, cloud.Options{})
	var tiers []limit.Tier
	for _, p := range policies {
		tiers = append(tiers, p.Key("k"))
	}
	var mu sync.Mutex
	var runs []time.Time
	wakes := 0
	var all sync.WaitGroup
	for n := range tasks {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 2))
			name := fmt.Sprint("t", n)
			l := newLimiter(c, name, dynamolimit.WithPolicies(1, policies...), dynamolimit.WithJitter(r.Float64), dynamolimit.WithDeadline(time.Minute))
			time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond)
			turn, err := l.Arrive(t.Context(), dynamolimit.Task{ID: name}, tiers, patient)
			for {
				if err != nil {
					t.Error(err)
					return
				}
				switch turn.Action {
				case limit.ToRun:
					mu.Lock()
					runs = append(runs, time.Now().Truncate(time.Millisecond)) // as the limiter counts
					mu.Unlock()
					return
				case limit.ToWait:
					time.Sleep(time.Until(turn.Until))
					turn, err = turn.Finish(t.Context())
				default:
					time.Sleep(time.Until(turn.WakeAt) + time.Duration(r.Int64N(int64(time.Minute))))
					mu.Lock()
					wakes++
					mu.Unlock()
					turn, err = wake(t.Context(), l, name, turn.Place, tiers, patient)
				}
			}
		})
	}
	all.Wait()
	if len(runs) != tasks {
		t.Errorf("%d of %d tasks ran", len(runs), tasks)
	}
	for _, p := range policies {
		within(t, p, runs)
	}
	if len(runs) > 0 {
		t.Logf("%d tasks, %d wake-ups, %v", tasks, wakes, runs[len(runs)-1].Sub(runs[0]))
	}
	if crowds, err := newLimiter(c, "end").Crowds(t.Context()); err != nil || len(crowds) > 0 {
		t.Errorf("left: %v, %v", crowds, err)
	}
}

// within checks runs of cost 1 against a policy, over every stretch of time.
func within(t *testing.T, p limit.Policy, runs []time.Time) {
	t.Helper()
	slices.SortFunc(runs, time.Time.Compare)
	for i := range runs {
		for j := i; j < len(runs); j++ {
			d := runs[j].Sub(runs[i])
			most := p.Max
			if p.Name == perHour.Name {
				if !runs[i].Truncate(time.Hour).Equal(runs[j].Truncate(time.Hour)) {
					continue
				}
			} else {
				most = p.Capacity() + int64(d.Seconds()*refill(p)+1e-6)
			}
			if int64(j-i+1) > most {
				t.Errorf("%s: %d runs within %v, want at most %d", p.Name, j-i+1, d, most)
				return
			}
		}
	}
}

func refill(p limit.Policy) float64 {
	if p.Name == perMinute.Name {
		return 0.5
	}
	return 1
}

// Who leaves is counted out once.
func TestLeavingCountsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, cloud.Options{})
		l := newLimiter(c, "caller", dynamolimit.WithPolicies(1, perSecond))
		var last *dynamolimit.Turn
		for n := range 6 {
			turn, err := l.Arrive(t.Context(), dynamolimit.Task{ID: fmt.Sprint("t", n)}, []limit.Tier{perSecond.Key("k")}, limit.Patience{})
			if err != nil {
				t.Fatal(err)
			}
			last = turn
		}
		waiting := func() int64 {
			crowds, err := l.Crowds(t.Context())
			if err != nil || len(crowds) != 1 || crowds[0].Group != "vendor" || crowds[0].Key != "k" {
				t.Fatalf("%v, %v", crowds, err)
			}
			return crowds[0].Waiting
		}
		if n := waiting(); n != 4 {
			t.Errorf("%d wait, want 4", n)
		}
		for range 2 {
			if err := l.Leave(t.Context(), "t5", last.Place); err != nil {
				t.Fatal(err)
			}
		}
		if n := waiting(); n != 3 {
			t.Errorf("%d wait, want 3", n)
		}
	})
}
