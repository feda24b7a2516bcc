package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/sluicetest"
	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/worker"
)

type prompt struct {
	Org   string
	Cost  int64
	Panic bool
}

func (p prompt) org() string {
	if p.Panic {
		panic("no org")
	}
	return p.Org
}

func (p prompt) cost() int64 { return p.Cost }

var perOrg = limit.Policy{Name: "per-org", Rate: limit.Per(10, time.Minute), Max: 10}

// limited tests tasks of type "llm" that perOrg limits by organization, at
// their cost.
func limited(t *testing.T, handle func(context.Context, prompt) (any, error), test func(*testing.T, *sluicetest.Stack, *limit.Memory), opts ...sluicetest.Option) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mux := worker.NewMux()
		worker.Handle(mux, "llm", handle, worker.WithLimits(limit.By(perOrg, prompt.org).Cost(prompt.cost)))
		memory, err := limit.NewMemory(perOrg)
		if err != nil {
			t.Fatal(err)
		}
		withLimiter := sluicetest.Engine(func(c *worker.Config) { c.Limiter = memory })
		s := sluicetest.Start(t, mux, append([]sluicetest.Option{withLimiter}, opts...)...)
		test(t, s, memory)
		assertNothingLeft(t, s)
	})
}

func fine(context.Context, prompt) (any, error) { return "fine", nil }

// left is what acme has left.
func left(t *testing.T, m *limit.Memory) int64 {
	t.Helper()
	r, err := m.Inspect(t.Context(), perOrg.Key("acme"))
	if err != nil {
		t.Fatal(err)
	}
	return r.Available
}

func TestALimitedTaskRunsWhenAdmittedAndPays(t *testing.T) {
	limited(t, fine, func(t *testing.T, s *sluicetest.Stack, m *limit.Memory) {
		id := s.Submit("llm", prompt{Org: "acme", Cost: 7}).ID
		synctest.Wait()
		if got := s.Get(id); got.Status != task.Completed || got.ThrottleCount != 0 {
			t.Errorf("task = %s", got.Encode())
		}
		if got := left(t, m); got != 3 {
			t.Errorf("%d left, want 3", got)
		}
	})
}

