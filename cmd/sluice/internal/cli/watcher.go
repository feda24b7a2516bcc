package cli

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/google/uuid"

	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
)

// watcher finds out what changes in a queue, by polls that cost little: the inbox is listed,
// which names every live task, and only those are read that can have changed since. Tasks so
// quick that no poll meets them in the inbox are found by listing the newest records.
//
// Of several changes between two polls it sees the last.
type watcher struct {
	store     *s3store.Store
	selection selection
	now       func() time.Time

	started time.Time
	known   map[string]*watched
	// behind is, by shard, the id behind which records can be new.
	behind map[string]string
	polls  int
	// foreign stands for every task that the filters leave out, whatever becomes of it.
	foreign *watched
}

// watched is what the watcher remembers of a task.
type watched struct {
	// task is as it was read last, without its payloads.
	task task.Task
	// readAt is when it was read, lookAt when it is to be read again while it is in the inbox.
	readAt, lookAt time.Time
}

const (
	// mostReads bounds how many tasks one poll reads again. When more are due for it, those
	// come first whose last reading is the longest ago.
	mostReads = 512
	// sleeperEvery is how often a task is read that nobody but an operator can change.
	sleeperEvery = 30 * time.Second
	// clockSkew is how far the clocks of producers may be apart for quick tasks to be found.
	clockSkew = time.Minute
)

func newWatcher(store *s3store.Store, s selection) *watcher {
	w := &watcher{store: store, selection: s, now: time.Now, known: make(map[string]*watched), behind: make(map[string]string), foreign: &watched{}}
	w.started = w.now()
	for _, shard := range task.Shards() {
		w.behind[shard] = idAt(w.started.Add(-clockSkew))
	}
	return w
}

// idAt is the smallest UUIDv7 of a time: all that were made later are larger.
func idAt(at time.Time) string {
	var u uuid.UUID
	ms := uint64(max(at.UnixMilli(), 0))
	for i := range 6 {
		u[i] = byte(ms >> (8 * (5 - i)))
	}
	u[6], u[8] = 0x70, 0x80
	return u.String()
}

// poll returns the tasks that have changed since the last poll, in the order of their
// changes; the first one returns every live task. Those that another filter than --status
// leaves out are not among them.
func (w *watcher) poll(ctx context.Context) ([]task.Task, error) {
	inbox, err := w.inbox(ctx)
	if err != nil {
		return nil, err
	}
	ids := w.toRead(inbox)
	if w.polls > 0 { // what had ended before is no change
		quick, err := w.newRecords(ctx)
		if err != nil {
			return nil, err
		}
		ids = append(ids, quick...)
	}
	read, err := w.read(ctx, ids)
	if err != nil {
		return nil, err
	}
	w.polls++
	var changes []task.Task
	for _, t := range read {
		if w.note(t) {
			changes = append(changes, t)
		}
	}
	slices.SortFunc(changes, func(a, b task.Task) int {
		return cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), strings.Compare(a.ID, b.ID))
	})
	return changes, nil
}

// inbox lists the live tasks.
func (w *watcher) inbox(ctx context.Context) (map[string]bool, error) {
	const page = 1000
	ids := make(map[string]bool)
	for after, more := "", true; more; {
		entries, goesOn, err := w.store.ScanInbox(ctx, after, page)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if after = e.Key; e.ID != "" {
				ids[e.ID] = true
			}
		}
		more = goesOn
	}
	return ids, nil
}

