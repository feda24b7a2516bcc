package lambdaemu

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Process is a [Runtime] that runs an executable which speaks the Lambda
// Runtime API, such as any Go program that calls lambda.Start. Each instance is
// one child process; it is killed with its process group when it overruns the
// timeout, when it has been idle for long, and when the server closes or dies.
//
// The process gets no environment variables of this process except PATH, HOME,
// TMPDIR and the like; credentials and settings for AWS in particular do not
// pass. It gets what Lambda sets, AWS_ENDPOINT_URL, and dummy credentials whose
// access key is the function's name, so that its requests can be told apart.
type Process struct {
	// Path is the executable, customarily called "bootstrap". Required.
	Path string

	// Args are its arguments. Optional.
	Args []string

	// Dir is its working directory. Defaults to the executable's own.
	Dir string
}

func (p Process) validate() error {
	if p.Path == "" {
		return errors.New("Runtime is a Process without Path: name the executable")
	}
	return nil
}

func (p Process) start(f *function, config Function) (instance, error) {
	path, err := filepath.Abs(p.Path)
	if err != nil {
		return nil, fmt.Errorf("the executable %s cannot be found: %w", p.Path, err)
	}
	dir := p.Dir
	if dir == "" {
		dir = filepath.Dir(path)
	}
	cmd := exec.Command(path, p.Args...) //nolint:noctx // running what the user names is the point; it ends with the server
	cmd.Dir = dir
	return startProcess(f, config, cmd, "bootstrap")
}

// process is a running child process and its side of the Runtime API.
type process struct {
	id       string
	function *function
	config   Function
	cmd      *exec.Cmd
	output   sync.WaitGroup

	asks    chan *ask     // the process asks for its next event
	answers chan Result   // the process answers the current event; buffered
	broken  chan Result   // the process could not initialize; buffered
	gone    chan struct{} // closed when the process has ended
	ended   string        // how it ended, valid once gone is closed

	mu      sync.Mutex
	current string // request id of the event being handled, empty when none
	killed  bool

	pending *ask // asked, and not yet given an event; used by invoke only
}

func startProcess(f *function, config Function, cmd *exec.Cmd, handler string) (*process, error) {
	s := f.server
	endpoint := s.Endpoint()
	if endpoint == "" {
		return nil, errors.New("functions that are processes need an endpoint to talk to: let the cloud listen on an address, or call SetEndpoint, first")
	}
	p := &process{
		id:       uuid.NewString(),
		function: f,
		config:   config,
		cmd:      cmd,
		asks:     make(chan *ask),
		answers:  make(chan Result, 1),
		broken:   make(chan Result, 1),
		gone:     make(chan struct{}),
	}
	cmd.Env = processEnv(f, config, p.id, endpoint, cmd.Dir, handler)
	cmd.SysProcAttr = ownGroup()
	if err := s.adopt(p); err != nil {
		return nil, err
	}
	return p, nil
}

// adopt starts a process and watches over it until it ends. The process can
// be found by its id, by its own requests and by Close, before it runs.
func (s *Server) adopt(p *process) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !s.announce(p) {
		return errClosed
	}
	pipes, err := p.connectOutput()
	if err == nil {
		err = s.spawnProcess(p.cmd)
		pipes.closeWriters()
	}
	if err != nil {
		p.killed = true
		pipes.closeReaders()
		s.forget(p)
		s.running.Done()
		return fmt.Errorf("function %s: the executable could not be started: %w", p.config.Name, err)
	}
	p.readOutput(pipes)
	go func() {
		defer s.running.Done()
		p.watch(pipes)
	}()
	return nil
}

// announce makes a process known and has Close wait for it. It reports false
// when the server is closed.
func (s *Server) announce(p *process) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Add(1)
	s.processes[p.key()] = p
	return true
}

func (s *Server) forget(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.processes, p.key())
}

// watch waits for the end of the process and clears up after it.
func (p *process) watch(pipes outputPipes) {
	err := p.cmd.Wait()
	killGroup(p.cmd.Process.Pid) // children it left behind
	p.ended = describeExit(err)
	p.function.server.forget(p)
	close(p.gone)
	p.function.retire(p)
	pipes.hurry(time.Second) // a child that left the group may hold them open
	p.output.Wait()
	pipes.closeReaders()
}

func describeExit(err error) string {
	if err == nil {
		return "without providing a reason"
	}
	return "with error: " + err.Error()
}

func (p *process) key() string { return p.config.Name + "/" + p.id }

// kill ends the process and everything it has started.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed {
		return
	}
	p.killed = true
	if p.alive() { // else its id may be another's by now
		killGroup(p.cmd.Process.Pid)
	}
}

func (p *process) stop()           { p.kill() }
func (p *process) ephemeral() bool { return false }

