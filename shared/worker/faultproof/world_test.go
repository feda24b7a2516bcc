package faultproof_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/localstack/cloud/scheduleremu"
	"github.com/sluice-dev/sluice/localstack/stack"
	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/sweep"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/worker"
)

// The clients of the cloud whose requests can meet a fault.
const (
	claimClient    = "claim"
	producerClient = "producer"
	sweepClient    = "sweep"
	// auditClient is the test's own: it sees things as they are.
	auditClient = "audit"
)

// sweepEvery is how often the world sweeps: more seldom than a deployment,
// which makes no difference but for the time it takes.
const sweepEvery = 20 * time.Minute

// world is one deployed Sluice in one bubble of virtual time, with the faults
// of one case planned.
type world struct {
	t        *testing.T
	scenario scenario
	plan     plan
	variant  variant
	cloud    *cloud.Cloud
	stack    *stack.Stack
	started  time.Time
	// environment of the claim function.
	environment map[string]string
	// wakeUps is how many were delivered.
	wakeUps int
	// granted is what an operator has added to a quota.
	granted int64

	mu        sync.Mutex
	sites     []site
	seen      map[string]int
	reached   int
	instances int
	notes     map[string]bool
	running   map[string]*instance
	tasks     map[string]*observed
	armed     map[string][]int64
	claims    []time.Time
	doubted   map[*instance]bool // they met a fault that may cost a charge
	inbox     map[string]bool    // the versions in the inbox; true for submissions, false for junk
	down      map[string]time.Time
	problems  []string
}

// variant is what differs between cases beside the fault, chosen by the
// case's name: how late schedules and events are, and how wrong clocks are.
type variant uint64

func variantOf(name string) variant {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return variant(h.Sum64() >> 8)
}

// lateness of schedules: AWS promises a minute.
func (v variant) lateness() time.Duration {
	return []time.Duration{0, 1300 * time.Millisecond, 20 * time.Second, 59 * time.Second}[v%4]
}

func (v variant) eventDelay() time.Duration {
	return []time.Duration{0, 300 * time.Millisecond, 5 * time.Second}[v/4%3]
}

// skew is how far the clock of the n-th instance is off.
func (v variant) skew(n int) time.Duration {
	if v == 0 {
		return 0
	}
	return time.Duration(int64(v>>(n%32))%3-1) * time.Second
}

// instance is one process: a function instance, or a producer's.
type instance struct {
	w    *world
	name string
	exit func()
	dead bool // guarded by w.mu
	skew time.Duration
}

func (i *instance) now() time.Time { return time.Now().Add(i.skew) }

// die ends the process in the goroutine that calls it: nothing of it runs on.
func (i *instance) die() {
	i.w.mu.Lock()
	i.dead = true
	for id, runner := range i.w.running {
		if runner == i {
			delete(i.w.running, id)
		}
	}
	i.w.mu.Unlock()
	i.exit()
}

