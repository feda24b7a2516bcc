package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
)

// Times of the cloud, in milliseconds.
const (
	leastRequest = 5 // of one request to S3, DynamoDB or Scheduler
	mostRequest  = 20
	oneWrite     = 1 // an item of DynamoDB takes about 1,000 writes a second
	submitEach   = 2 // the crowd is submitted at 500 tasks a second
	oneRound     = 60_000
)

// settings are what a run is played with.
type settings struct {
	concurrency int
	runs        int64 // milliseconds that a task runs
}

// A world is one run: a scenario, a lateness and a strategy.
type world struct {
	settings
	scenario scenario
	late     lateness
	strategy strategy
	seed     uint64
	rand     *rand.Rand
	agenda   agenda

	patience limit.Patience

	items []limit.Item // the limiter's store
	free  int64        // when the item's partition has carried out all writes so far
	index index        // of those who wait
	page  []limit.Sleeper

	tasks    []sleeper
	calls    []call
	running  int     // invocations at work
	pending  []event // events that wait for an invocation to end
	left     int
	admitted []int64 // times
	woken    []int64 // times, if traced
	traced   bool
	counts
}

// counts are what the figures are made of.
type counts struct {
	wakeups int   // delivered
	held    int64 // milliseconds waited inside functions
	keeps   int   // wake-ups that were too early
	rejoins int   // wake-ups of which too many came at a time
	pulls   int   // wake-ups that were asked for again, for an earlier time
	taken   int   // tasks that were taken along by a function
	back    int   // tasks that were taken along in vain
	again   int   // wake-ups that found their task in the hands of another function
	most    int   // invocations at work at once
}

// A call is an invocation of the function.
type call struct {
	began int64
	ran   bool    // it has run a task
	idled bool    // it has waited since for somebody to be late
	page  []int32 // tasks that it may take along
	tries int     // how many of them it has tried to take
}

// sleeper is a task.
type sleeper struct {
	carried int64 // the time that its request under way carries
	place   limit.Place
	asleep  bool  // holds a place
	busy    bool  // a function is at it
	taken   bool  // it was taken along
	call    int32 // which
	slot    limit.Slot
	waiting bool // in the slot
	asks    uint32
	deleted uint32 // wake-ups up to this one were withdrawn
	asked   int64
	done    bool
	// recorded is when the outcome is recorded of a task that is done.
	recorded int64
}

// A strategy is what a task does that is not admitted at once.
type strategy struct {
	name   string
	decide func(w *world, id int32, now int64)
	places bool // whether tasks hold places, and the functions' patience with them

	patience limit.Patience
}

func newWorld(c combination, seed uint64, set settings) *world {
	s := c.scenario
	w := &world{
		settings: set, scenario: s, late: c.lateness, strategy: c.strategy, seed: seed,
		rand:  rand.New(rand.NewPCG(seed, 0x51)), //nolint:gosec // a simulation is to be repeatable
		items: []limit.Item{{Group: "bench", Key: "k", Tiers: make([]limit.Standing, len(s.policies))}},
		tasks: make([]sleeper, s.tasks),
		left:  s.tasks,
	}
	for k, p := range s.policies {
		e, _, err := limit.Register(nil, p, 1, "bench", time.Time{})
		if err != nil {
			panic(err)
		}
		m, err := limit.NewMeter(e)
		if err != nil {
			panic(err)
		}
		w.items[0].Tiers[k] = limit.Standing{Meter: m, Units: 1}
	}
	w.patience = c.strategy.patience.Within(set.concurrency, w.items, begin)
	return w
}

// begin is when the crowd is submitted: in the middle of a second and of a minute.
var begin = time.Date(2027, 1, 4, 9, 17, 23, 456_000_000, time.UTC)

func at(ms int64) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }

func since(t time.Time) int64 { return t.Sub(begin).Milliseconds() }

// run plays the scenario to its end.
func (w *world) run() {
	for i := range w.tasks {
		w.agenda.add(event{at: int64(i) * submitEach, task: int32(i), kind: arrives})
	}
	if w.strategy.places {
		w.agenda.add(event{at: oneRound / 2, kind: rounds})
	}
	for w.left > 0 {
		e, ok := w.agenda.next()
		if !ok {
			panic(fmt.Sprintf("%s %s %s: %d tasks sleep for ever", w.scenario.name, w.late.name, w.strategy.name, w.left))
		}
		w.happen(e)
	}
	// Wake-ups that were asked for and not withdrawn are still to come, in vain.
	for e, ok := w.agenda.next(); ok; e, ok = w.agenda.next() {
		if e.kind == wakes && e.asks > w.tasks[e.task].deleted {
			w.wake(e.at)
		}
	}
}

