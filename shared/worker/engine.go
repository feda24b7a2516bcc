package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/wakeup"
)

// Config is what an [Engine] is made of. Store, Wakeups and Mux are required,
// the zero values of the others work.
type Config struct {
	Store   *s3store.Store
	Wakeups *wakeup.Armer
	Mux     *Mux

	// Limiter admits tasks that have limits. Without one they wait.
	Limiter Limiter
	// Router hands over tasks of types that the mux does not know. Optional.
	Router Router
	// Notifier is told of tasks that have ended. Optional.
	Notifier Notifier

	// WorkerID names this instance in records. Defaults to "worker".
	WorkerID string
	// FunctionName is the dimension of the limiter's metrics. Defaults to "sluice-claim".
	FunctionName string
	// Rest is the longest sleep that is slept within the invocation, its
	// wake-up staying armed. Defaults to [DefaultRest], [NoRest] switches it off.
	Rest time.Duration
	// UnhandledGrace is how long a task without a handler is put back before it
	// fails. Defaults to [task.DefaultUnhandledGrace].
	UnhandledGrace time.Duration
	// Log takes one line per outcome. Defaults to JSON on standard output.
	Log *slog.Logger
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
	// Exit ends the process when a handler does not stop. Defaults to os.Exit.
	Exit func(code int)
}

// DefaultRest is the longest sleep that is slept within the invocation unless
// configured otherwise.
const DefaultRest = 5 * time.Second

// NoRest makes every sleep end the invocation.
const NoRest time.Duration = -1

// How the time of an invocation is shared out.
const (
	// stopGrace is how long a handler may take to return after its context ended.
	stopGrace = 5 * time.Second
	// recordReserve is kept for recording the outcome.
	recordReserve = 10 * time.Second
	// leaseMargin is how long a lease outlives the invocation: more than the
	// clocks of two instances differ.
	leaseMargin = 15 * time.Second
	// cancelPoll is how often a running task is looked at for a cancel request.
	cancelPoll = 10 * time.Second
	// pollPatience is how long that look may take.
	pollPatience = 5 * time.Second
	// clockMargin is how far a wake-up may be early by our clock.
	clockMargin = time.Second
)

// Engine is the claim engine. Use [NewEngine].
type Engine struct {
	Config
}

