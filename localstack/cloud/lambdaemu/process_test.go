package lambdaemu

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

type answer struct {
	Text      string `json:"text"`
	PID       int    `json:"pid"`
	Deadline  int64  `json:"deadline"`
	RequestID string `json:"request_id"`
	ARN       string `json:"arn"`
}

func answered(t *testing.T, s *Server, payload string) answer {
	t.Helper()
	r := invoke(t, s, "fn", payload)
	if r.FunctionError != "" {
		t.Fatalf("%s failed: %s", payload, r.Payload)
	}
	var a answer
	if err := json.Unmarshal(r.Payload, &a); err != nil {
		t.Fatalf("payload %s: %v", r.Payload, err)
	}
	if a.RequestID != r.RequestID {
		t.Errorf("the function saw request id %s, the caller %s", a.RequestID, r.RequestID)
	}
	return a
}

func processFunction() Function {
	return Function{Name: "fn", Timeout: time.Minute, Runtime: Process{Path: bootstrap}}
}

func TestAProcessIsReusedAndToldItsDeadline(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{}, processFunction())
	before := time.Now()
	first, second := answered(t, s, `{}`), answered(t, s, `{}`)
	if first.PID != second.PID {
		t.Errorf("two instances (%d, %d) for two events one after the other", first.PID, second.PID)
	}
	if first.ARN != s.ARN("fn") {
		t.Errorf("ARN %s", first.ARN)
	}
	if deadline := time.UnixMilli(first.Deadline); deadline.Before(before.Add(time.Minute).Truncate(time.Millisecond)) {
		t.Errorf("deadline %v is less than the timeout after %v", deadline, before)
	}
}

func TestAProcessSeesTheEnvironmentOfLambdaOnly(t *testing.T) {
	t.Setenv("AWS_PROFILE", "mine")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	fn := processFunction()
	fn.MemoryMB, fn.Env = 512, map[string]string{"COLOR": "red", "AWS_REGION": "eu-west-3"}
	s := serve(t, Options{}, fn)
	for name, want := range map[string]string{
		"AWS_PROFILE": "", "AWS_ACCESS_KEY_ID": "fn", "AWS_SECRET_ACCESS_KEY": "test", "COLOR": "red", "AWS_REGION": "eu-west-3",
		"AWS_LAMBDA_FUNCTION_NAME": "fn", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512", "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
		"AWS_ENDPOINT_URL": s.Endpoint(), "AWS_ENDPOINT_URL_S3": s.Endpoint(),
	} {
		if a := answered(t, s, fmt.Sprintf(`{"do":"env","text":%q}`, name)); a.Text != want {
			t.Errorf("%s = %q, want %q", name, a.Text, want)
		}
	}
}

func TestProcessFailures(t *testing.T) {
	t.Parallel()
	tests := []struct {
		payload, wantType, wantMessage string
		sameInstance                   bool
	}{
		{`{"do":"error","text":"no luck"}`, "errorString", "no luck", true},
		{`{"do":"panic","text":"boom"}`, "string", "boom", false},
		{`{"do":"exit"}`, "Runtime.ExitError", "exit status 7", false},
	}
	for _, tt := range tests {
		t.Run(tt.payload, func(t *testing.T) {
			t.Parallel()
			s := serve(t, Options{}, processFunction())
			before := answered(t, s, `{}`).PID
			doc := errorDocument(t, invoke(t, s, "fn", tt.payload))
			if doc.Type != tt.wantType || !strings.Contains(doc.Message, tt.wantMessage) {
				t.Errorf("got %s: %s; want %s: …%s…", doc.Type, doc.Message, tt.wantType, tt.wantMessage)
			}
			if after := answered(t, s, `{}`).PID; (after == before) != tt.sameInstance {
				t.Errorf("process %d before, %d after; want the same: %v", before, after, tt.sameInstance)
			}
		})
	}
}

