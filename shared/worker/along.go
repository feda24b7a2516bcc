package worker

import (
	"context"
	"time"

	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/task"
)

// Wake-ups come up to a minute late, and some much later. So that the limit is used all
// the same, a function that is done with a limited task takes others along that wait on
// its key and whose wake-up is late: it takes one out of the index of those who wait, and
// runs it as if it had been woken itself. The task's own wake-up comes later and finds it
// done. Should the function die, that wake-up finds the task as it was.
//
// A function that finds a task ended which still held a place, since it was cancelled or has
// expired, passes the turn on to who is first in line.
const (
	// AlongFor is how long after its start an invocation still takes tasks along.
	AlongFor = 2 * time.Minute
	// secondTry is how long after a failure a task that was taken along is looked at again:
	// no retry of the event leads to it.
	secondTry = 10 * time.Second
)

// takeAlong takes tasks along after a visit, one after the other.
func (e *Engine) takeAlong(ctx context.Context, w *work) {
	parker, ok := e.Limiter.(Parker)
	if !ok {
		return
	}
	for e.companyFor(ctx, parker, w) {
		s := e.nextAlong(ctx, parker, w)
		if s == nil {
			return
		}
		next := &work{source: source{id: s.Task.ID, early: true}, invocation: w.invocation, sleeper: s, along: true, crowd: w.crowd}
		err := e.visit(ctx, next)
		e.release(ctx, next, err)
		if err != nil {
			e.lookAgain(ctx, next, err)
			return
		}
		if next.sleepsOn {
			return
		}
		w = next
	}
}

// companyFor tells whether somebody may wait who can be taken along after a visit, and
// there is time for it.
func (e *Engine) companyFor(ctx context.Context, parker Parker, w *work) bool {
	if e.Now().Sub(w.started) > AlongFor || e.timeLeft(ctx) < e.timeNeeded(w.rec.Task) {
		return false
	}
	if e.foundDone(w) {
		e.findCrowd(ctx, parker, w)
	}
	return w.crowd.Waiting > 0
}

// foundDone tells whether the visit was the wake-up of a task that had ended by then: most
// were taken along, and those who wait behind them may be late, too. (It is not worth
// reading an input that is an object of its own.)
func (e *Engine) foundDone(w *work) bool {
	return w.second != 0 && w.runs == 0 && w.rec.Task.Status.Terminal() && w.rec.Task.InputRef == nil
}

// findCrowd looks whether anybody waits on a key of the task.
func (e *Engine) findCrowd(ctx context.Context, parker Parker, w *work) {
	if e.prepare(ctx, w) != nil || len(w.tiers) == 0 {
		return
	}
	asking, cancel := context.WithTimeout(ctx, leaving)
	defer cancel()
	crowd, err := parker.Waits(asking, w.tiers)
	if err != nil {
		e.Log.WarnContext(ctx, "it is not known who waits, nobody is taken along", "task_id", w.id, "error", err.Error())
		return
	}
	w.crowd = crowd
}

// nextAlong takes a sleeper out of the index that can be taken along, if need be after
// waiting once for somebody to be late. It is nil if there is none.
func (e *Engine) nextAlong(ctx context.Context, parker Parker, w *work) *dynamolimit.Sleeper {
	patience := limit.Patience{Wait: TurnWait, Vacated: w.vacated}
	if w.runs > 0 {
		patience.Linger = lingering
	}
	for range 2 {
		asking, cancel := context.WithTimeout(ctx, leaving)
		s, again, err := parker.TakeAlong(asking, w.crowd, e.serves, patience)
		cancel()
		if err != nil {
			e.Log.WarnContext(ctx, "nobody is taken along", "task_id", w.id, "error", err.Error())
			return nil
		}
		if s != nil || again.IsZero() {
			return s
		}
		timer := time.NewTimer(min(again.Sub(e.Now()), TurnWait)) // should our clock be behind
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
	return nil
}

// serves tells whether tasks of a type can run here.
func (e *Engine) serves(taskType string) bool { return e.Mux.handlers[taskType] != nil }

// release puts a sleeper back that was not woken after all, and has one leave its place
// whose task does not sleep under it any more.
func (e *Engine) release(ctx context.Context, w *work, err error) {
	s := w.sleeper
	if s == nil {
		return
	}
	w.sleeper = nil
	if unread := err != nil && !w.rec.Stored(); unread || sleepsUnder(w.rec.Task, s.Place) {
		w.sleepsOn = true
		e.letGo(ctx, w.id, s.PutBack, "a parked task is not in the index, and can't be woken early")
		return
	}
	w.vacated = w.runs == 0 && err == nil
	e.letGo(ctx, w.id, s.Leave, cantLeave)
}

// sleepsUnder tells whether a task sleeps under a place.
func sleepsUnder(t task.Task, place limit.Place) bool {
	held, ok := placeOf(t)
	return ok && held == place
}

// lookAgain visits a task once more that was taken along, after trouble, as the retry of
// an event does for others: so that one that sleeps or runs has a wake-up. If that fails,
// too, its own wake-up or the sweep finds it.
func (e *Engine) lookAgain(ctx context.Context, w *work, err error) {
	e.Log.ErrorContext(ctx, "visit failed", "task_id", w.id, "error", err.Error())
	timer := time.NewTimer(secondTry)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return
	}
	again := &work{source: source{id: w.id}, invocation: w.invocation, yield: true}
	if err := e.visit(ctx, again); err != nil {
		e.Log.ErrorContext(ctx, "visit failed", "task_id", w.id, "error", err.Error())
	}
}