// NewEngine returns the engine of a claim function.
func NewEngine(c Config) *Engine {
	if c.WorkerID == "" {
		c.WorkerID = "worker"
	}
	if c.FunctionName == "" {
		c.FunctionName = "sluice-claim"
	}
	if c.Rest == 0 {
		c.Rest = DefaultRest
	}
	if c.Log == nil {
		c.Log = slog.New(slog.NewJSONHandler(os.Stdout, nil))
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Exit == nil {
		c.Exit = os.Exit
	}
	return &Engine{Config: c}
}

// Handle is the claim function: it looks at every task that the event names,
// one after the other, and a bad one does not stop its neighbours. An error means that
// Lambda's retry of the event can help: S3 is down, a wake-up could not be armed. Errors
// of handlers are recorded with their tasks and never returned.
func (e *Engine) Handle(ctx context.Context, raw json.RawMessage) error {
	sources, err := decodeEvent(raw)
	if err != nil {
		return err
	}
	i := &invocation{started: e.Now()}
	ctx = i.traffic.Context(ctx)
	defer e.reportTraffic(ctx, i)
	var errs []error
	var last *work
	for n, src := range sources {
		// A task that sleeps for a moment does not keep its neighbors waiting.
		w := &work{source: src, invocation: i, yield: n < len(sources)-1}
		if err := e.visit(ctx, w); err != nil {
			e.Log.ErrorContext(ctx, "visit failed", "task_id", src.id, "key", src.inboxKey, "error", err.Error())
			errs = append(errs, err)
		}
		if last == nil || w.crowd.Waiting > 0 || last.crowd.Waiting <= 0 {
			last = w
		}
	}
	if last != nil && len(errs) == 0 {
		e.takeAlong(ctx, last)
	}
	return errors.Join(errs...)
}

// invocation is what the visits of one invocation share.
type invocation struct {
	started time.Time
	traffic dynamolimit.Traffic
}

// work is one visit of a task.
type work struct {
	source
	*invocation

	// submitted is the task of the inbox object that was read, nil for none.
	submitted *task.Task
	// rec is the task as it was last read or written.
	rec s3store.Record
	// prepared tells that handler, tiers and broken are known for rec.
	prepared bool
	// handler is the one of the task's type, nil if there is none.
	handler *handler
	// tiers limit the task. broken is why they could not be chosen.
	tiers  []limit.Tier
	broken error
	// input is the task's input if that is an object of its own.
	input json.RawMessage
	// reservation is what the limiter charged for the run that comes next, or is under way.
	reservation *limit.Reservation
	// armed is the second for which a wake-up is armed, 0 for none.
	armed int64
	// runs counts the runs of this visit, ran is how long the last one took until
	// it is reported.
	runs int
	ran  time.Duration
	// yield ends the visit although the task may be due again soon.
	yield bool
	// woken tells that the limiter was asked about a task that slept under a place.
	woken bool
	// vacated tells that the task had ended and still held a place, which it has left now.
	vacated bool
	// sleeper is the task as it was taken out of the index of those who wait, until the
	// limiter is asked about it. along tells that another task's function has taken it.
	sleeper *dynamolimit.Sleeper
	along   bool
	// sleepsOn tells that a task that was taken along was left as it was.
	sleepsOn bool
	// crowd is a key of the task on which others wait.
	crowd dynamolimit.Crowd
}

// adopt takes what somebody else wrote for the task's state. It may have been
// made from another submission, with another type and input.
func (w *work) adopt(rec s3store.Record) {
	w.rec = rec
	w.prepared, w.handler, w.tiers, w.broken, w.input = false, nil, nil, nil, nil
}

// visit does what is due for one task.
func (e *Engine) visit(ctx context.Context, w *work) error {
	due, err := e.load(ctx, w) // 1
	for due && err == nil {
		due, err = e.attempt(ctx, w)
	}
	switch {
	case errors.Is(err, s3store.ErrGone):
		// Deleted while we looked at it: it is not made again, and nothing stays.
		return e.Store.Remove(ctx, w.id, w.rec.Task.InboxVersion)
	case errors.Is(err, s3store.ErrDamaged):
		// Trying again can't help. The task stays as it is, for a person to look at.
		// What is wrong with it may be a secret, and is for `sluice get` to say.
		e.Log.ErrorContext(ctx, "record damaged", "task_id", w.id, "error", s3store.ErrDamaged.Error())
		return nil
	}
	return err
}

// attempt brings a due task one step on, and reports whether it is due again
// within this invocation.
func (e *Engine) attempt(ctx context.Context, w *work) (again bool, err error) {
	admitted, err := e.admit(ctx, w) // 2
	if admitted && err == nil {
		var claimed bool
		claimed, err = e.claim(ctx, w) // 3
		e.giveBack(ctx, w, claimed, err)
		if claimed && err == nil {
			result := e.run(ctx, w)        // 4
			err = e.record(ctx, w, result) // 5
		}
	}
	if lost, ok := errors.AsType[*s3store.ConflictError](err); ok { // somebody else moved the task: see what it is now
		w.adopt(lost.Current)
		return e.examine(ctx, w)
	}
	if err != nil {
		return false, err
	}
	return e.rest(ctx, w) // 6
}

// admit finds the handler and asks whether the task may run now. A selector
// that failed, or an input that is gone, is let pass, to be a failed attempt.
func (e *Engine) admit(ctx context.Context, w *work) (admitted bool, err error) {
	if err := e.prepare(ctx, w); err != nil {
		return false, err
	}
	need := e.timeNeeded(w.rec.Task)
	switch {
	case w.handler == nil:
		return false, e.handOver(ctx, w)
	case e.timeLeft(ctx) < need && w.along:
		return false, nil
	case e.timeLeft(ctx) < need:
		return false, e.postpone(ctx, w, need)
	}
	if err := e.readInput(ctx, w); err != nil {
		return false, err
	}
	if w.broken != nil || len(w.tiers) == 0 {
		return true, nil //nolint:nilerr // what is broken becomes a failed attempt
	}
	return e.acquire(ctx, w)
}

// handOver leaves a task whose type has no handler here to the function that
// serves it. Without one it is put back for a while: a deploy or a rollback may be in
// flight.
func (e *Engine) handOver(ctx context.Context, w *work) error {
	if e.Router != nil {
		if routed, err := e.Router.Route(ctx, w.rec.Task.Type, w.id); routed || err != nil {
			w.yield = true
			return err
		}
	}
	return e.change(ctx, w, task.Unhandled{Grace: e.UnhandledGrace})
}

// rest sleeps a short sleep within the invocation, and reports whether the
// task is due then. The wake-up stays armed, should this process die.
func (e *Engine) rest(ctx context.Context, w *work) (due bool, err error) {
	t := w.rec.Task
	wait := t.AvailableAt.Sub(e.Now())
	if w.yield || e.Rest < 0 || t.Status != task.Pending || t.Parked() || wait > e.Rest || t.ExpiredAt(t.AvailableAt) {
		return false, nil
	}
	if e.timeLeft(ctx)-wait < e.timeNeeded(t) {
		return false, nil
	}
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return false, nil
		case <-timer.C:
		}
	}
	return e.examine(ctx, w)
}

