package lambdaemu

import (
	"time"
)

// event is an asynchronous invocation on its way: it waits for an instance, is
// being handled, or waits for a retry.
type event struct {
	inv     invocation
	arrived time.Time

	// The rest is guarded by the function's mutex.
	tries   int
	last    *Result // outcome of the last try, nil before it
	running bool
	over    bool // handled, or given up
	expiry  *time.Timer
	retry   *time.Timer
}

func (ev *event) stopTimers() {
	if ev.expiry != nil {
		ev.expiry.Stop()
	}
	if ev.retry != nil {
		ev.retry.Stop()
	}
}

// InvokeAsync accepts an event and returns its request id. The function is run
// as soon as an instance is free. When it fails, the event is tried again
// MaxRetries times; when that is used up, or the event gets older than
// MaxEventAge first, it goes to the function's OnFailure.
//
// It fails with an [*Error] when there is no such function and when the
// payload is not JSON or larger than 1 MB.
func (s *Server) InvokeAsync(ref string, payload []byte, opts InvokeOptions) (string, error) {
	f, inv, err := s.prepare(ref, payload, opts, maxAsyncPayload)
	if err != nil {
		return "", err
	}
	ev := &event{inv: inv, arrived: time.Now()}
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return "", errClosed
	}
	ev.expiry = s.after(f.config.MaxEventAge, func() { f.expire(ev) })
	f.waiting = append(f.waiting, ev)
	f.mu.Unlock()
	f.dispatch()
	return inv.requestID, nil
}

// dispatch starts waiting events while there are free slots.
func (f *function) dispatch() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		for len(f.waiting) > 0 && f.waiting[0].over {
			f.dropFirst()
		}
		if len(f.waiting) == 0 || !f.takeSlotLocked() {
			return
		}
		ev := f.waiting[0]
		f.dropFirst()
		ev.running = true
		ev.tries++
		if !f.server.spawn(func() { f.run(ev.inv, func(r Result) { f.settle(ev, r) }) }) {
			f.busy--
			return
		}
	}
}

func (f *function) dropFirst() {
	f.waiting[0] = nil
	f.waiting = f.waiting[1:]
}

// settle decides what follows a try: nothing, a retry, or giving up.
func (f *function) settle(ev *event, r Result) {
	f.mu.Lock()
	ev.running = false
	ev.last = &r
	aged := time.Since(ev.arrived) >= f.config.MaxEventAge
	switch {
	case f.closed:
		ev.stopTimers()
	case r.FunctionError == "":
		ev.over = true
		ev.stopTimers()
	case ev.tries > f.config.MaxRetries:
		f.giveUp(ev, RetriesExhausted)
		return
	case aged:
		f.giveUp(ev, EventAgeExceeded)
		return
	default:
		if f.retrying == nil {
			f.retrying = map[*event]struct{}{}
		}
		f.retrying[ev] = struct{}{}
		ev.retry = f.server.after(f.config.retryDelay(ev.tries), func() { f.tryAgain(ev) })
	}
	f.mu.Unlock()
}

func (f *function) tryAgain(ev *event) {
	f.mu.Lock()
	_, due := f.retrying[ev]
	if due {
		delete(f.retrying, ev)
		f.waiting = append(f.waiting, ev)
	}
	f.mu.Unlock()
	if due {
		f.dispatch()
	}
}

// expire gives up an event that has become too old while it was waiting. One
// that is being handled right now is judged when that ends.
func (f *function) expire(ev *event) {
	f.mu.Lock()
	if f.closed || ev.over || ev.running {
		f.mu.Unlock()
		return
	}
	f.giveUp(ev, EventAgeExceeded)
}

// giveUp ends an event and reports it. It is called with the mutex held, and
// releases it.
func (f *function) giveUp(ev *event, condition string) {
	ev.over = true
	ev.stopTimers()
	delete(f.retrying, ev)
	report := f.config.OnFailure
	record := f.failureRecord(ev, condition)
	f.mu.Unlock()
	if report != nil {
		f.server.spawn(func() { report(record) })
	}
}