// toRead picks what can have changed: what is new in the inbox or has left it, and of what
// stays there, what is due for another look.
func (w *watcher) toRead(inbox map[string]bool) []string {
	now := w.now()
	var ids, again []string
	for id := range inbox {
		switch k := w.known[id]; {
		case k == nil && w.selection.tooOld(id):
			w.known[id] = w.foreign
		case k == w.foreign:
		case k == nil, k.task.Status.Terminal(): // replayed, or about to leave
			ids = append(ids, id)
		case !k.lookAt.After(now):
			again = append(again, id)
		}
	}
	for id, k := range w.known {
		if !inbox[id] && k != w.foreign && !k.task.Status.Terminal() {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(again, func(a, b string) int {
		return cmp.Or(w.known[a].readAt.Compare(w.known[b].readAt), strings.Compare(a, b))
	})
	return append(ids, again[:min(len(again), mostReads)]...)
}

// newRecords lists records of tasks that were never met, the newest in every shard.
func (w *watcher) newRecords(ctx context.Context) ([]string, error) {
	shards := task.Shards()
	found := make([][]string, len(shards))
	behind := make([]string, len(shards))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, shard := range shards {
		behind[i] = w.behind[shard]
		group.Go(func() (err error) {
			found[i], behind[i], err = w.newRecordsOf(groupCtx, shard, behind[i])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i, shard := range shards {
		w.behind[shard] = behind[i]
	}
	return slices.Concat(found...), nil
}

// newRecordsOf lists one shard from behind an id, and returns the id to go on from next time:
// no new task gets an id before it. It reads a known map that nobody changes meanwhile.
func (w *watcher) newRecordsOf(ctx context.Context, shard, behind string) (ids []string, next string, err error) {
	const page = 1000
	settled := w.now().Add(-clockSkew)
	for {
		records, err := w.store.ListRecords(ctx, shard, behind, page)
		if err != nil {
			return nil, "", err
		}
		allSettled := true
		for _, r := range records.Items {
			if w.known[r.ID] == nil && !r.ModifiedAt.Before(w.started.Truncate(time.Second)) {
				ids = append(ids, r.ID)
			}
			if made, ok := task.IDTime(r.ID); !ok || !made.Before(settled) {
				allSettled = false
			} else if allSettled {
				behind = r.ID
			}
		}
		if !records.More || !allSettled {
			return ids, behind, nil
		}
		behind = records.Last
	}
}

// read reads tasks. Those that are gone are forgotten.
func (w *watcher) read(ctx context.Context, ids []string) ([]task.Task, error) {
	slices.Sort(ids)
	ids = slices.Compact(ids)
	tasks := make([]task.Task, len(ids))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, id := range ids {
		group.Go(func() error {
			rec, err := w.store.Find(groupCtx, id)
			if errors.Is(err, queue.ErrNotFound) {
				return nil
			}
			tasks[i] = rec.Task
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i, id := range ids {
		if tasks[i].ID == "" {
			delete(w.known, id)
		}
	}
	return slices.DeleteFunc(tasks, func(t task.Task) bool { return t.ID == "" }), nil
}

// note remembers a task as it was read and tells whether that is a change.
func (w *watcher) note(t task.Task) bool {
	k := w.known[t.ID]
	if k == nil {
		whatever := w.selection
		whatever.statuses = statusFlag{}
		if !whatever.selects(t) {
			w.known[t.ID] = w.foreign
			return false
		}
		k = &watched{task: task.Task{Revision: -1}}
		w.known[t.ID] = k
	}
	now := w.now()
	changed := k.task.Revision != t.Revision || k.task.Status != t.Status
	k.task, k.readAt, k.lookAt = t, now, now
	k.task.Input, k.task.Output, k.task.Checkpoint = nil, nil, nil
	if t.Status == task.Pending && t.AvailableAt.After(now) {
		k.lookAt = t.AvailableAt
		if often := now.Add(sleeperEvery); often.Before(k.lookAt) {
			k.lookAt = often
		}
	}
	return changed
}

// counts is how many tasks were met and not left out, by status.
func (w *watcher) counts() tally {
	n := make(tally)
	for _, k := range w.known {
		if k != w.foreign {
			n[k.task.Status]++
		}
	}
	return n
}

// latest are the tasks that pass all filters, those first that changed last, at most n.
func (w *watcher) latest(n int) (shown []task.Task, more int) {
	all := slices.Collect(maps.Values(w.known))
	all = slices.DeleteFunc(all, func(k *watched) bool { return k == w.foreign || !w.selection.selects(k.task) })
	slices.SortFunc(all, func(a, b *watched) int {
		return cmp.Or(b.task.UpdatedAt.Compare(a.task.UpdatedAt), strings.Compare(a.task.ID, b.task.ID))
	})
	n = min(max(n, 0), len(all))
	for _, k := range all[:n] {
		shown = append(shown, k.task)
	}
	return shown, len(all) - n
}
