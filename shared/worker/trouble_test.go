package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/localstack/sluicetest"
	"github.com/sluice-dev/sluice/localstack/stack"
	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/worker"
)

// invocations counts the invocations of the claim function.
func invocations(n *atomic.Int64, change func(*worker.Config)) sluicetest.Option {
	return sluicetest.Engine(func(c *worker.Config) {
		n.Add(1)
		if change != nil {
			change(c)
		}
	})
}

func recordPuts(r *cloud.Request) bool {
	return r.Operation == "PutObject" && strings.HasPrefix(r.Key, "tasks/")
}

func recordGets(r *cloud.Request) bool {
	return r.Operation == "GetObject" && strings.HasPrefix(r.Key, "tasks/")
}

func TestAWakeUpThatCameDuringASlowWriteIsArmedAgainAlsoByASlowClock(t *testing.T) {
	slowClock := sluicetest.Engine(func(c *worker.Config) {
		c.Now = func() time.Time { return time.Now().Add(-time.Second) }
	})
	for _, delay := range []time.Duration{1500 * time.Millisecond, 2500 * time.Millisecond} {
		t.Run(delay.String(), func(t *testing.T) {
			run(t, script(worker.Reschedule(0), nil), func(t *testing.T, s *sluicetest.Stack) {
				var puts atomic.Int64
				s.Cloud.SetFault(func(r *cloud.Request) cloud.Fault {
					if recordPuts(r) && puts.Add(1) == 2 {
						return cloud.Fault{Delay: delay}
					}
					return cloud.Fault{}
				})
				start := time.Now()
				got := s.Wait(s.Submit("job", nil).ID)
				if waited := time.Since(start); got.Status != task.Completed || waited > time.Minute {
					t.Errorf("after %s: %s", waited, got.Encode())
				}
			}, slowClock)
		})
	}
}

func TestARestDoesNotKeepNeighborsWaiting(t *testing.T) {
	var mu sync.Mutex
	var order []string
	handle := func(_ context.Context, in json.RawMessage) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, string(in))
		if string(in) == "1" && len(order) == 1 {
			return nil, errors.New("not yet")
		}
		return nil, nil
	}
	run(t, handle, func(t *testing.T, s *sluicetest.Stack) {
		s.Cloud.SetDelivery(cloud.S3Events, cloud.Delivery{Drop: 1})
		first, second := s.Submit("job", 1).ID, s.Submit("job", 2).ID
		invoke(t, s, fmt.Sprintf(`{"task_ids":[%q,%q]}`, first, second))
		s.Wait(first)
		s.Wait(second)
		if got := strings.Join(order, " "); got != "1 2 1" {
			t.Errorf("runs of tasks: %s", got)
		}
	})
}

func TestWithoutRestASleepEndsTheInvocationHoweverShort(t *testing.T) {
	run(t, script(errors.New("boom"), nil), func(t *testing.T, s *sluicetest.Stack) {
		s.Cloud.SetLatency(cloud.S3, 4*time.Second) // longer than the backoff
		s.Cloud.SetDelivery(cloud.Wakeups, cloud.Delivery{MinDelay: 10 * time.Minute, MaxDelay: 10 * time.Minute})
		id := s.Submit("job", nil).ID
		time.Sleep(5 * time.Minute)
		if got := s.Get(id); got.Status != task.Pending || got.Attempt != 1 {
			t.Errorf("task = %s", got.Encode())
		}
		s.Wait(id)
	}, noRest())
}

func TestATimeThatHasPassedYieldsLikeAZeroDelay(t *testing.T) {
	var n atomic.Int64
	run(t, script(worker.RescheduleAt(time.Unix(1, 0)), nil), func(t *testing.T, s *sluicetest.Stack) {
		s.Wait(s.Submit("job", nil).ID)
		if n.Load() != 2 {
			t.Errorf("%d invocations, want 2", n.Load())
		}
	}, invocations(&n, nil))
}

func TestASlowClaimShortensTheRunSoThatItsOutcomeCanBeRecorded(t *testing.T) {
	var left atomic.Int64
	handle := func(ctx context.Context, _ json.RawMessage) (any, error) {
		deadline, _ := ctx.Deadline()
		left.Store(int64(time.Until(deadline)))
		return nil, nil
	}
	run(t, handle, func(t *testing.T, s *sluicetest.Stack) {
		s.Cloud.FailNext(1, cloud.Fault{Delay: 20 * time.Second}, recordPuts)
		s.Wait(s.Submit("job", nil, queue.Timeout(40*time.Second)).ID)
		if got := time.Duration(left.Load()); got > 25*time.Second {
			t.Errorf("the handler was given %s of the 40 s that were left of the invocation", got)
		}
	}, sluicetest.Deployment(stack.Options{Timeout: time.Minute}))
}

