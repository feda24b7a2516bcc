package queue

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-dev/sluice/shared/s3store"
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
	// Since selects tasks created at or after the time.
	Since time.Time
	// Before selects tasks created before the time.
	Before time.Time
	// Limit is the number of tasks of a page. Defaults to 100.
	Limit int
	// Cursor is where to go on: [Page.Cursor] of the page before.
	Cursor string
}

// Page is one page of a list.
type Page struct {
	Tasks []task.Task
	// Cursor is where the next page begins, empty on the last one.
	Cursor string
}

// List reads tasks in the order of their ids, which for ids made by Sluice is
// the order of creation (tasks with an idempotency key come last). Inputs and outputs that
// are kept apart for their size stay references, see [Queue.Get].
func (q *Queue) List(ctx context.Context, o ListOptions) (Page, error) {
	limit := cmp.Or(o.Limit, 100)
	var page Page
	for t, err := range q.scan(ctx, o) {
		if err != nil {
			return Page{}, err
		}
		if len(page.Tasks) == limit {
			page.Cursor = page.Tasks[limit-1].ID
			return page, nil
		}
		page.Tasks = append(page.Tasks, t)
	}
	return page, nil
}

// All reads every selected task, in the order of [Queue.List], page by page
// as the caller goes on. Limit is not used. An error ends it.
func (q *Queue) All(ctx context.Context, o ListOptions) iter.Seq2[task.Task, error] {
	return q.scan(ctx, o)
}

// batch is how many records are read at a time.
const batch = 64

func (q *Queue) scan(ctx context.Context, o ListOptions) iter.Seq2[task.Task, error] {
	return func(yield func(task.Task, error) bool) {
		ids := make([]string, 0, batch)
		flush := func() bool {
			tasks, err := q.readAll(ctx, ids)
			if err != nil {
				return yield(task.Task{}, err) && false
			}
			ids = ids[:0]
			for _, t := range tasks {
				if o.selects(t) && !yield(t, nil) {
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
			if ids = append(ids, id); len(ids) == batch && !flush() {
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

// areas tells where the selected tasks can be: live ones are in the inbox,
// all but the newest have a record.
func (q *Queue) areas(o ListOptions) []listing {
	all := []listing{q.store.ListInbox, q.store.ListRecords}
	live := func(s task.Status) bool { return !s.Terminal() }
	switch {
	case len(o.Statuses) == 0:
		return all
	case !slices.ContainsFunc(o.Statuses, task.Status.Terminal):
		return all[:1]
	case !slices.ContainsFunc(o.Statuses, live):
		return all[1:]
	}
	return all
}

// listing lists one area of the bucket.
type listing func(ctx context.Context, shard, after string, limit int) (s3store.Page, error)

// stream is the listing of one shard of one area, read a page at a time.
type stream struct {
	list  listing
	shard string
	since time.Time
	page  s3store.Page
}

// fill reads the next page when the last one is used up.
func (s *stream) fill(ctx context.Context) error {
	for len(s.page.Items) == 0 && s.page.More {
		page, err := s.list(ctx, s.shard, s.page.Last, 1000)
		if err != nil {
			return err
		}
		page.Items = slices.DeleteFunc(page.Items, s.before)
		s.page = page
	}
	return nil
}

// before tells what was made before the time without reading it: from the time in a
// UUIDv7, or since it was last written before.
func (s *stream) before(i s3store.Item) bool {
	if made, ok := task.IDTime(i.ID); ok && made.Before(s.since.Truncate(time.Millisecond)) {
		return true
	}
	return i.ModifiedAt.Before(s.since.Truncate(time.Second)) // S3 keeps whole seconds
}

// ids merges the shards of the areas into one sequence of ids, in order and
// without repetition. Every shard lists in the order of ids, so an id is also the cursor.
func (q *Queue) ids(ctx context.Context, o ListOptions) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		streams, err := q.open(ctx, o)
		if err != nil {
			yield("", err)
			return
		}
		for {
			least := ""
			for _, s := range streams {
				if err := s.fill(ctx); err != nil {
					yield("", err)
					return
				}
				if len(s.page.Items) > 0 && (least == "" || s.page.Items[0].ID < least) {
					least = s.page.Items[0].ID
				}
			}
			if least == "" || !yield(least, nil) {
				return
			}
			for _, s := range streams {
				if len(s.page.Items) > 0 && s.page.Items[0].ID == least {
					s.page.Items = s.page.Items[1:]
				}
			}
		}
	}
}

// open reads the first page of every stream.
func (q *Queue) open(ctx context.Context, o ListOptions) ([]*stream, error) {
	var streams []*stream
	group, ctx := errgroup.WithContext(ctx)
	for _, list := range q.areas(o) {
		for _, shard := range task.Shards() {
			s := &stream{list: list, shard: shard, page: s3store.Page{More: true, Last: o.Cursor}, since: o.Since}
			streams = append(streams, s)
			group.Go(func() error { return s.fill(ctx) })
		}
	}
	return streams, group.Wait()
}

// readAll reads tasks, in order. Those that are gone by now are left out.
func (q *Queue) readAll(ctx context.Context, ids []string) ([]task.Task, error) {
	const atOnce = 16
	tasks := make([]task.Task, len(ids))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, id := range ids {
		group.Go(func() error {
			rec, err := q.store.Find(ctx, id)
			if errors.Is(err, ErrNotFound) {
				return nil
			}
			tasks[i] = rec.Task
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(tasks, func(t task.Task) bool { return t.ID == "" }), nil
}