// wake counts a wake-up.
func (w *world) wake(at int64) {
	w.wakeups++
	if w.traced {
		w.woken = append(w.woken, at)
	}
}

func (w *world) happen(e event) {
	switch e.kind {
	case arrives, wakes:
		if e.kind == wakes && e.asks <= w.tasks[e.task].deleted {
			return // withdrawn
		}
		if w.running == w.concurrency {
			w.pending = append(w.pending, e)
			return
		}
		w.invoke(e)
	case ends:
		w.running--
		if len(w.pending) > 0 {
			first := w.pending[0]
			w.pending = w.pending[1:]
			first.at = e.at
			w.invoke(first)
		}
	case starts:
		w.look(e.task, e.at)
	case decides:
		w.strategy.decide(w, e.task, w.tasks[e.task].carried)
	case frees:
		w.frees(e)
	case takes:
		w.takes(e)
	case rounds:
		w.round(e.at)
		w.agenda.add(event{at: e.at + oneRound, kind: rounds})
	}
}

// invoke starts an invocation for a task: it reads the record and asks the limiter.
func (w *world) invoke(e event) {
	t := &w.tasks[e.task]
	w.running++
	w.most = max(w.most, w.running)
	read := e.at + w.request()
	if e.kind == wakes {
		w.wake(e.at)
		if t.busy || read < t.recorded {
			// Another function has it in hand: should that die, somebody has to look again.
			w.again++
			asked := t.asked
			w.sleep(e.task, read, read+oneRound)
			t.asked = asked
		}
		if t.busy || t.done {
			over := ends
			if t.done && read >= t.recorded {
				over = frees
			}
			w.calls = append(w.calls, call{began: e.at})
			w.agenda.add(event{at: read + w.request(), kind: over, call: int32(len(w.calls) - 1)})
			return
		}
		w.index.remove(t.place.Ticket)
	}
	t.busy, t.taken = true, false
	if w.strategy.places {
		t.call = int32(len(w.calls))
		w.calls = append(w.calls, call{began: e.at})
	}
	w.ask(e.task, read)
}

// request draws how long a request takes.
func (w *world) request() int64 {
	return leastRequest + w.rand.Int64N(mostRequest-leastRequest+1)
}

// ask sends a task's request to the limiter's store, where it is carried out when it has
// arrived and those before it are done.
func (w *world) ask(id int32, now int64) {
	w.tasks[id].carried = now
	done := max(now+w.request()/2, w.free) + oneWrite
	w.free = done
	w.agenda.add(event{at: done, task: id, kind: decides})
}

// look reads the limiter's store again, when a slot's time has come.
func (w *world) look(id int32, now int64) {
	w.tasks[id].carried = now
	w.agenda.add(event{at: now + w.request()/2, task: id, kind: decides})
}

// admit notes that a task runs, admitted at a time by the limiter; its function is done
// with it when it has claimed it, run it and recorded the outcome.
func (w *world) admit(id int32, now int64) {
	t := &w.tasks[id]
	if t.done {
		panic("a task runs twice")
	}
	t.done, t.busy = true, false
	w.left--
	w.admitted = append(w.admitted, now)
	t.recorded = now + w.request() + w.request() + w.runs + w.request()
	if w.strategy.places && w.items[0].Waiting > 0 { // the limiter's answer tells
		w.calls[t.call].ran, w.calls[t.call].idled = true, false
		w.agenda.add(event{at: t.recorded, kind: frees, call: t.call})
		return
	}
	w.agenda.add(event{at: t.recorded, kind: ends})
}

// sleep asks for a wake-up at a time: at a whole second, and not in the past.
func (w *world) sleep(id int32, now, wake int64) {
	t := &w.tasks[id]
	armed := now + w.request() + w.request()
	asked := max(wholeSecond(wake), wholeSecond(armed+1))
	t.asks++
	t.asked = asked
	delivered := max(asked+w.late.draw(w.rand, w.seed, asked), armed)
	w.agenda.add(event{at: delivered, task: id, kind: wakes, asks: t.asks})
}

// wholeSecond rounds up to a second of the clock, of which the first one begins so long
// after the run.
func wholeSecond(ms int64) int64 {
	const first = 1000 - 456
	late := ((ms-first)%1000 + 1000) % 1000
	return ms + (1000-late)%1000
}