func TestALookForACancelThatHangsDoesNotKeepTheOutcomeWaiting(t *testing.T) {
	handle := func(context.Context, json.RawMessage) (any, error) {
		time.Sleep(12 * time.Second)
		return "fine", nil
	}
	run(t, handle, func(t *testing.T, s *sluicetest.Stack) {
		var gets atomic.Int64
		s.Cloud.SetFault(func(r *cloud.Request) cloud.Fault {
			if recordGets(r) && r.From("claim") && gets.Add(1) == 1 {
				return cloud.Fault{Delay: time.Hour}
			}
			return cloud.Fault{}
		})
		start := time.Now()
		got := s.Wait(s.Submit("job", nil).ID)
		if waited := time.Since(start); got.Status != task.Completed || got.RetryCount != 0 || waited > 20*time.Second {
			t.Errorf("after %s: %s", waited, got.Encode())
		}
	})
}

func TestWhatCanNotBeStoredFailsTheTaskInsteadOfRunningItForEver(t *testing.T) {
	broken := json.RawMessage("\"\xff\"")
	handlers := map[string]func(context.Context, json.RawMessage) (any, error){
		"output": func(context.Context, json.RawMessage) (any, error) { return broken, nil },
		"checkpoint": func(context.Context, json.RawMessage) (any, error) {
			return nil, &worker.RescheduleError{Delay: time.Hour, Checkpoint: broken}
		},
	}
	for name, handle := range handlers {
		t.Run(name, func(t *testing.T) {
			run(t, handle, func(t *testing.T, s *sluicetest.Stack) {
				got := s.Wait(s.Submit("job", nil).ID)
				if got.Status != task.Failed || got.Attempt != 1 || !strings.Contains(got.LastError, "not one JSON value") {
					t.Errorf("task = %s", got.Encode())
				}
			})
		})
	}
}

// slowLimiter takes two seconds to admit.
type slowLimiter struct{ *limit.Memory }

func (l slowLimiter) Acquire(ctx context.Context, tiers ...limit.Tier) (*limit.Reservation, error) {
	time.Sleep(2 * time.Second)
	return l.Memory.Acquire(ctx, tiers...)
}

func TestATaskThatExpiresWhileItIsAdmittedEndsExpiredAndIsRefunded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory, err := limit.NewMemory(perOrg)
		if err != nil {
			t.Fatal(err)
		}
		mux := worker.NewMux()
		worker.Handle(mux, "job", script(nil))
		s := sluicetest.Start(t, mux, sluicetest.Engine(func(c *worker.Config) { c.Limiter = slowLimiter{memory} }))
		id := s.Submit("job", nil, queue.Limit("per-org", "acme", 4), queue.ExpiresIn(time.Second)).ID
		time.Sleep(2500 * time.Millisecond)
		if got := s.Get(id); got.Status != task.Expired || got.Attempt != 0 {
			t.Errorf("task = %s", got.Encode())
		}
		if got := left(t, memory); got != 10 {
			t.Errorf("%d left, want 10", got)
		}
		assertNothingLeft(t, s)
	})
}

