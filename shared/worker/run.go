package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
)

// claim makes the task ours with a conditional write.
func (e *Engine) claim(ctx context.Context, w *work) (claimed bool, err error) {
	lease := uuid.NewString()
	next, effects, err := task.Apply(w.rec.Task, task.Claim{
		LeaseID:        lease,
		WorkerID:       e.WorkerID,
		LeaseExpiresAt: e.leaseEnd(ctx, w),
	}, e.Now())
	if err != nil { // it expired just now: the next look ends it
		return false, nil //nolint:nilerr // see above
	}
	rec, err := e.Store.Write(ctx, w.rec, next)
	var lost *s3store.ConflictError
	if errors.As(err, &lost) && lost.Current.Task.LeaseID == lease {
		// Our write was done, its response lost, and a cancel came on top.
		rec, err = lost.Current, nil
	}
	if err != nil {
		return false, err
	}
	if w.reservation == nil { // else it has left its place with its turn
		e.leavePlace(ctx, w, w.rec.Task)
	}
	w.rec = rec
	e.report(ctx, w, effects)
	return true, nil
}

// postpone leaves a task to another invocation that has more time, and fails
// it if none ever has.
func (e *Engine) postpone(ctx context.Context, w *work, need time.Duration) error {
	deadline, _ := ctx.Deadline()
	offer := deadline.Sub(w.started)
	if need > offer {
		most := max(int64((offer-stopGrace-recordReserve)/time.Second)-1, 0)
		return e.change(ctx, w, task.Reject{Error: fmt.Sprintf(
			"timeout_seconds is %d, more than this function can offer: at most %d, or raise the function's timeout",
			w.rec.Task.TimeoutSeconds, most)})
	}
	w.yield = true
	return e.arm(ctx, w, e.Now())
}

// leaseEnd is when nobody can be running the task any more: after the
// invocation's own end and the longest run the handler starts elsewhere, plus a margin for
// clocks that differ.
func (e *Engine) leaseEnd(ctx context.Context, w *work) time.Time {
	now := e.Now()
	end, ok := ctx.Deadline()
	if !ok {
		end = now.Add(e.timeNeeded(w.rec.Task))
	}
	if least := now.Add(w.handler.minLease); least.After(end) {
		end = least
	}
	return end.Add(leaseMargin)
}

// result is what a run of the handler came to.
type result struct {
	output json.RawMessage
	err    error
	// used is what the handler said the run cost.
	used *usage
	// abandoned means that the handler did not stop: nothing may be recorded.
	abandoned bool
}

// Causes for which a handler's context ends.
var (
	errTimeout   = errors.New("the task's timeout is over")
	errCancelled = errors.New("the task was cancelled")
	errLost      = errors.New("the task's lease was lost")
)

// run calls the handler under a context that ends before the invocation does,
// and looks for a cancel request meanwhile. It returns only when the handler has
// returned; one that ignores the end of its context makes the process exit.
func (e *Engine) run(ctx context.Context, w *work) result {
	if w.broken != nil {
		return result{err: w.broken}
	}
	t := w.resolved()
	t.Limits = limitsOf(w.tiers)
	used := &usage{actual: make(map[string]int64)}
	started := e.Now()
	r := e.runHandler(withUsage(withTask(ctx, t), used), w, t)
	r.used = used
	w.ran = max(e.Now().Sub(started), 1) // above 0: it ran
	w.runs++
	return r
}

func (e *Engine) runHandler(ctx context.Context, w *work, t task.Task) result {
	timeout := time.Duration(t.TimeoutSeconds) * time.Second
	// Should the claim have taken long, the run is shortened: its end and the
	// outcome's record must fit into the invocation.
	timeout = min(timeout, e.timeLeft(ctx)-stopGrace-recordReserve)
	limited, stopTimeout := context.WithTimeoutCause(ctx, timeout, errTimeout)
	defer stopTimeout()
	handlerCtx, stop := context.WithCancelCause(limited)
	defer stop(nil)

	done := make(chan result, 1)
	go call(handlerCtx, w.handler, t.Input, done)

	poll := time.NewTicker(cancelPoll)
	defer poll.Stop()
	for {
		select {
		case r := <-done:
			return explainEnd(handlerCtx, r, timeout)
		case <-poll.C:
			e.watch(handlerCtx, w, stop)
		case <-handlerCtx.Done():
			return e.awaitStop(handlerCtx, w, done, timeout)
		}
	}
}

