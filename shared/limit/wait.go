package limit

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"
)

// Wait acquires the tiers as soon as they admit the request, sleeping exactly until
// the next try can succeed: it paces the caller.
//
// Within a process those who wait for the same limiter, policy and key form a queue
// in order of arrival, and only the first one tries: a crowd costs a shared store no
// more requests than one caller.
//
// Wait returns the error of ctx when it is done. It returns a [*Denied] at once if a
// cost can never be admitted, and if the deadline of ctx is too close for it to be:
// the error then is [context.DeadlineExceeded] as well. Other errors of the limiter
// are returned as they are.
func Wait(ctx context.Context, l Acquirer, tiers ...Tier) (*Reservation, error) {
	turn := queues.join(l, tiers)
	defer queues.leave(turn)
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-turn.first:
		}
		changed := changes(l)
		r, err := l.Acquire(ctx, tiers...)
		denied, ok := errors.AsType[*Denied](err)
		if !ok || denied.Never {
			return r, err
		}
		if end, ok := ctx.Deadline(); ok && time.Until(end) < denied.RetryAfter {
			return nil, fmt.Errorf("%w: the context ends before: %w", denied, context.DeadlineExceeded)
		}
		if err := sleep(ctx, denied.RetryAfter, changed); err != nil {
			return nil, err
		}
	}
}

// changes returns the channel of a limiter that tells of changes, else nil.
func changes(l Acquirer) <-chan struct{} {
	if c, ok := l.(interface{ Changed() <-chan struct{} }); ok {
		return c.Changed()
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration, woken <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	case <-woken:
	}
	return nil
}

// queues are those of the process: one per limiter, policy and key, each for as
// long as someone waits in it.
var queues = waiting{lines: make(map[queue][]*turn)}

type waiting struct {
	mu    sync.Mutex
	lines map[queue][]*turn
}

type queue struct {
	limiter Acquirer
	place   place
}

// turn is one caller's place in the queues of all its tiers. It joins all of them in
// one step, so two callers stand in the same order wherever they meet, and someone
// is always first in all of his.
type turn struct {
	queues []queue
	behind int           // in how many of them somebody is ahead
	first  chan struct{} // closed when that is none
}

func (w *waiting) join(l Acquirer, tiers []Tier) *turn {
	t := &turn{first: make(chan struct{})}
	if !reflect.TypeOf(l).Comparable() { // a limiter that can't be told from another
		close(t.first)
		return t
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, tier := range tiers {
		q := queue{l, place{tier.Policy.Name, tier.Key}}
		if tier.Units == 0 || slices.Contains(t.queues, q) {
			continue
		}
		if len(w.lines[q]) > 0 {
			t.behind++
		}
		t.queues = append(t.queues, q)
		w.lines[q] = append(w.lines[q], t)
	}
	if t.behind == 0 {
		close(t.first)
	}
	return t
}

func (w *waiting) leave(t *turn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range t.queues {
		line := w.lines[q]
		i := slices.Index(line, t)
		line = slices.Delete(line, i, i+1)
		if len(line) == 0 {
			delete(w.lines, q)
			continue
		}
		w.lines[q] = line
		if i > 0 {
			continue
		}
		if next := line[0]; next.behind > 0 {
			if next.behind--; next.behind == 0 {
				close(next.first)
			}
		}
	}
}
