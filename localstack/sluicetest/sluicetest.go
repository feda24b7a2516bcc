// Package sluicetest lets you test handlers on the real thing: the claim
// engine, the queue and an in-memory cloud, all in the test's process.
//
//	func TestWelcome(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			mux := worker.NewMux()
//			worker.Handle(mux, "welcome", Welcome)
//			s := sluicetest.Start(t, mux)
//			task := s.Submit("welcome", User{Name: "Ada"})
//			task = s.Wait(task.ID)
//			…
//		})
//	}
//
// The sweep runs too, as in a deployment: every five minutes at first, and more seldom
// the longer the test's clock has run, so that a century has some hundred sweeps and not ten
// million. [NoSweep] switches it off, stack.Options.SweepEvery sets a regular interval.
//
// No socket and no process is involved, so inside a testing/synctest bubble
// time is virtual: a task that sleeps for a week is awake at once.
package sluicetest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/localstack/stack"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/sweep"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/worker"
)

// Stack is a Sluice of the test's own.
type Stack struct {
	*stack.Stack
	// Queue submits and reads tasks.
	Queue *queue.Queue

	t testing.TB
}

// Option changes what [Start] starts.
type Option func(*options)

type options struct {
	cloud  cloud.Options
	stack  stack.Options
	engine func(*worker.Config)
	sweep  func(*sweep.Config)
	// unswept switches the sweep off.
	unswept bool
}

// Cloud sets options of the cloud, such as latency or late schedules.
func Cloud(o cloud.Options) Option { return func(opts *options) { opts.cloud = o } }

// Deployment sets options of the deployment, such as the function's timeout
// or its environment.
func Deployment(o stack.Options) Option { return func(opts *options) { opts.stack = o } }

// Engine changes the configuration of the claim engine before each invocation.
func Engine(change func(*worker.Config)) Option {
	return func(opts *options) { opts.engine = change }
}

// Sweep changes the configuration of the sweep before each of its runs.
func Sweep(change func(*sweep.Config)) Option {
	return func(opts *options) { opts.sweep = change }
}

// NoSweep switches the sweep off: for tests that count requests, and for those
// that want to see what becomes of a task without it.
func NoSweep() Option { return func(opts *options) { opts.unswept = true } }

// Start starts a Sluice whose claim function serves the mux. It ends with the
// test.
func Start(t testing.TB, mux *worker.Mux, opts ...Option) *Stack {
	t.Helper()
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	c := cloud.New(o.cloud)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	o.stack.Claim = claimFunction(c, mux, o.engine)
	regular := o.stack.SweepEvery != 0
	if !o.unswept {
		o.stack.Sweep = sweepFunction(c, o.sweep)
		if !regular {
			o.stack.SweepEvery = -1
		}
	}
	s, err := stack.Deploy(context.Background(), c, o.stack)
	if err != nil {
		t.Fatal(err)
	}
	if !o.unswept && !regular {
		sweepLessAndLess(s)
	}
	return &Stack{Stack: s, Queue: s.Queue(), t: t}
}

// sweepLessAndLess runs the sweep after five minutes and then whenever the time
// since the start has grown by a twentieth, but not more often than every five minutes.
func sweepLessAndLess(s *stack.Stack) {
	started := time.Now()
	var next func()
	next = func() {
		if _, err := s.Cloud.Lambda().InvokeAsync(s.Sweep, []byte("{}"), lambdaemu.InvokeOptions{}); err != nil {
			return // the cloud was closed
		}
		time.AfterFunc(max(stack.SweepEvery, time.Since(started)/20), next)
	}
	time.AfterFunc(stack.SweepEvery, next)
}

// sweepFunction is a sweep function of this process.
func sweepFunction(c *cloud.Cloud, change func(*sweep.Config)) func(map[string]string) lambdaemu.Runtime {
	return func(env map[string]string) lambdaemu.Runtime {
		return lambdaemu.Func(func(ctx context.Context, payload []byte) ([]byte, error) {
			config, err := sweep.ConfigFromEnvironment(c.Config(cloud.Label("sweep")), func(name string) string { return env[name] })
			if err != nil {
				return nil, err
			}
			config.Log = slog.New(slog.DiscardHandler)
			if change != nil {
				change(&config)
			}
			sweeper, err := sweep.New(config)
			if err != nil {
				return nil, err
			}
			_, err = sweeper.Handle(ctx, payload)
			return nil, err
		})
	}
}

// claimFunction is a claim function of this process: its instances share
// nothing but the mux, and one whose handler does not stop dies as a process would.
func claimFunction(c *cloud.Cloud, mux *worker.Mux, change func(*worker.Config)) func(map[string]string) lambdaemu.Runtime {
	return func(env map[string]string) lambdaemu.Runtime {
		return lambdaemu.Func(func(ctx context.Context, payload []byte) ([]byte, error) {
			engine, err := worker.FromEnvironment(c.Config(cloud.Label("claim")), mux, func(name string) string { return env[name] })
			if err != nil {
				return nil, err
			}
			engine.Log = slog.New(slog.DiscardHandler)
			engine.Exit = func(int) { lambdaemu.Exit(ctx) }
			if change != nil {
				change(&engine.Config)
			}
			return nil, engine.Handle(ctx, payload)
		})
	}
}

// Submit submits a task, and fails the test if that fails.
func (s *Stack) Submit(taskType string, input any, opts ...queue.Option) task.Task {
	s.t.Helper()
	t, err := s.Queue.Submit(s.t.Context(), taskType, input, opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	return t
}

// Get reads a task, and fails the test if that fails.
func (s *Stack) Get(id string) task.Task {
	s.t.Helper()
	t, err := s.Queue.Get(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return t
}

// Wait waits until a task has ended, and fails the test if it has not after ten
// years: in a synctest bubble that is no time, outside of one the test's own
// deadline comes first. It looks more seldom the longer it waits.
func (s *Stack) Wait(id string) task.Task {
	s.t.Helper()
	const most = 100 * 365 * 24 * time.Hour
	for waited := 10 * time.Millisecond; waited < most; waited += waited / 10 {
		t := s.Get(id)
		if t.Status.Terminal() {
			return t
		}
		time.Sleep(waited / 10)
	}
	s.t.Fatalf("task %s has not ended after a century: %s", id, s.Get(id).Encode())
	return task.Task{}
}

// History words what happened to a task, one line per version.
func (s *Stack) History(id string) []string {
	s.t.Helper()
	entries, err := s.Queue.History(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	lines := make([]string, 0, len(entries))
	for _, e := range entries {
		lines = append(lines, e.String())
	}
	return lines
}
