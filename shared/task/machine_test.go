package task_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sluice-dev/sluice/shared/task"
)

const (
	calm  = 0.5 // the jitter that leaves a backoff as it is
	lease = time.Minute
)

func mustApply(t *testing.T, v task.Task, event task.Event, now time.Time) (task.Task, task.Effects) {
	t.Helper()
	next, effects, err := task.Apply(v, event, now)
	if err != nil {
		t.Fatalf("%T: %v", event, err)
	}
	return next, effects
}

func claim(now time.Time) task.Claim {
	return task.Claim{LeaseID: "lease-1", WorkerID: "worker-1", LeaseExpiresAt: now.Add(lease)}
}

func pending() task.Task { return task.New("t1", "call_api", epoch) }

func running(t *testing.T) task.Task {
	t.Helper()
	v, _ := mustApply(t, pending(), claim(epoch), epoch)
	return v
}

// in returns a task of the status, reached the shortest way.
func in(t *testing.T, s task.Status) task.Task {
	t.Helper()
	v := pending()
	switch s {
	case task.Running:
		v = running(t)
	case task.Completed:
		v, _ = mustApply(t, running(t), task.Success{}, epoch)
	case task.Failed:
		v, _ = mustApply(t, running(t), task.Failure{Error: "no", Permanent: true}, epoch)
	case task.Cancelled:
		v, _ = mustApply(t, v, task.Cancel{}, epoch)
	case task.Expired:
		soon := epoch.Add(time.Second)
		v.ExpiresAt = &soon
		v, _ = mustApply(t, v, task.Expire{}, soon)
	default:
	}
	if v.Status != s {
		t.Fatalf("status is %s, want %s", v.Status, s)
	}
	return v
}

// Which event leads from which status to which. What is not listed is refused
// and leaves the task as it is.
func TestEveryEventInEveryStatus(t *testing.T) {
	t.Parallel()
	type step struct {
		outcome task.Outcome
		to      task.Status
	}
	late := epoch.Add(2 * lease)
	events := []struct {
		name  string
		event task.Event
		verb  string
		now   time.Time
		from  map[task.Status]step
	}{
		{"claim", claim(epoch), "claim", epoch, map[task.Status]step{task.Pending: {"claimed", task.Running}}},
		{"success", task.Success{}, "complete", epoch, map[task.Status]step{task.Running: {"completed", task.Completed}}},
		{"failure", task.Failure{}, "fail", epoch, map[task.Status]step{task.Running: {"retried", task.Pending}}},
		{"permanent failure", task.Failure{Permanent: true}, "fail", epoch, map[task.Status]step{task.Running: {"failed", task.Failed}}},
		{"reschedule", task.Reschedule{}, "reschedule", epoch, map[task.Status]step{task.Running: {"rescheduled", task.Pending}}},
		{"throttle", task.Throttle{Policy: "p", Until: late}, "throttle", epoch, map[task.Status]step{task.Pending: {"throttled", task.Pending}}},
		{"defer", task.Defer{Until: late}, "defer", epoch, map[task.Status]step{task.Pending: {"deferred", task.Pending}}},
		{"unhandled", task.Unhandled{}, "put back", epoch, map[task.Status]step{task.Pending: {"unhandled", task.Pending}}},
		{"reject", task.Reject{}, "reject", epoch, map[task.Status]step{task.Pending: {"failed", task.Failed}}},
		{"lease over", task.LeaseOver{}, "time out", late, map[task.Status]step{task.Running: {"retried", task.Pending}}},
		{"expire", task.Expire{}, "expire", epoch, nil}, // no task here has an expires_at ahead
		{"cancel", task.Cancel{}, "cancel", epoch, map[task.Status]step{
			task.Pending: {"cancelled", task.Cancelled}, task.Running: {"cancel_requested", task.Running}, task.Cancelled: {"unchanged", task.Cancelled},
		}},
		{"replay", task.Replay{}, "replay", epoch, map[task.Status]step{
			task.Failed: {"replayed", task.Pending}, task.Cancelled: {"replayed", task.Pending}, task.Expired: {"replayed", task.Pending},
		}},
	}
	for _, e := range events {
		for _, status := range task.Statuses() {
			t.Run(e.name+" of a task that is "+string(status), func(t *testing.T) {
				t.Parallel()
				before := in(t, status)
				after, effects, err := task.Apply(before, e.event, e.now)
				want, listed := e.from[status]
				if !listed {
					var refused *task.TransitionError
					if !errors.As(err, &refused) || refused.Status != status || refused.ID != "t1" || refused.Event != e.verb {
						t.Fatalf("error %#v, want a TransitionError to %q", err, e.verb)
					}
					if want := "cannot " + e.verb + " task t1: it is " + string(status); !strings.HasPrefix(err.Error(), want) {
						t.Errorf("error %q, want %q…", err, want)
					}
					if !reflect.DeepEqual(after, before) || effects != (task.Effects{}) {
						t.Errorf("a refused event left %+v and %+v", after, effects)
					}
					return
				}
				if err != nil || effects.Outcome != want.outcome || after.Status != want.to {
					t.Fatalf("outcome %s, status %s, %v, want %s and %s", effects.Outcome, after.Status, err, want.outcome, want.to)
				}
				if effects.Finished != after.Status.Terminal() || !effects.WakeAt.Equal(after.NextLook()) {
					t.Errorf("effects %+v do not fit %+v", effects, after)
				}
			})
		}
	}
}

