// Package queue is the producer's side of Sluice: it submits tasks, reads them,
// and cancels or replays them.
//
//	q := queue.New(config, "my-bucket")
//	t, err := q.Submit(ctx, "call_llm", prompt, queue.MaxReschedules(100))
//
// A submit is one conditional PUT to S3: the task is accepted if and only if
// it succeeds. Everything else here reads and writes the task's record; nothing here needs
// more than access to the bucket.
package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
)

// Queue is a producer's handle on one bucket of tasks. It is safe for use by
// several goroutines. Use [New] or [Over].
type Queue struct {
	store *s3store.Store
	now   func() time.Time
}

// New returns the queue of a bucket.
func New(config aws.Config, bucket string) *Queue {
	return Over(s3store.New(s3store.NewClient(config), bucket))
}

// Over returns the queue of a store.
func Over(store *s3store.Store) *Queue { return &Queue{store: store, now: time.Now} }

// Errors of the queue, to be told apart with errors.Is.
var (
	// ErrNotFound means that there is no task of that id.
	ErrNotFound = s3store.ErrNotFound
	// ErrExists means that the id that was asked for is taken.
	ErrExists = s3store.ErrExists
	// ErrDamaged means that a task is there and what is stored of it can't be read.
	ErrDamaged = s3store.ErrDamaged
	// ErrKeyReused means that the idempotency key stands for a task with another
	// input.
	ErrKeyReused = errors.New("the idempotency key was used with another input")
)

// Get reads a task, its input and output included. [ErrNotFound] means that
// there is none of that id. A task whose input or output can't be read comes with the
// error, and with references in their place.
func (q *Queue) Get(ctx context.Context, id string) (task.Task, error) {
	rec, err := q.find(ctx, id)
	if err != nil {
		return task.Task{}, err
	}
	return q.store.Resolve(ctx, rec.Task)
}

// History is what happened to a task, the oldest first: its creation and every
// version of its record that is retained.
func (q *Queue) History(ctx context.Context, id string) ([]task.Entry, error) {
	if err := task.ValidateID(id); err != nil {
		return nil, err
	}
	records, err := q.store.Versions(ctx, id)
	if errors.Is(err, ErrNotFound) {
		rec, err := q.find(ctx, id)
		if err != nil {
			return nil, err
		}
		return []task.Entry{task.Creation(rec.Task.CreatedAt)}, nil
	}
	if err != nil {
		return nil, err
	}
	versions := make([]task.Task, 0, len(records))
	for _, rec := range records {
		versions = append(versions, rec.Task)
	}
	return task.History(versions), nil
}

// Cancel ends a pending task, and asks a running one to stop: its handler's
// context is cancelled within about ten seconds. Cancelling twice is no error; cancelling a
// task that ended otherwise is a [*task.TransitionError].
func (q *Queue) Cancel(ctx context.Context, id string) (task.Task, error) {
	rec, err := q.find(ctx, id)
	for err == nil {
		next, effects, applyErr := task.Apply(rec.Task, task.Cancel{}, q.now())
		switch {
		case applyErr != nil:
			return rec.Task, applyErr
		case effects.Outcome == task.OutcomeUnchanged && effects.Finished:
			return rec.Task, q.finish(ctx, rec.Task) // the first cancel may have died before this
		case effects.Outcome == task.OutcomeUnchanged:
			return rec.Task, nil
		}
		var written s3store.Record
		written, err = q.store.Write(ctx, rec, next)
		var lost *s3store.ConflictError
		switch {
		case errors.As(err, &lost):
			rec, err = lost.Current, nil
		case err == nil && effects.Finished:
			return written.Task, q.finish(ctx, written.Task)
		case err == nil:
			return written.Task, nil
		}
	}
	return task.Task{}, q.explainGone(id, err)
}

// explainGone makes a task that was deleted meanwhile one that is not found.
func (q *Queue) explainGone(id string, err error) error {
	if errors.Is(err, s3store.ErrGone) {
		return q.notFound(id)
	}
	return err
}

func (q *Queue) notFound(id string) error {
	return fmt.Errorf("task %s: %w in bucket %s", id, ErrNotFound, q.store.Bucket())
}

func (q *Queue) finish(ctx context.Context, t task.Task) error {
	if err := q.store.TagPayloads(ctx, t); err != nil {
		return err
	}
	return q.store.Remove(ctx, t.ID, t.InboxVersion)
}

// Replay starts a failed, cancelled or expired task anew, with all counters
// reset. A task in another status is a [*task.TransitionError].
//
// The submission is put into the inbox again, which starts the claim function, and
// names the revision it replays; then the record is written. Should this process die
// in between, the claim function finds the submission and does the rest.
func (q *Queue) Replay(ctx context.Context, id string) (task.Task, error) {
	rec, err := q.find(ctx, id)
	if err != nil {
		return task.Task{}, err
	}
	next, _, err := task.Apply(rec.Task, task.Replay{}, q.now())
	if err != nil {
		return rec.Task, err
	}
	submission := next
	submission.ReplayRevision = rec.Task.Revision
	version, err := q.store.Resubmit(ctx, submission)
	if err != nil {
		return task.Task{}, err
	}
	if err := q.store.KeepPayloads(ctx, next); err != nil {
		return task.Task{}, err
	}
	next.InboxVersion = version
	written, err := q.store.Write(ctx, rec, next)
	if errors.Is(err, s3store.ErrGone) { // what was deleted does not come back as a new task
		return task.Task{}, errors.Join(q.notFound(id), q.store.Remove(ctx, id, version))
	}
	lost, ok := errors.AsType[*s3store.ConflictError](err)
	if !ok {
		return written.Task, err
	}
	now := lost.Current.Task
	if now.InboxVersion != version && !now.Status.Terminal() { // another replay was faster
		return now, q.store.Remove(ctx, id, version)
	}
	return now, nil // the claim function was faster
}

// Wait looks at a task until it has ended, at first five times a second and
// then more seldom, or until the context ends. The task is returned as it was seen last, also
// with an error.
func (q *Queue) Wait(ctx context.Context, id string) (task.Task, error) {
	const first, most = 200 * time.Millisecond, 2 * time.Second
	var t task.Task
	for pause := first; ; pause = min(pause*3/2, most) {
		rec, err := q.find(ctx, id)
		if err != nil {
			return t, err
		}
		if t = rec.Task; t.Status.Terminal() {
			return q.store.Resolve(ctx, t)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return t, fmt.Errorf("wait for task %s, which is %s: %w", id, t.Status, ctx.Err())
		case <-timer.C:
		}
	}
}

func (q *Queue) find(ctx context.Context, id string) (s3store.Record, error) {
	if err := task.ValidateID(id); err != nil {
		return s3store.Record{}, err
	}
	rec, err := q.store.Find(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return rec, q.notFound(id)
	}
	return rec, err
}

// encodeInput is the input's JSON text, which is checked if it came as one.
func encodeInput(input any) (json.RawMessage, error) {
	switch v := input.(type) {
	case json.RawMessage:
		// Names given twice and halves of surrogate pairs are a matter between producer and handler.
		valid := utf8.Valid(v) && jsontext.Value(v).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		if len(v) > 0 && !valid {
			return nil, errors.New("the input is not valid JSON: it must be one JSON value in UTF-8")
		}
		return v, nil
	case nil:
		return nil, nil
	}
	data, err := json.Marshal(input)
	if err != nil {
		return nil, fmt.Errorf("the input can't be written as JSON: %w", err)
	}
	return data, nil
}