func (p *process) alive() bool {
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

func (p *process) invoke(inv invocation, _ func(Result)) (Result, bool) {
	if r, ok := p.handOver(inv); !ok {
		p.kill()
		<-p.gone
		return r, false
	}
	timer := time.NewTimer(p.config.Timeout)
	defer timer.Stop()
	select {
	case a := <-p.asks: // with that it is done with the event
		p.pending = a
		return p.outcome(inv, failure(inv.requestID, "Runtime.NoResponse",
			"the function asked for the next event without answering this one")), true
	case <-p.gone:
		return p.outcome(inv, exited(inv.requestID, p.ended)), false
	case <-timer.C:
		r := p.outcome(inv, timedOut(inv.requestID, p.config.Timeout))
		p.kill()
		<-p.gone
		return r, false
	}
}

// handOver gives the event to the process as soon as that asks for one. It
// reports false, with the reason, when that does not come to pass.
func (p *process) handOver(inv invocation) (Result, bool) {
	patience := time.NewTimer(p.function.server.opts.InitTimeout)
	defer patience.Stop()
	a := p.pending
	p.pending = nil
	for {
		if a != nil && p.give(a, inv) {
			return Result{}, true
		}
		select {
		case a = <-p.asks:
		case r := <-p.broken:
			r.RequestID = inv.requestID
			return r, false
		case <-p.gone:
			return p.initFailure(inv.requestID), false
		case <-patience.C:
			r := failure(inv.requestID, "Sandbox.Timedout", fmt.Sprintf(
				"RequestId: %s Error: the function did not ask for an event within %v of its start",
				inv.requestID, p.function.server.opts.InitTimeout))
			p.log(r.message())
			return r, false
		}
	}
}

// give reports whether the process was still there to take the event.
func (p *process) give(a *ask, inv invocation) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !a.take(delivery{invocation: inv, deadline: time.Now().Add(p.config.Timeout)}) {
		return false
	}
	p.current = inv.requestID
	return true
}

// finish ends the current event if it has that request id: from then on no
// answer to it is taken.
func (p *process) finish(requestID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current == "" || p.current != requestID {
		return false
	}
	p.current = ""
	return true
}

// answer delivers what the process answered. It reports false when that is not
// an answer to the current event.
func (p *process) answer(requestID string, r Result) bool {
	if !p.finish(requestID) {
		return false
	}
	p.answers <- r
	return true
}

// outcome is the answer the process gave to the event, or else the given
// result. No answer is taken any more.
func (p *process) outcome(inv invocation, otherwise Result) Result {
	if p.finish(inv.requestID) { // no answer has been taken, and none will be
		p.log(otherwise.message())
		return otherwise
	}
	return <-p.answers
}

func (p *process) initFailure(requestID string) Result {
	select {
	case r := <-p.broken:
		r.RequestID = requestID
		return r
	default:
	}
	r := exited(requestID, p.ended)
	p.log(r.message())
	return r
}

func (p *process) log(line string) { p.function.server.log(p.config.Name, p.id, line) }

// processEnv is the environment of an instance: what Lambda sets, and none of
// this process's own settings.
func processEnv(f *function, config Function, id, endpoint, dir, handler string) []string {
	s := f.server
	values := map[string]string{
		"AWS_LAMBDA_RUNTIME_API":          runtimeAddress(endpoint, config.Name, id),
		"AWS_LAMBDA_FUNCTION_NAME":        config.Name,
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": strconv.Itoa(config.MemoryMB),
		"AWS_LAMBDA_FUNCTION_VERSION":     version,
		"AWS_LAMBDA_INITIALIZATION_TYPE":  "on-demand",
		"AWS_LAMBDA_LOG_GROUP_NAME":       "/aws/lambda/" + config.Name,
		"AWS_LAMBDA_LOG_STREAM_NAME":      id,
		"_HANDLER":                        handler,
		"LAMBDA_TASK_ROOT":                dir,
		"AWS_REGION":                      s.opts.Region,
		"AWS_DEFAULT_REGION":              s.opts.Region,
		"AWS_ACCESS_KEY_ID":               config.Name,
		"AWS_SECRET_ACCESS_KEY":           "test",
		"AWS_SESSION_TOKEN":               "test",
		"AWS_CONFIG_FILE":                 os.DevNull,
		"AWS_SHARED_CREDENTIALS_FILE":     os.DevNull,
		"AWS_EC2_METADATA_DISABLED":       "true",
		"AWS_ENDPOINT_URL":                endpoint,
		"AWS_ENDPOINT_URL_S3":             endpoint,
		"TZ":                              ":UTC",
	}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG", "SYSTEMROOT", "TEMP", "TMP"} {
		if v, ok := os.LookupEnv(name); ok {
			values[name] = v
		}
	}
	maps.Copy(values, config.Env)
	env := make([]string, 0, len(values))
	for name, v := range values {
		env = append(env, name+"="+v)
	}
	return env
}
