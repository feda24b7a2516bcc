package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/worker"
)

// strategies are what is compared. "place" is what the claim function does: a throttled
// task sleeps under a place of its own, and a function that is done with a task takes
// sleepers along whose wake-up is late.
func strategies() []strategy {
	return []strategy{
		{name: "place", decide: place, places: true, patience: worker.Patience()},
		{name: "retry_after", decide: retryAfter(func(_ *world, wait time.Duration) time.Duration { return wait })},
		{name: "jitter", decide: retryAfter(jitter)},
	}
}

// retryAfter sleeps as long as the limiter says that the task must wait if nobody else
// comes, and tries again.
func retryAfter(spread func(*world, time.Duration) time.Duration) func(*world, int32, int64) {
	return func(w *world, id int32, now int64) {
		w.tasks[id].busy = false
		tiers := w.items[0].Tiers
		var wait time.Duration
		for k := range tiers {
			d := tiers[k].Meter.Decide(tiers[k].State, tiers[k].Units, at(now))
			if !d.Admitted {
				wait = max(wait, d.Blocked.Wait)
			}
		}
		if wait > 0 {
			w.sleep(id, now, now+spread(w, wait).Milliseconds())
			w.agenda.add(event{at: now + 3*mostRequest, kind: ends})
			return
		}
		for k := range tiers {
			tiers[k].State = tiers[k].Meter.Decide(tiers[k].State, tiers[k].Units, at(now)).Next
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
	var held *limit.Place
	if t.asleep {
		held = &t.place
	}
	var step limit.Step
	switch {
	case t.waiting:
		step = t.slot.Finish(w.items, held, w.patience, at(now))
	case t.asleep:
		step = limit.Wake(w.items, t.place, w.patience, at(now))
	default:
		step = limit.Arrive(w.items, w.patience, at(now))
	}
	if t.taken && (step.Action == limit.ToPark || step.Action == limit.ToKeep) {
		// Its turn has passed to others. Its own wake-up is still to come.
		w.index.add(t.place.Ticket, id)
		t.taken, t.busy, t.waiting = false, false, false
		w.back++
		w.agenda.add(event{at: now + w.request(), kind: ends})
		return
	}
	if !step.Plans[0].Applies(w.items[0]) {
		panic(fmt.Sprintf("%+v does not apply to %+v", step.Plans[0], w.items[0]))
	}
	w.items[0] = step.Plans[0].Apply(w.items[0])
	switch step.Action {
	case limit.ToRun:
		w.admit(id, now)
	case limit.ToWait:
		t.slot, t.waiting = step.Slot(w.items), true
		until := max(since(t.slot.Until), now)
		w.held += until - now
		w.agenda.add(event{at: until, task: id, kind: starts})
	case limit.ToPark:
		if t.asleep {
			w.rejoins++
		}
		parking := step.Parked(w.items)
		t.place = parking.Place
		w.park(id, now, parking.WakeAt)
	case limit.ToKeep:
		w.keeps++
		w.park(id, now, step.WakeAt)
	default:
		panic(step.Action)
	}
}

// park puts a task to sleep under its place.
func (w *world) park(id int32, now int64, wake time.Time) {
	t := &w.tasks[id]
	over := frees
	if !t.asleep {
		over = ends // a newcomer's function takes nobody along
	}
	t.asleep, t.busy, t.waiting = true, false, false
	w.index.add(t.place.Ticket, id)
	w.sleep(id, now, since(wake))
	w.agenda.add(event{at: now + w.request() + w.request() + w.request(), kind: over, call: t.call})
}

// pageSize is how many entries of the index a function looks at to take one along, and
// mostTries how many of them it tries to take before it gives up.
const (
	pageSize  = 50
	mostTries = 5
)

// frees lets a function that is done with a task look for another one that it can take
// along.
func (w *world) frees(e event) {
	c := &w.calls[e.call]
	c.page = c.page[:0]
	if c.tries = 0; e.at-c.began > worker.AlongFor.Milliseconds() {
		w.agenda.add(event{at: e.at, kind: ends})
		return
	}
	w.page = w.page[:0]
	for id := range w.index.first() {
		w.page = append(w.page, w.sleeper(id))
		if c.page = append(c.page, id); len(c.page) == pageSize {
			break
		}
	}
	patience := w.patience
	if !c.ran {
		patience.Linger = 0
	}
	when, ok := patience.TakeAlong(w.items[0], w.page, w.rand.Float64(), at(e.at))
	switch wait := since(when) - e.at; {
	case !ok, wait > 0 && c.idled:
		w.agenda.add(event{at: e.at, kind: ends})
	case wait > 0:
		c.idled = true
		w.held += wait
		w.agenda.add(event{at: e.at + wait, kind: frees, call: e.call})
	default:
		c.page = slices.DeleteFunc(c.page, func(id int32) bool { return !w.sleeper(id).Missed(at(e.at)) })
		w.agenda.add(event{at: e.at + w.request() + w.request(), kind: takes, call: e.call})
	}
}

// takes lets a function take a task along, unless another function or its own wake-up was
// faster: who removes the entry from the index has it.
func (w *world) takes(e event) {
	c := &w.calls[e.call]
	if c.tries++; len(c.page) == 0 || c.tries > mostTries {
		w.agenda.add(event{at: e.at, kind: ends})
		return
	}
	i := w.rand.IntN(len(c.page))
	id := c.page[i]
	c.page = append(c.page[:i], c.page[i+1:]...)
	t := &w.tasks[id]
	if !w.index.remove(t.place.Ticket) {
		w.agenda.add(event{at: e.at + w.request(), kind: takes, call: e.call})
		return
	}
	w.taken++
	t.busy, t.taken, t.call = true, true, e.call
	w.ask(id, e.at+w.request()+w.request())
}

// sleeper is a task's entry in the index.
func (w *world) sleeper(id int32) limit.Sleeper {
	t := &w.tasks[id]
	return limit.Sleeper{Place: t.place, Units: units[:len(w.items[0].Tiers)], Asked: at(t.asked)}
}

var units = []int64{1, 1}

// round is the minute's look at those who wait: some are pulled forward.
func (w *world) round(now int64) {
	var ids []int32
	entries := func(yield func(limit.Sleeper) bool) {
		for id := range w.index.first() {
			if ids = append(ids, id); !yield(w.sleeper(id)) {
				return
			}
		}
	}
	for _, p := range limit.PullForward(w.items[0], entries, w.patience, time.Minute, at(now)) {
		w.pulls++
		t := &w.tasks[ids[p.Index]]
		if t.asked > now {
			t.deleted = t.asks // in time to be withdrawn
		}
		w.sleep(ids[p.Index], now, since(p.WakeAt))
	}
}
