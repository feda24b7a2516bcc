package faultproof_test

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/worker"
)

// scenario is a life, or a few, that tasks are walked through. Every request
// and event in it meets every fault.
type scenario struct {
	name string
	// handle is the handler of the tasks. It may run again after a crash: what
	// it does follows from its task, and from what the world remembers.
	handle handler
	// life is what happens from outside.
	life func(w *world)
	// want is how each task ends.
	want map[string]want

	// limit limits all tasks. With quota it is one without refill, whose balance must tell the
	// claims in the end; else claims must lie as far apart as gap, and as fine where no clock
	// is off and there is no fault.
	limit     *limit.Policy
	quota     bool
	gap, fine time.Duration

	// parks tells that tasks are parked, of whom nothing may be left; resets puts the reset
	// function's requests among those that meet faults. Wake-ups are late by wakeDelay, and twice and thrice as much.
	parks, resets bool
	wakeDelay     time.Duration

	// engine changes the engine's settings.
	engine func(*worker.Config)
	// functionTimeout of the claim function, 15 minutes by default.
	functionTimeout time.Duration
	// deployedAfter is when the handler is deployed.
	deployedAfter time.Duration
	// eventDelay holds back all events of S3, dropEvents loses them.
	eventDelay time.Duration
	dropEvents bool
	// sweeps puts the sweep's requests among those that meet faults.
	sweeps bool
	// purged tells that the task is deleted in the end, and nothing of it may be
	// left.
	purged bool
	// quarantined is how many objects are set aside.
	quarantined int
}

var errBoom = errors.New("boom")

// fine completes at once.
func fine(context.Context, *world, task.Task) (any, error) { return "fine", nil }

// sleepRetryComplete sleeps, fails once and completes.
func sleepRetryComplete(ctx context.Context, w *world, t task.Task) (any, error) {
	var stage int
	if _, err := worker.LoadCheckpoint(ctx, &stage); err != nil {
		return nil, err
	}
	switch {
	case stage == 0:
		return nil, worker.Reschedule(90*time.Second, worker.Checkpoint(1))
	case w.once("boom " + t.ID):
		return nil, errBoom
	}
	return "fine", nil
}

// failThenComplete fails for good, and completes when it is replayed.
func failThenComplete(_ context.Context, w *world, t task.Task) (any, error) {
	w.mu.Lock()
	failed := w.notes["failed "+t.ID]
	w.mu.Unlock()
	switch {
	case !failed:
		return nil, worker.Fail(errBoom)
	case t.RescheduleCount == 0:
		return nil, worker.Reschedule(30 * time.Second)
	}
	return "fine", nil
}

func noRest(c *worker.Config) { c.Rest = worker.NoRest }

// quota is spent and never refilled: what was charged can be counted in the
// end. perMinute keeps claims apart.
var (
	quota     = limit.Policy{Name: "quota", Manual: limit.ByOperator, Max: 100}
	perMinute = limit.Policy{Name: "per-minute", Rate: limit.Per(1, time.Minute), Max: 1}
)

func one(w want) map[string]want { return map[string]want{"t1": w} }

var large = strings.Repeat("x", s3store.InlineBytes)

// The key of the scenario with an idempotency key, and what it derives.
const key = "order 7"

var keyed = task.DeriveID("job", key)

func submitOne(w *world) {
	w.submit("t1", 1)
	w.awaitEnd("t1")
}

