package queue

import (
	"context"
	"iter"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
)

// Tasks are listed from two areas of the bucket, in 16 shards each: the inbox has the
// live ones, and all but the newest have a record. This file merges the 32 listings into one.

// name is what ids are ordered by: that of the object.
func name(id string) string { return s3store.Name(id) }

// ids merges the shards into one sequence of ids, in the order of their names
// and without repetition. Every shard lists in that order, so an id is also the cursor.
func (q *Queue) ids(ctx context.Context, o ListOptions) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		shards, err := q.open(ctx, o)
		if err != nil {
			yield("", err)
			return
		}
		for {
			var first *shard
			for _, s := range shards {
				if err := s.fill(ctx); err != nil {
					yield("", err)
					return
				}
				if !s.empty() && (first == nil || name(s.peek()) < name(first.peek())) {
					first = s
				}
			}
			if first == nil || !yield(first.pop(), nil) {
				return
			}
		}
	}
}

// open reads the first pages.
func (q *Queue) open(ctx context.Context, o ListOptions) ([]*shard, error) {
	after := ""
	if o.Cursor != "" {
		after = name(o.Cursor)
	}
	inbox, records := areas(o)
	var shards []*shard
	group, ctx := errgroup.WithContext(ctx)
	for _, digit := range task.Shards() {
		s := &shard{}
		for _, a := range []struct {
			wanted bool
			list   listing
			area   *area
		}{{inbox, q.store.ListInbox, &s.inbox}, {records, q.store.ListRecords, &s.records}} {
			*a.area = area{list: a.list, shard: digit, since: o.Since, more: a.wanted, reached: after}
		}
		shards = append(shards, s)
		group.Go(func() error { return s.fill(ctx) })
	}
	return shards, group.Wait()
}

// areas tells where the selected tasks can be: live ones are in the inbox,
// all but the newest have a record.
func areas(o ListOptions) (inbox, records bool) {
	if len(o.Statuses) == 0 {
		return true, true
	}
	live := func(s task.Status) bool { return !s.Terminal() }
	ended := slices.ContainsFunc(o.Statuses, task.Status.Terminal)
	return slices.ContainsFunc(o.Statuses, live) || !ended, ended
}

// shard lists the tasks of one shard.
//
// A task that ends while it is listed moves from the inbox to the records. So
// that it is in at least one of the listings, the inbox is listed first: the records of
// a range of names are listed only when the inbox has been listed up to its end.
type shard struct{ inbox, records area }

// fill lists on when what was listed is used up.
func (s *shard) fill(ctx context.Context) error {
	for {
		recordsReachInbox := !s.records.more || s.inbox.more && s.records.reached >= s.inbox.reached
		switch {
		case len(s.records.items) == 0 && !recordsReachInbox:
			if err := s.records.next(ctx); err != nil {
				return err
			}
			if s.inbox.more {
				s.records.cut(s.inbox.reached)
			}
		case s.empty() && s.inbox.more:
			if err := s.inbox.next(ctx); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (s *shard) empty() bool { return len(s.inbox.items) == 0 && len(s.records.items) == 0 }

// peek is the first id.
func (s *shard) peek() string {
	inbox, records := s.inbox.items, s.records.items
	if len(inbox) == 0 || len(records) > 0 && name(records[0].ID) < name(inbox[0].ID) {
		return records[0].ID
	}
	return inbox[0].ID
}

// pop takes the first id, from both areas if both have it.
func (s *shard) pop() string {
	id := s.peek()
	for _, a := range []*area{&s.inbox, &s.records} {
		if len(a.items) > 0 && a.items[0].ID == id {
			a.items = a.items[1:]
		}
	}
	return id
}

// listing lists one area of the bucket.
type listing func(ctx context.Context, shard, after string, limit int) (s3store.Page, error)

// area is the listing of one shard in one area, a page at a time.
type area struct {
	list  listing
	shard string
	since time.Time
	// items were listed and not used yet.
	items []s3store.Item
	// reached is the name up to which was listed, more that there may be
	// others behind.
	reached string
	more    bool
}

// next lists the next page.
func (a *area) next(ctx context.Context) error {
	const most = 1000
	page, err := a.list(ctx, a.shard, a.reached, most)
	if err != nil {
		return err
	}
	a.items = slices.DeleteFunc(page.Items, a.tooOld)
	a.more = page.More
	if page.Last != "" {
		a.reached = page.Last
	}
	return nil
}

// cut drops what lies behind a name. It will be listed again.
func (a *area) cut(last string) {
	if a.reached > last {
		a.items = slices.DeleteFunc(a.items, func(i s3store.Item) bool { return name(i.ID) > last })
		a.reached, a.more = last, true
	}
}

// clockSlack is by how much the clocks of a producer and of S3 may differ.
const clockSlack = 15 * time.Minute

// tooOld tells tasks that were created before the time without reading them:
// what was last written before it was not created later.
func (a *area) tooOld(i s3store.Item) bool {
	return !a.since.IsZero() && i.ModifiedAt.Before(a.since.Add(-clockSlack))
}
