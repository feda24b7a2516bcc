package main

// An event is something that happens to a task at a time, in milliseconds.
type event struct {
	at   int64
	turn uint64 // orders the events of one millisecond: first come, first served
	task int32
	kind kind
	asks uint32 // of a wake-up: which of the task's requests it answers
	call int32  // of what happens within a function: which invocation
}

type kind uint8

const (
	arrives kind = iota // the submission's event is delivered
	wakes               // a wake-up is delivered
	decides             // the limiter's store carries out the task's request
	starts              // a slot's time has come
	frees               // a function has recorded a task's outcome
	takes               // a function tries to take another task along
	ends                // an invocation ends
	rounds              // the minute's look at those who wait
)

// agenda is a heap of events.
type agenda struct {
	events []event
	turn   uint64
}

func (e event) before(f event) bool {
	return e.at < f.at || e.at == f.at && e.turn < f.turn
}

func (a *agenda) add(e event) {
	a.turn++
	e.turn = a.turn
	a.events = append(a.events, e)
	i := len(a.events) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(a.events[parent]) {
			break
		}
		a.events[i] = a.events[parent]
		i = parent
	}
	a.events[i] = e
}

func (a *agenda) next() (event, bool) {
	if len(a.events) == 0 {
		return event{}, false
	}
	first := a.events[0]
	last := len(a.events) - 1
	e := a.events[last]
	a.events = a.events[:last]
	for i := 0; last > 0; {
		least := i
		smallest := e
		for c := 4*i + 1; c <= 4*i+4 && c < last; c++ {
			if a.events[c].before(smallest) {
				least, smallest = c, a.events[c]
			}
		}
		a.events[i] = smallest
		if least == i {
			break
		}
		i = least
	}
	return first, true
}