func TestAThrottledTaskSleepsAndSpendsNothing(t *testing.T) {
	limited(t, fine, func(t *testing.T, s *sluicetest.Stack, _ *limit.Memory) {
		first := s.Submit("llm", prompt{Org: "acme", Cost: 10}).ID
		synctest.Wait()
		second := s.Submit("llm", prompt{Org: "acme", Cost: 10}).ID
		other := s.Submit("llm", prompt{Org: "other", Cost: 10}).ID
		synctest.Wait()
		got := s.Get(second)
		if got.Status != task.Pending || got.ThrottleCount != 1 || got.Attempt != 0 || got.RetryCount != 0 || got.RescheduleCount != 0 ||
			got.Throttled == nil || got.Throttled.Policy != "per-org" || got.Throttled.Key != "acme" || got.Throttled.Until.Sub(got.UpdatedAt) != time.Minute {
			t.Errorf("throttled task = %s", got.Encode())
		}
		if history := s.History(second); !strings.Contains(history[1], `pending (throttled by per-org "acme", available_at: +60s, count: 1)`) {
			t.Errorf("history = %v", history)
		}
		for _, id := range []string{first, other} {
			if got := s.Get(id); got.Status != task.Completed {
				t.Errorf("task = %s", got.Encode())
			}
		}
		if got := s.Wait(second); got.Status != task.Completed || got.Attempt != 1 || got.Throttled != nil {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func TestACostThatCanNeverBeAdmittedFailsSayingSo(t *testing.T) {
	limited(t, fine, func(t *testing.T, s *sluicetest.Stack, _ *limit.Memory) {
		got := s.Wait(s.Submit("llm", prompt{Org: "acme", Cost: 11}).ID)
		if got.Status != task.Failed || got.Attempt != 0 || !strings.Contains(got.LastError, "can never be admitted") {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func TestAnUnknownPolicyFailsSayingSoAndCanBeReplayed(t *testing.T) {
	limited(t, fine, func(t *testing.T, s *sluicetest.Stack, m *limit.Memory) {
		id := s.Submit("llm", prompt{Org: "acme"}, queue.Limit("daily", "acme", 1)).ID
		if got := s.Wait(id); got.Status != task.Failed || !strings.Contains(got.LastError, `unknown policy "daily"`) {
			t.Errorf("task = %s", got.Encode())
		}
		if err := m.Declare(1, limit.Policy{Name: "daily", Max: 1, Window: limit.Days("UTC")}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Queue.Replay(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if got := s.Wait(id); got.Status != task.Completed {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func TestASelectorThatPanicsIsAFailedAttempt(t *testing.T) {
	limited(t, fine, func(t *testing.T, s *sluicetest.Stack, _ *limit.Memory) {
		got := s.Wait(s.Submit("llm", prompt{Panic: true}, queue.MaxRetries(1)).ID)
		if got.Status != task.Failed || got.Attempt != 2 || !strings.Contains(got.LastError, "panic in the limits' selector: no org") {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func TestAnInputThatDoesNotFitFailsAtOnceWithLimitsToo(t *testing.T) {
	limited(t, fine, func(t *testing.T, s *sluicetest.Stack, _ *limit.Memory) {
		got := s.Wait(s.Submit("llm", []int{1}).ID)
		if got.Status != task.Failed || got.Attempt != 1 || !strings.Contains(got.LastError, "the input does not fit the handler of llm") {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func TestRetriesAndRerunsPayAgain(t *testing.T) {
	var runs atomic.Int64
	handle := func(context.Context, prompt) (any, error) {
		switch runs.Add(1) {
		case 1:
			return nil, errors.New("boom")
		case 2:
			return nil, worker.Reschedule(time.Second)
		}
		return "fine", nil
	}
	limited(t, handle, func(t *testing.T, s *sluicetest.Stack, m *limit.Memory) {
		id := s.Submit("llm", prompt{Org: "acme", Cost: 3}).ID
		time.Sleep(5 * time.Second)
		if got := s.Get(id); got.Status != task.Completed {
			t.Errorf("task = %s", got.Encode())
		}
		if got := left(t, m); got != 1 {
			t.Errorf("%d left, want 1 after three runs of 3", got)
		}
	})
}

func TestSettleGivesBackWhatWasNotUsed(t *testing.T) {
	handle := func(ctx context.Context, _ prompt) (any, error) {
		worker.Settle(ctx, perOrg, 2)
		return "fine", nil
	}
	limited(t, handle, func(t *testing.T, s *sluicetest.Stack, m *limit.Memory) {
		s.Submit("llm", prompt{Org: "acme", Cost: 9})
		synctest.Wait()
		if got := left(t, m); got != 8 {
			t.Errorf("%d left, want 8", got)
		}
	})
}

func TestHoldKeyKeepsEveryTaskOfTheKeyFromRunning(t *testing.T) {
	var runs atomic.Int64
	handle := func(context.Context, prompt) (any, error) {
		if runs.Add(1) == 1 {
			res := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"60"}}}
			return nil, worker.RescheduleAfter(res, worker.HoldKey(perOrg))
		}
		return "fine", nil
	}
	limited(t, handle, func(t *testing.T, s *sluicetest.Stack, _ *limit.Memory) {
		s.Submit("llm", prompt{Org: "acme", Cost: 1})
		synctest.Wait()
		second := s.Submit("llm", prompt{Org: "acme", Cost: 1}).ID
		other := s.Submit("llm", prompt{Org: "other", Cost: 1}).ID
		time.Sleep(30 * time.Second)
		if got := s.Get(second); got.Status != task.Pending || got.Attempt != 0 || got.Throttled == nil {
			t.Errorf("task of the held key = %s", got.Encode())
		}
		if got := s.Get(other); got.Status != task.Completed {
			t.Errorf("task of another key = %s", got.Encode())
		}
	})
}

func TestTheHandlerSeesItsTiers(t *testing.T) {
	handle := func(ctx context.Context, _ prompt) (any, error) {
		got, _ := worker.TaskFrom(ctx)
		return got.Limits, nil
	}
	limited(t, handle, func(t *testing.T, s *sluicetest.Stack, _ *limit.Memory) {
		got := s.Wait(s.Submit("llm", prompt{Org: "acme", Cost: 4}).ID)
		if string(got.Output) != `[{"policy":"per-org","key":"acme","cost":4}]` || len(got.Limits) > 0 {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

// downLimiter can't be reached.
type downLimiter struct {
	asked atomic.Int64
	err   error
}

func (d *downLimiter) Acquire(context.Context, ...limit.Tier) (*limit.Reservation, error) {
	d.asked.Add(1)
	return nil, d.err
}

func (d *downLimiter) Hold(context.Context, limit.Tier, time.Time) error { return d.err }

func TestWhileTheStoreIsDownNothingRunsAndNothingIsSpent(t *testing.T) {
	for _, reason := range []error{limit.ErrStoreDown, limit.ErrStoreBusy, limit.ErrStoreDenied} {
		t.Run(reason.Error(), func(t *testing.T) {
			var runs atomic.Int64
			handle := func(context.Context, prompt) (any, error) { return runs.Add(1), nil }
			down := &downLimiter{err: reason}
			memory, err := limit.NewMemory(perOrg)
			if err != nil {
				t.Fatal(err)
			}
			up := time.Time{}
			limiter := sluicetest.Engine(func(c *worker.Config) {
				if time.Now().After(up) {
					c.Limiter = memory
				} else {
					c.Limiter = down
				}
			})
			limited(t, handle, func(t *testing.T, s *sluicetest.Stack, _ *limit.Memory) {
				up = time.Now().Add(time.Hour)
				id := s.Submit("llm", prompt{Org: "acme", Cost: 1}).ID
				time.Sleep(time.Hour)
				got := s.Get(id)
				if runs.Load() != 0 || got.Status != task.Pending || got.Attempt+got.RetryCount+got.ThrottleCount+got.RescheduleCount != 0 ||
					got.Throttled == nil || !strings.Contains(got.Throttled.Reason, reason.Error()) {
					t.Errorf("after %d runs: %s", runs.Load(), got.Encode())
				}
				if n := down.asked.Load(); n > 40 {
					t.Errorf("the limiter was asked %d times within an hour", n)
				}
				if got := s.Wait(id); got.Status != task.Completed || got.Attempt != 1 {
					t.Errorf("task = %s", got.Encode())
				}
			}, limiter)
		})
	}
}

func TestALostClaimIsGivenBack(t *testing.T) {
	limited(t, fine, func(t *testing.T, s *sluicetest.Stack, m *limit.Memory) {
		made := s.Submit("llm", prompt{Org: "acme", Cost: 4}, queue.In(time.Minute))
		synctest.Wait()
		// Just when the task is claimed, somebody cancels it.
		s.Cloud.FailNext(1, cloud.Fault{Delay: time.Second}, func(r *cloud.Request) bool {
			if r.Operation != "PutObject" || !strings.Contains(r.HTTP.URL.Path, "tasks/") || !r.From("claim") {
				return false
			}
			if _, err := s.Queue.Cancel(context.Background(), made.ID); err != nil {
				t.Error(err)
			}
			return true
		})
		time.Sleep(3 * time.Minute)
		if got := s.Get(made.ID); got.Status != task.Cancelled || got.Attempt != 0 {
			t.Errorf("task = %s", got.Encode())
		}
		if got := left(t, m); got != 10 {
			t.Errorf("%d left, want 10", got)
		}
	})
}

func TestATaskWithoutLimitsDoesNotAskTheLimiter(t *testing.T) {
	down := &downLimiter{err: limit.ErrStoreDown}
	run(t, func(context.Context, json.RawMessage) (any, error) { return "fine", nil }, func(t *testing.T, s *sluicetest.Stack) {
		if got := s.Wait(s.Submit("job", nil).ID); got.Status != task.Completed || down.asked.Load() != 0 {
			t.Errorf("asked %d times, task = %s", down.asked.Load(), got.Encode())
		}
	}, sluicetest.Engine(func(c *worker.Config) { c.Limiter = down }))
}

func TestLimitsForAnotherInputTypeAreRefusedAtRegistration(t *testing.T) {
	t.Parallel()
	defer func() {
		if p := recover(); p == nil || !strings.Contains(p.(string), "inputs of type worker_test.prompt") {
			t.Errorf("panic = %v", p)
		}
	}()
	worker.Handle(worker.NewMux(), "job", func(context.Context, int) (int, error) { return 0, nil },
		worker.WithLimits(limit.By(perOrg, prompt.org)))
}

func TestLimitsAreKeptInTheDeploymentsTable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mux := worker.NewMux()
		worker.Handle(mux, "llm", fine, worker.WithLimits(limit.By(perOrg, prompt.org).Cost(prompt.cost)))
		s := sluicetest.Start(t, mux)
		first := s.Submit("llm", prompt{Org: "acme", Cost: 10}).ID
		synctest.Wait()
		before := s.Cloud.Requests().Snapshot()
		second := s.Submit("llm", prompt{Org: "acme", Cost: 5}).ID
		synctest.Wait()
		if got := s.Get(second); got.Status != task.Pending || got.ThrottleCount != 1 {
			t.Errorf("task = %s", got.Encode())
		}
		for _, id := range []string{first, second} {
			if got := s.Wait(id); got.Status != task.Completed || got.Attempt != 1 {
				t.Errorf("task = %s", got.Encode())
			}
		}
		t.Log(s.Cloud.Requests().Snapshot().Diff(before))
		assertNothingLeft(t, s)
	})
}

func TestATaskOfAnotherFunctionsTypeIsHandedOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		router := routeFunc(func(_ context.Context, taskType, id string) (bool, error) { return taskType == "theirs", nil })
		s := sluicetest.Start(t, worker.NewMux(), sluicetest.Engine(func(c *worker.Config) { c.Router = router }))
		theirs, nobodys := s.Submit("theirs", nil).ID, s.Submit("nobodys", nil).ID
		synctest.Wait()
		if got := s.Get(theirs); got.Revision != 0 {
			t.Errorf("handed over, and written: %s", got.Encode())
		}
		if got := s.Get(nobodys); got.UnhandledSince == nil {
			t.Errorf("nobody's task = %s", got.Encode())
		}
	})
}

type routeFunc func(ctx context.Context, taskType, id string) (bool, error)

func (f routeFunc) Route(ctx context.Context, taskType, id string) (bool, error) {
	return f(ctx, taskType, id)
}
