package task_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/shared/task"
)

// life replays what happens to one task and keeps every version of its record.
type life struct {
	t        *testing.T
	now      time.Time
	task     task.Task
	versions []task.Task
}

func newLife(t *testing.T) *life {
	t.Helper()
	return &life{t: t, now: epoch, task: pending()}
}

// apply stores the next version as a bucket would: as a document.
func (l *life) apply(event task.Event) *life {
	l.t.Helper()
	next, _ := mustApply(l.t, l.task, event, l.now)
	l.task = mustDecode(l.t, next.Encode())
	l.versions = append(l.versions, l.task)
	return l
}

// claim waits until the task is due and claims it.
func (l *life) claim(worker string) *life {
	l.t.Helper()
	l.now = later(l.now, l.task.AvailableAt)
	return l.apply(task.Claim{LeaseID: "lease", WorkerID: worker, LeaseExpiresAt: l.now.Add(lease)})
}

func (l *life) history() []string {
	entries := task.History(l.versions)
	lines := make([]string, 0, len(entries))
	for _, e := range entries {
		lines = append(lines, e.String())
	}
	return lines
}

func TestDelayIsStoredAsAvailableAt(t *testing.T) {
	t.Parallel()
	l := newLife(t).claim("worker-1").apply(task.Reschedule{Delay: time.Minute})
	if got := string(l.task.Encode()); !strings.Contains(got, `"status":"pending"`) || !strings.Contains(got, `"available_at":"2027-01-01T00:01:00Z"`) {
		t.Errorf("stored as %s", got)
	}
	if l.task.Due(epoch.Add(time.Minute-1)) || !l.task.Due(epoch.Add(time.Minute)) {
		t.Error("not claimable exactly after the delay")
	}
}

