package lambdaemu

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Runtime is a way to run a function: [Process], [Python] or [Func].
type Runtime interface {
	validate() error

	// start brings up a new instance. An instance that is still initializing
	// is fine: its first invocation waits for it.
	start(f *function, fn Function) (instance, error)
}

// instance is one running copy of a function. It handles one event at a time.
type instance interface {
	// invoke has the instance handle an event. It returns when the instance is
	// free again (true) or lost (false). When the outcome is known well before
	// that, it calls early with it.
	invoke(inv invocation, early func(Result)) (Result, bool)

	// stop ends an instance that is not handling an event.
	stop()

	// alive reports false once the instance has ended by itself.
	alive() bool

	// ephemeral instances cost nothing while idle and need no idle timer.
	ephemeral() bool
}

// invocation is one try of one event.
type invocation struct {
	requestID     string
	traceID       string
	arn           string
	clientContext string
	payload       []byte
}

// Result is what came of one invocation.
type Result struct {
	// RequestID identifies the event; retries of an event share it.
	RequestID string

	// Payload is what the function returned: its response, or when
	// FunctionError is set a document with errorMessage and errorType.
	Payload []byte

	// FunctionError is empty on success and "Unhandled" when the function
	// failed, crashed or timed out, as in the X-Amz-Function-Error header.
	FunctionError string
}

// function is a registered function with its instances and its queue.
type function struct {
	server *Server
	arn    string

	mu         sync.Mutex
	config     Function
	deployment int // grows with every deploy: older instances are not reused
	busy       int
	idle       []idleInstance // most recently used last
	waiting    []*event       // asynchronous events that are due, oldest first
	retrying   map[*event]struct{}
	closed     bool
}

type idleInstance struct {
	instance

	deployment int
	timer      *time.Timer // nil for ephemeral instances
}

// Stats is a snapshot of one function.
type Stats struct {
	Running  int // events being handled
	Idle     int // instances without an event
	Waiting  int // asynchronous events that wait for an instance
	Retrying int // asynchronous events that failed and wait for their next try
}

// Stats returns a snapshot of the function called name; all zero when there is
// none.
func (s *Server) Stats(name string) Stats {
	f, err := s.function(name)
	if err != nil {
		return Stats{}
	}
	return f.stats()
}

func (f *function) stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	st := Stats{Running: f.busy, Idle: len(f.idle), Retrying: len(f.retrying)}
	for _, ev := range f.waiting {
		if !ev.over {
			st.Waiting++
		}
	}
	return st
}

// settings returns the configuration in force.
func (f *function) settings() Function {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.config
}

// deploy puts a new configuration in force.
func (f *function) deploy(fn Function) {
	f.mu.Lock()
	f.config = fn
	f.deployment++
	old := f.takeAllIdle()
	f.mu.Unlock()
	for _, inst := range old {
		inst.stop()
	}
	f.dispatch()
}

// abandon forgets waiting events and stops idle instances, for Close.
func (f *function) abandon() {
	f.mu.Lock()
	f.closed = true
	for _, ev := range f.waiting {
		ev.stopTimers()
	}
	for ev := range f.retrying {
		ev.stopTimers()
	}
	f.waiting, f.retrying = nil, nil
	old := f.takeAllIdle()
	f.mu.Unlock()
	for _, inst := range old {
		inst.stop()
	}
}

func (f *function) takeAllIdle() []idleInstance {
	old := f.idle
	f.idle = nil
	for _, inst := range old {
		if inst.timer != nil {
			inst.timer.Stop()
		}
	}
	return old
}

// takeSlot counts one more event as being handled, if concurrency allows.
func (f *function) takeSlot() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.takeSlotLocked()
}

func (f *function) takeSlotLocked() bool {
	if f.closed || f.busy >= f.config.Concurrency {
		return false
	}
	f.busy++
	return true
}

// run handles one event on an idle or a new instance, and calls deliver once.
// The caller has taken a slot, which run gives back when the instance is free
// again.
func (f *function) run(inv invocation, deliver func(Result)) {
	var once sync.Once
	deliverOnce := func(r Result) { once.Do(func() { deliver(r) }) }
	r := f.handle(inv, deliverOnce)
	f.freeSlot()
	deliverOnce(r)
	f.dispatch()
}

func (f *function) handle(inv invocation, early func(Result)) Result {
	inst, deployment, err := f.instance()
	if err != nil {
		f.server.log(f.settings().Name, "", err.Error())
		return failure(inv.requestID, "Runtime.InvalidEntrypoint", err.Error())
	}
	r, alive := inst.invoke(inv, early)
	if alive {
		f.keep(inst, deployment)
	} else {
		inst.stop()
	}
	return r
}

func (f *function) freeSlot() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy--
}

// instance returns the instance that was used last, or a new one.
func (f *function) instance() (instance, int, error) {
	f.mu.Lock()
	if n := len(f.idle); n > 0 {
		inst := f.idle[n-1]
		f.idle = f.idle[:n-1]
		if inst.timer != nil {
			inst.timer.Stop()
		}
		f.mu.Unlock()
		return inst.instance, inst.deployment, nil
	}
	fn, deployment := f.config, f.deployment
	f.mu.Unlock()
	inst, err := fn.Runtime.start(f, fn)
	return inst, deployment, err
}

// keep makes an instance available for the next event, for a while.
func (f *function) keep(inst instance, deployment int) {
	f.mu.Lock()
	if f.closed || deployment != f.deployment {
		f.mu.Unlock()
		inst.stop()
		return
	}
	idle := idleInstance{instance: inst, deployment: deployment}
	if !inst.ephemeral() {
		idle.timer = f.server.after(f.server.opts.IdleTimeout, func() { f.retire(inst) })
	}
	f.idle = append(f.idle, idle)
	f.mu.Unlock()
	if !inst.alive() { // it ended before anyone could find it here
		f.retire(inst)
	}
}

// retire stops an instance that is idle, and leaves one that is not alone.
func (f *function) retire(inst instance) {
	f.mu.Lock()
	at := slices.IndexFunc(f.idle, func(i idleInstance) bool { return i.instance == inst })
	if at < 0 {
		f.mu.Unlock()
		return
	}
	if t := f.idle[at].timer; t != nil {
		t.Stop()
	}
	f.idle = slices.Delete(f.idle, at, at+1)
	f.mu.Unlock()
	inst.stop()
}

// InvokeOptions are the details of an invocation. The zero value works.
type InvokeOptions struct {
	// RequestID identifies the event. Defaults to a fresh UUID.
	RequestID string

	// ClientContext is handed to the function as JSON. Optional.
	ClientContext string
}

// Invoke runs a function and waits for its result. An error of the function is
// not an error of Invoke: it is in the result. Invoke fails with an [*Error]
// when there is no such function, when all instances are busy
// (TooManyRequestsException) and when the payload is not JSON or larger than
// 6 MB; and with ctx's error when ctx ends first, while the function runs on.
func (s *Server) Invoke(ctx context.Context, ref string, payload []byte, opts InvokeOptions) (Result, error) {
	f, inv, err := s.prepare(ref, payload, opts, maxSyncPayload)
	if err != nil {
		return Result{}, err
	}
	if !f.takeSlot() {
		return Result{}, errThrottled()
	}
	results := make(chan Result, 1)
	if !s.spawn(func() { f.run(inv, func(r Result) { results <- r }) }) {
		f.freeSlot()
		return Result{}, errClosed
	}
	select {
	case r := <-results:
		return r, nil
	case <-ctx.Done():
		return Result{RequestID: inv.requestID}, ctx.Err()
	}
}
