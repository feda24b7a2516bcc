package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"

	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/wakeup"
)

type rawJSON = json.RawMessage

func TestSluice(t *testing.T) {
	t.Run("task", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *target){
			"runs a Python handler and keeps its output":      testRuns,
			"sleeps and is woken by the Scheduler":            testSleeps,
			"sleeps briefly within the invocation":            testRests,
			"is retried after an error":                       testRetries,
			"fails when its retries are used up, is replayed": testFailsAndReplays,
			"is cancelled while it sleeps, and replayed":      testCancels,
			"is submitted by a plain PUT":                     testForeignProducer,
			"that is none is set aside":                       testQuarantine,
			"with an idempotency key is one task":             testIdempotency,
			"expires":                                         testExpires,
			"with a large input":                              testLargeInput,
			"of type http.request sleeps at a 429":            testHTTP,
			"is told of when it has ended":                    testNotices,
			"is listed":                                       testList,
			"with a limit sleeps until it is admitted":        testLimited,
			"that no limit can admit fails":                   testNeverAdmitted,
			"that lost its wake-up is found by the sweep":     testLostWakeup,
			"leaves no version behind after its retention":    testRetention,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, suite)
			})
		}
	})
	t.Run("limiter", func(t *testing.T) {
		t.Run("table", func(t *testing.T) { t.Parallel(); testTableConforms(t, suite) })
		t.Run("function", func(t *testing.T) { t.Parallel(); testLimiterFunction(t, suite) })
		t.Run("asked by a handler in Python", func(t *testing.T) { t.Parallel(); testPythonAsksTheLimiter(t, suite) })
		t.Run("reset by the clock", func(t *testing.T) { t.Parallel(); testResetByTheClock(t, suite) })
	})
	t.Run("upgrade", func(t *testing.T) { testUpgrade(t, suite) })
	t.Run("nothing is left behind", func(t *testing.T) { testNothingLeft(t, suite) })
}

func expect(t *testing.T, got task.Task, status task.Status, attempt int64) {
	t.Helper()
	if got.Status != status || got.Attempt != attempt {
		t.Errorf("want %s after %d attempts, got %s", status, attempt, got.Encode())
	}
}

func testRuns(t *testing.T, s *target) {
	got := s.wait(t, s.submit(t, `{"name":"Ada"}`).ID)
	expect(t, got, task.Completed, 1)
	if want := `Hello, Ada!`; !strings.Contains(string(got.Output), want) {
		t.Errorf("output = %s, want %q in it", got.Output, want)
	}
}

func testSleeps(t *testing.T, s *target) {
	got := s.wait(t, s.submit(t, `{"sleeps":1,"seconds":8}`).ID)
	expect(t, got, task.Completed, 2)
	if got.RescheduleCount != 1 || got.RetryCount != 0 || !strings.Contains(string(got.Output), `"slept"`) {
		t.Errorf("task = %s", got.Encode())
	}
	history, err := s.queue.History(t.Context(), got.ID)
	if err != nil || len(history) != 5 || history[2].Text != "pending (rescheduled, available_at: +8s, count: 1)" {
		t.Errorf("history = %v, %v", history, err)
	}
}

// A task whose wake-up is lost is found by the sweep. Should it fire before it can be taken away, this
// proves nothing.
func testLostWakeup(t *testing.T, s *target) {
	id := s.submit(t, `{}`, queue.In(30*time.Second)).ID
	client := scheduler.NewFromConfig(s.config)
	s.eventually(t, "its wake-up is armed", func() bool {
		armed, err := client.ListSchedules(t.Context(), &scheduler.ListSchedulesInput{GroupName: &s.scheduleGroup, NamePrefix: &id})
		if err != nil {
			t.Fatal(err)
		}
		for _, schedule := range armed.Schedules {
			if _, err := client.DeleteSchedule(t.Context(), &scheduler.DeleteScheduleInput{GroupName: &s.scheduleGroup, Name: schedule.Name}); err != nil {
				t.Log(err)
			}
		}
		return len(armed.Schedules) > 0
	})
	s.eventually(t, "it has run", func() bool {
		s.sweep(t)
		got, err := s.queue.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return got.Status == task.Completed
	})
	expect(t, s.wait(t, id), task.Completed, 1)
}

