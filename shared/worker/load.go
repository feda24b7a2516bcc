package worker

import (
	"context"
	"errors"

	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
)

// load reads the task and reports whether it is due. An S3 event reads the
// inbox first, which for a new task is all there is; everything else reads the record first.
func (e *Engine) load(ctx context.Context, w *work) (due bool, err error) {
	if w.inboxKey != "" {
		found, err := e.loadSubmission(ctx, w, w.inboxKey)
		if !found || err != nil {
			return false, err
		}
		return e.loadBehind(ctx, w)
	}
	if err := task.ValidateID(w.id); err != nil {
		e.Log.WarnContext(ctx, "event names no task", "error", err.Error())
		return false, nil
	}
	found, err := e.loadRecord(ctx, w)
	if err == nil && !found {
		found, err = e.loadSubmission(ctx, w, s3store.InboxKey(w.id))
	}
	if !found || err != nil {
		return false, err
	}
	return e.examine(ctx, w)
}

// loadBehind looks behind a submission for its record where that must be known
// before anything is done: a replay names one, and a limited task must not ask the
// limiter when it is not going to run. For all others the claim's own condition finds out
// whether there is a record.
func (e *Engine) loadBehind(ctx context.Context, w *work) (due bool, err error) {
	if err := e.prepare(ctx, w); err != nil {
		return false, err
	}
	if w.rec.Task.ReplayRevision > 0 || len(w.tiers) > 0 {
		if _, err := e.loadRecord(ctx, w); err != nil {
			return false, err
		}
	}
	return e.examine(ctx, w)
}

// loadRecord reads the record over what is known of the task.
func (e *Engine) loadRecord(ctx context.Context, w *work) (found bool, err error) {
	rec, err := e.Store.Record(ctx, w.id)
	if errors.Is(err, s3store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	w.rec = rec
	return true, nil
}

// loadSubmission reads the inbox. What stands there and is no submission is
// set aside, and what stood below it is read: junk over a live task does not harm it.
func (e *Engine) loadSubmission(ctx context.Context, w *work, key string) (found bool, err error) {
	for {
		sub, err := e.Store.SubmittedAt(ctx, key)
		if errors.Is(err, s3store.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if sub.Problem == nil {
			w.rec = s3store.Record{Task: sub.Task}
			return true, nil
		}
		if err := e.quarantine(ctx, sub); err != nil {
			return false, err
		}
	}
}

func (e *Engine) quarantine(ctx context.Context, sub s3store.Submission) error {
	e.Log.WarnContext(ctx, "quarantine", "key", sub.Key, "version_id", sub.VersionID, "reason", sub.Problem.Error())
	return e.Store.Quarantine(ctx, sub)
}

// examine does what a task needs that is not due: it expires it, counts a dead
// lease, replays it, cleans up behind it, or arms the next look. It reports whether the
// task is due, at once or after that.
func (e *Engine) examine(ctx context.Context, w *work) (due bool, err error) {
	for {
		event, err := e.overdue(ctx, w)
		if err != nil {
			return false, err
		}
		if event == nil {
			break
		}
		err = e.change(ctx, w, event)
		if lost, ok := errors.AsType[*s3store.ConflictError](err); ok {
			w.rec = lost.Current
			continue
		}
		if err != nil {
			return false, err
		}
		if w.rec.Task.Status.Terminal() {
			return false, nil
		}
	}
	t := w.rec.Task
	switch {
	case t.Status.Terminal():
		return false, nil
	case t.Due(e.Now()):
		return true, nil
	default: // asleep, or running under a lease that lasts
		return false, e.arm(ctx, w, t.NextLook())
	}
}

// overdue is the event that has come about by itself, nil for none.
func (e *Engine) overdue(ctx context.Context, w *work) (task.Event, error) {
	now, t := e.Now(), w.rec.Task
	switch {
	case t.Status.Terminal():
		return e.cleanUp(ctx, w)
	case t.ExpiredAt(now):
		return task.Expire{}, nil
	case t.LeaseOver(now):
		return task.LeaseOver{Jitter: e.jitter()}, nil
	}
	return nil, nil
}

// cleanUp clears the inbox of a task that has ended. When what stands there asks
// for a replay of just this record, whoever submitted it has not got to writing the record
// (yet): the replay is returned, to be done here.
func (e *Engine) cleanUp(ctx context.Context, w *work) (task.Event, error) {
	for {
		sub, err := e.Store.Submitted(ctx, w.id)
		if errors.Is(err, s3store.ErrNotFound) {
			return nil, e.Store.TagPayloads(ctx, w.rec.Task)
		}
		if err != nil {
			return nil, err
		}
		switch {
		case sub.Problem != nil:
			err = e.quarantine(ctx, sub)
		case sub.Task.ReplayRevision > 0 && sub.Task.ReplayRevision == w.rec.Task.Revision:
			return task.Replay{InboxVersion: sub.VersionID}, nil
		default:
			err = e.Store.Remove(ctx, w.id, sub.VersionID)
		}
		if err != nil {
			return nil, err
		}
	}
}
