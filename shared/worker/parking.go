package worker

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/wakeup"
)

// Parker is a limiter that gives throttled tasks places of their own, so that a crowd of
// them does not come back together. Tasks of a limiter that is none sleep until it says
// to try again.
type Parker interface {
	// Arrive decides about a task that holds no place, Wake about one that was woken
	// under a place.
	Arrive(ctx context.Context, task string, tiers []limit.Tier, p limit.Patience) (*dynamolimit.Turn, error)
	Wake(ctx context.Context, task string, place limit.Place, tiers []limit.Tier, p limit.Patience) (*dynamolimit.Turn, error)
	// Leave has a task leave its place that is not going to run. Repeated calls do nothing.
	Leave(ctx context.Context, task string, place limit.Place) error
	// Forget is Leave for a task of which it is not known any more under which place of
	// the tiers it slept, if any.
	Forget(ctx context.Context, task string, tiers []limit.Tier) error
}

// How long a function waits for the turn of a task, at most.
const (
	// TurnWait is for a woken task. Its wake-up is asked for as much earlier, since
	// EventBridge delivers up to a minute late.
	TurnWait = 14 * time.Second
	// newcomerWait is for a task that has just arrived, instead of being parked.
	newcomerWait = 5 * time.Second
	// askPatience is how long the limiter may take to answer. A task that gets no answer
	// sleeps: a function that waits for a store that is down costs money and its concurrency.
	askPatience = 10 * time.Second
	// leaving is how long giving up a turn or a place may take, and a refund, a hold and the like.
	leaving = 5 * time.Second
	// soonEnough is by how much earlier a task would have to wake up for its wake-up to
	// be asked for again.
	soonEnough = time.Minute
)

// patience is how long the invocation can wait and still run the task.
func (e *Engine) patience(ctx context.Context, w *work) limit.Patience {
	spare := max(e.timeLeft(ctx)-e.timeNeeded(w.rec.Task), 0)
	p := limit.Patience{Wait: min(TurnWait, spare), Rest: min(newcomerWait, spare)}
	if w.yield {
		p.Rest = 0
	}
	return p
}

// takeTurn asks whether it is the task's turn, and waits for that if it comes soon. If
// not, it puts the task to sleep under its place.
func (e *Engine) takeTurn(ctx context.Context, w *work, parker Parker) (admitted bool, err error) {
	turn, err := e.ask(ctx, w, parker)
	for err == nil && turn.Action == limit.ToWait {
		turn, err = e.awaitTurn(ctx, w, turn)
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if err != nil {
		return false, e.denied(ctx, w, err)
	}
	switch turn.Action {
	case limit.ToRun:
		w.reservation = turn.Reservation
		return true, nil
	case limit.ToFail:
		return false, e.change(ctx, w, task.Reject{Error: turn.Err().Error()})
	default:
		return false, e.park(ctx, w, turn)
	}
}

func (e *Engine) ask(ctx context.Context, w *work, parker Parker) (*dynamolimit.Turn, error) {
	patience := e.patience(ctx, w)
	asking, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	if place, ok := placeOf(w.rec.Task); ok {
		return parker.Wake(asking, w.id, place, w.tiers, patience)
	}
	return parker.Arrive(asking, w.id, w.tiers, patience)
}

// awaitTurn waits until the task may run, and asks whether that still holds.
func (e *Engine) awaitTurn(ctx context.Context, w *work, turn *dynamolimit.Turn) (*dynamolimit.Turn, error) {
	timer := time.NewTimer(turn.Until.Sub(e.Now()))
	defer timer.Stop()
	select {
	case <-timer.C:
		asking, cancel := context.WithTimeout(ctx, askPatience)
		defer cancel()
		return turn.Finish(asking)
	case <-ctx.Done():
	}
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaving)
	defer cancel()
	if err := turn.GiveUp(after); err != nil {
		e.Log.WarnContext(ctx, "a turn can't be given up, its tokens stay spent", "task_id", w.id, "error", err.Error())
	}
	return nil, ctx.Err()
}

// park puts the task to sleep under its place. One that somebody else has moved meanwhile
// leaves the place.
func (e *Engine) park(ctx context.Context, w *work, turn *dynamolimit.Turn) error {
	now, t := e.Now(), w.rec.Task
	if turn.Action == limit.ToKeep && t.AvailableAt.After(now) && turn.WakeAt.Add(soonEnough).After(t.AvailableAt) {
		return nil // it was woken too early, and its wake-up is still to come
	}
	place, err := json.Marshal(turn.Place)
	if err != nil {
		return err
	}
	err = e.change(ctx, w, task.Throttle{
		Policy: turn.Place.Policy,
		Key:    turn.Place.Key,
		Until:  turn.Until,
		WakeAt: time.Unix(wakeup.Second(turn.WakeAt, now, w.second), 0),
		Place:  place,
		Kept:   turn.Action == limit.ToKeep,
	})
	var lost *s3store.ConflictError
	if errors.As(err, &lost) || errors.Is(err, s3store.ErrGone) {
		if held, ok := placeOf(lostTask(lost)); !ok || held != turn.Place {
			e.leave(ctx, w.id, turn.Place)
		}
	}
	return err
}

func lostTask(lost *s3store.ConflictError) task.Task {
	if lost == nil {
		return task.Task{}
	}
	return lost.Current.Task
}

// leavePlace has a task that has ended, or runs without a limit, leave its place.
func (e *Engine) leavePlace(ctx context.Context, t task.Task) {
	if place, ok := placeOf(t); ok {
		e.leave(ctx, t.ID, place)
	}
}

// leave is done as far as possible: a place that nobody is left to claim is a hole in the
// line until the minute's round closes it.
func (e *Engine) leave(ctx context.Context, id string, place limit.Place) {
	parker, ok := e.Limiter.(Parker)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaving)
	defer cancel()
	if err := parker.Leave(ctx, id, place); err != nil {
		e.Log.WarnContext(ctx, "a place can't be left yet", "task_id", id, "error", err.Error())
	}
}

// forget has a task leave its place that was cancelled while it slept: its wake-up comes
// all the same.
func (e *Engine) forget(ctx context.Context, w *work) {
	parker, ok := e.Limiter.(Parker)
	if !ok || w.second == 0 || w.runs > 0 || e.prepare(ctx, w) != nil || len(w.tiers) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaving)
	defer cancel()
	if err := parker.Forget(ctx, w.id, w.tiers); err != nil {
		e.Log.WarnContext(ctx, "a place can't be left yet", "task_id", w.id, "error", err.Error())
	}
}

// placeOf is the place that a task sleeps under. One that can't be read is none.
func placeOf(t task.Task) (place limit.Place, ok bool) {
	if !t.Parked() || json.Unmarshal(t.Throttled.Place, &place) != nil {
		return limit.Place{}, false
	}
	return place, true
}

// lookEarly tells once whether to ask for a parked task's turn although it is not due.
// Other visits before its time, such as those by wake-ups of earlier sleeps, spend nothing.
func (w *work) lookEarly() bool {
	early := w.early && w.rec.Task.Parked()
	w.early = false
	return early
}
