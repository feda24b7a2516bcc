package worker

import (
	"context"
	"errors"
	"log/slog"

	"github.com/sluice-dev/sluice/shared/emf"
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
	if w.along && (err != nil || !found || !sleepsUnder(w.rec.Task, w.sleeper.Place)) {
		return false, err // it has ended or moved on, and its own wake-up leads to what it is now
	}
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
	w.adopt(rec)
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
			w.submitted = &sub.Task
			w.adopt(s3store.Record{Task: sub.Task})
			// The input was written before the submission, marked to expire
			// should that never come.
			return true, e.Store.KeepPayloads(ctx, sub.Task)
		}
		if err := e.quarantine(ctx, sub); err != nil {
			return false, err
		}
	}
}

func (e *Engine) quarantine(ctx context.Context, sub s3store.Submission) error {
	attrs := []slog.Attr{slog.String("key", sub.Key), slog.String("version_id", sub.VersionID)}
	attrs = append(attrs, emf.Attrs(e.Now(), emf.Dimension{Name: "Source", Value: "inbox"}, emf.One(MetricQuarantined))...)
	e.Log.LogAttrs(ctx, slog.LevelWarn, "quarantine", attrs...)
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
			w.adopt(lost.Current)
			continue
		}
		if err != nil {
			return false, err
		}
		if w.rec.Task.Status.Terminal() {
			return false, nil
		}
	}
	if err := e.withdraw(ctx, w); err != nil {
		return false, err
	}
	t := w.rec.Task
	switch {
	case t.Status.Terminal():
		e.forget(ctx, w)
		return false, nil
	case t.Due(e.Now()), w.lookEarly():
		return true, nil
	default: // asleep, or running under a lease that lasts
		return false, e.arm(ctx, w, t.NextLook())
	}
}

// withdraw removes the submission that was read if the task was made from
// another one: a second submission under its id, which was too late.
func (e *Engine) withdraw(ctx context.Context, w *work) error {
	late := w.submitted
	if late == nil || !w.rec.Stored() || w.rec.Task.InboxVersion == late.InboxVersion {
		return nil
	}
	e.Log.WarnContext(ctx, "submission withdrawn, the task exists", "task_id", w.id, "version_id", late.InboxVersion)
	w.submitted = nil
	return e.discard(ctx, w, *late)
}

// discard removes a submission that nothing came of, or whose task has ended,
// when its input is marked to expire: it is what leads here.
func (e *Engine) discard(ctx context.Context, w *work, submission task.Task) error {
	t := w.rec.Task
	shared := t.InputRef != nil && submission.InputRef != nil && *submission.InputRef == *t.InputRef
	if t.Status.Terminal() || !shared {
		if err := e.Store.TagPayloads(ctx, submission); err != nil {
			return err
		}
	}
	return e.Store.Remove(ctx, w.id, submission.InboxVersion)
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
		case e.replays(sub.Task, w.rec.Task):
			return task.Replay{InboxVersion: sub.VersionID}, nil
		case sub.VersionID == w.rec.Task.InboxVersion: // its clean-up was cut short
			err = e.finish(ctx, w)
		default:
			err = e.discard(ctx, w, sub.Task)
		}
		if err != nil {
			return nil, err
		}
	}
}

// replays tells whether a submission asks for a replay of just this record,
// and the record allows it.
func (e *Engine) replays(submission, record task.Task) bool {
	if submission.ReplayRevision == 0 || submission.ReplayRevision != record.Revision {
		return false
	}
	_, _, err := task.Apply(record, task.Replay{}, e.Now())
	return err == nil
}