func TestClaimTakesADueTask(t *testing.T) {
	t.Parallel()
	v := pending()
	v.Throttled = &task.Throttled{Policy: "p", Until: epoch}
	v.UnhandledSince = &epoch
	got, effects := mustApply(t, v, claim(epoch), epoch)
	want := pending()
	ends := epoch.Add(lease)
	want.Status, want.Attempt, want.Revision = task.Running, 1, 1
	want.LeaseID, want.WorkerID, want.LeaseExpiresAt = "lease-1", "worker-1", &ends
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !effects.WakeAt.Equal(ends) {
		t.Errorf("woken at %v, want the end of the lease", effects.WakeAt)
	}
}

func TestClaimIsRefused(t *testing.T) {
	t.Parallel()
	soon := epoch.Add(time.Nanosecond)
	tests := []struct {
		name, want string
		set        func(*task.Task, *task.Claim)
	}{
		{"a nanosecond early", "it is pending, not due before 2027-01-01T00:00:00.000000001Z", func(v *task.Task, _ *task.Claim) { v.AvailableAt = soon }},
		{"at the instant it expires", "expired since 2027-01-01T00:00:00Z", func(v *task.Task, _ *task.Claim) { v.ExpiresAt = &epoch }},
		{"without a lease id", "needs a lease_id", func(_ *task.Task, c *task.Claim) { c.LeaseID = "" }},
		{"with a lease that is over", "ends later than now", func(_ *task.Task, c *task.Claim) { c.LeaseExpiresAt = epoch }},
	}
	for _, tt := range tests {
		v, c := pending(), claim(epoch)
		tt.set(&v, &c)
		if _, _, err := task.Apply(v, c, epoch); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestSuccessStoresTheOutput(t *testing.T) {
	t.Parallel()
	v := running(t)
	v.LastError = "an earlier failure"
	later := epoch.Add(time.Second)
	got, effects := mustApply(t, v, task.Success{Output: json.RawMessage(`{"b": 1.0}`)}, later)
	if got.Status != task.Completed || string(got.Output) != `{"b": 1.0}` || got.CompletedAt == nil || !got.CompletedAt.Equal(later) {
		t.Errorf("got %+v", got)
	}
	if got.LastError != "an earlier failure" || got.LeaseID != "" || got.LeaseExpiresAt != nil || got.WorkerID != "" {
		t.Errorf("got %+v", got)
	}
	if !effects.Finished || !effects.WakeAt.IsZero() {
		t.Errorf("effects %+v", effects)
	}
	for _, bad := range []string{"{", `1,"status":"pending"`, "\"\xff\"", "1 2"} {
		if _, _, err := task.Apply(v, task.Success{Output: json.RawMessage(bad)}, later); err == nil {
			t.Errorf("the output %s was stored", bad)
		}
		if _, _, err := task.Apply(v, task.Reschedule{Checkpoint: json.RawMessage(bad)}, later); err == nil {
			t.Errorf("the checkpoint %s was stored", bad)
		}
	}
}

func TestAnErrorIsRetriedUpToMaxRetries(t *testing.T) {
	t.Parallel()
	now := epoch
	v := pending()
	waits := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}
	for i, wait := range waits {
		v, _ = mustApply(t, v, claim(now), now)
		var effects task.Effects
		v, effects = mustApply(t, v, task.Failure{Error: "boom", Jitter: calm}, now)
		if v.Status != task.Pending || v.RetryCount != int64(i+1) || v.LastError != "boom" {
			t.Fatalf("failure %d: %+v", i+1, v)
		}
		if !v.AvailableAt.Equal(now.Add(wait)) || !effects.WakeAt.Equal(v.AvailableAt) {
			t.Errorf("failure %d: waits %v, woken at %v", i+1, v.AvailableAt.Sub(now), effects.WakeAt)
		}
		now = v.AvailableAt
	}
	v, _ = mustApply(t, v, claim(now), now)
	v, _ = mustApply(t, v, task.Failure{Error: "last"}, now)
	if v.Status != task.Failed || v.RetryCount != 3 || v.Attempt != 4 || v.LastError != "last" {
		t.Errorf("after max_retries: %+v", v)
	}
}

func TestMaxRetriesZeroMeansNone(t *testing.T) {
	t.Parallel()
	v := running(t)
	v.MaxRetries = 0
	if v, _ = mustApply(t, v, task.Failure{Error: "no"}, epoch); v.Status != task.Failed || v.RetryCount != 0 {
		t.Errorf("got %+v", v)
	}
}

func TestBackoffDoublesAndIsCapped(t *testing.T) {
	t.Parallel()
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	tests := []struct {
		n      int64
		jitter float64
		want   time.Duration
	}{
		{1, 0, ms(750)},
		{1, calm, time.Second},
		{1, 1, ms(1250)},
		{2, calm, 2 * time.Second},
		{6, calm, 32 * time.Second},
		{6, 1, 40 * time.Second},
		{7, 0, 48 * time.Second}, // 64 s less a quarter: jitter comes before the cap
		{7, calm, time.Minute},
		{8, 0, time.Minute},
		{65, 0, time.Minute},
		{task.MaxCount, 0, time.Minute},
		{0, calm, time.Second},
		{-1 << 63, calm, time.Second},
		{1, -5, ms(750)},
		{1, 5, ms(1250)},
	}
	for _, tt := range tests {
		if got := task.Backoff(tt.n, tt.jitter); got != tt.want {
			t.Errorf("Backoff(%d, %v) = %v, want %v", tt.n, tt.jitter, got, tt.want)
		}
	}
}

func TestRescheduleAt(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	tests := []struct {
		name  string
		event task.Reschedule
		want  time.Time
	}{
		{"a delay", task.Reschedule{Delay: time.Minute}, epoch.Add(time.Minute)},
		{"0 yields", task.Reschedule{}, epoch},
		{"a negative delay counts as 0", task.Reschedule{Delay: -time.Hour}, epoch},
		{"87600h", task.Reschedule{Delay: 87600 * time.Hour}, epoch.Add(10 * year)},
		{"the longest duration", task.Reschedule{Delay: 1<<63 - 1}, epoch.Add(1<<63 - 1)},
		{"a time", task.Reschedule{At: epoch.Add(time.Hour)}, epoch.Add(time.Hour)},
		{"a time wins over a delay", task.Reschedule{At: epoch.Add(time.Hour), Delay: time.Second}, epoch.Add(time.Hour)},
		{"a time that has passed is now", task.Reschedule{At: epoch.Add(-time.Hour)}, epoch},
		{"a time of another zone", task.Reschedule{At: epoch.Add(time.Hour).In(time.FixedZone("", 3600))}, epoch.Add(time.Hour)},
		{"the year 9999", task.Reschedule{At: task.MaxTime}, task.MaxTime},
		{"beyond it the year 9999", task.Reschedule{At: task.MaxTime.Add(time.Hour)}, task.MaxTime},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := running(t)
			v.RetryCount, v.LastError = 2, "an earlier failure"
			got, effects := mustApply(t, v, tt.event, epoch)
			if got.Status != task.Pending || !got.AvailableAt.Equal(tt.want) || !effects.WakeAt.Equal(tt.want) {
				t.Errorf("%s, available at %v, woken at %v, want %v", got.Status, got.AvailableAt, effects.WakeAt, tt.want)
			}
			if got.RescheduleCount != 1 || got.RetryCount != 2 || got.LastError != "an earlier failure" || got.LeaseID != "" || got.LeaseExpiresAt != nil {
				t.Errorf("got %+v", got)
			}
			if back := mustDecode(t, got.Encode()); !reflect.DeepEqual(back, got) {
				t.Errorf("reads back as %+v", back)
			}
		})
	}
}