func TestCountersStartAtZeroAndTheLimitAtNull(t *testing.T) {
	t.Parallel()
	got := string(pending().Encode())
	for _, want := range []string{`"attempt":0`, `"retry_count":0`, `"max_retries":3`, `"reschedule_count":0`, `"max_reschedules":null`, `"throttle_count":0`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
}

func TestTwoZeroDelaySleepsThenCompleted(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	for range 2 {
		l.claim("w").apply(task.Reschedule{})
		if !l.task.AvailableAt.Equal(l.now) || !l.task.Due(l.now) {
			t.Fatalf("delay 0 is not available at once: %v", l.task.AvailableAt)
		}
	}
	l.claim("w").apply(task.Success{})
	if l.task.Status != task.Completed || l.task.RescheduleCount != 2 || l.task.RetryCount != 0 || l.task.Attempt != 3 {
		t.Errorf("got %+v", l.task)
	}
}

func TestSleepRetrySleepSuccessKeepsBothCounters(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.claim("w").apply(task.Reschedule{Delay: time.Minute})
	l.claim("w").apply(task.Failure{Error: "boom", Jitter: calm})
	l.claim("w").apply(task.Reschedule{Delay: 2 * time.Minute})
	l.claim("w").apply(task.Success{})
	if l.task.Status != task.Completed || l.task.RescheduleCount != 2 || l.task.RetryCount != 1 || l.task.Attempt != 4 || l.task.LastError != "boom" {
		t.Errorf("got %+v", l.task)
	}
}

func TestTheLimitOfReschedules(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{0, 1, 2, 100} {
		l := newLife(t)
		l.task.MaxReschedules = &limit
		for range limit {
			l.claim("w").apply(task.Reschedule{})
			if l.task.Status != task.Pending {
				t.Fatalf("limit %d: %s after %d", limit, l.task.Status, l.task.RescheduleCount)
			}
		}
		l.claim("w").apply(task.Reschedule{})
		if want := fmt.Sprintf("Max reschedules (%d) exceeded", limit); l.task.Status != task.Failed || l.task.LastError != want {
			t.Errorf("limit %d: %s, %q, want failed, %q", limit, l.task.Status, l.task.LastError, want)
		}
		if l.task.RescheduleCount != limit || l.task.RetryCount != 0 {
			t.Errorf("limit %d: counters %d and %d", limit, l.task.RescheduleCount, l.task.RetryCount)
		}
	}
}

func TestReschedulesAndRetriesAreIndependent(t *testing.T) {
	t.Parallel()
	two := int64(2)
	l := newLife(t)
	l.task.MaxRetries, l.task.MaxReschedules = 2, &two
	for range 2 {
		l.claim("w").apply(task.Reschedule{})
		l.claim("w").apply(task.Failure{Error: "boom"})
	}
	if l.task.Status != task.Pending || l.task.RescheduleCount != 2 || l.task.RetryCount != 2 {
		t.Fatalf("both limits reached, none exceeded: %+v", l.task)
	}
	failed := *l
	if failed.claim("w").apply(task.Failure{Error: "third"}); failed.task.Status != task.Failed || failed.task.LastError != "third" {
		t.Errorf("third failure: %+v", failed.task)
	}
	asleep := *l
	if asleep.claim("w").apply(task.Reschedule{}); asleep.task.Status != task.Failed || asleep.task.LastError != "Max reschedules (2) exceeded" {
		t.Errorf("third sleep: %+v", asleep.task)
	}
}

func TestSleepsAreNotFailures(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.task.MaxRetries = 2 // three tries in all
	for i := range 50 {
		l.claim("w").apply(task.Reschedule{Delay: time.Minute})
		if i == 20 || i == 40 {
			l.claim("w").apply(task.Failure{Error: "boom", Jitter: calm})
			wait, want := l.task.AvailableAt.Sub(l.now), time.Second<<(l.task.RetryCount-1)
			if l.task.Status != task.Pending || wait != want {
				t.Fatalf("error %d after %d sleeps: %s, waits %v, want %v", l.task.RetryCount, i+1, l.task.Status, wait, want)
			}
		}
	}
	l.claim("w").apply(task.Success{})
	if l.task.Status != task.Completed || l.task.RescheduleCount != 50 || l.task.RetryCount != 2 {
		t.Errorf("got %+v", l.task)
	}
}

func TestFortyThousandReschedules(t *testing.T) {
	t.Parallel()
	v, now := pending(), epoch
	for range 40_000 {
		v, _ = mustApply(t, v, claim(now), now)
		v, _ = mustApply(t, v, task.Reschedule{}, now)
	}
	if v.RescheduleCount != 40_000 || v.Attempt != 40_000 || v.Revision != 80_000 || v.Status != task.Pending {
		t.Errorf("got %+v", v)
	}
}

func TestHistoryIsWordedAsInTheSeed(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.claim("worker-1").apply(task.Reschedule{Delay: 60 * time.Second})
	l.claim("worker-2").apply(task.Reschedule{Delay: 120 * time.Second})
	l.claim("worker-1").apply(task.Success{})
	want := []string{
		"Version 1: pending (created)",
		"Version 2: running (claimed by worker-1)",
		"Version 3: pending (rescheduled, available_at: +60s, count: 1)",
		"Version 4: running (claimed by worker-2)",
		"Version 5: pending (rescheduled, available_at: +120s, count: 2)",
		"Version 6: running (claimed by worker-1)",
		"Version 7: completed",
	}
	if got := l.history(); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestHistoryNamesWhateverHappened(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.apply(task.Throttle{Policy: "vendor", Key: "acme", Until: l.now.Add(1500 * time.Millisecond)})
	l.apply(task.Throttle{Policy: "daily", Until: l.now.Add(time.Hour)})
	l.apply(task.Defer{Until: l.now.Add(2 * time.Second), Reason: "the limiter cannot be reached"})
	l.apply(task.Defer{Until: l.now})
	l.apply(task.Unhandled{})
	l.claim("w").apply(task.Failure{Error: "boom", Jitter: calm})
	l.claim("w")
	l.now = l.now.Add(lease)
	l.apply(task.LeaseOver{Jitter: calm})
	l.claim("w").apply(task.Reschedule{At: task.MaxTime})
	l.apply(task.Cancel{}).apply(task.Replay{})
	l.claim("w").apply(task.Cancel{}).apply(task.Success{})
	l.apply(task.Replay{}).claim("w").apply(task.Failure{Error: "bad request", Permanent: true})
	want := []string{
		"Version 1: pending (created)",
		`Version 2: pending (throttled by vendor "acme", available_at: +1.5s, count: 1)`,
		"Version 3: pending (throttled by daily, available_at: +3600s, count: 2)",
		"Version 4: pending (deferred, available_at: +2s, reason: the limiter cannot be reached)",
		"Version 5: pending (deferred, available_at: +0s)",
		"Version 6: pending (no handler yet, available_at: +60s)",
		"Version 7: running (claimed by w)",
		"Version 8: pending (retry 1 of 3, available_at: +1s, error: boom)",
		"Version 9: running (claimed by w)",
		"Version 10: pending (retry 2 of 3, available_at: +2s, error: Timeout - task exceeded lease duration)",
		"Version 11: running (claimed by w)",
		// From 2027-01-01T00:02:03Z to the end of the year 9999.
		"Version 12: pending (rescheduled, available_at: +251603539076.999s, count: 1)",
		"Version 13: cancelled",
		"Version 14: pending (replayed)",
		"Version 15: running (claimed by w)",
		"Version 16: running (cancel requested)",
		"Version 17: cancelled",
		"Version 18: pending (replayed)",
		"Version 19: running (claimed by w)",
		"Version 20: failed (bad request)",
	}
	got := l.history()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func TestHistoryWithVersionsPastTheirRetention(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.claim("w").apply(task.Failure{Jitter: calm}).claim("w").apply(task.Reschedule{Delay: time.Minute})
	l.claim("w").apply(task.Reschedule{Delay: time.Minute}).claim("w").apply(task.Success{})
	l.versions = l.versions[3:]
	want := []string{
		"Version 1: pending (created)",
		"Version 5: pending (available_at: +60s)",
		"Version 6: running (claimed by w)",
		"Version 7: pending (rescheduled, available_at: +60s, count: 2)",
		"Version 8: running (claimed by w)",
		"Version 9: completed",
	}
	if got := l.history(); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := task.History(nil); got != nil {
		t.Errorf("a task without record has the history %v", got)
	}
}
