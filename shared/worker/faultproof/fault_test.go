package faultproof_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"
)

// request is a request to AWS, taken apart.
type request struct {
	client    string
	operation string // such as PutObject
	area      string // of the bucket, such as inbox
	key       string // of S3
	name      string // of a schedule
	version   string // of an object that is deleted
	dynamo    bool
	// conditional writes can be refused with 409 and 412.
	conditional bool
	body        []byte
}

// label names the kind of the request, the same in every run.
func (r request) label() string {
	label := r.client + "." + r.operation
	if r.area != "" {
		label += "." + r.area
	}
	return label
}

func (r request) s3() bool {
	return r.key != "" || strings.HasPrefix(r.operation, "List") || r.operation == "DeleteObjects"
}

// areaOf is the area of the first object that a request deletes.
func areaOf(body []byte) string {
	_, rest, _ := bytes.Cut(body, []byte("<Key>"))
	area, _, _ := bytes.Cut(rest, []byte("/"))
	return string(area)
}

func takeApart(client string, r *http.Request) (request, error) {
	out := request{client: client}
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return out, err
		}
		if err := r.Body.Close(); err != nil {
			return out, err
		}
		out.body = body
	}
	query := r.URL.Query()
	switch path := r.URL.Path; {
	case r.Header.Get("X-Amz-Target") != "":
		_, out.operation, _ = strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		out.dynamo = true
	case strings.HasPrefix(path, "/2015-03-31/functions/"):
		out.operation = "Invoke"
	case strings.HasPrefix(path, "/schedules/"):
		out.operation = map[string]string{http.MethodPost: "CreateSchedule", http.MethodDelete: "DeleteSchedule"}[r.Method]
		out.name = strings.TrimPrefix(path, "/schedules/")
	default:
		_, out.key, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/")
		out.area, _, _ = strings.Cut(out.key, "/")
		out.operation = query.Get("x-id")
		out.version = query.Get("versionId")
		out.conditional = r.Header.Get("If-Match") != "" || r.Header.Get("If-None-Match") != ""
		switch {
		case query.Has("tagging"):
			out.operation = "PutObjectTagging"
		case query.Has("delete"):
			out.operation, out.area = "DeleteObjects", areaOf(out.body)
		case query.Has("versions"):
			out.operation = "ListObjectVersions"
			out.area, _, _ = strings.Cut(query.Get("prefix"), "/")
		case query.Has("list-type"):
			out.operation, out.area = "ListObjectsV2", strings.TrimSuffix(query.Get("prefix"), "/")
		}
	}
	if out.operation == "" {
		return out, fmt.Errorf("faultproof: what is %s %s?", r.Method, r.URL)
	}
	return out, nil
}

// site is where a fault can happen: the n-th request or event of a kind.
type site struct {
	label string
	n     int
	req   request // the zero request for an event
}

func (s site) String() string { return fmt.Sprintf("%s#%d", s.label, s.n) }

func (s site) event() bool { return strings.HasPrefix(s.label, "event.") }

// plan says which fault happens where. Each happens once.
type plan map[string]*fault

// cost is how many retries the faults of the plan may cost a task: a worker
// that dies is one.
func (p plan) cost() int64 {
	var n int64
	for _, f := range p {
		n += f.cost
	}
	return n
}

// fault is one way in which a request or an event can go wrong.
type fault struct {
	name string
	// cost is 1 for a fault that may cost a retry.
	cost int64
	// request says what becomes of a request that meets the fault, event when an event is delivered.
	request func(x *exchange) (*http.Response, error)
	event   []time.Duration
	// fits tells which requests can meet the fault; nil for all.
	fits func(request) bool
}

var errReset = errors.New("connection reset by peer")

func resetByPeer() error { return fmt.Errorf("%w: %w", errReset, syscall.ECONNRESET) }

// latePast is when a request arrives that was on its way for long: after the
// lease of whoever sent it.
const latePast = 20 * time.Minute

func conditional(r request) bool { return r.conditional }
func functions(r request) bool   { return r.client != producerClient }

// settled requests can be told from an old one that comes late. Tags and entries of the
// index of those who wait know no conditions: one that is set twenty minutes late stays, until
// it expires, which costs storage and nothing else.
func settled(r request) bool { return r.operation != "PutObjectTagging" && r.operation != "PutItem" }

