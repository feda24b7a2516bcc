package lambdaemu

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const pythonHandler = `
import os, sys

def handler(event, context):
    do = event.get("do")
    if do == "raise":
        raise ValueError("no luck")
    if do == "exit":
        os._exit(7)
    if do == "sysexit":
        sys.exit(8)
    if do == "unserializable":
        return {1, 2}
    if do == "print":
        print("hello")
    return {"name": context.function_name, "left": context.get_remaining_time_in_millis() > 0, "é": event.get("é")}
`

func servePython(t *testing.T, opts Options, source string) *Server {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3 on the PATH")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "app.py"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	return serve(t, opts, Function{Name: "fn", Timeout: time.Minute, Runtime: Python{Handler: "app.handler", Dir: dir}})
}

func TestPythonHandler(t *testing.T) {
	t.Parallel()
	lines := &logLines{}
	s := servePython(t, Options{LogSink: lines.add}, pythonHandler)
	r := invoke(t, s, "fn", `{"é":"ü","do":"print"}`)
	if got, want := string(r.Payload), `{"name": "fn", "left": true, "\u00e9": "\u00fc"}`; got != want || r.FunctionError != "" {
		t.Errorf("got %s (%s), want %s", got, r.FunctionError, want)
	}
	for _, tt := range []struct{ payload, wantType, wantMessage string }{
		{`{"do":"raise"}`, "ValueError", "no luck"},
		{`{"do":"unserializable"}`, "TypeError", "not JSON serializable"},
		{`{"do":"exit"}`, "Runtime.ExitError", "exit status 7"},
		{`{"do":"sysexit"}`, "Runtime.ExitError", "exit status 8"},
	} {
		doc := errorDocument(t, invoke(t, s, "fn", tt.payload))
		if doc.Type != tt.wantType || !strings.Contains(doc.Message, tt.wantMessage) {
			t.Errorf("%s: got %s: %s; want %s: …%s…", tt.payload, doc.Type, doc.Message, tt.wantType, tt.wantMessage)
		}
	}
	if !lines.contain("hello") {
		t.Errorf("the log lacks what was printed: %q", lines.all())
	}
}

func TestPythonImportErrorsAreReported(t *testing.T) {
	t.Parallel()
	s := servePython(t, Options{}, "import there_is_no_such_module\n")
	doc := errorDocument(t, invoke(t, s, "fn", `{}`))
	if doc.Type != "ModuleNotFoundError" || !strings.Contains(doc.Message, "there_is_no_such_module") {
		t.Errorf("got %+v", doc)
	}
}