var scenarios = []scenario{
	{
		name: "complete", handle: fine, life: submitOne,
		want: one(want{status: task.Completed, output: "fine"}),
	},
	{
		name: "sleep-retry-complete", handle: sleepRetryComplete, life: submitOne,
		want: one(want{status: task.Completed, reschedules: 1, retries: 1, output: "fine", lastError: "boom"}),
	},
	{
		name: "sleep-retry-complete-without-rest", handle: sleepRetryComplete, life: submitOne, engine: noRest,
		want: one(want{status: task.Completed, reschedules: 1, retries: 1, output: "fine", lastError: "boom"}),
	},
	{
		name: "long-run", handle: func(ctx context.Context, _ *world, _ task.Task) (any, error) {
			return "fine", sleep(ctx, 25*time.Second)
		},
		life: submitOne,
		want: one(want{status: task.Completed, output: "fine"}),
	},
	{
		name: "yield", handle: func(_ context.Context, _ *world, t task.Task) (any, error) {
			if t.RescheduleCount < 2 {
				return nil, worker.Reschedule(0)
			}
			return "fine", nil
		},
		life: submitOne,
		want: one(want{status: task.Completed, reschedules: 2, output: "fine"}),
	},
	{
		name: "fail", handle: func(context.Context, *world, task.Task) (any, error) { return nil, errBoom },
		life: func(w *world) {
			w.submit("t1", 1, queue.MaxRetries(1))
			w.awaitEnd("t1")
		},
		want: one(want{status: task.Failed, retries: 1, lastError: "boom"}),
	},
	{
		name: "cancel-asleep", handle: func(_ context.Context, _ *world, t task.Task) (any, error) {
			if t.RescheduleCount == 0 {
				return nil, worker.Reschedule(time.Hour)
			}
			return "too late", nil
		},
		life: func(w *world) {
			w.submit("t1", 1)
			time.Sleep(2 * time.Minute)
			w.cancel("t1")
			w.awaitEnd("t1")
		},
		want: one(want{status: task.Cancelled, reschedules: 1, maybeClaimed: true}),
	},
	{
		name: "cancel-running", handle: func(ctx context.Context, _ *world, _ task.Task) (any, error) {
			return "half done", sleep(ctx, 50*time.Second)
		},
		life: func(w *world) {
			w.submit("t1", 1)
			time.Sleep(15 * time.Second)
			w.cancel("t1")
			w.awaitEnd("t1")
		},
		want: one(want{status: task.Cancelled, maybeClaimed: true}),
	},
	{
		name: "cancel-before-the-event", handle: fine, eventDelay: 5 * time.Minute,
		life: func(w *world) {
			w.submit("t1", 1)
			w.cancel("t1")
			w.awaitEnd("t1")
		},
		want: one(want{status: task.Cancelled}),
	},
	{
		name: "replay", handle: failThenComplete,
		life: func(w *world) {
			w.submit("t1", 1)
			w.awaitEnd("t1")
			w.once("failed t1")
			w.replay("t1")
			w.awaitEnd("t1")
		},
		want: one(want{status: task.Completed, reschedules: 1, output: "fine"}),
	},
	{
		name: "keyed-resubmit", handle: func(ctx context.Context, _ *world, _ task.Task) (any, error) {
			return "fine", sleep(ctx, 2*time.Second)
		},
		life: func(w *world) {
			for range 2 {
				w.produce("submit", func(ctx context.Context, q *queue.Queue, _ int) error {
					_, err := q.Submit(ctx, "job", 1, queue.IdempotencyKey(key), queue.Timeout(time.Minute))
					return err
				})
				w.awaitEnd(keyed)
			}
			w.produce("submit with another input", func(ctx context.Context, q *queue.Queue, _ int) error {
				_, err := q.Submit(ctx, "job", 2, queue.IdempotencyKey(key))
				if errors.Is(err, queue.ErrKeyReused) {
					return nil
				}
				return errors.Join(err, errors.New("want ErrKeyReused"))
			})
		},
		want: map[string]want{keyed: {status: task.Completed, output: "fine"}},
	},
	{
		name: "expire", handle: fine,
		life: func(w *world) {
			w.submit("t1", 1, queue.In(time.Hour), queue.ExpiresIn(10*time.Minute))
			w.awaitEnd("t1")
		},
		want: one(want{status: task.Expired}),
	},
	{
		name: "payloads", handle: func(_ context.Context, _ *world, t task.Task) (any, error) {
			if t.RescheduleCount == 0 {
				return nil, worker.Reschedule(time.Minute)
			}
			return t.Input, nil
		},
		life: func(w *world) {
			w.submit("t1", large)
			w.awaitEnd("t1")
		},
		want: one(want{status: task.Completed, reschedules: 1, output: large}),
	},
	{
		name: "payload-replay", handle: failThenComplete,
		life: func(w *world) {
			w.submit("t1", large)
			w.awaitEnd("t1")
			w.once("failed t1")
			w.replay("t1")
			w.awaitEnd("t1")
		},
		want: one(want{status: task.Completed, reschedules: 1, output: "fine"}),
	},
	{
		name: "junk-over-the-inbox", handle: fine, eventDelay: 30 * time.Second, quarantined: 1,
		life: func(w *world) {
			w.submit("t1", 1)
			w.foreign("t1", "junk")
			w.awaitEnd("t1")
		},
		want: one(want{status: task.Completed, output: "fine"}),
	},
	{
		name: "second-submission", handle: func(_ context.Context, _ *world, t task.Task) (any, error) {
			if t.RescheduleCount == 0 {
				return nil, worker.Reschedule(30 * time.Minute)
			}
			return "fine", nil
		},
		life: func(w *world) {
			w.submit("t1", 1)
			time.Sleep(3 * time.Minute)
			w.foreign("t1", `{"task_type":"job","input":1,"timeout_seconds":60}`)
			w.awaitEnd("t1")
		},
		want: one(want{status: task.Completed, reschedules: 1, output: "fine"}),
	},
	{
		name: "batch", dropEvents: true, handle: func(_ context.Context, _ *world, t task.Task) (any, error) {
			if t.ID == "t2" {
				panic("bad")
			}
			return "fine", nil
		},
		life: func(w *world) {
			for _, id := range []string{"t1", "t2", "t3"} {
				w.submit(id, 1, queue.MaxRetries(2))
			}
			w.batch("t1", "t2", "missing", "no id", "t3")
			w.awaitEnd("t1", "t2", "t3")
		},
		want: map[string]want{
			"t1": {status: task.Completed, output: "fine"},
			"t2": {status: task.Failed, retries: 2, lastError: "panic: bad"},
			"t3": {status: task.Completed, output: "fine"},
		},
	},
	{
		name: "far", handle: fine,
		life: func(w *world) {
			w.submit("t1", 1, queue.In(200*24*time.Hour))
			for range 3 {
				w.wait(sweepEvery)
			}
			time.Sleep(200 * 24 * time.Hour)
			w.awaitEnd("t1")
		},
		want: one(want{status: task.Completed, output: "fine"}),
	},
	{
		name: "crash", handle: func(ctx context.Context, w *world, t task.Task) (any, error) {
			if w.once("crash " + t.ID) {
				i, _ := ctx.Value(instanceKey{}).(*instance)
				i.die()
			}
			return "fine", nil
		},
		life: submitOne,
		want: one(want{status: task.Completed, retries: 1, output: "fine", lastError: "Timeout - task exceeded lease duration"}),
	},
	{
		name: "ignores-its-context", handle: func(_ context.Context, w *world, t task.Task) (any, error) {
			if w.once("stubborn " + t.ID) {
				time.Sleep(80 * time.Second)
			}
			return "fine", nil
		},
		life: submitOne,
		want: one(want{status: task.Completed, retries: 1, output: "fine", lastError: "Timeout - task exceeded lease duration"}),
	},
	{
		name: "too-long-for-the-function", handle: fine, functionTimeout: time.Minute, life: submitOne,
		want: one(want{status: task.Failed, lastError: "timeout_seconds is 60"}),
	},
	{
		name: "handler-deployed-later", handle: fine, deployedAfter: 100 * time.Second, life: submitOne,
		want: one(want{status: task.Completed, output: "fine"}),
	},
	{
		name: "swept", handle: fine, sweeps: true, dropEvents: true,
		life: func(w *world) {
			w.submit("t1", 1)
			time.Sleep(25 * time.Minute)
			w.sweep()
			w.awaitEnd("t1")
		},
		want: one(want{status: task.Completed, output: "fine"}),
	},
	{
		name: "lease-taken-over", handle: func(ctx context.Context, _ *world, _ task.Task) (any, error) {
			return "fine", sleep(ctx, 30*time.Second)
		},
		life: func(w *world) {
			w.submit("t1", 1)
			w.takeOver("t1")
			w.awaitEnd("t1")
		},
		want: one(want{status: task.Completed, retries: 1, output: "fine", lastError: "Timeout - task exceeded lease duration"}),
	},
	{
		name: "purge", purged: true, handle: func(_ context.Context, _ *world, t task.Task) (any, error) {
			if t.RescheduleCount == 0 {
				return nil, worker.Reschedule(time.Hour)
			}
			return "too late", nil
		},
		life: func(w *world) {
			w.submit("t1", large)
			time.Sleep(2 * time.Minute)
			w.purge("t1")
		},
		want: one(want{}),
	},
	{
		name: "limited", handle: sleepRetryComplete, life: submitOne, limit: &quota, quota: true,
		want: one(want{status: task.Completed, reschedules: 1, retries: 1, output: "fine", lastError: "boom"}),
	},
	{
		name: "throttled", handle: fine, limit: &perMinute, gap: 58 * time.Second,
		life: func(w *world) {
			w.submit("t1", 1)
			w.submit("t2", 1)
			w.awaitEnd("t1", "t2")
		},
		want: map[string]want{"t1": {status: task.Completed, output: "fine"}, "t2": {status: task.Completed, output: "fine"}},
	},
}
