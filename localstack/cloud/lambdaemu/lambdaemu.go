// Package lambdaemu is an AWS Lambda emulator that does what a queue needs of
// Lambda, in one process and without containers.
//
// A [Server] holds functions. A function is a [Process] (a compiled
// "bootstrap" that speaks the Lambda Runtime API, as every Go Lambda does), a
// [Python] handler file, or a [Func] of this very process, which is what tests
// use. Functions are invoked synchronously ([Server.Invoke]), asynchronously
// ([Server.InvokeAsync], with Lambda's retries, event age and on-failure
// record), or over HTTP: the server is an [http.Handler] for the REST API of
// Lambda and for the Runtime API that instances poll.
//
// All waiting is done with package time, and nothing runs while nothing is
// asked for, so a server whose functions are Funcs works inside a
// [testing/synctest] bubble: two retries that are minutes apart take no time.
package lambdaemu

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options configure a [Server]. The zero value works for functions that run in
// this process.
type Options struct {
	// Region is named in ARNs and given to functions as AWS_REGION.
	// Defaults to us-east-1.
	Region string

	// AccountID is the twelve digits named in ARNs. Defaults to 000000000000.
	AccountID string

	// Endpoint is the URL under which this server's handler, and the cloud
	// around it, can be reached, such as "http://127.0.0.1:4566". Process and
	// Python functions need it; it can be set later with
	// [Server.SetEndpoint].
	Endpoint string

	// IdleTimeout is how long an instance without work is kept before it is
	// stopped. Defaults to 5 minutes.
	IdleTimeout time.Duration

	// InitTimeout is the longest a process may take from its start to its
	// first request for an event. Defaults to 30 seconds; AWS allows 10, on
	// machines that do nothing else.
	InitTimeout time.Duration

	// LogSink receives every line that instances write to stdout or stderr,
	// and a line for each instance that timed out or exited. It is called by
	// one goroutine at a time and must not call the server. Defaults to
	// throwing the lines away.
	LogSink func(function, instance, line string)

	// Context, when set, closes the server as soon as it is cancelled.
	Context context.Context //nolint:containedctx // the life of the server
}

// Server is an emulated Lambda service. Create it with [New] and [Server.Close]
// it: until then child processes may be running.
type Server struct {
	opts Options
	mux  *http.ServeMux

	ctx    context.Context //nolint:containedctx // the life of the server, cancelled by Close
	cancel context.CancelFunc
	detach func() bool   // forgets Options.Context
	ended  chan struct{} // closed at the end of Close

	mu        sync.Mutex
	closed    bool
	endpoint  string
	functions map[string]*function
	processes map[string]*process // by function and instance
	spawner   *spawner

	running sync.WaitGroup // goroutines of this server, Close waits for them
	logMu   sync.Mutex
}

// closePatience is how long Close waits for in-process functions that ignore
// their cancelled context.
const closePatience = 30 * time.Second

// errClosed is what calls get once the server is closed.
var errClosed = errors.New("lambdaemu: the server is closed")

// New returns a server without functions.
func New(opts Options) *Server {
	if opts.Region == "" {
		opts.Region = "us-east-1"
	}
	if opts.AccountID == "" {
		opts.AccountID = "000000000000"
	}
	if opts.IdleTimeout <= 0 {
		opts.IdleTimeout = 5 * time.Minute
	}
	if opts.InitTimeout <= 0 {
		opts.InitTimeout = 30 * time.Second
	}
	s := &Server{
		opts:      opts,
		endpoint:  opts.Endpoint,
		functions: map[string]*function{},
		processes: map[string]*process{},
		ended:     make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.mux = s.routes()
	if opts.Context != nil {
		s.detach = context.AfterFunc(opts.Context, func() { _ = s.Close() })
	}
	return s
}

// ServeHTTP serves the REST API of Lambda under /2015-03-31/ and the Runtime
// API under /_runtime/.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// SetEndpoint names the URL under which instances started from now on reach
// this server and the cloud around it.
func (s *Server) SetEndpoint(url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoint = strings.TrimSuffix(url, "/")
}

// Endpoint is the URL that instances are given, empty when there is none yet.
func (s *Server) Endpoint() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endpoint
}