func TestAReplayOfATaskThatCanNotBeReplayedIsRemovedQuietly(t *testing.T) {
	run(t, script(nil), func(t *testing.T, s *sluicetest.Stack) {
		id := s.Submit("job", nil).ID
		done := s.Wait(id)
		putInbox(t, s, id, fmt.Sprintf(`{"task_type":"job","replay_revision":%d}`, done.Revision))
		time.Sleep(time.Hour)
		if got := s.Get(id); got.Status != task.Completed || got.Revision != done.Revision {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func TestASecondSubmissionUnderTheIDOfALiveTaskIsWithdrawn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mux := worker.NewMux()
		worker.Handle(mux, "job", script(worker.Reschedule(time.Hour), nil))
		worker.Handle(mux, "other", func(context.Context, json.RawMessage) (any, error) {
			t.Error("the handler of the second submission's type ran")
			return nil, nil
		})
		s := sluicetest.Start(t, mux)
		putInbox(t, s, "order-1", `{"task_type":"job","input":1}`)
		synctest.Wait()
		time.Sleep(time.Minute)
		putInbox(t, s, "order-1", `{"task_type":"other","input":2,"available_at":"2000-01-01T00:00:30Z"}`)
		synctest.Wait()
		time.Sleep(time.Minute)
		if got := s.Get("order-1"); got.Status != task.Pending || got.Type != "job" {
			t.Errorf("task = %s", got.Encode())
		}
		if got := len(inboxVersions(t, s)); got != 1 {
			t.Errorf("%d versions in the inbox, want the first one", got)
		}
		s.Wait("order-1")
		assertNothingLeft(t, s)
	})
}

func TestTwoReplaysAtOnceAreOne(t *testing.T) {
	run(t, script(worker.Fail(errors.New("boom")), worker.Reschedule(time.Hour), nil), func(t *testing.T, s *sluicetest.Stack) {
		id := s.Submit("job", nil).ID
		s.Wait(id)
		s.Cloud.SetLatency(cloud.S3, 100*time.Millisecond)
		s.Cloud.SetDelivery(cloud.S3Events, cloud.Delivery{MinDelay: time.Second, MaxDelay: time.Second})
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if _, err := s.Queue.Replay(t.Context(), id); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		time.Sleep(time.Minute)
		if got := len(inboxVersions(t, s)); got != 1 {
			t.Errorf("%d versions in the inbox, want 1", got)
		}
		if got := s.Wait(id); got.Status != task.Completed || got.Attempt != 2 {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func TestCancelAgainFinishesACleanUpThatFailed(t *testing.T) {
	run(t, script(nil), func(t *testing.T, s *sluicetest.Stack) {
		id := s.Submit("job", nil, queue.In(100*time.Hour)).ID
		synctest.Wait()
		deletes := func(r *cloud.Request) bool { return r.Operation == "DeleteObject" }
		s.Cloud.FailNext(3, cloud.InternalError, deletes)
		if _, err := s.Queue.Cancel(t.Context(), id); err == nil {
			t.Error("the failed clean-up went unnoticed")
		}
		if got, err := s.Queue.Cancel(t.Context(), id); err != nil || got.Status != task.Cancelled {
			t.Errorf("cancelled again: %s, %v", got.Status, err)
		}
		if left := keys(t, s, "inbox/"); len(left) > 0 {
			t.Errorf("left in the inbox: %v", left)
		}
		time.Sleep(100 * time.Hour)
	})
}

func TestADamagedRecordIsLeftForAPersonAndNotTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		mux := worker.NewMux()
		worker.Handle(mux, "job", script(nil))
		s := sluicetest.Start(t, mux, invocations(&n, nil))
		s.Cloud.SetDelivery(cloud.S3Events, cloud.Delivery{Drop: 1})
		id := s.Submit("job", nil).ID
		putKey(t, s, s3store.TaskKey(id), `{"schema":2}`)
		invoke(t, s, fmt.Sprintf(`{"task_ids":[%q]}`, id))
		invoke(t, s, fmt.Sprintf(`{"Records":[{"eventName":"ObjectCreated:Put","s3":{"object":{"key":%q}}}]}`, s3store.InboxKey(id)))
		time.Sleep(10 * time.Minute)
		if n.Load() != 2 || len(s.Cloud.SQS().Messages(s.DeadLetters)) > 0 {
			t.Errorf("%d invocations, want 2", n.Load())
		}
		if left := keys(t, s, "inbox/"); len(left) != 1 {
			t.Errorf("the inbox holds %v, want the task", left)
		}
	})
}

func invoke(t *testing.T, s *sluicetest.Stack, event string) {
	t.Helper()
	if _, err := s.Cloud.Lambda().InvokeAsync(s.Function, []byte(event), lambdaemu.InvokeOptions{}); err != nil {
		t.Fatal(err)
	}
}

func inboxVersions(t *testing.T, s *sluicetest.Stack) []string {
	t.Helper()
	prefix := "inbox/"
	out, err := s3store.NewClient(s.Config("test")).ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: &s.Bucket, Prefix: &prefix})
	if err != nil {
		t.Fatal(err)
	}
	var versions []string
	for _, v := range out.Versions {
		versions = append(versions, *v.VersionId)
	}
	return versions
}
