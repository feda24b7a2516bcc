package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"
)

// runtimeAPI is the part of Lambda that a function talks to: it hands out one event and
// takes the answer.
type runtimeAPI struct {
	server  *http.Server
	address string

	mu       sync.Mutex
	launches map[string]*launch // by what tells them apart in the path
}

// launch is one start of a function.
type launch struct {
	event    []byte
	asked    chan time.Time // it asked for its first event
	answered chan answer
}

type answer struct {
	at      time.Time
	failed  bool
	payload []byte
}

func startRuntime(ctx context.Context) (*runtimeAPI, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &runtimeAPI{address: l.Addr().String(), launches: make(map[string]*launch)}
	mux := http.NewServeMux()
	const base = "/{launch}/2018-06-01/runtime/"
	mux.HandleFunc("GET "+base+"invocation/next", r.next)
	mux.HandleFunc("POST "+base+"invocation/{id}/response", r.answer(false))
	mux.HandleFunc("POST "+base+"invocation/{id}/error", r.answer(true))
	mux.HandleFunc("POST "+base+"init/error", r.answer(true))
	r.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = r.server.Serve(l) }()
	return r, nil
}

// launched is the start that a request comes from: one may still be on its way when its sender
// has been ended and the next one started.
func (r *runtimeAPI) launched(req *http.Request) *launch {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.launches[req.PathValue("launch")]
}

// add makes a start known, and returns the address at which it finds the API.
func (r *runtimeAPI) add(l *launch) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := strconv.Itoa(len(r.launches))
	r.launches[name] = l
	return r.address + "/" + name
}

// next hands out the event once, and then nothing more: the function is ended while it waits.
func (r *runtimeAPI) next(w http.ResponseWriter, req *http.Request) {
	l := r.launched(req)
	select {
	case l.asked <- time.Now():
	default:
		<-req.Context().Done()
		return
	}
	h := w.Header()
	h.Set("Lambda-Runtime-Aws-Request-Id", "first")
	h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(time.Now().Add(15*time.Minute).UnixMilli(), 10))
	h.Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:000000000000:function:cold")
	_, _ = w.Write(l.event)
}

func (r *runtimeAPI) answer(failed bool) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		at := time.Now()
		payload, err := io.ReadAll(req.Body)
		r.launched(req).answered <- answer{at, failed || err != nil, payload}
		w.WriteHeader(http.StatusAccepted)
	}
}

// started is what a start came to.
type started struct {
	// init is how long it took to ask for the event, whole how long to answer it.
	init, whole time.Duration
	answer      []byte
}

// start starts a function, gives it the event, and ends it when it has answered.
func (r *runtimeAPI) start(ctx context.Context, path string, environment []string, event []byte) (started, error) {
	l := &launch{event: event, asked: make(chan time.Time, 1), answered: make(chan answer, 1)}
	address := r.add(l)

	var log bytes.Buffer
	cmd := exec.CommandContext(ctx, path)
	cmd.Env = append(slices.Clone(environment), "AWS_LAMBDA_RUNTIME_API="+address)
	cmd.Stdout, cmd.Stderr = &log, &log
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return started{}, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the state of the process says it, too
	}()
	select {
	case <-ended:
		return started{}, fmt.Errorf("it ended before it answered (%s): %s", cmd.ProcessState, &log)
	case a := <-l.answered:
		_ = cmd.Process.Kill()
		<-ended
		if a.failed {
			return started{}, fmt.Errorf("it failed: %s\n%s", a.payload, &log)
		}
		return started{init: (<-l.asked).Sub(begin), whole: a.at.Sub(begin), answer: a.payload}, nil
	}
}
