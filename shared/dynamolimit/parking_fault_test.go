package dynamolimit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

// parkingFaults are what may happen to a request about a parked task.
var parkingFaults = map[string]cloud.Fault{
	"unreachable":          cloud.Unreachable,
	"lost answer":          cloud.LostAnswer,
	"repeated":             {Repeat: true},
	"repeated, lost":       {Repeat: true, After: true},
	"denied":               {Status: 400, Code: "AccessDeniedException"},
	"denied but done":      {Status: 400, Code: "AccessDeniedException", After: true},
	"throttled":            {Status: 400, Code: "ProvisionedThroughputExceededException"},
	"slow":                 {Delay: 3 * time.Second},
	"hangs until too late": {Delay: time.Hour},
}

// Whatever happens to whichever request: every task runs, no more run than the policy
// allows, and in the end nobody is counted as waiting.
func TestEveryRequestOfATurnMayFail(t *testing.T) {
	t.Parallel()
	for name, policies := range map[string][]limit.Policy{"one item": {perSecond}, "two items": {perSecond, perHour}} {
		for what, fault := range parkingFaults {
			t.Run(name+"/"+what, func(t *testing.T) {
				t.Parallel()
				step := 3
				if !thorough {
					step = 11
				}
				for n, requests := 1, 1; n <= requests; n += step {
					synctest.Test(t, func(t *testing.T) { requests = faulty(t, policies, fault, n) })
				}
			})
		}
	}
}

// faulty plays a small crowd, of which the nth request meets a fault, and returns how many
// requests there were.
func faulty(t *testing.T, policies []limit.Policy, fault cloud.Fault, n int) int {
	const tasks = 8
	c := newCloud(t, cloud.Options{})
	var tiers []limit.Tier
	for _, p := range policies {
		tiers = append(tiers, p.Key("k"))
	}
	setup := newLimiter(c, "setup", dynamolimit.WithPolicies(1, policies...))
	if _, err := setup.Policies(t.Context()); err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64
	c.SetFault(func(r *cloud.Request) cloud.Fault {
		if r.Client == "task" && requests.Add(1) == int64(n) {
			return fault
		}
		return cloud.Fault{}
	})
	var mu sync.Mutex
	var runs []time.Time
	var all sync.WaitGroup
	l := newLimiter(c, "task", dynamolimit.WithJitter(func() float64 { return 0.5 }))
	for i := range tasks {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 3))
			time.Sleep(time.Duration(i) * 10 * time.Millisecond)
			parkedLife(t, l, fmt.Sprint("t", i), tiers, r, func() {
				mu.Lock()
				defer mu.Unlock()
				runs = append(runs, time.Now().Truncate(time.Millisecond))
			})
		})
	}
	all.Wait()
	if len(runs) != tasks {
		t.Errorf("request %d: %d of %d tasks ran", n, len(runs), tasks)
	}
	for _, p := range policies {
		within(t, p, runs)
	}
	for range 12 { // until entries of nobody are given up
		time.Sleep(time.Minute)
		if _, err := setup.PullForward(t.Context(), patient, func(context.Context, string, time.Time) error { return nil }); err != nil {
			t.Error(err)
		}
	}
	if crowds, err := setup.Crowds(t.Context()); err != nil || len(crowds) > 0 {
		t.Errorf("request %d: left %v, %v", n, crowds, err)
	}
	if t.Failed() {
		t.FailNow()
	}
	return int(requests.Load())
}

// parkedLife is that of a task under a function that comes again after an error.
func parkedLife(t *testing.T, l *dynamolimit.Limiter, name string, tiers []limit.Tier, r *rand.Rand, run func()) {
	var held *limit.Place
	var turn *dynamolimit.Turn
	var err error
	for {
		switch {
		case turn != nil && turn.Action == limit.ToRun:
			run()
			return
		case turn != nil && turn.Action == limit.ToWait:
			time.Sleep(time.Until(turn.Until))
			turn, err = turn.Finish(t.Context())
		case held != nil:
			turn, err = wake(t.Context(), l, name, *held, tiers, patient)
		default:
			turn, err = l.Arrive(t.Context(), dynamolimit.Task{ID: name}, tiers, patient)
		}
		switch {
		case err != nil:
			if errors.As(err, new(*limit.Denied)) {
				t.Errorf("%s: %v", name, err)
				return
			}
			turn = nil
			time.Sleep(20 * time.Second) // deferred
		case turn.Action == limit.ToPark || turn.Action == limit.ToKeep:
			place := turn.Place
			held = &place
			time.Sleep(time.Until(turn.WakeAt) + time.Duration(r.Int64N(int64(20*time.Second))))
		}
	}
}
