package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/localstack/stack"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/handlers"
	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/task"
)

// What is played in real time too: on the embedded cloud, with the real functions.
const (
	realLateness    = 20 * time.Second
	realConcurrency = 100
	realWarm        = 40              // functions that have started before the crowd comes
	realPatience    = 5 * time.Minute // then something is wrong
	realSeeds       = 20              // of its simulation
)

func realScenario() scenario { return newScenario("2ps", 100, []int64{2, 1000, 2}) }

// compareWithRealTime plays a small scenario on the embedded cloud and in the simulation,
// and prints a line for each.
func compareWithRealTime(ctx context.Context) error {
	c := combination{
		scenario: realScenario(),
		lateness: lateness{"uniform20", func(r *rand.Rand, _ uint64, _ int64) int64 { return r.Int64N(realLateness.Milliseconds()) }},
		strategy: strategies()[0],
	}
	onCloud, err := playReal(ctx, c)
	if err != nil {
		return fmt.Errorf("in real time: %w", err)
	}
	simulated := c.play(realSeeds, settings{concurrency: realConcurrency, runs: 20})
	for _, side := range []struct {
		name string
		figures
	}{{"cloud", onCloud}, {"simulation", simulated}} {
		fmt.Printf("figure parking_realtime side=%s %s wakeups_per_task=%.3f drain_ratio=%.3f held_seconds_per_task=%.2f = %d\n",
			side.name, c.label(), side.wakeups, side.drain, side.held, side.beyond)
	}
	if onCloud.beyond > 0 || simulated.beyond > 0 {
		return errors.New("in real time or in its simulation more were admitted than the policy allows")
	}
	return nil
}

// A trial is a run in real time.
type trial struct {
	*stack.Stack

	scenario scenario
	api      *api
	wakeups  atomic.Int64
	held     atomic.Int64 // time that invocations lasted, all together
}

// playReal plays a combination in real time. Seconds held are all that invocations lasted,
// the requests and the run of a task included.
func playReal(ctx context.Context, c combination) (f figures, err error) {
	ctx, cancel := context.WithTimeout(ctx, realPatience)
	defer cancel()
	t := &trial{scenario: c.scenario}
	if t.api, err = startAPI(ctx); err != nil {
		return f, err
	}
	defer t.api.close()
	late := func() time.Duration { return rand.N(realLateness) } //nolint:gosec // any will do
	options := cloud.Options{}
	options.Scheduler.Lateness = late
	embedded := cloud.New(options)
	defer func() { err = errors.Join(err, embedded.Close()) }()
	if err := t.deploy(ctx, embedded); err != nil {
		return f, err
	}
	if err := t.warmUp(ctx); err != nil {
		return f, err
	}
	watched := t.watchInvocations(ctx)
	start := time.Now()
	if err := t.submit(ctx, c.scenario.tasks, "", c.scenario.policies...); err != nil {
		return f, err
	}
	if err := t.await(ctx, realWarm+c.scenario.tasks); err != nil {
		return f, err
	}
	armed, err := t.armed(ctx)
	if err != nil {
		return f, err
	}
	cancel()
	<-watched
	return t.figures(t.api.since(start), armed)
}

// deploy deploys the functions of this machine.
func (t *trial) deploy(ctx context.Context, c *cloud.Cloud) (err error) {
	c.SetDelivery(cloud.Wakeups, cloud.Delivery{Plan: func(e cloud.Event) []time.Duration {
		t.wakeups.Add(1)
		return cloud.Once(e)
	}})
	binary := func(name string) func(map[string]string) lambdaemu.Runtime {
		return stack.Process(filepath.Join("dist", "host", name, "bootstrap"))
	}
	if t.Stack, err = stack.Deploy(ctx, c, stack.Options{
		Claim:       binary("claim"),
		Reset:       binary("reset"),
		Concurrency: realConcurrency,
		Environment: map[string]string{handlers.EnvHTTPHosts: t.api.host()},
	}); err != nil {
		return err
	}
	limiter := dynamolimit.New(dynamodb.NewFromConfig(t.Config("bench")), t.Table)
	return limiter.Declare(ctx, 1, t.scenario.policies...)
}

// warmUp has functions start, each for a task that runs as long as the others' do.
func (t *trial) warmUp(ctx context.Context) error {
	t.api.warm.Add(realWarm)
	if err := t.submit(ctx, realWarm, "/warm"); err != nil {
		return err
	}
	return t.await(ctx, realWarm)
}

// submit submits tasks that call the API.
func (t *trial) submit(ctx context.Context, tasks int, path string, under ...limit.Policy) error {
	q := queue.Over(t.Store("bench"))
	var limits []queue.Option
	for _, p := range under {
		limits = append(limits, queue.Limit(p.Name, "k", 1))
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for range tasks {
		group.Go(func() error {
			_, err := q.Submit(ctx, handlers.TypeHTTPRequest, handlers.Request{URL: "http://" + t.api.host() + path}, limits...)
			return err
		})
	}
	return group.Wait()
}

// await waits until so many tasks have completed and no function is at work.
func (t *trial) await(ctx context.Context, tasks int) error {
	q := queue.Over(t.Store("bench"))
	for {
		counts := map[task.Status]int{}
		for one, err := range q.All(ctx, queue.ListOptions{}) {
			if err != nil {
				return err
			}
			counts[one.Status]++
		}
		live := counts[task.Pending] + counts[task.Running]
		at := t.Cloud.Lambda().Stats(t.Function)
		switch {
		case live+at.Running+at.Waiting+at.Retrying > 0:
		case counts[task.Completed] != tasks:
			return fmt.Errorf("the tasks ended as %v, want %d completed", counts, tasks)
		default:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%v after %v: %w", counts, realPatience, ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

// armed returns how many wake-ups are still to come, in vain.
func (t *trial) armed(ctx context.Context) (n int, err error) {
	pages := scheduler.NewListSchedulesPaginator(scheduler.NewFromConfig(t.Config("bench")),
		&scheduler.ListSchedulesInput{GroupName: &t.ScheduleGroup})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return 0, err
		}
		n += len(page.Schedules)
	}
	return n, nil
}

// watchInvocations adds up how long invocations last, until the context ends.
func (t *trial) watchInvocations(ctx context.Context) (ended chan struct{}) {
	const pause = 20 * time.Millisecond
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		last := time.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-time.After(pause):
				t.held.Add(int64(now.Sub(last)) * int64(t.Cloud.Lambda().Stats(t.Function).Running))
				last = now
			}
		}
	}()
	return ended
}

// figures judges a run. A task needs a moment from the limiter to its handler, and one
// that needs less than the one before it comes closer to that: as an API that is called by
// a network has to allow, the burst may be one more than the policy's.
func (t *trial) figures(started []int64, armed int) (figures, error) {
	n := t.scenario.tasks
	if len(started) != n {
		return figures{}, fmt.Errorf("%d handlers have started for %d tasks", len(started), n)
	}
	f := figures{
		wakeups: (float64(t.wakeups.Load()) + float64(armed)) / float64(n),
		held:    time.Duration(t.held.Load()).Seconds() / float64(n),
		drain:   float64(started[n-1]) / float64(t.scenario.ideal()),
	}
	for _, r := range t.scenario.rules {
		r.burst++
		f.beyond = max(f.beyond, beyond(r, started))
	}
	return f, nil
}