// requestFaults are all faults of requests.
var requestFaults = []*fault{
	{name: "die-before", cost: 1, request: func(x *exchange) (*http.Response, error) {
		x.instance.die()
		return nil, resetByPeer()
	}},
	{name: "die-after", cost: 1, request: func(x *exchange) (*http.Response, error) {
		_, _ = x.send() // nobody is there for the answer
		x.instance.die()
		return nil, resetByPeer()
	}},
	{name: "die-late", cost: 1, fits: settled, request: func(x *exchange) (*http.Response, error) {
		x.sendLate(latePast)
		x.instance.die()
		return nil, resetByPeer()
	}},
	{name: "unreachable", request: func(*exchange) (*http.Response, error) { return nil, resetByPeer() }},
	{name: "answer-lost", request: func(x *exchange) (*http.Response, error) {
		_, _ = x.send()
		return nil, resetByPeer()
	}},
	{name: "500", request: func(x *exchange) (*http.Response, error) { return x.refuse(500, "InternalError"), nil }},
	{name: "500-though-done", request: func(x *exchange) (*http.Response, error) {
		_, _ = x.send()
		return x.refuse(500, "InternalError"), nil
	}},
	{name: "throttled", request: func(x *exchange) (*http.Response, error) {
		switch {
		case x.req.s3():
			return x.refuse(503, "SlowDown"), nil
		case x.req.dynamo:
			return x.refuse(400, "ThrottlingException"), nil
		}
		return x.refuse(429, "ThrottlingException"), nil
	}},
	{name: "409", fits: conditional, request: func(x *exchange) (*http.Response, error) {
		return x.refuse(409, "ConditionalRequestConflict"), nil
	}},
	{name: "409-though-done", fits: conditional, request: func(x *exchange) (*http.Response, error) {
		_, _ = x.send()
		return x.refuse(409, "ConditionalRequestConflict"), nil
	}},
	{name: "412", fits: conditional, request: func(x *exchange) (*http.Response, error) {
		return x.refuse(412, "PreconditionFailed"), nil
	}},
	{name: "412-though-done", fits: conditional, request: func(x *exchange) (*http.Response, error) {
		_, _ = x.send()
		return x.refuse(412, "PreconditionFailed"), nil
	}},
	{name: "slow", request: func(x *exchange) (*http.Response, error) {
		if err := sleep(x.http.Context(), 5*time.Second); err != nil {
			return nil, err
		}
		return x.send()
	}},
	{name: "slow-answer", request: func(x *exchange) (*http.Response, error) {
		response, err := x.send()
		return response, errors.Join(err, sleep(x.http.Context(), 5*time.Second))
	}},
	{name: "hangs", cost: 1, request: func(x *exchange) (*http.Response, error) {
		if err := sleep(x.http.Context(), time.Hour); err != nil {
			return nil, err
		}
		return nil, resetByPeer()
	}},
	{name: "done-twice", request: func(x *exchange) (*http.Response, error) {
		_, _ = x.send()
		return x.send()
	}},
	{name: "done-twice-first-answer", request: func(x *exchange) (*http.Response, error) {
		response, err := x.send()
		_, _ = x.send()
		return response, err
	}},
	{name: "comes-again-late", fits: settled, request: func(x *exchange) (*http.Response, error) {
		x.sendLate(latePast)
		return nil, resetByPeer()
	}},
	{name: "down", cost: 1, fits: functions, request: func(x *exchange) (*http.Response, error) {
		x.w.breakFor(x.req.label(), 4*time.Minute)
		return x.refuse(500, "InternalError"), nil
	}},
	{name: "outage", cost: 1, fits: functions, request: func(x *exchange) (*http.Response, error) {
		x.w.breakFor(everything, 4*time.Minute)
		return x.refuse(500, "InternalError"), nil
	}},
	{name: "done-then-s3-down", cost: 1, fits: functions, request: func(x *exchange) (*http.Response, error) {
		_, _ = x.send()
		x.w.breakFor(allOfS3, 4*time.Minute)
		return nil, resetByPeer()
	}},
}

// What can be down beside requests of one kind.
const (
	everything = ""
	allOfS3    = "s3"
)