func TestAnOverrunningProcessIsKilledAndReplaced(t *testing.T) {
	t.Parallel()
	lines := &logLines{}
	fn := processFunction()
	fn.Timeout = 500 * time.Millisecond
	s := serve(t, Options{LogSink: lines.add}, fn)
	doc := errorDocument(t, invoke(t, s, "fn", `{"do":"hang"}`))
	if doc.Type != "Sandbox.Timedout" || !strings.Contains(doc.Message, "Task timed out after 0.50 seconds") {
		t.Errorf("got %+v", doc)
	}
	answered(t, s, `{}`)
	if !lines.contain("Task timed out after 0.50 seconds") {
		t.Errorf("the log does not tell: %q", lines.all())
	}
}

func TestAProcessThatCannotInitialize(t *testing.T) {
	t.Parallel()
	fn := processFunction()
	fn.Env = map[string]string{"FAIL_INIT": "1"}
	lines := &logLines{}
	s := serve(t, Options{LogSink: lines.add}, fn)
	doc := errorDocument(t, invoke(t, s, "fn", `{}`))
	if doc.Type != "Runtime.ExitError" || !strings.Contains(doc.Message, "exit status 3") {
		t.Errorf("got %+v", doc)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if !lines.contain("cannot initialize") {
		t.Errorf("the log does not tell: %q", lines.all())
	}
}

func TestAMissingExecutableFailsTheInvocation(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{}, Function{Name: "fn", Runtime: Process{Path: filepath.Join(t.TempDir(), "absent")}})
	if doc := errorDocument(t, invoke(t, s, "fn", `{}`)); doc.Type != "Runtime.InvalidEntrypoint" {
		t.Errorf("got %+v", doc)
	}
}

func TestAProcessWithoutEndpointSaysWhatToDo(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	defer s.Close()
	register(t, s, processFunction())
	if doc := errorDocument(t, invoke(t, s, "fn", `{}`)); !strings.Contains(doc.Message, "SetEndpoint") {
		t.Errorf("got %+v", doc)
	}
}

func TestInstancesScaleUpToConcurrency(t *testing.T) {
	t.Parallel()
	fn := processFunction()
	fn.Concurrency = 3
	s := serve(t, Options{}, fn)
	var mu sync.Mutex
	pids := map[int]bool{}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			a := answered(t, s, `{}`)
			mu.Lock()
			defer mu.Unlock()
			pids[a.PID] = true
		})
	}
	all.Wait()
	for range 6 {
		if a := answered(t, s, `{}`); !pids[a.PID] {
			t.Errorf("process %d is none of %v", a.PID, pids)
		}
	}
}

func TestIdleProcessesAreStopped(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{IdleTimeout: time.Millisecond}, processFunction())
	closed := holdConnection(t, s, "connect")
	<-closed
}

func TestAnIdleProcessThatDiesIsReplaced(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{}, processFunction())
	first := answered(t, s, `{}`).PID
	process, err := os.FindProcess(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	for s.Stats("fn").Idle > 0 {
		time.Sleep(time.Millisecond)
	}
	if second := answered(t, s, `{}`).PID; second == first {
		t.Errorf("process %d is still there", first)
	}
}

func TestAProcessKilledWhileItRunsIsReplacedAndItsEventTriedAgain(t *testing.T) {
	t.Parallel()
	fn := processFunction()
	fn.RetryDelays = []time.Duration{time.Millisecond, time.Millisecond}
	lines := &logLines{}
	s := serve(t, Options{LogSink: lines.add}, fn)
	marker := filepath.Join(t.TempDir(), "marker")
	enqueue(t, s, "fn", fmt.Sprintf(`{"do":"hang-once","text":%q}`, marker))
	killed := processIn(t, marker)
	process, err := os.FindProcess(killed)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	if again := processIn(t, marker+".again"); again == killed {
		t.Errorf("process %d is still there", killed)
	}
	if !lines.contain("signal: killed") {
		t.Errorf("the log does not tell: %q", lines.all())
	}
}