// A record that has been expired, as S3's lifecycle does it, is removed with its whole history by the sweep
// function.
func testRetention(t *testing.T, s *target) {
	id := s.submit(t, `{}`).ID
	s.wait(t, id)
	client := s3store.NewClient(s.config)
	key := s3store.TaskKey(id)
	if _, err := client.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &s.bucket, Key: &key}); err != nil {
		t.Fatal(err)
	}
	s.eventually(t, "nothing is left of the record", func() bool {
		s.sweep(t)
		left, err := client.ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: &s.bucket, Prefix: &key})
		if err != nil {
			t.Fatal(err)
		}
		return len(left.Versions)+len(left.DeleteMarkers) == 0
	})
}

func testRests(t *testing.T, s *target) {
	got := s.wait(t, s.submit(t, `{"sleeps":2,"seconds":1}`).ID)
	expect(t, got, task.Completed, 3)
	if got.RescheduleCount != 2 {
		t.Errorf("task = %s", got.Encode())
	}
}

func testRetries(t *testing.T, s *target) {
	got := s.wait(t, s.submit(t, `{"failures":2}`).ID)
	expect(t, got, task.Completed, 3)
	if got.RetryCount != 2 || !strings.Contains(got.LastError, "failure 2, as asked") {
		t.Errorf("task = %s", got.Encode())
	}
}

func testFailsAndReplays(t *testing.T, s *target) {
	id := s.submit(t, `{"failures":1}`, queue.MaxRetries(0)).ID
	got := s.wait(t, id)
	expect(t, got, task.Failed, 1)
	if _, err := s.queue.Replay(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	expect(t, s.wait(t, id), task.Failed, 1)
}

func testCancels(t *testing.T, s *target) {
	id := s.submit(t, `{}`, queue.In(time.Hour)).ID
	got, err := s.queue.Cancel(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, got, task.Cancelled, 0)
	if _, err := s.queue.Replay(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	expect(t, s.wait(t, id), task.Completed, 1)
	var refused *task.TransitionError
	if _, err := s.queue.Cancel(t.Context(), id); !errors.As(err, &refused) || refused.Status != task.Completed {
		t.Errorf("cancel of a completed task: %v", err)
	}
}

// put writes an object as a producer in any language would.
func (s *target) put(t *testing.T, key, document string) {
	t.Helper()
	_, err := s3store.NewClient(s.config).PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: &s.bucket, Key: &key, Body: strings.NewReader(document),
	})
	if err != nil {
		t.Fatal(err)
	}
}

func testForeignProducer(t *testing.T, s *target) {
	s.put(t, s3store.InboxKey("from-elsewhere"), fmt.Sprintf(
		`{"schema": 1, "id": "from-elsewhere", "task_type": "lambda.invoke", "input": {"function": %q, "payload": {"name": "Grace"}}}`, s.pythonHandler))
	got := s.wait(t, "from-elsewhere")
	expect(t, got, task.Completed, 1)
	if !strings.Contains(string(got.Output), "Hello, Grace!") {
		t.Errorf("task = %s", got.Encode())
	}
}

func testQuarantine(t *testing.T, s *target) {
	key := s3store.InboxKey("no-task")
	s.put(t, key, `{}{}`)
	deadline := time.Now().Add(patience)
	for {
		out, err := s3store.NewClient(s.config).ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{
			Bucket: &s.bucket, Prefix: aws.String("quarantine/" + strings.TrimPrefix(key, "inbox/")),
		})
		switch {
		case err != nil:
			t.Fatal(err)
		case len(out.Contents) == 1:
			return
		case time.Now().After(deadline):
			t.Fatalf("%d objects in quarantine, want 1", len(out.Contents))
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func testIdempotency(t *testing.T, s *target) {
	ids := make([]string, 10)
	var group sync.WaitGroup
	for i := range ids {
		group.Go(func() { ids[i] = s.submit(t, `{}`, queue.IdempotencyKey("order 7")).ID })
	}
	group.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("ten submitters of one key got the ids %v", ids)
		}
	}
	expect(t, s.wait(t, ids[0]), task.Completed, 1)
	if again := s.submit(t, `{}`, queue.IdempotencyKey("order 7")); again.ID != ids[0] || again.Status != task.Completed {
		t.Errorf("the key after completion: %s", again.Encode())
	}
	_, err := s.queue.Submit(t.Context(), "lambda.invoke", "another input", queue.IdempotencyKey("order 7"))
	if !errors.Is(err, queue.ErrKeyReused) {
		t.Errorf("the key with another input: %v", err)
	}
}