// timeNeeded is what the invocation must have left for a run of the task.
func (e *Engine) timeNeeded(t task.Task) time.Duration {
	return time.Duration(t.TimeoutSeconds)*time.Second + stopGrace + recordReserve
}

// timeLeft is what the invocation has left.
func (e *Engine) timeLeft(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 1<<63 - 1
	}
	return deadline.Sub(e.Now())
}

// arm makes sure that the task is looked at again at the time.
func (e *Engine) arm(ctx context.Context, w *work, at time.Time) error {
	now := e.Now()
	if w.armed != 0 && w.armed == wakeup.Second(at, now, w.second) {
		return nil
	}
	armed, err := e.Wakeups.Arm(ctx, w.id, at, now, w.second)
	if err != nil {
		return err
	}
	w.armed = armed
	return nil
}

// change writes what an event makes of the task. A wake-up is armed before the
// write that needs it, so that no crash leaves a sleeping task without one; if arming fails,
// the outcome is written all the same and the error is returned, so that Lambda's
// retry arms it.
func (e *Engine) change(ctx context.Context, w *work, event task.Event) error {
	next, effects, err := task.Apply(w.rec.Task, event, e.Now())
	if err != nil {
		return fmt.Errorf("claim function: %w", err)
	}
	before := w.rec.Task
	var armErr error
	if next.Status == task.Pending {
		armErr = e.arm(ctx, w, effects.WakeAt)
	}
	rec, err := e.Store.Write(ctx, w.rec, next)
	if err != nil {
		return err
	}
	w.rec = rec
	e.report(ctx, w, effects)
	switch {
	case effects.Finished:
		w.vacated = before.Parked()
		e.leavePlace(ctx, w, before)
		return e.finish(ctx, w)
	case next.Status == task.Pending && armErr == nil && e.Now().Add(clockMargin).Unix() >= w.armed:
		// The write took longer than the sleep: the wake-up may have come and
		// found the task still running.
		armErr = e.arm(ctx, w, effects.WakeAt)
	}
	return armErr
}

// finish is the clean-up of a task that has ended: the last step of its life. Until the
// submission is removed, every visit does all of it again.
func (e *Engine) finish(ctx context.Context, w *work) error {
	if err := e.notify(ctx, w.rec.Task); err != nil {
		return err
	}
	if err := e.Store.TagPayloads(ctx, w.rec.Task); err != nil {
		return err
	}
	return e.Store.Remove(ctx, w.id, w.rec.Task.InboxVersion)
}

func (e *Engine) jitter() float64 { return rand.Float64() } //nolint:gosec // it spreads retries, it keeps no secret
