package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-dev/sluice/shared/task"
)

// ListOptions selects tasks. The zero value selects all.
type ListOptions struct {
	// Statuses to select. Defaults to every status. Selecting pending and running
	// only is cheaper, since only live tasks are read then.
	Statuses []task.Status
	// Type to select. Defaults to every type.
	Type string
	// Tags that a task must have, all of them.
	Tags map[string]string
	// Since selects tasks created at or after the time. Tasks that were last
	// written before it are not read, so that a recent time makes a list cheap.
	Since time.Time
	// Before selects tasks created before the time.
	Before time.Time
	// Limit is the number of tasks of a page. Defaults to 100. There is no upper
	// bound, but the page is held in memory.
	Limit int
	// Cursor is where to go on: [Page.Cursor] of the page before.
	Cursor string
}

// DefaultLimit is the number of tasks of a page unless chosen otherwise.
const DefaultLimit = 100

// Page is one page of a list.
type Page struct {
	Tasks []task.Task
	// Problems are tasks that are there and can't be read. They do not count
	// towards the limit.
	Problems []Problem
	// Cursor is where the next page begins, empty on the last one.
	Cursor string
}

// Problem is a task that can't be read.
type Problem struct {
	ID string
	// Err is an [ErrDamaged] that says what is wrong.
	Err error
}

// List reads tasks in the order of their ids, which for ids made by Sluice is
// the order of creation (tasks with an idempotency key come last; an id that is another one's
// beginning comes after those that go on with "-"). Every task that exists from the first page to
// the last is listed once, whatever happens to it meanwhile. Inputs and outputs that
// are kept apart for their size stay references, see [Queue.Get].
func (q *Queue) List(ctx context.Context, o ListOptions) (Page, error) {
	limit := o.Limit
	if limit <= 0 {
		limit = DefaultLimit
	}
	var page Page
	for t, err := range q.scan(ctx, o, limit+1) {
		switch {
		case errors.Is(err, ErrDamaged):
			page.Problems = append(page.Problems, Problem{ID: t.ID, Err: err})
			continue
		case err != nil:
			return Page{}, err
		}
		if len(page.Tasks) == limit {
			page.Cursor = page.Tasks[limit-1].ID
			page.Problems = slices.DeleteFunc(page.Problems, func(p Problem) bool { // the next page has them
				return name(p.ID) > name(page.Cursor)
			})
			return page, nil
		}
		page.Tasks = append(page.Tasks, t)
	}
	return page, nil
}

// All reads every selected task, in the order of [Queue.List], page by page
// as the caller goes on. Limit is not used. An error ends it, but for [ErrDamaged], which comes
// with a task that has an ID only: the caller may go on behind it.
func (q *Queue) All(ctx context.Context, o ListOptions) iter.Seq2[task.Task, error] {
	return q.scan(ctx, o, math.MaxInt)
}

// Records are read so many at a time, or as many as are still wanted.
const leastBatch, batch = 16, 64

// scan reads the selected tasks, of which so many are wanted.
func (q *Queue) scan(ctx context.Context, o ListOptions, wanted int) iter.Seq2[task.Task, error] {
	return func(yield func(task.Task, error) bool) {
		if o.Cursor != "" && task.ValidateID(o.Cursor) != nil {
			yield(task.Task{}, fmt.Errorf("list: the cursor %.80q is not one that a list returned", o.Cursor))
			return
		}
		size := func() int { return min(max(wanted, leastBatch), batch) }
		ids := make([]string, 0, batch)
		flush := func() bool {
			found, err := q.readAll(ctx, ids)
			if err != nil {
				yield(task.Task{}, err)
				return false
			}
			ids = ids[:0]
			for _, f := range found {
				if f.err == nil && !o.selects(f.task) {
					continue
				}
				if wanted--; !yield(f.task, f.err) {
					return false
				}
			}
			return true
		}
		for id, err := range q.ids(ctx, o) {
			if err != nil {
				yield(task.Task{}, err)
				return
			}
			if ids = append(ids, id); len(ids) >= size() && !flush() {
				return
			}
		}
		flush()
	}
}

func (o ListOptions) selects(t task.Task) bool {
	if len(o.Statuses) > 0 && !slices.Contains(o.Statuses, t.Status) {
		return false
	}
	if o.Type != "" && t.Type != o.Type {
		return false
	}
	if t.CreatedAt.Before(o.Since) || (!o.Before.IsZero() && !t.CreatedAt.Before(o.Before)) {
		return false
	}
	for name, value := range o.Tags {
		if got, ok := t.Tags[name]; !ok || got != value {
			return false
		}
	}
	return true
}

// found is a task that was read, or why it could not be.
type found struct {
	task task.Task
	err  error
}

// readAll reads tasks, in order. Those that are gone by now are left out, and so is what
// stands in the inbox and is no task: it will be set aside.
func (q *Queue) readAll(ctx context.Context, ids []string) ([]found, error) {
	const atOnce = 16
	tasks := make([]found, len(ids))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, id := range ids {
		group.Go(func() error {
			rec, err := q.store.Find(ctx, id)
			_, invalid := errors.AsType[*task.FormatError](err)
			switch {
			case errors.Is(err, ErrDamaged):
				tasks[i] = found{task.Task{ID: id}, err}
			case errors.Is(err, ErrNotFound), invalid:
			case err != nil:
				return err
			default:
				tasks[i] = found{task: rec.Task}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(tasks, func(f found) bool { return f.task.ID == "" }), nil
}