// processIn waits for a file that holds a process id.
func processIn(t *testing.T, path string) int {
	t.Helper()
	for {
		if text, err := os.ReadFile(path); err == nil && len(text) > 0 {
			pid, err := strconv.Atoi(string(text))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
		if t.Context().Err() != nil {
			t.Fatal("the function never ran")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestOutputGoesToTheLogSink(t *testing.T) {
	t.Parallel()
	lines := &logLines{}
	s := serve(t, Options{LogSink: lines.add}, processFunction())
	answered(t, s, `{"do":"print","text":"hello"}`)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"hello", "hello to stderr"} {
		if !slices.Contains(lines.all(), want) {
			t.Errorf("%q is not in the log: %q", want, lines.all())
		}
	}
}

func TestCloseKillsProcessesAndTheirChildren(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"connect", "connect-child"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := serve(t, Options{}, processFunction())
			closed := holdConnection(t, s, how)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			<-closed
		})
	}
}

func TestCloseInterruptsARunningProcess(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{}, processFunction())
	answered(t, s, `{}`)
	enqueue(t, s, "fn", `{"do":"hang"}`)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestManyProcessInvocationsInParallel(t *testing.T) {
	t.Parallel()
	fn := processFunction()
	fn.Concurrency, fn.MaxRetries, fn.RetryDelays = 4, 5, []time.Duration{time.Millisecond}
	given := &records{}
	fn.OnFailure = given.add
	s := serve(t, Options{}, fn)
	for n := range 40 {
		payload := `{}`
		if n%10 == 0 {
			payload = `{"do":"exit"}`
		}
		enqueue(t, s, "fn", payload)
	}
	for {
		given.mu.Lock()
		n := len(given.all)
		given.mu.Unlock()
		if n == 4 && s.Stats("fn").Running == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if st := s.Stats("fn"); st.Waiting+st.Retrying > 0 || st.Idle > 4 {
		t.Errorf("left over: %+v", st)
	}
	for _, record := range given.all {
		if record.RequestContext.ApproximateInvokeCount != 6 {
			t.Errorf("given up after %d tries, want 6", record.RequestContext.ApproximateInvokeCount)
		}
	}
}

// holdConnection has the function, or a child of it, open a connection that
// lasts as long as the process does, and returns a channel that is closed when
// that ends.
func holdConnection(t *testing.T, s *Server, how string) <-chan struct{} {
	t.Helper()
	listener, closed := listenForHold(t)
	answered(t, s, fmt.Sprintf(`{"do":%q,"text":%q}`, how, listener.Addr()))
	return closed()
}

// listenForHold returns a listener and a function that waits for a connection
// to it and returns a channel closed at the end of that connection.
func listenForHold(t *testing.T) (net.Listener, func() <-chan struct{}) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener, func() <-chan struct{} {
		t.Helper()
		conn, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}()
		return closed
	}
}

const orphanEnv = "LAMBDAEMU_TEST_ORPHAN"

// parentOfOrphan is what a second copy of the test binary does: it starts an
// instance and waits to be killed.
func parentOfOrphan() {
	s := New(Options{})
	ts := httptest.NewServer(s)
	s.SetEndpoint(ts.URL)
	if err := s.Register(Function{Name: "fn", Runtime: Process{Path: os.Getenv("BOOTSTRAP")}}); err != nil {
		panic(err)
	}
	if _, err := s.InvokeAsync("fn", []byte(os.Getenv(orphanEnv)), InvokeOptions{}); err != nil {
		panic(err)
	}
	select {}
}

func TestNoProcessOutlivesAKilledParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ties the life of a process to its parent's")
	}
	t.Parallel()
	listener, closed := listenForHold(t)
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "BOOTSTRAP="+bootstrap,
		orphanEnv+"="+fmt.Sprintf(`{"do":"connect","text":%q}`, listener.Addr()))
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	ended := closed()
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	<-ended
}

type logLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *logLines) add(_, _, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *logLines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

func (l *logLines) contain(text string) bool {
	return slices.ContainsFunc(l.all(), func(line string) bool { return strings.Contains(line, text) })
}