// Register adds a function, or replaces the one of that name as a deployment
// does: running events finish on the old code, everything later, waiting
// events included, runs on the new. It returns one error that names every bad
// field.
func (s *Server) Register(fn Function) error {
	if err := fn.validate(); err != nil {
		return err
	}
	fn = fn.withDefaults()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	f, exists := s.functions[fn.Name]
	if !exists {
		s.functions[fn.Name] = &function{server: s, arn: s.arn(fn.Name), config: fn}
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	f.deploy(fn)
	return nil
}

// Functions returns the names of all functions, sorted.
func (s *Server) Functions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.functions))
	for name := range s.functions {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// ARN is the Amazon Resource Name of a function of this server, whether or not
// it is registered.
func (s *Server) ARN(name string) string { return s.arn(name) }

func (s *Server) arn(name string) string {
	return fmt.Sprintf("arn:aws:lambda:%s:%s:function:%s", s.opts.Region, s.opts.AccountID, name)
}

// function finds a function by its name, ARN or partial ARN, each with or
// without a version after it.
func (s *Server) function(ref string) (*function, error) {
	name := FunctionName(ref)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	f, ok := s.functions[name]
	if !ok {
		return nil, errNotFound(s.arn(name))
	}
	return f, nil
}

// FunctionName extracts the name from a function's name, ARN
// (arn:aws:lambda:region:account:function:name) or partial ARN
// (account:function:name), each optionally followed by a version.
func FunctionName(ref string) string {
	parts := strings.Split(ref, ":")
	for i, part := range parts {
		if part == "function" && i > 0 && i+1 < len(parts) {
			return parts[i+1]
		}
	}
	return parts[0]
}

// Close kills all instances, cancels the contexts of in-process functions,
// drops what waits in the queues, and returns when every goroutine of the
// server has ended. It fails when an in-process function still runs half a
// minute after its context was cancelled, naming it. Later calls wait for the
// first one and return nil.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		<-s.ended
		return nil
	}
	s.closed = true
	defer close(s.ended)
	functions := make([]*function, 0, len(s.functions))
	for _, f := range s.functions {
		functions = append(functions, f)
	}
	processes := make([]*process, 0, len(s.processes))
	for _, p := range s.processes {
		processes = append(processes, p)
	}
	s.mu.Unlock()

	if s.detach != nil {
		s.detach()
	}
	s.cancel()
	for _, f := range functions {
		f.abandon()
	}
	for _, p := range processes {
		p.kill()
	}
	return s.waitForGoroutines(functions)
}

func (s *Server) waitForGoroutines(functions []*function) error {
	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		s.stopSpawner()
		close(ended)
	}()
	patience := time.NewTimer(closePatience)
	defer patience.Stop()
	select {
	case <-ended:
		return nil
	case <-patience.C:
	}
	var names []string
	for _, f := range functions {
		if f.stats().Running > 0 {
			names = append(names, f.settings().Name)
		}
	}
	return fmt.Errorf("lambdaemu: still running %v after their context was cancelled: make them return when ctx is done: %s",
		closePatience, strings.Join(names, ", "))
}

// spawn runs fn in a goroutine that Close waits for. It reports false, without
// running fn, when the server is closed.
func (s *Server) spawn(fn func()) bool {
	if !s.enter() {
		return false
	}
	go func() {
		defer s.running.Done()
		fn()
	}()
	return true
}

// enter keeps Close waiting until running.Done is called. It reports false
// when the server is closed.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Add(1)
	return true
}

// after runs fn once d has passed, unless the server is closed by then.
func (s *Server) after(d time.Duration, fn func()) *time.Timer {
	return time.AfterFunc(d, func() {
		if !s.enter() {
			return
		}
		defer s.running.Done()
		fn()
	})
}

// Log writes a line to the log sink in its turn, for what is around the server.
func (s *Server) Log(function, line string) { s.log(function, "", line) }

func (s *Server) log(function, instance, line string) {
	if s.opts.LogSink == nil {
		return
	}
	s.logMu.Lock()
	defer s.logMu.Unlock()
	s.opts.LogSink(function, instance, line)
}