// eventFaults are all faults of events.
var eventFaults = []*fault{
	{name: "lost", event: []time.Duration{}},
	{name: "twice", event: []time.Duration{0, 0}},
	{name: "thrice", event: []time.Duration{0, 30 * time.Second, time.Hour}},
	{name: "soon-again", event: []time.Duration{0, 15 * time.Millisecond, 45 * time.Millisecond}},
	{name: "overtaken", event: []time.Duration{75 * time.Second}},
	{name: "late", event: []time.Duration{10 * time.Minute}},
}

// faultsAt are the faults that can happen at a site of a scenario. A task that
// is gone without a trace can't be told from one that never was, so no submission or claim comes
// twenty minutes late there.
func faultsAt(in scenario, s site) []*fault {
	if s.event() {
		return eventFaults
	}
	return slices.DeleteFunc(slices.Clone(requestFaults), func(f *fault) bool {
		late := strings.Contains(f.name, "late")
		return f.fits != nil && !f.fits(s.req) || in.purged && late
	})
}

// meet counts a request or an event, and finds the fault planned for it.
func (w *world) meet(label string, r request) *fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[label]++
	s := site{label: label, n: w.seen[label], req: r}
	w.sites = append(w.sites, s)
	f := w.plan[s.String()]
	if f != nil {
		w.reached++
	}
	return f
}

func (w *world) deliver(label string, delay time.Duration) []time.Duration {
	plan := []time.Duration{0}
	if f := w.meet(label, request{}); f != nil {
		plan = f.event
	}
	if w.scenario.dropEvents && label == "event.s3" {
		plan = nil
	}
	delays := make([]time.Duration, len(plan))
	for i, d := range plan {
		delays[i] = d + delay + w.scenario.eventDelay
	}
	return delays
}

// breakFor makes requests of that label fail for some time, or those of functions
// that everything or allOfS3 means.
func (w *world) breakFor(what string, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down[what] = time.Now().Add(d)
}

func (w *world) isDown(r request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	return now.Before(w.down[r.label()]) ||
		functions(r) && (now.Before(w.down[everything]) || r.s3() && now.Before(w.down[allOfS3]))
}

// doubt notes an instance that may not know whether it charged or claimed.
func (w *world) doubt(i *instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.doubted[i] = true
}

// transport is how one process reaches AWS.
type transport struct {
	w        *world
	client   string
	instance *instance
	inner    http.RoundTripper
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	req, err := takeApart(t.client, r)
	if err != nil {
		return nil, err
	}
	x := &exchange{transport: t, http: r, req: req}
	if t.w.isDown(req) {
		t.w.doubt(t.instance)
		return x.refuse(500, "InternalError"), nil
	}
	if f := t.w.meet(req.label(), req); f != nil {
		if f.cost > 0 {
			t.w.doubt(t.instance)
		}
		return f.request(x)
	}
	return x.send()
}

// exchange is one request and its answer.
type exchange struct {
	*transport

	http *http.Request
	req  request
}

// send has the request carried out, and what it did noted.
func (x *exchange) send() (*http.Response, error) { return x.sendIn(x.http.Context()) }

func (x *exchange) sendIn(ctx context.Context) (*http.Response, error) {
	x.w.before(x)
	r := x.http.Clone(ctx)
	r.Body = io.NopCloser(bytes.NewReader(x.req.body))
	response, err := x.inner.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if err := response.Body.Close(); err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	if response.StatusCode < http.StatusMultipleChoices {
		x.w.after(x, response)
	}
	return response, nil
}

// sendLate has the request arrive when it has long been forgotten.
func (x *exchange) sendLate(d time.Duration) {
	time.AfterFunc(d, func() { _, _ = x.sendIn(context.Background()) }) //nolint:bodyclose // it was read, nobody gets it
}

// refuse is an error answer in the way of the service.
func (x *exchange) refuse(status int, code string) *http.Response {
	body, kind := `{"__type":"`+code+`","message":"injected"}`, "application/x-amz-json-1.0"
	if x.req.s3() {
		body, kind = `<?xml version="1.0" encoding="UTF-8"?><Error><Code>`+code+`</Code><Message>injected</Message></Error>`, "application/xml"
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {kind}, "X-Amzn-Errortype": {code}},
		Body:   io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: x.http,
	}
}
