package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/localstack/stack"
	"github.com/sluice-dev/sluice/shared/handlers"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/wakeup"
)

// bench counts on one stack.
type bench struct {
	stack *stack.Stack
	api   *api
	// queue is counted, observer is not.
	queue, observer *queue.Queue
	// logs is how much the functions log.
	logs *logMeter
	// plain is what a task costs that has no limits and does not sleep.
	plain tally
}

// perTask counts what tasks cost that run at once.
func (b *bench) perTask(ctx context.Context) error {
	const tasks = 100 // what every process asks once is divided by it
	for _, c := range []struct {
		name    string
		options []queue.Option
	}{
		{"plain", nil},
		{"limited", []queue.Option{queue.Limit(quota.Name, "acme", 1)}},
	} {
		before := b.logs.bytes.Load()
		t, err := b.count(ctx, tasks, b.api.path(0, 0), c.options...)
		if err != nil {
			return err
		}
		if c.options == nil {
			b.plain = t
		}
		printTask(c.name, t)
		figure("dynamodb_requests_per_task case="+c.name, t.dynamodb)
		fmt.Printf("figure log_bytes_per_task case=%s = %d\n", c.name, (b.logs.bytes.Load()-before)/tasks)
	}
	return nil
}

// perSleep counts what a sleep and the run after it add. A sleep of more than the rest ends
// the invocation, as nearly all do. A short one is slept within the invocation, and its
// wake-up, which stays armed, finds nothing to do.
func (b *bench) perSleep(ctx context.Context) error {
	for _, c := range []struct {
		name  string
		tasks int
		delay time.Duration
	}{
		{"requests_per_sleep", 60, 7 * time.Second},
		{"requests_per_short_sleep", 20, 2 * time.Second},
	} {
		const sleeps = 2
		t, err := b.count(ctx, c.tasks, b.api.path(sleeps, c.delay))
		if err != nil {
			return err
		}
		printSleep(c.name, t.beyond(b.plain).each(sleeps))
	}
	return nil
}

// count submits n tasks that call the URL, waits until there is nothing left to do for them,
// and returns the requests per task.
func (b *bench) count(ctx context.Context, n int, url string, opts ...queue.Option) (tally, error) {
	requests := b.stack.Cloud.Requests()
	before := requests.Snapshot(producer, b.stack.Function)
	ids := make([]string, n)
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for i := range ids {
		group.Go(func() error {
			made, err := b.queue.Submit(groupCtx, handlers.TypeHTTPRequest, handlers.Request{URL: url}, opts...)
			ids[i] = made.ID
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return tally{}, err
	}
	if err := b.await(ctx, ids); err != nil {
		return tally{}, err
	}
	return tallyOf(requests.Snapshot(producer, b.stack.Function).Diff(before)).each(float64(n)), nil
}

// soon counts the schedules that are due within a minute.
func soon(schedules []types.ScheduleSummary) (n int) {
	for _, s := range schedules {
		_, second, ok := wakeup.ParseName(aws.ToString(s.Name))
		if !ok || time.Until(time.Unix(second, 0)) < time.Minute {
			n++
		}
	}
	return n
}

// await waits until the tasks have ended and nothing is left of them: no submission, no
// event on its way, and no schedule but for the end of a lease: on a slow machine a wake-up may find its
// task running, and has it looked at again then.
func (b *bench) await(ctx context.Context, ids []string) error {
	schedules := scheduler.NewFromConfig(b.stack.Config(observer))
	for {
		armed, err := schedules.ListSchedules(ctx, &scheduler.ListSchedulesInput{GroupName: &b.stack.ScheduleGroup})
		if err != nil {
			return err
		}
		live, err := b.observer.List(ctx, queue.ListOptions{Statuses: []task.Status{task.Pending, task.Running}})
		if err != nil {
			return err
		}
		events := b.stack.Cloud.Lambda().Stats(b.stack.Function)
		if soon(armed.Schedules)+len(live.Tasks)+events.Running+events.Waiting+events.Retrying == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("tasks are still live: %w", ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
	for _, id := range ids {
		switch t, err := b.observer.Get(ctx, id); {
		case err != nil:
			return err
		case t.Status != task.Completed || t.RetryCount > 0:
			return fmt.Errorf("task %s did not complete at the first try: %s", id, t.Encode())
		}
	}
	return nil
}

// quiet is for how long nothing may happen when there is nothing to do.
const quiet = 10 * time.Second

// perIdleHour counts what happens while nothing is to be done: nothing, but for what the
// crons start. A run of theirs is counted by itself, and multiplied.
func (b *bench) perIdleHour(ctx context.Context) error {
	requests := b.stack.Cloud.Requests()
	before := requests.Snapshot()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(quiet):
	}
	idle := requests.Snapshot().Diff(before)
	fmt.Printf("figure requests_per_idle_hour = %d\n", idle.Total()*int(time.Hour/quiet))
	for _, cron := range []struct {
		name, function string
		every          time.Duration
	}{
		{"sweep", b.stack.Sweep, stack.SweepEvery},
		{"reset", b.stack.Reset, stack.ResetEvery},
	} {
		counts, err := b.runTwice(ctx, cron.function)
		if err != nil {
			return err
		}
		runs := int(time.Hour / cron.every)
		fmt.Printf("figure requests_per_idle_hour of=%s = %d\n", cron.name, runs*counts.Total())
		for _, operation := range sorted(counts) {
			fmt.Printf("figure requests_per_idle_hour of=%s operation=%s = %d\n", cron.name, operation, runs*counts[operation])
		}
	}
	return nil
}

// runTwice invokes a function twice and returns the requests of the second run: the first
// one opens connections and may find something to set right.
func (b *bench) runTwice(ctx context.Context, function string) (cloud.Counts, error) {
	requests := b.stack.Cloud.Requests()
	var counts cloud.Counts
	for range 2 {
		before := requests.Snapshot(function)
		got, err := b.stack.Cloud.Lambda().Invoke(ctx, function, []byte(stack.CronEvent), lambdaemu.InvokeOptions{})
		if err != nil {
			return nil, err
		}
		if got.FunctionError != "" {
			return nil, fmt.Errorf("the function %s failed: %s", function, got.Payload)
		}
		counts = requests.Snapshot(function).Diff(before)
	}
	return counts, nil
}
