package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/localstack/sluicetest"
	"github.com/sluice-dev/sluice/localstack/stack"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/worker"
)

// run tests one behavior in virtual time, with one handler for the type "job".
func run(t *testing.T, handle func(ctx context.Context, in json.RawMessage) (any, error), test func(t *testing.T, s *sluicetest.Stack), opts ...sluicetest.Option) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mux := worker.NewMux()
		worker.Handle(mux, "job", handle)
		s := sluicetest.Start(t, mux, opts...)
		test(t, s)
		assertNothingLeft(t, s)
	})
}

// script answers the runs of a handler one after the other; the last answer
// repeats.
func script(answers ...error) func(context.Context, json.RawMessage) (any, error) {
	var runs atomic.Int64
	return func(context.Context, json.RawMessage) (any, error) {
		n := min(int(runs.Add(1)), len(answers))
		return map[string]int64{"run": runs.Load()}, answers[n-1]
	}
}

// noRest makes every sleep end the invocation, so that it goes through the
// Scheduler.
func noRest() sluicetest.Option {
	return sluicetest.Engine(func(c *worker.Config) { c.Rest = worker.NoRest })
}

func TestATaskRunsAndItsOutputIsKept(t *testing.T) {
	run(t, func(_ context.Context, in json.RawMessage) (any, error) { return in, nil }, func(t *testing.T, s *sluicetest.Stack) {
		input := json.RawMessage(`{"n":12345678901234567890.10,"b":1,"a":[1e2,"\u00e9"]}`)
		got := s.Wait(s.Submit("job", input).ID)
		if got.Status != task.Completed || got.Attempt != 1 || string(got.Output) != string(input) || string(got.Input) != string(input) {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func TestAPlainTaskCostsThreePutsAndOneGet(t *testing.T) {
	run(t, script(nil), func(t *testing.T, s *sluicetest.Stack) {
		before := s.Cloud.Requests().Snapshot()
		s.Submit("job", 1)
		synctest.Wait()
		time.Sleep(time.Minute)
		got := s.Cloud.Requests().Snapshot().Diff(before)
		want := cloud.Counts{
			{Service: cloud.S3, Name: "PutObject"}:    3,
			{Service: cloud.S3, Name: "GetObject"}:    1,
			{Service: cloud.S3, Name: "DeleteObject"}: 1,
		}
		if got.String() != want.String() {
			t.Errorf("requests: %s; want %s", got, want)
		}
	})
}

func TestASleepCostsTwoPutsOneGetAndOneSchedule(t *testing.T) {
	run(t, script(worker.Reschedule(time.Hour), nil), func(t *testing.T, s *sluicetest.Stack) {
		before := s.Cloud.Requests().Snapshot()
		s.Submit("job", 1)
		time.Sleep(2 * time.Hour)
		got := s.Cloud.Requests().Snapshot().Diff(before)
		want := cloud.Counts{
			{Service: cloud.S3, Name: "PutObject"}:             5,
			{Service: cloud.S3, Name: "GetObject"}:             2,
			{Service: cloud.S3, Name: "DeleteObject"}:          1,
			{Service: cloud.Scheduler, Name: "CreateSchedule"}: 1,
		}
		if got.String() != want.String() {
			t.Errorf("requests: %s; want %s", got, want)
		}
	}, sluicetest.NoSweep())
}

func TestDelayIsStored(t *testing.T) {
	run(t, script(worker.Reschedule(time.Hour), nil), func(t *testing.T, s *sluicetest.Stack) {
		id := s.Submit("job", nil).ID
		synctest.Wait()
		got := s.Get(id)
		if got.Status != task.Pending || got.RescheduleCount != 1 || got.AvailableAt.Sub(got.UpdatedAt) != time.Hour {
			t.Errorf("task = %s", got.Encode())
		}
		if got = s.Wait(id); got.Status != task.Completed || got.Attempt != 2 {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func TestTwoZeroDelaySleepsThenCompletedWithCountTwo(t *testing.T) {
	run(t, script(worker.Reschedule(0), worker.Reschedule(0), nil), func(t *testing.T, s *sluicetest.Stack) {
		got := s.Wait(s.Submit("job", nil).ID)
		if got.Status != task.Completed || got.RescheduleCount != 2 || got.RetryCount != 0 {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func TestSleepRetrySleepSuccessKeepsBothCounters(t *testing.T) {
	boom := errors.New("boom")
	run(t, script(worker.Reschedule(time.Minute), boom, worker.Reschedule(time.Minute), nil), func(t *testing.T, s *sluicetest.Stack) {
		got := s.Wait(s.Submit("job", nil).ID)
		if got.Status != task.Completed || got.RescheduleCount != 2 || got.RetryCount != 1 || got.Attempt != 4 || got.LastError != "boom" {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func TestTheTextAtTheRescheduleLimit(t *testing.T) {
	run(t, script(worker.Reschedule(time.Minute)), func(t *testing.T, s *sluicetest.Stack) {
		got := s.Wait(s.Submit("job", nil, queue.MaxReschedules(2)).ID)
		if got.Status != task.Failed || got.LastError != "Max reschedules (2) exceeded" || got.RescheduleCount != 2 || got.RetryCount != 0 {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func TestSleepsAreNoFailures(t *testing.T) {
	answers := slices.Repeat([]error{worker.Reschedule(time.Minute)}, 50)
	answers = append(answers, errors.New("one"), errors.New("two"), nil)
	run(t, script(answers...), func(t *testing.T, s *sluicetest.Stack) {
		got := s.Wait(s.Submit("job", nil, queue.MaxRetries(2)).ID)
		if got.Status != task.Completed || got.RescheduleCount != 50 || got.RetryCount != 2 {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func TestHistoryReadsLikeThis(t *testing.T) {
	run(t, script(worker.Reschedule(60*time.Second), worker.Reschedule(120*time.Second), nil), func(t *testing.T, s *sluicetest.Stack) {
		id := s.Submit("job", nil).ID
		s.Wait(id)
		want := []string{
			"Version 1: pending (created)",
			"Version 2: running (claimed by worker-1)",
			"Version 3: pending (rescheduled, available_at: +60s, count: 1)",
			"Version 4: running (claimed by worker-1)",
			"Version 5: pending (rescheduled, available_at: +120s, count: 2)",
			"Version 6: running (claimed by worker-1)",
			"Version 7: completed",
		}
		if got := s.History(id); !slices.Equal(got, want) {
			t.Errorf("history:\n%s", strings.Join(got, "\n"))
		}
	}, sluicetest.Engine(func(c *worker.Config) { c.WorkerID = "worker-1" }))
}

func TestAnErrorIsRetriedWithBackoffAndThenFails(t *testing.T) {
	run(t, script(errors.New("boom")), func(t *testing.T, s *sluicetest.Stack) {
		got := s.Wait(s.Submit("job", nil).ID)
		if got.Status != task.Failed || got.Attempt != 4 || got.RetryCount != 3 || got.LastError != "boom" {
			t.Errorf("task = %s", got.Encode())
		}
	}, noRest())
}

func TestAPermanentErrorFailsAtOnce(t *testing.T) {
	run(t, script(worker.Fail(errors.New("bad prompt"))), func(t *testing.T, s *sluicetest.Stack) {
		got := s.Wait(s.Submit("job", nil).ID)
		if got.Status != task.Failed || got.Attempt != 1 || got.RetryCount != 0 || got.LastError != "bad prompt" {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func TestAPanicIsOneFailedAttemptWithItsStack(t *testing.T) {
	var runs atomic.Int64
	handle := func(context.Context, json.RawMessage) (any, error) {
		if runs.Add(1) == 1 {
			panic(struct{ Code int }{42})
		}
		return "fine", nil
	}
	run(t, handle, func(t *testing.T, s *sluicetest.Stack) {
		got := s.Wait(s.Submit("job", nil).ID)
		if got.Status != task.Completed || got.RetryCount != 1 || !strings.Contains(got.LastError, "panic: {42}") || !strings.Contains(got.LastError, "life_test.go") {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func TestAHandlerThatEndsItsGoroutineIsAFailedAttempt(t *testing.T) {
	var runs atomic.Int64
	handle := func(context.Context, json.RawMessage) (any, error) {
		if runs.Add(1) == 1 {
			runtime.Goexit()
		}
		return "fine", nil
	}
	run(t, handle, func(t *testing.T, s *sluicetest.Stack) {
		got := s.Wait(s.Submit("job", nil).ID)
		if got.Status != task.Completed || got.RetryCount != 1 || !strings.Contains(got.LastError, "Goexit") {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func TestAnInputThatDoesNotFitTheHandlerFailsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mux := worker.NewMux()
		worker.Handle(mux, "sum", func(_ context.Context, in []int) (int, error) { return len(in), nil })
		s := sluicetest.Start(t, mux)
		got := s.Wait(s.Submit("sum", "text").ID)
		if got.Status != task.Failed || got.Attempt != 1 || !strings.Contains(got.LastError, "does not fit the handler of sum") {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func TestAWorkerThatDiesOnEveryRunEndsTheTaskAfterItsRetries(t *testing.T) {
	var runs atomic.Int64
	handle := func(ctx context.Context, _ json.RawMessage) (any, error) {
		runs.Add(1)
		lambdaemu.Exit(ctx)
		return nil, nil
	}
	run(t, handle, func(t *testing.T, s *sluicetest.Stack) {
		got := s.Wait(s.Submit("job", nil).ID)
		if got.Status != task.Failed || got.LastError != "Timeout after max retries (4 attempts)" || runs.Load() != 4 {
			t.Errorf("after %d runs: %s", runs.Load(), got.Encode())
		}
	})
}

func TestAHandlerThatIgnoresItsContextMakesTheProcessExit(t *testing.T) {
	var runs, overlapping, running atomic.Int64
	handle := func(ctx context.Context, _ json.RawMessage) (any, error) {
		if running.Add(1) > 1 {
			overlapping.Add(1)
		}
		defer running.Add(-1)
		if runs.Add(1) == 1 {
			time.Sleep(40 * time.Second) // longer than timeout and grace
		}
		return "fine", nil
	}
	run(t, handle, func(t *testing.T, s *sluicetest.Stack) {
		got := s.Wait(s.Submit("job", nil, queue.Timeout(30*time.Second)).ID)
		if got.Status != task.Completed || got.RetryCount != 1 || got.LastError != "Timeout - task exceeded lease duration" {
			t.Errorf("task = %s", got.Encode())
		}
		if overlapping.Load() > 0 {
			t.Error("two runs of the task overlapped")
		}
	})
}

func TestATimeoutIsAFailedAttempt(t *testing.T) {
	handle := func(ctx context.Context, _ json.RawMessage) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	run(t, handle, func(t *testing.T, s *sluicetest.Stack) {
		got := s.Wait(s.Submit("job", nil, queue.Timeout(30*time.Second), queue.MaxRetries(1)).ID)
		if got.Status != task.Failed || got.Attempt != 2 || !strings.Contains(got.LastError, "the handler ran for 30s") {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func TestATimeoutThatTheFunctionCanNotOfferFailsNamingTheMost(t *testing.T) {
	run(t, script(nil), func(t *testing.T, s *sluicetest.Stack) {
		got := s.Wait(s.Submit("job", nil, queue.Timeout(50*time.Second)).ID)
		if got.Status != task.Failed || got.Attempt != 0 || !strings.Contains(got.LastError, "at most 44") {
			t.Errorf("task = %s", got.Encode())
		}
		if got := s.Wait(s.Submit("job", nil, queue.Timeout(44*time.Second)).ID); got.Status != task.Completed {
			t.Errorf("task = %s", got.Encode())
		}
	}, sluicetest.Deployment(stack.Options{Timeout: time.Minute}))
}

func TestADelayedTaskWaits(t *testing.T) {
	run(t, script(nil), func(t *testing.T, s *sluicetest.Stack) {
		start := time.Now()
		got := s.Wait(s.Submit("job", nil, queue.In(87600*time.Hour)).ID)
		if got.Status != task.Completed || time.Since(start) < 87500*time.Hour {
			t.Errorf("after %s: %s", time.Since(start), got.Encode())
		}
	})
}

func TestAnExpiredTaskDoesNotRun(t *testing.T) {
	run(t, script(errors.New("ran")), func(t *testing.T, s *sluicetest.Stack) {
		got := s.Wait(s.Submit("job", nil, queue.In(time.Hour), queue.ExpiresIn(time.Minute)).ID)
		if got.Status != task.Expired || got.Attempt != 0 {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func TestCancelWhileAsleep(t *testing.T) {
	run(t, script(worker.Reschedule(time.Hour), errors.New("ran again")), func(t *testing.T, s *sluicetest.Stack) {
		id := s.Submit("job", nil).ID
		synctest.Wait()
		if _, err := s.Queue.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Queue.Cancel(t.Context(), id); err != nil {
			t.Errorf("cancelled twice: %v", err)
		}
		time.Sleep(time.Second)
		if _, err := s.Queue.Submit(t.Context(), "job", nil, queue.ID(id)); !errors.Is(err, queue.ErrExists) {
			t.Errorf("submitted again: %v, want ErrExists", err)
		}
		time.Sleep(2 * time.Hour)
		if got := s.Get(id); got.Status != task.Cancelled || got.Attempt != 1 {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func TestCancelWhileRunningEndsTheHandlersContext(t *testing.T) {
	handle := func(ctx context.Context, _ json.RawMessage) (any, error) {
		<-ctx.Done()
		return "half done", nil
	}
	run(t, handle, func(t *testing.T, s *sluicetest.Stack) {
		id := s.Submit("job", nil).ID
		synctest.Wait()
		got, err := s.Queue.Cancel(t.Context(), id)
		if err != nil || got.Status != task.Running || !got.CancelRequested {
			t.Fatalf("cancel: %s, %v", got.Encode(), err)
		}
		started := time.Now()
		got = s.Wait(id)
		if got.Status != task.Cancelled || string(got.Output) != `"half done"` || time.Since(started) > 12*time.Second {
			t.Errorf("after %s: %s", time.Since(started), got.Encode())
		}
	})
}

func TestReplayResetsEverythingAndRuns(t *testing.T) {
	run(t, script(worker.Fail(errors.New("boom")), nil), func(t *testing.T, s *sluicetest.Stack) {
		id := s.Submit("job", 7).ID
		if got := s.Wait(id); got.Status != task.Failed {
			t.Fatalf("task = %s", got.Encode())
		}
		if _, err := s.Queue.Replay(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		got := s.Wait(id)
		if got.Status != task.Completed || got.Attempt != 1 || got.LastError != "" || string(got.Input) != "7" {
			t.Errorf("task = %s", got.Encode())
		}
		var refused *task.TransitionError
		if _, err := s.Queue.Replay(t.Context(), id); !errors.As(err, &refused) || refused.Status != task.Completed {
			t.Errorf("replay of a completed task: %v", err)
		}
	})
}

func TestAReplayThatDiedHalfwayIsFinishedByItsEvent(t *testing.T) {
	run(t, script(worker.Fail(errors.New("boom")), nil), func(t *testing.T, s *sluicetest.Stack) {
		id := s.Submit("job", nil).ID
		failed := s.Wait(id)
		failed.ReplayRevision = failed.Revision // what Replay puts first, and then the process dies
		if _, err := s.Store("producer").Resubmit(t.Context(), failed); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := s.Get(id); got.Status != task.Completed || got.Attempt != 1 {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func TestATaskWithoutAHandlerIsPutBackForAnHourAndThenFails(t *testing.T) {
	run(t, script(nil), func(t *testing.T, s *sluicetest.Stack) {
		start := time.Now()
		got := s.Wait(s.Submit("nobody", nil).ID)
		if got.Status != task.Failed || got.Attempt != 0 || got.RetryCount != 0 || !strings.Contains(got.LastError, `no handler is registered for task_type "nobody"`) {
			t.Errorf("task = %s", got.Encode())
		}
		if waited := time.Since(start); waited < time.Hour || waited > 70*time.Minute {
			t.Errorf("failed after %s", waited)
		}
	})
}

func TestAForeignProducerSubmitsWithOnePut(t *testing.T) {
	run(t, func(_ context.Context, in json.RawMessage) (any, error) { return in, nil }, func(t *testing.T, s *sluicetest.Stack) {
		putInbox(t, s, "order-1", `{"task_type":"job","input":{"n":1},"attempt":7,"status":"completed","mine":true}`)
		got := s.Wait("order-1")
		if got.Status != task.Completed || got.Attempt != 1 || string(got.Output) != `{"n":1}` || !strings.Contains(string(got.Encode()), `"mine":true`) {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func TestWhatIsNoSubmissionIsSetAsideOnceWithTheReason(t *testing.T) {
	run(t, script(nil), func(t *testing.T, s *sluicetest.Stack) {
		odd := []string{
			putInbox(t, s, "a1", `{}{}`),
			putInbox(t, s, "a2", `{"task_type":7}`),
			putInbox(t, s, "a3", `{"task_type":"job","id":"other"}`),
			putInbox(t, s, "a4", `{"task_type":"job","schema":2}`),
			putInbox(t, s, "a5", `{"task_type":"job","max_retries":null}`),
			putKey(t, s, "inbox/notes.txt", `hello`),
			putKey(t, s, "inbox/0/a+b c.json", `{"task_type":"job"}`),
			putKey(t, s, "inbox/0/a1.json", strings.Repeat(" ", 2<<20)),
		}
		time.Sleep(time.Hour)
		if got := len(keys(t, s, "quarantine/")); got != len(odd) {
			t.Errorf("%d objects in quarantine, want %d: %v", got, len(odd), keys(t, s, "quarantine/"))
		}
	})
}

func TestJunkOverALiveTaskDoesNotHarmIt(t *testing.T) {
	run(t, script(nil), func(t *testing.T, s *sluicetest.Stack) {
		s.Cloud.SetDelivery(cloud.S3Events, cloud.Delivery{MinDelay: time.Minute, MaxDelay: time.Minute})
		id := s.Submit("job", nil).ID
		putInbox(t, s, id, `junk`)
		time.Sleep(time.Hour)
		if got := s.Wait(id); got.Status != task.Completed || got.Attempt != 1 {
			t.Errorf("task = %s", got.Encode())
		}
		if got := len(keys(t, s, "quarantine/")); got != 1 {
			t.Errorf("%d objects in quarantine, want 1", got)
		}
	})
}

func TestDuplicateLateAndUnorderedEventsChangeNothing(t *testing.T) {
	var runs atomic.Int64
	handle := func(context.Context, json.RawMessage) (any, error) {
		if runs.Add(1) == 1 {
			return nil, worker.Reschedule(time.Minute)
		}
		return "done", nil
	}
	run(t, handle, func(t *testing.T, s *sluicetest.Stack) {
		thrice := func(cloud.Event) []time.Duration { return []time.Duration{0, 30 * time.Second, time.Hour} }
		s.Cloud.SetDelivery(cloud.S3Events, cloud.Delivery{Plan: thrice})
		s.Cloud.SetDelivery(cloud.Wakeups, cloud.Delivery{Plan: thrice})
		id := s.Submit("job", nil).ID
		time.Sleep(3 * time.Hour)
		if got := s.Get(id); got.Status != task.Completed || got.Attempt != 2 || runs.Load() != 2 || got.Revision != 4 {
			t.Errorf("after %d runs: %s", runs.Load(), got.Encode())
		}
	})
}

func TestAnObjectThatIsGoneBeforeItsEventIsAQuietNoOp(t *testing.T) {
	run(t, script(nil), func(t *testing.T, s *sluicetest.Stack) {
		s.Cloud.SetDelivery(cloud.S3Events, cloud.Delivery{MinDelay: time.Minute, MaxDelay: time.Minute})
		made := s.Submit("job", nil)
		if err := s.Store("producer").Remove(t.Context(), made.ID, made.InboxVersion); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if got := s.Cloud.SQS().Messages(s.DeadLetters); len(got) > 0 {
			t.Errorf("dead letters: %v", got)
		}
	})
}

func TestAnEarlyWakeUpSpendsNothing(t *testing.T) {
	run(t, script(worker.Reschedule(time.Hour), nil), func(t *testing.T, s *sluicetest.Stack) {
		id := s.Submit("job", nil).ID
		synctest.Wait()
		if _, err := s.Cloud.Lambda().InvokeAsync(s.Function, []byte(fmt.Sprintf(`{"task_ids":[%q]}`, id)), lambdaemu.InvokeOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := s.Get(id); got.Revision != 2 || got.Attempt != 1 {
			t.Errorf("task = %s", got.Encode())
		}
		if got := s.Wait(id); got.Status != task.Completed || got.Attempt != 2 {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func TestABadTaskInABatchDoesNotStopItsNeighbors(t *testing.T) {
	handle := func(_ context.Context, in json.RawMessage) (any, error) {
		if string(in) == `"bad"` {
			panic("bad")
		}
		return "fine", nil
	}
	run(t, handle, func(t *testing.T, s *sluicetest.Stack) {
		s.Cloud.SetDelivery(cloud.S3Events, cloud.Delivery{Drop: 1})
		var ids []string
		for i := range 10 {
			in := "good"
			if i == 1 {
				in = "bad"
			}
			ids = append(ids, s.Submit("job", in, queue.MaxRetries(0)).ID)
		}
		batch, _ := json.Marshal(map[string]any{"task_ids": append(ids, "no such task", "missing")})
		if _, err := s.Cloud.Lambda().InvokeAsync(s.Function, batch, lambdaemu.InvokeOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for i, id := range ids {
			want := task.Completed
			if i == 1 {
				want = task.Failed
			}
			if got := s.Get(id); got.Status != want {
				t.Errorf("task %d is %s, want %s", i, got.Status, want)
			}
		}
	})
}

func TestALargeInputAndOutputAreKeptApart(t *testing.T) {
	run(t, func(_ context.Context, in json.RawMessage) (any, error) { return in, nil }, func(t *testing.T, s *sluicetest.Stack) {
		large := json.RawMessage(`"` + strings.Repeat("x", 5<<20) + `"`)
		id := s.Submit("job", large).ID
		got := s.Wait(id)
		if got.Status != task.Completed || string(got.Output) != string(large) || string(got.Input) != string(large) {
			t.Errorf("status %s, %d bytes in, %d bytes out", got.Status, len(got.Input), len(got.Output))
		}
		rec, err := s.Store("test").Record(t.Context(), id)
		if err != nil || len(rec.Task.Encode()) > 4096 {
			t.Errorf("the record has %d bytes, %v", len(rec.Task.Encode()), err)
		}
	})
}

func TestCheckpointIsGivenBack(t *testing.T) {
	handle := func(ctx context.Context, _ json.RawMessage) (any, error) {
		var done int
		if _, err := worker.LoadCheckpoint(ctx, &done); err != nil {
			return nil, err
		}
		if done < 3 {
			return nil, worker.Reschedule(time.Minute, worker.Checkpoint(done+1))
		}
		return done, nil
	}
	run(t, handle, func(t *testing.T, s *sluicetest.Stack) {
		got := s.Wait(s.Submit("job", nil).ID)
		if got.Status != task.Completed || string(got.Output) != "3" || got.RescheduleCount != 3 {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func putInbox(t *testing.T, s *sluicetest.Stack, id, document string) string {
	t.Helper()
	return putKey(t, s, s3store.InboxKey(id), document)
}

func putKey(t *testing.T, s *sluicetest.Stack, key, document string) string {
	t.Helper()
	_, err := s3store.NewClient(s.Config("foreign")).PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: &s.Bucket, Key: &key, Body: strings.NewReader(document),
	})
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestTextComesOutAsTheHandlerReturnedIt(t *testing.T) {
	run(t, func(context.Context, json.RawMessage) (any, error) { return "a < b && c > d", nil }, func(t *testing.T, s *sluicetest.Stack) {
		if got := s.Wait(s.Submit("job", nil).ID); string(got.Output) != `"a < b && c > d"` {
			t.Errorf("output = %s", got.Output)
		}
	})
}
