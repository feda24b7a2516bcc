package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// api is a vendor's HTTP API with a rate limit. It knows a few moods, by the
// path: invalid-… is refused, flaky-… fails the first time, maintenance-… is away for the
// first four seconds.
type api struct {
	server   *http.Server
	listener net.Listener
	limiter  *rate.Limiter
	started  time.Time

	mu sync.Mutex
	// requests counts what was asked, by the answer's status.
	requests map[int]int
	seen     map[string]bool
	// delivered counts the successful deliveries by the task's id.
	delivered map[string]int
}

const maintenance = 4 * time.Second

func startAPI(ctx context.Context, perSecond int) (*api, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a := &api{
		listener:  listener,
		limiter:   rate.NewLimiter(rate.Limit(perSecond), perSecond),
		started:   time.Now(),
		requests:  make(map[int]int),
		seen:      make(map[string]bool),
		delivered: make(map[string]int),
	}
	a.server = &http.Server{Handler: a, ReadHeaderTimeout: time.Minute}
	go func() {
		if err := a.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			panic(err)
		}
	}()
	return a, nil
}

func (a *api) close() { _ = a.server.Close() }

func (a *api) host() string { return a.listener.Addr().String() }
func (a *api) url() string  { return "http://" + a.host() }

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, retryAfter := a.answer(r)
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(`{"status":` + strconv.Itoa(status) + `}`)) // the client may be gone
}

// answer decides about a request, and counts it.
func (a *api) answer(r *http.Request) (status, retryAfter int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer func() { a.requests[status]++ }()
	if !a.limiter.Allow() {
		return http.StatusTooManyRequests, 1
	}
	first := !a.seen[r.URL.Path]
	a.seen[r.URL.Path] = true
	mood, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/hooks/"), "-")
	switch {
	case mood == "invalid":
		return http.StatusBadRequest, 0
	case mood == "flaky" && first:
		return http.StatusInternalServerError, 0
	case mood == "maintenance" && time.Since(a.started) < maintenance:
		return http.StatusServiceUnavailable, int(maintenance / time.Second)
	}
	a.delivered[r.Header.Get("Idempotency-Key")]++
	return http.StatusOK, 0
}

// counts returns how many requests there were, by the answer's status.
func (a *api) counts() (total, limited int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for status, n := range a.requests {
		total += n
		if status == http.StatusTooManyRequests {
			limited += n
		}
	}
	return total, limited
}

// deliveredTo is how often the delivery of a task succeeded.
func (a *api) deliveredTo(id string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.delivered[id]
}