func testExpires(t *testing.T, s *target) {
	got := s.wait(t, s.submit(t, `{}`, queue.In(time.Hour), queue.ExpiresIn(3*time.Second)).ID)
	expect(t, got, task.Expired, 0)
}

func testLargeInput(t *testing.T, s *target) {
	name := strings.Repeat("x", 200_000)
	got := s.wait(t, s.submit(t, fmt.Sprintf(`{"name":%q}`, name)).ID)
	expect(t, got, task.Completed, 1)
	if !strings.Contains(string(got.Output), name) {
		t.Errorf("the output has %d bytes and not the name", len(got.Output))
	}
}

func testHTTP(t *testing.T, s *target) {
	if !s.local {
		t.Skip("not run: functions on AWS can't reach the API of this test")
	}
	var calls atomic.Int64
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		fmt.Fprintf(w, `{"key":%q}`, r.Header.Get("Idempotency-Key"))
	}))
	defer api.Close()
	made, err := s.queue.Submit(t.Context(), "http.request", map[string]any{"url": api.URL, "body": map[string]int{"n": 1}}, queue.Timeout(30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	got := s.wait(t, made.ID)
	expect(t, got, task.Completed, 2)
	if got.RescheduleCount != 1 || !strings.Contains(string(got.Output), made.ID) {
		t.Errorf("task = %s", got.Encode())
	}
	if s.httpFunction == "" {
		return
	}
	history, err := s.queue.History(t.Context(), made.ID)
	if err != nil || !slices.ContainsFunc(history, func(e task.Entry) bool { return strings.Contains(e.Text, s.httpFunction) }) {
		t.Errorf("not run by %s, which serves its type: %v, %v", s.httpFunction, history, err)
	}
}

func testList(t *testing.T, s *target) {
	const many = 5
	want := make(map[string]bool)
	for range many {
		want[s.submit(t, `{}`, queue.Tag("list", "me"), queue.In(time.Hour)).ID] = true
	}
	options := queue.ListOptions{Tags: map[string]string{"list": "me"}, Limit: 2}
	for pages := 0; ; pages++ {
		page, err := s.queue.List(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range page.Tasks {
			if !want[got.ID] {
				t.Errorf("listed twice or by mistake: %s", got.ID)
			}
			delete(want, got.ID)
			if _, err := s.queue.Cancel(t.Context(), got.ID); err != nil {
				t.Error(err)
			}
		}
		if page.Cursor == "" {
			if len(want) > 0 || pages != 2 {
				t.Errorf("not listed on %d pages: %v", pages+1, want)
			}
			return
		}
		options.Cursor = page.Cursor
	}
}

// testNothingLeft looks for what finished tasks must not leave behind. The
// wake-ups of tasks that ended while they slept fire, and are gone, within the hour.
func testNothingLeft(t *testing.T, s *target) {
	client := s3store.NewClient(s.config)
	inbox, err := client.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: aws.String("inbox/")})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range inbox.Contents {
		t.Errorf("left in the inbox: %s", aws.ToString(object.Key))
	}
	versions, err := client.ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: &s.bucket})
	if err != nil {
		t.Fatal(err)
	}
	for _, marker := range versions.DeleteMarkers {
		t.Errorf("left a delete marker: %s", aws.ToString(marker.Key))
	}
	schedules, err := scheduler.NewFromConfig(s.config).ListSchedules(t.Context(), &scheduler.ListSchedulesInput{GroupName: &s.scheduleGroup})
	if err != nil {
		t.Fatal(err)
	}
	for _, schedule := range schedules.Schedules {
		if name := aws.ToString(schedule.Name); !farAhead(name) {
			t.Errorf("left a schedule: %s", name)
		}
	}
}

// farAhead tells the wake-up of a task that was cancelled in its sleep.
func farAhead(schedule string) bool {
	_, second, ok := wakeup.ParseName(schedule)
	return ok && second > time.Now().Add(10*time.Minute).Unix()
}
