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
	// Arrive decides about a task that holds no place.
	Arrive(ctx context.Context, task dynamolimit.Task, tiers []limit.Tier, p limit.Patience) (*dynamolimit.Turn, error)
	// Take takes one that was woken under a place out of the index of those who wait, to
	// decide about it.
	Take(ctx context.Context, task dynamolimit.Task, place limit.Place) (*dynamolimit.Sleeper, error)
	// TakeAlong takes one out of the index that waits on a key and whose wake-up is late.
	TakeAlong(ctx context.Context, c dynamolimit.Crowd, serves func(taskType string) bool, p limit.Patience) (*dynamolimit.Sleeper, time.Time, error)
	// Waits tells on which key of the tiers tasks are parked.
	Waits(ctx context.Context, tiers []limit.Tier) (dynamolimit.Crowd, error)
	// Leave has a task leave its place that is not going to run. Repeated calls do nothing.
	Leave(ctx context.Context, task string, place limit.Place) error
	// Forget is Leave for a task of which it is not known any more under which place of
	// the tiers it slept, if any.
	Forget(ctx context.Context, task string, tiers []limit.Tier) (vacated bool, err error)
}

// How long a function waits for the turn of a task, at most.
const (
	// TurnWait is for a woken task. Its wake-up is asked for as much earlier, since
	// EventBridge delivers up to a minute late.
	TurnWait = 5 * time.Second
	// newcomerWait is for a task that has just arrived, instead of being parked.
	newcomerWait = 5 * time.Second
	// lingering is for a task to be late that can be taken along.
	lingering = 2 * time.Second
	// inHand is after how long a task is looked at again that another function has in hand.
	inHand = time.Minute
	// askPatience is how long the limiter may take to answer. A task that gets no answer
	// sleeps: a function that waits for a store that is down costs money and its concurrency.
	askPatience = 10 * time.Second
	// leaving is how long giving up a turn or a place may take, and a refund, a hold and the like.
	leaving = 5 * time.Second
	// soonEnough is by how much earlier a task would have to wake up for its wake-up to
	// be asked for again.
	soonEnough = time.Minute
)

// Patience is how long a function waits at most where nothing bounds it further.
func Patience() limit.Patience {
	return limit.Patience{Wait: TurnWait, Rest: newcomerWait, Linger: lingering}
}

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
	if turn == nil && err == nil {
		return false, e.arm(ctx, w, e.Now().Add(inHand))
	}
	for err == nil && turn.Action == limit.ToWait {
		turn, err = e.awaitTurn(ctx, w, turn)
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	switch {
	case err != nil && w.along:
		w.sleepsOn = true // its own wake-up is still to come
		e.reportLimiter(ctx, w, err)
		return false, nil
	case err != nil:
		return false, e.denied(ctx, w, err)
	case turn.Action == limit.ToRun || w.woken:
		w.crowd = turn.Crowd
	}
	w.traffic.Decided(turn.Action == limit.ToRun)
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

// ask asks the limiter about the task. There is no answer, nil, while another function
// has the task in hand.
func (e *Engine) ask(ctx context.Context, w *work, parker Parker) (*dynamolimit.Turn, error) {
	patience := e.patience(ctx, w)
	asking, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	who := dynamolimit.Task{ID: w.id, Type: w.rec.Task.Type}
	place, parked := placeOf(w.rec.Task)
	switch {
	case !parked:
		return parker.Arrive(asking, who, w.tiers, patience)
	case w.sleeper == nil:
		s, err := parker.Take(asking, who, place)
		if err != nil {
			return nil, err
		}
		if !s.Found && w.firstLook() {
			return nil, nil
		}
		w.sleeper = s
	}
	s := w.sleeper
	w.sleeper, w.woken = nil, true // it is used up
	return s.Wake(asking, w.tiers, patience)
}

// firstLook tells whether the visit is due to the wake-up that a parked task asked for, an
// earlier one, or one that came to be armed a moment later. If the task is not in the index
// then, another function has it in hand: it has taken it along, or the same wake-up came
// twice. Should that function die, the next look takes the task all the same.
func (w *work) firstLook() bool {
	t := w.rec.Task
	return w.second != 0 && w.second < t.AvailableAt.Add(inHand).Unix() && t.Throttled.Reason == ""
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
	if turn.Unchanged {
		w.sleepsOn = true
		return nil
	}
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
	if err != nil && !sleepsUnder(w.asStored(err), turn.Place) {
		// Nobody is going to come for the place. (If the write was done all the same, the task
		// is woken by its own wake-up, only not earlier.)
		e.leave(ctx, w.id, turn.Place)
	}
	return err
}

// asStored is the task as far as is known after a write that failed.
func (w *work) asStored(err error) task.Task {
	if lost, ok := errors.AsType[*s3store.ConflictError](err); ok {
		return lost.Current.Task
	}
	return w.rec.Task
}

// leavePlace has a task that has ended, or runs without a limit, leave its place.
func (e *Engine) leavePlace(ctx context.Context, w *work, t task.Task) {
	if s := w.sleeper; s != nil {
		w.sleeper = nil
		e.letGo(ctx, w.id, s.Leave, cantLeave)
		return
	}
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
	e.letGo(ctx, id, func(ctx context.Context) error { return parker.Leave(ctx, id, place) }, cantLeave)
}

const cantLeave = "a place can't be left yet"

// letGo does something about a task's place that must not fail because the invocation's
// time is over, and that nothing depends on.
func (e *Engine) letGo(ctx context.Context, id string, do func(context.Context) error, trouble string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaving)
	defer cancel()
	if err := do(ctx); err != nil {
		e.Log.WarnContext(ctx, trouble, "task_id", id, "error", err.Error())
	}
}

// forget has a task leave its place that was cancelled while it slept: its wake-up comes
// all the same.
func (e *Engine) forget(ctx context.Context, w *work) {
	parker, ok := e.Limiter.(Parker)
	if !ok || w.rec.Task.Status != task.Cancelled || w.second == 0 || w.runs > 0 || e.prepare(ctx, w) != nil || len(w.tiers) == 0 {
		return
	}
	e.letGo(ctx, w.id, func(ctx context.Context) (err error) {
		w.vacated, err = parker.Forget(ctx, w.id, w.tiers)
		return err
	}, cantLeave)
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
