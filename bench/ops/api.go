package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// api is an HTTP API that makes tasks sleep as often and as long as their URL says.
type api struct {
	server   *http.Server
	listener net.Listener

	mu    sync.Mutex
	calls map[string]int // by the id of the task
}

func startAPI(ctx context.Context) (*api, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a := &api{listener: l, calls: make(map[string]int)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sleep/{times}/{seconds}", a.answer)
	a.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = a.server.Serve(l) }()
	return a, nil
}

func (a *api) close() { _ = a.server.Close() }

func (a *api) host() string { return a.listener.Addr().String() }

// path is the URL at which a task is told to sleep so many times for so long.
func (a *api) path(times int, delay time.Duration) string {
	return fmt.Sprintf("http://%s/sleep/%d/%.0f", a.host(), times, delay.Seconds())
}

func (a *api) answer(w http.ResponseWriter, r *http.Request) {
	times, err := strconv.Atoi(r.PathValue("times"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id := r.Header.Get("Idempotency-Key")
	a.mu.Lock()
	a.calls[id]++
	met := a.calls[id] <= times
	a.mu.Unlock()
	if met {
		w.Header().Set("Retry-After", r.PathValue("seconds"))
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