func newWorld(t *testing.T, s scenario, p plan, v variant) *world {
	t.Helper()
	w := &world{
		t: t, scenario: s, plan: p, variant: v, started: time.Now(),
		seen: map[string]int{}, notes: map[string]bool{}, running: map[string]*instance{},
		tasks: map[string]*observed{}, armed: map[string][]int64{}, inbox: map[string]bool{}, down: map[string]time.Time{}, doubted: map[*instance]bool{},
	}
	w.cloud = cloud.New(cloud.Options{
		Scheduler: scheduleremu.Options{Lateness: v.lateness},
		Latency: map[cloud.Service]time.Duration{
			cloud.S3: 20 * time.Millisecond, cloud.Scheduler: 30 * time.Millisecond, cloud.DynamoDB: 10 * time.Millisecond,
		},
	})
	t.Cleanup(func() {
		if err := w.cloud.Close(); err != nil {
			t.Error(err)
		}
	})
	var err error
	w.stack, err = stack.Deploy(context.Background(), w.cloud, stack.Options{
		Claim: w.claimFunction, Sweep: w.sweepFunction, SweepEvery: -1, Timeout: s.functionTimeout,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.cloud.SetDelivery(cloud.S3Events, cloud.Delivery{Plan: func(cloud.Event) []time.Duration {
		return w.deliver("event.s3", v.eventDelay())
	}})
	w.cloud.SetDelivery(cloud.Wakeups, cloud.Delivery{Plan: func(cloud.Event) []time.Duration {
		return w.deliver("event.wakeup", w.wakeDelay())
	}})
	return w
}

// wakeDelay is by how much the next wake-up is late: each by more than the one before.
func (w *world) wakeDelay() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakeUps++
	return w.scenario.wakeDelay * time.Duration(min(w.wakeUps, 3))
}

func (w *world) newInstance(kind string, exit func()) *instance {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.instances++
	i := &instance{w: w, name: fmt.Sprintf("%s-%d", kind, w.instances), exit: exit, skew: w.variant.skew(w.instances)}
	return i
}

// config is how an instance reaches the cloud. Signatures are spared: nobody
// looks at them.
func (w *world) config(client string, i *instance) aws.Config {
	config := w.cloud.Config(cloud.Label(client))
	config.Credentials = aws.AnonymousCredentials{}
	if i != nil {
		config.HTTPClient = &http.Client{Transport: &transport{w: w, client: client, instance: i, inner: w.cloud.Transport(client)}}
	}
	return config
}

type instanceKey struct{}

func (w *world) claimFunction(env map[string]string) lambdaemu.Runtime {
	w.environment = env
	return lambdaemu.Func(func(ctx context.Context, payload []byte) ([]byte, error) {
		i := w.newInstance(claimClient, func() { lambdaemu.Exit(ctx) })
		engine, err := worker.FromEnvironment(w.config(claimClient, i), w.mux(), func(name string) string { return env[name] })
		if err != nil {
			return nil, err
		}
		engine.Log = slog.New(slog.DiscardHandler)
		engine.WorkerID, engine.Now, engine.Exit = i.name, i.now, func(int) { i.die() }
		if w.scenario.engine != nil {
			w.scenario.engine(&engine.Config)
		}
		return nil, engine.Handle(context.WithValue(ctx, instanceKey{}, i), payload)
	})
}

func (w *world) sweepFunction(env map[string]string) lambdaemu.Runtime {
	return lambdaemu.Func(func(ctx context.Context, payload []byte) ([]byte, error) {
		i := w.newInstance(sweepClient, func() { lambdaemu.Exit(ctx) })
		c, err := sweep.ConfigFromEnvironment(w.config(sweepClient, i), func(name string) string { return env[name] })
		if err != nil {
			return nil, err
		}
		c.Log, c.Now = slog.New(slog.DiscardHandler), i.now
		sweeper, err := sweep.New(c)
		if err != nil {
			return nil, err
		}
		_, err = sweeper.Handle(ctx, payload)
		return nil, err
	})
}

// handler is a scenario's: it sees the task as it was claimed.
type handler func(ctx context.Context, w *world, t task.Task) (any, error)

// mux has the handlers of the scenario that are deployed by now.
func (w *world) mux() *worker.Mux {
	mux := worker.NewMux()
	if time.Since(w.started) < w.scenario.deployedAfter {
		return mux
	}
	var options []worker.HandleOption
	if w.scenario.limit != nil {
		options = append(options, worker.WithLimits(limit.Global[json.RawMessage](*w.scenario.limit)))
	}
	worker.Handle(mux, "job", func(ctx context.Context, _ json.RawMessage) (any, error) {
		t, _ := worker.TaskFrom(ctx)
		i, _ := ctx.Value(instanceKey{}).(*instance)
		w.enter(t, i)
		defer w.leave(t, i)
		return w.scenario.handle(ctx, w, t)
	}, options...)
	return mux
}

// enter notes that a handler runs.
func (w *world) enter(t task.Task, i *instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if other := w.running[t.ID]; other != nil {
		w.complain("handlers of task %s overlap: attempt %d on %s, and one on %s", t.ID, t.Attempt, i.name, other.name)
	}
	w.running[t.ID] = i
	o := w.observed(t.ID)
	if o.leases[t.LeaseID] {
		w.complain("the handler of task %s ran twice under the lease of attempt %d", t.ID, t.Attempt)
	}
	o.leases[t.LeaseID] = true
}

func (w *world) leave(t task.Task, i *instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[t.ID] == i {
		delete(w.running, t.ID)
	}
}

// once is true the first time it is asked about something: the memory of the
// world outside.
func (w *world) once(what string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := !w.notes[what]
	w.notes[what] = true
	return first
}

// complain notes a broken rule. The caller holds the lock.
func (w *world) complain(format string, args ...any) {
	at := time.Since(w.started).Round(time.Millisecond)
	w.problems = append(w.problems, fmt.Sprintf("after %s: ", at)+fmt.Sprintf(format, args...))
}

// produce does something as a producer, who tries again when it fails or when
// its process dies, up to some twenty times.
func (w *world) produce(what string, do func(ctx context.Context, q *queue.Queue, try int) error) {
	w.t.Helper()
	const tries = 20
	var err error
	for try := range tries {
		done := make(chan error, 1)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			i := w.newInstance(producerClient, runtime.Goexit)
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			done <- do(ctx, queue.New(w.config(producerClient, i), w.stack.Bucket), try)
		}()
		<-ended
		select {
		case err = <-done:
			if err == nil {
				return
			}
		default:
			err = errors.New("the process died")
		}
		time.Sleep(5 * time.Second)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.complain("%s: still %v after %d tries", what, err, tries)
}

// submit submits a task of that id.
func (w *world) submit(id string, input any, opts ...queue.Option) {
	w.t.Helper()
	w.produce("submit", func(ctx context.Context, q *queue.Queue, try int) error {
		_, err := q.Submit(ctx, "job", input, append([]queue.Option{queue.ID(id), queue.Timeout(time.Minute)}, opts...)...)
		if errors.Is(err, queue.ErrExists) && try > 0 {
			_, err = q.Get(ctx, id)
		}
		return err
	})
}

func (w *world) cancel(id string) {
	w.t.Helper()
	w.produce("cancel", func(ctx context.Context, q *queue.Queue, _ int) error {
		_, err := q.Cancel(ctx, id)
		return err
	})
}

func (w *world) replay(id string) {
	w.t.Helper()
	w.produce("replay", func(ctx context.Context, q *queue.Queue, try int) error {
		_, err := q.Replay(ctx, id)
		var refused *task.TransitionError
		if try > 0 && errors.As(err, &refused) { // an earlier try did it
			return nil
		}
		return err
	})
}

func (w *world) purge(id string) {
	w.t.Helper()
	w.produce("purge", func(ctx context.Context, q *queue.Queue, try int) error {
		err := q.Purge(ctx, id, queue.Force())
		if try > 0 && errors.Is(err, queue.ErrNotFound) { // an earlier try did it
			return nil
		}
		return err
	})
}

// foreign puts a document into the inbox as a producer in another language.
func (w *world) foreign(id, document string) {
	w.t.Helper()
	version := w.audit().put(s3store.InboxKey(id), document)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inbox[version] = strings.HasPrefix(document, "{")
}

// takeOver gives the lease of a task to a worker that is not there, as soon as
// the task runs: what a clock that is far off would do.
func (w *world) takeOver(id string) {
	w.t.Helper()
	w.until(func() bool { return w.observed(id).task().Status == task.Running })
	w.mu.Lock()
	t := w.observed(id).task()
	t.Revision++
	t.WriteID, t.LeaseID, t.WorkerID = "taken-over", "taken-over", "somebody"
	w.observed(id).writes = append(w.observed(id).writes, write{task: t})
	w.mu.Unlock()
	w.audit().put(s3store.TaskKey(id), string(t.Encode()))
}

// until looks every second, sweeping meanwhile.
func (w *world) until(seen func() bool) {
	for passed := time.Duration(0); passed < 24*time.Hour; passed += time.Second {
		w.mu.Lock()
		done := seen()
		w.mu.Unlock()
		if done {
			return
		}
		time.Sleep(time.Second)
		if passed%sweepEvery == 0 {
			w.sweep()
		}
	}
}

// batch asks the claim function to look at tasks.
func (w *world) batch(ids ...string) {
	event, err := json.Marshal(map[string]any{"task_ids": ids})
	if err == nil {
		_, err = w.cloud.Lambda().InvokeAsync(w.stack.Function, event, lambdaemu.InvokeOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// sweep runs the sweep. With an empty inbox it is spared the trouble.
func (w *world) sweep() {
	w.mu.Lock()
	empty := len(w.inbox) == 0
	w.mu.Unlock()
	if empty && !w.scenario.sweeps {
		return
	}
	if _, err := w.cloud.Lambda().InvokeAsync(w.stack.Sweep, []byte("{}"), lambdaemu.InvokeOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// awaitEnd waits until the tasks have ended, sweeping meanwhile.
func (w *world) awaitEnd(ids ...string) {
	w.t.Helper()
	most := 24 * time.Hour / sweepEvery
	if w.scenario.parks {
		most *= 3 // a task that no passing of time makes due is looked at once a day
	}
	for range most {
		if w.ended(ids...) {
			return
		}
		w.wait(sweepEvery)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		if t := w.observed(id).task(); !t.Status.Terminal() {
			w.complain("task %s has not ended: it is %q", id, t.Status)
		}
	}
}

// wait lets time pass, and sweeps.
func (w *world) wait(d time.Duration) {
	for ; d >= sweepEvery; d -= sweepEvery {
		time.Sleep(sweepEvery)
		w.sweep()
	}
	time.Sleep(d)
}

func (w *world) ended(ids ...string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		if !w.observed(id).task().Status.Terminal() {
			return false
		}
	}
	return true
}

// sleep is a handler's work: it ends early when the handler's context does.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
