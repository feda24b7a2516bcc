package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
)

// PurgeOption changes what [Queue.Purge] refuses.
type PurgeOption func(*purge)

type purge struct{ force bool }

// Force purges a task although it is running, or although what is stored
// of it can't be read. A handler that is running is not stopped at once: its context is cancelled within
// about ten seconds, and what it returns is dropped.
func Force() PurgeOption { return func(p *purge) { p.force = true } }

// Purge deletes all there is of a task: its inbox object, its payloads and
// every version of its record. Nothing stays, its history and its idempotency key included. A running
// task is a [*task.TransitionError], unless [Force] is given. [ErrNotFound] means that there
// was nothing to delete. A purge that failed half-way can be repeated.
//
// A pending task is cancelled first, so that no claim function takes it while
// it is being deleted. One that has read the submission before that, and takes as long as the whole purge
// until it claims it, is not noticed: the task runs then, and leaves its record behind, to be purged again. A
// wake-up that is armed fires in vain.
func (q *Queue) Purge(ctx context.Context, id string, opts ...PurgeOption) error {
	if err := task.ValidateID(id); err != nil {
		return err
	}
	var p purge
	for _, opt := range opts {
		opt(&p)
	}
	// A replay or a claim on the way may put something back: look again until
	// nothing is found.
	const passes = 5
	for pass := range passes {
		if err := q.stopForGood(ctx, id, p.force); err != nil {
			return fmt.Errorf("purge: %w", err)
		}
		n, err := q.purgeOnce(ctx, id)
		switch {
		case err != nil:
			return fmt.Errorf("purge task %s: %w", id, err)
		case n == 0 && pass == 0:
			return fmt.Errorf("purge: %w", q.notFound(id))
		case n == 0:
			return nil
		}
	}
	return fmt.Errorf("purge task %s: somebody keeps writing it: stop what replays or submits it, then purge again", id)
}

// stopForGood makes sure that a task is not going to run: it is cancelled if
// it is pending.
func (q *Queue) stopForGood(ctx context.Context, id string, force bool) error {
	rec, err := q.store.Find(ctx, id)
	for err == nil && !rec.Task.Status.Terminal() {
		if rec.Task.Status == task.Running {
			if force {
				return nil
			}
			return &task.TransitionError{ID: id, Status: task.Running, Event: "purge", Reason: "cancel it and wait, or force the purge"}
		}
		var next task.Task
		if next, _, err = task.Apply(rec.Task, task.Cancel{}, q.now()); err != nil {
			return err
		}
		rec, err = q.store.Write(ctx, rec, next)
		if lost, ok := errors.AsType[*s3store.ConflictError](err); ok {
			rec, err = lost.Current, nil
		}
		if errors.Is(err, s3store.ErrGone) { // another purge
			return nil
		}
	}
	if err == nil || errors.Is(err, ErrNotFound) || force {
		return nil
	}
	if _, invalid := errors.AsType[*task.FormatError](err); invalid || errors.Is(err, s3store.ErrDamaged) {
		return fmt.Errorf("%w (force the purge to delete it unread)", err)
	}
	return err
}

// purgeOnce deletes what there is now, the record last: it is what tells a
// claim function that the task has ended, and a repeated purge that there is more to do.
func (q *Queue) purgeOnce(ctx context.Context, id string) (deleted int, err error) {
	for _, step := range []func(context.Context, string) (int, error){
		q.store.PurgeInbox, q.store.PurgePayloads, q.store.PurgeRecord,
	} {
		n, err := step(ctx, id)
		if err != nil {
			return deleted, err
		}
		deleted += n
	}
	return deleted, nil
}