func TestCheckpointIsKeptUntilReplaced(t *testing.T) {
	t.Parallel()
	v, _ := mustApply(t, running(t), task.Reschedule{Checkpoint: json.RawMessage(`{"page":2}`)}, epoch)
	v, _ = mustApply(t, v, claim(epoch), epoch)
	v, _ = mustApply(t, v, task.Reschedule{}, epoch)
	if string(v.Checkpoint) != `{"page":2}` {
		t.Errorf("checkpoint %s", v.Checkpoint)
	}
	v, _ = mustApply(t, v, claim(epoch), epoch)
	v, _ = mustApply(t, v, task.Reschedule{Checkpoint: json.RawMessage(`3`)}, epoch)
	if string(v.Checkpoint) != `3` {
		t.Errorf("checkpoint %s", v.Checkpoint)
	}
}

func TestAPlaceIsKeptWithTheSleepAndKeepingItCountsNothing(t *testing.T) {
	t.Parallel()
	place := json.RawMessage(`{"ticket": 7}`)
	due, wake := epoch.Add(time.Hour), epoch.Add(59*time.Minute)
	parked, effects := mustApply(t, pending(), task.Throttle{Policy: "p", Until: due, WakeAt: wake, Place: place}, epoch)
	if effects.Outcome != task.OutcomeThrottled || parked.ThrottleCount != 1 || string(parked.Throttled.Place) != string(place) {
		t.Errorf("%s: %s", effects.Outcome, parked.Encode())
	}
	read, err := task.Decode(parked.Encode())
	if err != nil || string(read.Throttled.Place) != string(place) {
		t.Errorf("read back: %s, %v", read.Encode(), err)
	}
	kept, effects := mustApply(t, parked, task.Throttle{Policy: "p", Until: due, WakeAt: due, Place: place, Kept: true}, wake)
	if effects.Outcome != task.OutcomeKept || kept.ThrottleCount != 1 || !kept.AvailableAt.Equal(due) {
		t.Errorf("%s: %s", effects.Outcome, kept.Encode())
	}
	var refused *task.TransitionError
	if _, _, err := task.Apply(pending(), task.Throttle{Policy: "p", Place: json.RawMessage(`{`)}, epoch); !errors.As(err, &refused) {
		t.Errorf("a place that is no JSON: %v", err)
	}
}

