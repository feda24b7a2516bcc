package main

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// api is an HTTP API that notes when it is called: as handlers start. Calls of the path
// /warm wait for each other, and are not noted.
type api struct {
	server   *http.Server
	listener net.Listener
	warm     sync.WaitGroup

	mu    sync.Mutex
	calls []time.Time
}

func startAPI(ctx context.Context) (*api, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a := &api{listener: l}
	a.server = &http.Server{Handler: a, ReadHeaderTimeout: time.Minute}
	go func() { _ = a.server.Serve(l) }() // until it is closed
	return a, nil
}

func (a *api) close() { _ = a.server.Close() }

func (a *api) host() string { return a.listener.Addr().String() }

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	w.WriteHeader(http.StatusNoContent)
	if r.URL.Path == "/warm" {
		a.warm.Done()
		a.warm.Wait()
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, now)
}

// since returns the times of the calls in milliseconds after a time.
func (a *api) since(start time.Time) []int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	times := make([]int64, len(a.calls))
	for i, t := range a.calls {
		times[i] = t.Sub(start).Milliseconds()
	}
	slices.Sort(times)
	return times
}
