package cloud

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"maps"
	"net/http"
	"slices"
	"time"
)

// Fault is what happens to a request besides being carried out. The zero value
// is nothing.
type Fault struct {
	// Delay is waited before the request is carried out.
	Delay time.Duration

	// Before breaks the connection before the request is carried out.
	Before bool

	// Status, from 400 on, is answered in place of carrying the request out,
	// as an error of the service with Code and Message. When After is set the
	// request is carried out all the same.
	Status  int
	Code    string // such as SlowDown or ConditionalRequestConflict
	Message string // defaults to a text that says the error was injected

	// Repeat carries the request out twice, as when a client or something on
	// the way sends it again. The client gets the second answer.
	Repeat bool

	// After loses the answer of a request that was carried out: the client
	// sees a broken connection, or the error that Status asks for.
	After bool

	// Then is called when the request has been carried out, before its answer
	// is on its way. It may call the cloud, so that something happens just
	// then. Optional.
	Then func()
}

// Faults that AWS itself comes up with.
var (
	// SlowDown is S3's way of throttling.
	SlowDown = Fault{Status: http.StatusServiceUnavailable, Code: "SlowDown", Message: "Please reduce your request rate."}

	// Conflict is what S3 answers to a conditional write that raced with
	// another one.
	Conflict = Fault{Status: http.StatusConflict, Code: "ConditionalRequestConflict",
		Message: "The conditional request cannot succeed due to a conflicting operation against this resource."}

	// InternalError is a failure of S3 itself.
	InternalError = Fault{Status: http.StatusInternalServerError, Code: "InternalError",
		Message: "We encountered an internal error. Please try again."}

	// Unreachable is a connection that breaks before the request arrives.
	Unreachable = Fault{Before: true}

	// LostAnswer is a connection that breaks when the request has been
	// carried out.
	LostAnswer = Fault{After: true}
)

// SetFault installs a hook that is asked about every request; nil removes it.
// It is called in the goroutine of the request, without a lock, and may block,
// so that a test can hold a request back; it must let go of it before Close.
func (c *Cloud) SetFault(hook func(*Request) Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = hook
}

// plannedFault is a fault for the next few requests that match.
type plannedFault struct {
	left    int
	fault   Fault
	matches func(*Request) bool
}

// FailNext gives the fault to the next n requests that match; a nil matches
// takes every request. Plans add up: a request suffers the oldest plan that
// matches it, and the hook is asked about requests without one.
func (c *Cloud) FailNext(n int, fault Fault, matches func(*Request) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.planned = append(c.planned, &plannedFault{left: n, fault: fault, matches: matches})
}

// faultFor finds out what is to happen to a request.
func (c *Cloud) faultFor(r *Request) Fault {
	c.mu.Lock()
	hook, planned := c.fault, slices.Clone(c.planned)
	c.mu.Unlock()
	for _, p := range planned {
		// Matching is the test's code: it runs without the lock.
		if (p.matches == nil || p.matches(r)) && c.useUp(p) {
			return p.fault
		}
	}
	if hook == nil {
		return Fault{}
	}
	return hook(r)
}

func (c *Cloud) useUp(p *plannedFault) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.left <= 0 {
		return false
	}
	p.left--
	if p.left == 0 {
		c.planned = slices.DeleteFunc(c.planned, func(other *plannedFault) bool { return other == p })
	}
	return true
}

// carryOut has a service handle a request, and the fault happen to it.
func (c *Cloud) carryOut(w http.ResponseWriter, r *Request, service http.Handler, fault Fault) {
	ctx := r.HTTP.Context()
	latency := c.latencyOf(r.Service)
	c.wait(ctx, latency/2+fault.Delay)
	if fault.Before {
		breakConnection()
	}
	if fault.Status >= http.StatusBadRequest && !fault.After {
		c.wait(ctx, latency-latency/2)
		writeFault(w, r, fault)
		return
	}
	if fault.Repeat {
		r.Body()
		service.ServeHTTP(&discard{}, r.HTTP)
		r.rewind()
	}
	switch {
	case fault.After:
		service.ServeHTTP(&discard{}, r.HTTP)
		c.afterwards(ctx, fault, latency)
		if fault.Status < http.StatusBadRequest {
			breakConnection()
		}
		writeFault(w, r, fault)
	case latency > 0 || fault.Then != nil:
		held := &heldResponse{header: http.Header{}}
		service.ServeHTTP(held, r.HTTP)
		c.afterwards(ctx, fault, latency)
		held.release(w)
	default:
		service.ServeHTTP(w, r.HTTP)
	}
}

// afterwards is the time between the deed and the answer.
func (c *Cloud) afterwards(ctx context.Context, fault Fault, latency time.Duration) {
	if fault.Then != nil {
		fault.Then()
	}
	c.wait(ctx, latency-latency/2)
}

// wait sleeps, and breaks the connection when the client or the cloud does not
// want to wait any longer.
func (c *Cloud) wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		breakConnection()
	case <-c.ctx.Done():
		breakConnection()
	}
}

// breakConnection makes the client see a connection that was reset.
func breakConnection() { panic(http.ErrAbortHandler) }

// writeFault answers an error in the way of the service.
func writeFault(w http.ResponseWriter, r *Request, fault Fault) {
	message := fault.Message
	if message == "" {
		message = "This error was injected by a test."
	}
	h := w.Header()
	switch r.Service {
	case S3:
		h.Set("Content-Type", "application/xml")
		w.WriteHeader(fault.Status)
		if r.HTTP.Method == http.MethodHead {
			return
		}
		document, _ := xml.Marshal(struct { // two strings: cannot fail
			XMLName xml.Name `xml:"Error"`
			Code    string   `xml:"Code"`
			Message string   `xml:"Message"`
		}{Code: fault.Code, Message: message})
		_, _ = w.Write(append([]byte(xml.Header), document...))
	default:
		h.Set("Content-Type", "application/x-amz-json-1.0")
		h.Set("X-Amzn-Errortype", fault.Code)
		w.WriteHeader(fault.Status)
		document, _ := json.Marshal(map[string]string{"__type": fault.Code, "message": message}) //nolint:errchkjson // two strings
		_, _ = w.Write(document)
	}
}

// discard is where answers go that nobody gets.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header {
	if d.header == nil {
		d.header = http.Header{}
	}
	return d.header
}
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

// heldResponse is an answer that is kept back for a while.
type heldResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (h *heldResponse) Header() http.Header         { return h.header }
func (h *heldResponse) Write(p []byte) (int, error) { return h.body.Write(p) }

func (h *heldResponse) WriteHeader(status int) {
	if h.status == 0 {
		h.status = status
	}
}

func (h *heldResponse) release(w http.ResponseWriter) {
	maps.Copy(w.Header(), h.header)
	if h.status != 0 {
		w.WriteHeader(h.status)
	}
	_, _ = w.Write(h.body.Bytes())
}
