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
	submitEach   = 1 // the crowd is submitted within tasks · 1 ms
	oneRound     = 60_000
)

// A world is one run: a scenario, a lateness and a strategy.
type world struct {
	scenario scenario
	late     lateness
	strategy strategy
	seed     uint64
	rand     *rand.Rand
	agenda   agenda

	items    []limit.Item // the limiter's store
	free     int64        // when the item's partition has carried out all writes so far
	patience limit.Patience

	tasks    []sleeper
	index    index
	left     int
	admitted []int64 // times
	woken    []int64 // times
	held     int64   // milliseconds waited inside functions
	keeps    int     // wake-ups that were too early
	rejoins  int     // wake-ups that came too late or too many
	pulls    int
}

// sleeper is a task.
type sleeper struct {
	carried int64 // the time that its request under way carries
	place   limit.Place
	asleep  bool // holds a place
	woke    bool // its request under way is that of a woken task
	slot    limit.Slot
	waiting bool   // in a slot
	asks    uint32 // its wake-ups so far; only the last one counts
	asked   int64
	done    bool
}

// A strategy is what a task does that is not admitted at once.
type strategy struct {
	name   string
	decide func(w *world, id int32, now int64)
}

func newWorld(s scenario, l lateness, st strategy, seed uint64, p limit.Patience, concurrency int) *world {
	w := &world{
		scenario: s, late: l, strategy: st, seed: seed,
		rand:  rand.New(rand.NewPCG(seed, 0x51)),
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
	w.patience = p.Within(concurrency, w.items, begin)
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
	w.agenda.add(event{at: oneRound / 2, kind: rounds})
	for w.left > 0 {
		e, ok := w.agenda.next()
		if !ok {
			panic(fmt.Sprintf("%s %s %s: %d tasks sleep for ever", w.scenario.name, w.late.name, w.strategy.name, w.left))
		}
		w.happen(e)
	}
}

func (w *world) happen(e event) {
	t := &w.tasks[e.task]
	switch e.kind {
	case wakes:
		if e.asks != t.asks || t.done {
			w.woken = append(w.woken, e.at) // a wake-up in vain is one all the same
			return
		}
		w.woken = append(w.woken, e.at)
		t.woke = true
		w.ask(e.task, e.at+w.request())
	case arrives:
		w.ask(e.task, e.at+w.request())
	case starts:
		w.ask(e.task, e.at)
	case decides:
		w.strategy.decide(w, e.task, t.carried)
	case rounds:
		w.round(e.at)
		w.agenda.add(event{at: e.at + oneRound, kind: rounds})
	}
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

// admit notes that a task runs.
func (w *world) admit(id int32, at int64) {
	t := &w.tasks[id]
	if t.done {
		panic("a task runs twice")
	}
	t.done = true
	w.left--
	w.admitted = append(w.admitted, at)
}

// sleep asks for a wake-up at a time: at a whole second, and not in the past.
func (w *world) sleep(id int32, now, wake int64) {
	t := &w.tasks[id]
	armed := now + w.request()
	asked := max(wholeSecond(wake), wholeSecond(armed+1))
	t.asks++
	t.asked = asked
	delivered := max(asked+w.late.draw(w.rand, w.seed, asked), armed)
	w.agenda.add(event{at: delivered, task: id, kind: wakes, asks: t.asks})
}

// wholeSecond rounds up to a second of the clock, which does not begin with the run.
func wholeSecond(ms int64) int64 {
	t := at(ms)
	if whole := t.Truncate(time.Second); whole != t {
		t = whole.Add(time.Second)
	}
	return since(t)
}
