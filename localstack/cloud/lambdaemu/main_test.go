package lambdaemu

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// bootstrap is the compiled testdata/fn.
var bootstrap string

func TestMain(m *testing.M) {
	if os.Getenv(orphanEnv) != "" {
		parentOfOrphan()
	}
	dir, err := os.MkdirTemp("", "lambdaemu")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	bootstrap = filepath.Join(dir, "bootstrap")
	build := exec.Command("go", "build", "-tags", "lambda.norpc", "-o", bootstrap, "./testdata/fn")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the test function: %v\n%s", err, out)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// serve makes a server with one function, reachable over TCP.
func serve(t *testing.T, opts Options, fn Function) *Server {
	t.Helper()
	s := New(opts)
	ts := httptest.NewServer(s)
	s.SetEndpoint(ts.URL)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		ts.Close()
	})
	register(t, s, fn)
	return s
}

func register(t *testing.T, s *Server, fn Function) {
	t.Helper()
	if err := s.Register(fn); err != nil {
		t.Fatal(err)
	}
}

// invoke runs a function synchronously and fails the test when it is refused.
func invoke(t *testing.T, s *Server, name, payload string) Result {
	t.Helper()
	r, err := s.Invoke(t.Context(), name, []byte(payload), InvokeOptions{})
	if err != nil {
		t.Fatalf("Invoke(%s): %v", payload, err)
	}
	return r
}

// errorDocument decodes what a failed function answered.
func errorDocument(t *testing.T, r Result) functionError {
	t.Helper()
	if r.FunctionError != "Unhandled" {
		t.Fatalf("FunctionError = %q, payload %s; want a failure", r.FunctionError, r.Payload)
	}
	var doc functionError
	if err := json.Unmarshal(r.Payload, &doc); err != nil {
		t.Fatalf("payload %s: %v", r.Payload, err)
	}
	return doc
}