// awaitStop gives a handler whose context has ended a little time to return.
func (e *Engine) awaitStop(ctx context.Context, w *work, done <-chan result, timeout time.Duration) result {
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case r := <-done:
		return explainEnd(ctx, r, timeout)
	case <-grace.C:
		e.Log.ErrorContext(ctx, "handler ignores its context, the process exits and the lease decides",
			"task_id", w.id, "task_type", w.rec.Task.Type, "grace", stopGrace.String())
		e.Exit(1)
		return result{abandoned: true}
	}
}

// call runs the handler and turns a panic into an error.
func call(ctx context.Context, h *handler, input json.RawMessage, done chan<- result) {
	r := result{err: errors.New("the handler ended its goroutine (runtime.Goexit)")}
	defer func() {
		if p := recover(); p != nil {
			r = result{err: fmt.Errorf("panic: %v\n\n%s", p, debug.Stack())}
		}
		done <- r
	}()
	output, err := h.run(ctx, input)
	r = result{output: output, err: err}
}

// explainEnd adds to an error why the handler's context had ended.
func explainEnd(ctx context.Context, r result, timeout time.Duration) result {
	if r.err != nil && errors.Is(context.Cause(ctx), errTimeout) && errors.Is(r.err, context.DeadlineExceeded) {
		r.err = fmt.Errorf("timeout: the handler ran for %s: %w", timeout, r.err)
	}
	return r
}

// watch looks for a cancel request, and whether the task is still ours. It
// does not keep the outcome waiting for long.
func (e *Engine) watch(ctx context.Context, w *work, stop context.CancelCauseFunc) {
	ctx, cancel := context.WithTimeout(ctx, pollPatience)
	defer cancel()
	rec, err := e.Store.Record(ctx, w.id)
	switch {
	case errors.Is(err, s3store.ErrNotFound), err == nil && rec.Task.LeaseID != w.rec.Task.LeaseID:
		stop(errLost)
	case err != nil: // the next look, or the write of the outcome, finds out
	case rec.Task.CancelRequested:
		w.rec = rec
		stop(errCancelled)
	}
}

// record writes the outcome of a run. When somebody wrote in between and the
// lease is still ours, they asked for a cancel: the outcome is applied to what they
// wrote. When it is not, the outcome is dropped.
func (e *Engine) record(ctx context.Context, w *work, r result) error {
	if r.abandoned {
		return errors.New("the handler did not stop, its outcome is unknown")
	}
	if IsUnknown(r.err) {
		e.Log.WarnContext(ctx, "outcome unknown, the lease decides", "task_id", w.id)
		w.yield = true
		return e.arm(ctx, w, w.rec.Task.NextLook())
	}
	event, err := e.outcome(ctx, w, r)
	if err != nil {
		return err
	}
	defer e.settle(ctx, w, r.used)
	lease := w.rec.Task.LeaseID
	for {
		err := e.change(ctx, w, event)
		if refused, ok := errors.AsType[*task.TransitionError](err); ok && w.rec.Task.Status == task.Running {
			// What the handler returned can't be stored, and would not be the next time.
			event = task.Failure{Error: refused.Error(), Permanent: true}
			continue
		}
		var lost *s3store.ConflictError
		if !errors.As(err, &lost) {
			return err
		}
		if lost.Current.Task.LeaseID != lease {
			e.Log.WarnContext(ctx, "outcome dropped, the task is no longer ours", "task_id", w.id, "lease_id", lease)
			return err
		}
		w.rec = lost.Current
	}
}

// outcome is the event that a handler's result is.
func (e *Engine) outcome(ctx context.Context, w *work, r result) (task.Event, error) {
	var sleep *RescheduleError
	var failed *FailError
	switch {
	case r.err == nil:
		return e.success(ctx, w, r.output)
	case errors.As(r.err, &sleep) && sleep.err == nil:
		if now := e.Now(); sleep.At.IsZero() && sleep.Delay <= 0 || !sleep.At.IsZero() && !sleep.At.After(now) {
			w.yield = true
		}
		e.hold(ctx, w, sleep)
		return task.Reschedule{Delay: sleep.Delay, At: sleep.At, Checkpoint: sleep.Checkpoint}, nil
	case errors.As(r.err, &failed):
		return task.Failure{Error: r.err.Error(), Permanent: true}, nil
	default:
		return task.Failure{Error: r.err.Error(), Jitter: e.jitter()}, nil
	}
}

// success keeps a large output as an object of its own.
func (e *Engine) success(ctx context.Context, w *work, output json.RawMessage) (task.Event, error) {
	if len(output) <= s3store.InlineBytes {
		return task.Success{Output: output}, nil
	}
	ref := s3store.NewPayloadRef(w.id, "output", output)
	if err := e.Store.PutPayload(ctx, ref, output); err != nil {
		return nil, err
	}
	return task.Success{OutputRef: ref}, nil
}
