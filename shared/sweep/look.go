package sweep

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
)

// run is one run of the sweep.
type run struct {
	Config

	// id is fresh with every run.
	id       string
	started  time.Time
	requests atomic.Int64
	cursor   cursor
	// stored is the cursor as it stands in the bucket.
	stored struct {
		data []byte
		etag string
	}
	report     Report
	unreadable error // the first one that may be cured by itself
}

// Kind is why a task is re-driven.
type Kind string

// The kinds of what the sweep finds.
const (
	// LostEvent is a task that was due and never claimed.
	LostEvent Kind = "lost_event"
	// LostWakeup is a task that should be awake.
	LostWakeup Kind = "lost_wakeup"
	// DeadLease is a running task whose lease is over.
	DeadLease Kind = "dead_lease"
	// Leftover is a task that has ended and is still in the inbox.
	Leftover Kind = "leftover"
	// NoTask is an object under inbox/ that is no task: the claim function
	// sets it aside.
	NoTask Kind = "no_task"
)

// finding is a task to re-drive.
type finding struct {
	entry s3store.Entry
	kind  Kind
	since time.Time
}

// lookAt finds out which of the entries are overdue. One that can't be read is
// counted and left to the next round: it must not keep the others waiting. A damaged
// record does not make every run fail, the metric tells of it.
func (r *run) lookAt(ctx context.Context, entries []s3store.Entry) ([]finding, error) {
	const atOnce = 32
	looks := make([]finding, len(entries))
	failures := make([]error, len(entries))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, e := range entries {
		group.Go(func() error {
			looks[i], failures[i] = r.look(ctx, e)
			return nil
		})
	}
	_ = group.Wait() // the functions return no errors
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var findings []finding
	for i, look := range looks {
		switch {
		case failures[i] != nil:
			reason := failures[i].Error()
			if errors.Is(failures[i], s3store.ErrDamaged) {
				reason = s3store.ErrDamaged.Error() // what is wrong with it may be a secret
			}
			r.Log.ErrorContext(ctx, "task can't be looked at", "task_id", look.entry.ID, "error", reason)
			r.report.Unreadable++
			if r.unreadable == nil && !errors.Is(failures[i], s3store.ErrDamaged) {
				r.unreadable = failures[i]
			}
		case look.kind != "" && !look.since.After(r.Now().Add(-r.Grace)):
			findings = append(findings, look)
		}
	}
	return findings, nil
}

// look tells what a task waits for, and since when or until when.
func (r *run) look(ctx context.Context, e s3store.Entry) (finding, error) {
	if e.ID == "" {
		return finding{e, NoTask, e.ModifiedAt}, nil
	}
	r.requests.Add(1)
	rec, err := r.Store.Record(ctx, e.ID)
	if errors.Is(err, s3store.ErrNotFound) {
		return r.lookAtSubmission(ctx, e)
	}
	if err != nil {
		return finding{entry: e}, err
	}
	switch t := rec.Task; t.Status {
	case task.Pending:
		return finding{e, LostWakeup, t.NextLook()}, nil
	case task.Running:
		return finding{e, DeadLease, t.NextLook()}, nil
	default:
		return finding{e, Leftover, t.UpdatedAt}, nil
	}
}

// lookAtSubmission tells the same of a task that was never claimed.
func (r *run) lookAtSubmission(ctx context.Context, e s3store.Entry) (finding, error) {
	r.requests.Add(1)
	sub, err := r.Store.Submitted(ctx, e.ID)
	if errors.Is(err, s3store.ErrNotFound) { // it has ended since it was listed
		return finding{entry: e}, nil
	}
	if err != nil {
		return finding{entry: e}, err
	}
	if sub.Problem != nil {
		return finding{e, NoTask, e.ModifiedAt}, nil //nolint:nilerr // the problem is the finding
	}
	return finding{e, LostEvent, sub.Task.NextLook()}, nil
}
