package dev_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/dev"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/task"
)

// claim is the compiled claim function.
var claim string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "dev")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	claim = filepath.Join(dir, "bootstrap")
	build := exec.Command("go", "build", "-tags", "lambda.norpc", "-o", claim, "../../functions/claim")
	if text, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the claim function: %v\n%s", err, text)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func start(t *testing.T, o dev.Options) *dev.Instance {
	t.Helper()
	o.Address, o.Claim = "127.0.0.1:0", claim
	o.Environment = map[string]string{"SLUICE_HTTP_HOSTS": "*"}
	o.Out, o.Log = t.Output(), t.Output()
	i, err := dev.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// hello is a server for http.request tasks.
func hello(t *testing.T) map[string]string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	t.Cleanup(server.Close)
	return map[string]string{"url": server.URL}
}

func submit(t *testing.T, i *dev.Instance, input any, options ...queue.Option) task.Task {
	t.Helper()
	submitted, err := i.Queue().Submit(t.Context(), "http.request", input, options...)
	if err != nil {
		t.Fatal(err)
	}
	return submitted
}

func completed(t *testing.T, i *dev.Instance, id string) task.Task {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended, err := i.Queue().Wait(ctx, id)
	if err != nil || ended.Status != task.Completed {
		t.Fatalf("task %s is %s (%s), error %v", id, ended.Status, ended.LastError, err)
	}
	return ended
}

func TestDataOutliveARun(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "deep", "data")
	input := hello(t)

	first := start(t, dev.Options{Data: folder})
	done := completed(t, first, submit(t, first, input).ID)
	sleeper := submit(t, first, input, queue.In(2*time.Second))
	far := submit(t, first, input, queue.In(24*time.Hour))
	if _, err := dev.Start(t.Context(), dev.Options{Data: folder, Address: "127.0.0.1:0", Claim: claim, Out: t.Output()}); err == nil {
		t.Error("a second one took the same folder")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	second := start(t, dev.Options{Data: folder})
	completed(t, second, sleeper.ID)
	got, err := second.Queue().Get(t.Context(), done.ID)
	if err != nil || got.Revision != done.Revision || string(got.Output) != string(done.Output) {
		t.Errorf("the finished task is %+v, %v, want %+v", got, err, done)
	}
	history, err := second.Queue().History(t.Context(), done.ID)
	if err != nil || len(history) != 3 {
		t.Errorf("its history has %d entries, %v, want 3", len(history), err)
	}
	waiting, err := second.Queue().List(t.Context(), queue.ListOptions{Statuses: []task.Status{task.Pending}})
	if err != nil || len(waiting.Tasks) != 1 || waiting.Tasks[0].ID != far.ID {
		t.Errorf("waiting are %v, %v", waiting.Tasks, err)
	}
	completed(t, second, submit(t, second, input).ID)
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestWhatLambdaHadNotRunIsRunByTheNextStart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	arrived, release := make(chan struct{}), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case arrived <- struct{}{}:
		default:
		}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer slow.Close()
	first := start(t, dev.Options{Data: folder})
	for range 10 { // as many as run at a time
		submit(t, first, map[string]string{"url": slow.URL})
		<-arrived
	}
	var waiting []string
	for range 25 {
		waiting = append(waiting, submit(t, first, hello(t)).ID)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	close(release)

	second := start(t, dev.Options{Data: folder})
	defer second.Close()
	for _, id := range waiting {
		completed(t, second, id)
	}
	running, err := second.Queue().List(t.Context(), queue.ListOptions{Statuses: []task.Status{task.Running}})
	if err != nil || len(running.Tasks) != 10 {
		t.Errorf("%d tasks are running, %v, want 10 whose leases decide", len(running.Tasks), err)
	}
}

func TestADamagedFileIsNotOverwritten(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "cloud.zip")
	if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := dev.Start(t.Context(), dev.Options{Data: folder, Address: "127.0.0.1:0", Claim: claim, Out: t.Output()}); err == nil {
		t.Error("it started")
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "damaged" {
		t.Errorf("the file holds %q, %v", got, err)
	}
}

func TestStartFailsCleanly(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]dev.Options{
		"no such function": {Claim: "/nonexistent"},
		"no such address":  {Claim: claim, Address: "256.0.0.1:0"},
		"folder is a file": {Claim: claim, Address: "127.0.0.1:0", Data: claim},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if i, err := dev.Start(t.Context(), o); err == nil {
				t.Error("it started")
				_ = i.Close()
			}
		})
	}
}

// Under every fault of delivery the tasks complete, once for their queue, and what was
// dropped is not lost: the sweep is not waited for here, so nothing is dropped.
func TestFaultsOfDeliveryDoNotShow(t *testing.T) {
	t.Parallel()
	o := dev.Options{Late: time.Second}
	o.Delivery.Duplicate, o.Delivery.Reorder, o.Delivery.ReorderWithin = 0.5, 0.5, time.Second
	i := start(t, o)
	defer i.Close()
	input := hello(t)
	var ids []string
	for n := range 20 {
		ids = append(ids, submit(t, i, input, queue.In(time.Duration(n%3)*time.Second)).ID)
	}
	attempts := make([]int64, 0, len(ids))
	for _, id := range ids {
		attempts = append(attempts, completed(t, i, id).Attempt)
	}
	if slices.Max(attempts) != 1 {
		t.Errorf("attempts: %v, want 1 each", attempts)
	}
}

func TestTheEndOfTasksIsToldToAQueue(t *testing.T) {
	t.Parallel()
	i := start(t, dev.Options{Notices: map[string]string{"http.request": "ends"}})
	defer i.Close()
	id := submit(t, i, hello(t)).ID
	completed(t, i, id)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		sent := i.Cloud.SQS().Messages("ends")
		if len(sent) == 1 && strings.Contains(sent[0].Body, id) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("sent: %v", sent)
		}
	}
}

// Who looks at a trace sees what the function asked for, too: the SDK passes the trace on that an
// invocation came with.
func TestTheTraceOfAnInvocationIsPassedOn(t *testing.T) {
	t.Parallel()
	i := start(t, dev.Options{})
	defer i.Close()
	var passed, others atomic.Int64
	i.Cloud.SetFault(func(r *cloud.Request) cloud.Fault {
		switch {
		case r.Client != i.Function:
		case strings.HasPrefix(r.HTTP.Header.Get("X-Amzn-Trace-Id"), "Root="):
			passed.Add(1)
		default:
			others.Add(1)
		}
		return cloud.Fault{}
	})
	completed(t, i, submit(t, i, hello(t)).ID)
	if passed.Load() == 0 || others.Load() > 0 {
		t.Errorf("%d requests with the trace, %d without", passed.Load(), others.Load())
	}
}
