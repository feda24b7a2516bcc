package main

import (
	"fmt"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
)

func strategies() []strategy {
	return []strategy{
		{"place", place},
		{"retry_after", retryAfter(func(_ *world, wait time.Duration) time.Duration { return wait })},
		{"jitter", retryAfter(jitter)},
	}
}

// retryAfter sleeps as long as the limiter says that the task must wait if nobody else
// comes, and tries again.
func retryAfter(spread func(*world, time.Duration) time.Duration) func(*world, int32, int64) {
	return func(w *world, id int32, now int64) {
		item := &w.items[0]
		var blocked []limit.Blocked
		for k := range item.Tiers {
			s := &item.Tiers[k]
			if d := s.Meter.Decide(s.State, s.Units, at(now)); !d.Admitted {
				blocked = append(blocked, d.Blocked)
			}
		}
		if len(blocked) > 0 {
			wait := spread(w, limit.NewDenied(blocked...).RetryAfter)
			w.sleep(id, now, now+wait.Milliseconds())
			return
		}
		for k := range item.Tiers {
			s := &item.Tiers[k]
			s.State = s.Meter.Decide(s.State, s.Units, at(now)).Next
		}
		w.admit(id, now)
	}
}

// jitter adds up to half of the wait, and no more than two seconds.
func jitter(w *world, wait time.Duration) time.Duration {
	return wait + time.Duration(w.rand.Float64()*float64(min(wait/2, 2*time.Second)))
}

// place parks a task under a place of its own.
func place(w *world, id int32, now int64) {
	t := &w.tasks[id]
	held := (*limit.Place)(nil)
	if t.asleep {
		held = &t.place
	}
	var step limit.Step
	switch {
	case t.waiting:
		step = t.slot.Finish(w.items, held, w.patience, at(now))
	case t.woke:
		step = limit.Wake(w.items, t.place, w.patience, at(now))
	default:
		step = limit.Arrive(w.items, w.patience, at(now))
	}
	if !step.Plans[0].Applies(w.items[0]) {
		panic(fmt.Sprintf("%+v does not apply to %+v", step.Plans[0], w.items[0]))
	}
	w.items[0] = step.Plans[0].Apply(w.items[0])
	switch step.Action {
	case limit.ToRun:
		w.index.remove(t.place.Ticket)
		w.admit(id, now)
	case limit.ToWait:
		t.slot, t.waiting = step.Slot(w.items), true
		until := max(since(t.slot.Until), now)
		w.held += until - now
		w.agenda.add(event{at: until, task: id, kind: starts})
	case limit.ToPark:
		w.index.remove(t.place.Ticket)
		if t.woke {
			w.rejoins++
		}
		parking := step.Parked(w.items)
		t.place, t.asleep, t.woke, t.waiting = parking.Place, true, false, false
		w.sleep(id, now, since(parking.WakeAt))
		w.index.add(t.place.Ticket, id)
	case limit.ToKeep:
		w.keeps++
		t.woke, t.waiting = false, false
		w.sleep(id, now, since(step.WakeAt))
	default:
		panic(step.Action)
	}
}

// round is the minute's look at those who wait: some are pulled forward.
func (w *world) round(now int64) {
	entries, ids := w.index.first(w, 25_000)
	if len(entries) == 0 {
		return
	}
	for _, p := range limit.PullForward(w.items[0], entries, w.patience, time.Minute, at(now)) {
		w.pulls++
		w.sleep(ids[p.Index], now, since(p.WakeAt))
	}
}

// index is that of those who sleep, by ticket.
type index struct {
	ids  []int32 // by ticket, from the first one on; -1 for those who left
	head int64   // the ticket of ids[0]
}

func (x *index) add(ticket int64, id int32) {
	if len(x.ids) == 0 {
		x.head = ticket
	}
	for x.head+int64(len(x.ids)) < ticket {
		x.ids = append(x.ids, -1)
	}
	x.ids = append(x.ids, id)
}

func (x *index) remove(ticket int64) {
	if i := ticket - x.head; ticket > 0 && i >= 0 && i < int64(len(x.ids)) {
		x.ids[i] = -1
	}
	for len(x.ids) > 0 && x.ids[0] < 0 {
		x.ids, x.head = x.ids[1:], x.head+1
	}
}

func (x *index) first(w *world, n int) (entries []limit.Sleeper, ids []int32) {
	units := make([]int64, len(w.items[0].Tiers))
	for k := range units {
		units[k] = w.items[0].Tiers[k].Units
	}
	for _, id := range x.ids {
		if id < 0 {
			continue
		}
		t := &w.tasks[id]
		if t.done || t.waiting || t.woke {
			continue
		}
		entries = append(entries, limit.Sleeper{Place: t.place, Units: units, Asked: at(t.asked)})
		if ids = append(ids, id); len(ids) == n {
			break
		}
	}
	return entries, ids
}
