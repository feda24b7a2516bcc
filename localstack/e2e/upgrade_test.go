package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/task"
)

// While tasks are submitted, sleep and run, a second version is deployed over the first. Every one of them
// ends as if nothing had happened. AWS lets invocations that run end in the old version; MiniStack kills
// them, so that the leases of tasks have to decide: there the tasks are requests to an API of the suite, whose
// leases are shorter than those of functions that are invoked.
func testUpgrade(t *testing.T, s *target) {
	script := os.Getenv("SLUICE_E2E_UPGRADE")
	if script == "" {
		t.Skip("not run: nothing is deployed here that could be upgraded")
	}
	before := s.codeOf(t, s.claimFunction)
	var ids []string
	add := func(made task.Task) string {
		ids = append(ids, made.ID)
		return made.ID
	}

	api := newSlowAPI(t)
	if s.local {
		const running = 3
		for range running {
			made, err := s.queue.Submit(t.Context(), "http.request", map[string]any{"url": api.URL}, queue.Timeout(45*time.Second), queue.MaxRetries(20))
			if err != nil {
				t.Fatal(err)
			}
			add(made)
		}
		s.eventually(t, "tasks are running", func() bool { return api.seen() >= running })
	}
	add(s.submitPlain(t, api, 0, queue.In(25*time.Second)))
	rescheduled := add(s.submitPlain(t, api, 20))
	s.eventually(t, "a task has gone to sleep", func() bool {
		got, err := s.queue.Get(t.Context(), rescheduled)
		return err == nil && got.RescheduleCount == 1
	})

	ids = append(ids, s.submitWhile(t, api, func() {
		if out, err := exec.CommandContext(t.Context(), script).CombinedOutput(); err != nil {
			t.Errorf("the upgrade failed: %v\n%s", err, out)
		}
	})...)
	api.answer()
	if after := s.codeOf(t, s.claimFunction); after == before {
		t.Error("the claim function has the code it had")
	}
	add(s.submitPlain(t, api, 0))
	for _, id := range ids {
		if got := s.wait(t, id); got.Status != task.Completed {
			t.Errorf("task = %s", got.Encode())
		}
	}
	t.Logf("%d tasks, none lost", len(ids))
}

// submitWhile submits tasks for as long as a function takes, and returns their ids.
func (s *target) submitWhile(t *testing.T, api *slowAPI, do func()) []string {
	t.Helper()
	var ids []string
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		const pause = 500 * time.Millisecond
		for ; ctx.Err() == nil; time.Sleep(pause) {
			const seconds = 6
			made, err := s.plain(t.Context(), api, len(ids)%2*seconds)
			if err != nil {
				t.Error(err)
				return
			}
			ids = append(ids, made.ID)
		}
	})
	do()
	cancel()
	group.Wait()
	return ids
}

// plain submits a task that sleeps once for so many seconds, or not at all, and then is done.
func (s *target) plain(ctx context.Context, api *slowAPI, seconds int, opts ...queue.Option) (task.Task, error) {
	if s.local {
		opts = append(opts, queue.Timeout(45*time.Second), queue.MaxRetries(20))
		return s.queue.Submit(ctx, "http.request", map[string]any{"url": fmt.Sprintf("%s/quick?sleep=%d", api.URL, seconds)}, opts...)
	}
	input := fmt.Sprintf(`{"function":%q,"payload":{"sleeps":%d,"seconds":%d}}`, s.pythonHandler, min(seconds, 1), seconds)
	return s.queue.Submit(ctx, "lambda.invoke", rawJSON(input), opts...)
}

func (s *target) submitPlain(t *testing.T, api *slowAPI, seconds int, opts ...queue.Option) task.Task {
	t.Helper()
	made, err := s.plain(t.Context(), api, seconds, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (s *target) codeOf(t *testing.T, function string) string {
	t.Helper()
	out, err := lambda.NewFromConfig(s.config).GetFunctionConfiguration(t.Context(), &lambda.GetFunctionConfigurationInput{FunctionName: &function})
	if err != nil {
		t.Fatal(err)
	}
	return aws.ToString(out.CodeSha256)
}

// slowAPI answers no request until it is told to, but for those to /quick: of these the first of a task is put off
// by as many seconds as it asks for.
type slowAPI struct {
	*httptest.Server

	mu     sync.Mutex
	tasks  map[string]bool // that have called, by the key which http.request sends
	quick  map[string]bool // that have called /quick
	answer func()
}

// putOff tells for how many seconds a request to /quick is put off.
func (a *slowAPI) putOff(r *http.Request) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	if a.quick[key] {
		return "0"
	}
	a.quick[key] = true
	return r.URL.Query().Get("sleep")
}

func newSlowAPI(t *testing.T) *slowAPI {
	t.Helper()
	ready := make(chan struct{})
	api := &slowAPI{tasks: make(map[string]bool), quick: make(map[string]bool), answer: sync.OnceFunc(func() { close(ready) })}
	api.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/quick" {
			if seconds := api.putOff(r); seconds != "0" {
				w.Header().Set("Retry-After", seconds)
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			return
		}
		api.mu.Lock()
		api.tasks[r.Header.Get("Idempotency-Key")] = true
		api.mu.Unlock()
		select {
		case <-ready:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() {
		api.answer()
		api.Close()
	})
	return api
}

func (a *slowAPI) seen() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.tasks)
}