func TestThrottleSpendsNothing(t *testing.T) {
	t.Parallel()
	place, second := epoch.Add(90*time.Second), epoch.Add(76*time.Second)
	got, effects := mustApply(t, pending(), task.Throttle{Policy: "vendor", Key: "acme", Until: place, WakeAt: second}, epoch)
	want := pending()
	want.Revision, want.ThrottleCount, want.AvailableAt = 1, 1, second
	want.Throttled = &task.Throttled{Policy: "vendor", Key: "acme", Until: place}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !effects.WakeAt.Equal(second) {
		t.Errorf("woken at %v", effects.WakeAt)
	}
	if got, _ := mustApply(t, pending(), task.Throttle{Policy: "vendor", Until: place}, epoch); !got.AvailableAt.Equal(place) {
		t.Errorf("without WakeAt it is available at %v", got.AvailableAt)
	}
}

func TestDeferSpendsNothing(t *testing.T) {
	t.Parallel()
	until := epoch.Add(time.Minute)
	got, _ := mustApply(t, pending(), task.Defer{Until: until, Reason: "the limiter cannot be reached"}, epoch)
	want := pending()
	want.Revision, want.AvailableAt = 1, until
	want.Throttled = &task.Throttled{Until: until, Reason: "the limiter cannot be reached"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestATaskWithoutHandlerWaitsForOneAndThenFails(t *testing.T) {
	t.Parallel()
	v, now := pending(), epoch
	for range 60 {
		v, _ = mustApply(t, v, task.Unhandled{}, now)
		if v.Status != task.Pending || !v.AvailableAt.Equal(now.Add(task.UnhandledDelay)) || !v.UnhandledSince.Equal(epoch) {
			t.Fatalf("at %v: %+v", now, v)
		}
		now = v.AvailableAt
	}
	if v.Attempt != 0 || v.RetryCount != 0 || v.RescheduleCount != 0 || v.ThrottleCount != 0 {
		t.Errorf("charged: %+v", v)
	}
	claimed, _ := mustApply(t, v, claim(now), now)
	if claimed.UnhandledSince != nil {
		t.Error("a handler that turned up does not start the grace anew")
	}
	v, effects := mustApply(t, v, task.Unhandled{}, now)
	if v.Status != task.Failed || effects.Outcome != task.OutcomeFailed {
		t.Errorf("after the grace: %+v", v)
	}
	if want := `no handler is registered for task_type "call_api" (waited 1h0m0s for one)`; v.LastError != want {
		t.Errorf("last_error %q, want %q", v.LastError, want)
	}
}

func TestRejectEndsATaskThatCanNeverRun(t *testing.T) {
	t.Parallel()
	v, _ := mustApply(t, pending(), task.Reject{Error: "cost 11 of policy vendor can never be admitted"}, epoch)
	if v.Status != task.Failed || v.LastError != "cost 11 of policy vendor can never be admitted" || v.Attempt != 0 || v.CompletedAt == nil {
		t.Errorf("got %+v", v)
	}
}

func TestALeaseThatIsOverCountsAsARetry(t *testing.T) {
	t.Parallel()
	v := running(t)
	over := epoch.Add(lease)
	if _, _, err := task.Apply(v, task.LeaseOver{}, over.Add(-1)); err == nil || !strings.Contains(err.Error(), "its lease ends at 2027-01-01T00:01:00Z") {
		t.Errorf("a live lease was ended: %v", err)
	}
	v, _ = mustApply(t, v, task.LeaseOver{Jitter: calm}, over)
	if v.Status != task.Pending || v.RetryCount != 1 || !v.AvailableAt.Equal(over.Add(time.Second)) {
		t.Errorf("got %+v", v)
	}
	if v.LastError != "Timeout - task exceeded lease duration" {
		t.Errorf("last_error %q", v.LastError)
	}
}

func TestATaskThatKillsItsWorkerEnds(t *testing.T) {
	t.Parallel()
	for _, maxRetries := range []int64{0, 1, 3, 10} {
		v, now := pending(), epoch
		v.MaxRetries = maxRetries
		for !v.Status.Terminal() {
			v, _ = mustApply(t, v, claim(now), now)
			now = v.NextLook()
			v, _ = mustApply(t, v, task.LeaseOver{}, now)
			if v.Attempt > maxRetries+1 {
				t.Fatalf("max_retries %d: claim %d", maxRetries, v.Attempt)
			}
			now = later(now, v.NextLook())
		}
		want := map[int64]string{0: "1 attempts", 1: "2 attempts", 3: "4 attempts", 10: "11 attempts"}[maxRetries]
		if v.Status != task.Failed || v.Attempt != maxRetries+1 || v.LastError != "Timeout after max retries ("+want+")" {
			t.Errorf("max_retries %d: %s after %d claims, %q", maxRetries, v.Status, v.Attempt, v.LastError)
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	expires := epoch.Add(time.Minute)
	v := pending()
	v.ExpiresAt = &expires
	v.AvailableAt = epoch.Add(time.Hour)
	if !v.NextLook().Equal(expires) {
		t.Errorf("next look at %v, want when it expires", v.NextLook())
	}
	if _, _, err := task.Apply(v, task.Expire{}, expires.Add(-1)); err == nil {
		t.Error("expired a nanosecond early")
	}
	got, _ := mustApply(t, v, task.Expire{}, expires)
	if got.Status != task.Expired || !got.CompletedAt.Equal(expires) {
		t.Errorf("got %+v", got)
	}

	run := running(t) // a running task finishes
	run.ExpiresAt = &expires
	if _, _, err := task.Apply(run, task.Expire{}, expires); err == nil {
		t.Error("a running task expired")
	}
	if run, _ = mustApply(t, run, task.Success{}, expires.Add(time.Hour)); run.Status != task.Completed {
		t.Errorf("status %s", run.Status)
	}
}

func TestACancelledRunEndsCancelled(t *testing.T) {
	t.Parallel()
	over := epoch.Add(lease)
	tests := []struct {
		name  string
		event task.Event
		check func(task.Task) bool
	}{
		{"an output that came in time is kept", task.Success{Output: json.RawMessage(`1`)}, func(v task.Task) bool { return string(v.Output) == "1" }},
		{"an error is told and not retried", task.Failure{Error: "stopped"}, func(v task.Task) bool { return v.LastError == "stopped" && v.RetryCount == 0 }},
		{"a permanent error", task.Failure{Error: "stopped", Permanent: true}, func(v task.Task) bool { return v.LastError == "stopped" }},
		{"a sleep is not slept", task.Reschedule{Delay: time.Hour}, func(v task.Task) bool { return v.RescheduleCount == 0 }},
		{"a dead worker", task.LeaseOver{}, func(v task.Task) bool { return v.RetryCount == 0 }},
	}
	for _, tt := range tests {
		v, effects := mustApply(t, running(t), task.Cancel{}, epoch)
		if v.Status != task.Running || !v.CancelRequested || v.LeaseID == "" || effects.Finished {
			t.Fatalf("after the request: %+v", v)
		}
		v, effects = mustApply(t, v, tt.event, over)
		if v.Status != task.Cancelled || !effects.Finished || !tt.check(v) {
			t.Errorf("%s: %+v", tt.name, v)
		}
	}
}

func TestCancellingTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	for _, v := range []task.Task{pending(), running(t)} {
		once, _ := mustApply(t, v, task.Cancel{}, epoch)
		twice, effects := mustApply(t, once, task.Cancel{}, epoch.Add(time.Hour))
		if !reflect.DeepEqual(once, twice) || effects.Outcome != task.OutcomeUnchanged {
			t.Errorf("%s: %+v, %+v", v.Status, twice, effects)
		}
	}
	_, _, err := task.Apply(in(t, task.Completed), task.Cancel{}, epoch)
	if err == nil || err.Error() != "cannot cancel task t1: it is completed" {
		t.Errorf("error %v does not name the status", err)
	}
}

func TestReplayResetsEveryCounter(t *testing.T) {
	t.Parallel()
	past, ahead := epoch.Add(-time.Hour), epoch.Add(time.Hour)
	v := in(t, task.Failed)
	v.Revision, v.RetryCount, v.RescheduleCount, v.ThrottleCount = 9, 3, 50, 7
	v.Output, v.OutputRef, v.Checkpoint = json.RawMessage(`1`), &task.PayloadRef{}, json.RawMessage(`2`)
	v.CancelRequested, v.UnhandledSince, v.ExpiresAt = true, &past, &past
	v.Input, v.Tags = json.RawMessage(`{"a":1}`), map[string]string{"a": "b"}
	got, effects := mustApply(t, v, task.Replay{InboxVersion: "v2"}, epoch)
	want := pending()
	want.Input, want.Tags, want.Revision, want.InboxVersion = v.Input, v.Tags, 10, "v2"
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !effects.WakeAt.Equal(epoch) || effects.Finished {
		t.Errorf("effects %+v", effects)
	}
	v.ExpiresAt = &ahead
	if got, _ := mustApply(t, v, task.Replay{}, epoch); got.ExpiresAt == nil || !got.ExpiresAt.Equal(ahead) {
		t.Error("an expires_at ahead was dropped")
	}
}

// A wake-up for a task that was cancelled while it slept finds nothing to do.
func TestCancelledWhileAsleep(t *testing.T) {
	t.Parallel()
	v, _ := mustApply(t, running(t), task.Reschedule{Delay: time.Hour}, epoch)
	v, effects := mustApply(t, v, task.Cancel{}, epoch)
	if v.Status != task.Cancelled || !effects.WakeAt.IsZero() || !v.NextLook().IsZero() {
		t.Errorf("got %+v, %+v", v, effects)
	}
	woken := epoch.Add(time.Hour)
	if _, _, err := task.Apply(v, claim(woken), woken); err == nil {
		t.Error("a cancelled task was claimed")
	}
}

func TestNothingWraps(t *testing.T) {
	t.Parallel()
	v := pending()
	v.Attempt, v.RetryCount, v.RescheduleCount, v.ThrottleCount = task.MaxCount, task.MaxCount-1, task.MaxCount, task.MaxCount
	v.MaxRetries = task.MaxCount
	v, _ = mustApply(t, v, task.Throttle{Policy: "p"}, epoch)
	v, _ = mustApply(t, v, claim(epoch), epoch)
	v, _ = mustApply(t, v, task.Reschedule{}, epoch)
	v, _ = mustApply(t, v, claim(epoch), epoch)
	v, _ = mustApply(t, v, task.Failure{}, epoch)
	for _, n := range []int64{v.Attempt, v.RetryCount, v.RescheduleCount, v.ThrottleCount} {
		if n != task.MaxCount {
			t.Errorf("a counter is %d", n)
		}
	}
	if !v.AvailableAt.Equal(epoch.Add(time.Minute)) {
		t.Errorf("backoff until %v", v.AvailableAt)
	}
	mustDecode(t, v.Encode())
}

func TestErrorsAreCut(t *testing.T) {
	t.Parallel()
	if got := task.CapError("short é"); got != "short é" {
		t.Errorf("got %q", got)
	}
	if got := task.CapError("a\xffb"); got != "a\uFFFDb" {
		t.Errorf("got %q", got)
	}
	for shift := range 4 {
		got := task.CapError(strings.Repeat("x", shift) + strings.Repeat("😀", 2000))
		if len(got) > task.MaxErrorBytes || !utf8.ValidString(got) || !strings.HasSuffix(got, "… (cut)") {
			t.Errorf("%d bytes, ends in %q", len(got), got[len(got)-12:])
		}
	}
	v, _ := mustApply(t, running(t), task.Failure{Error: strings.Repeat("x", 1<<20)}, epoch)
	if len(v.LastError) != task.MaxErrorBytes {
		t.Errorf("last_error has %d bytes", len(v.LastError))
	}
}
