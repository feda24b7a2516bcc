package task_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-dev/sluice/shared/task"
)

// anyJSON draws JSON text as producers spell it: white space, escapes, numbers
// of any size, names given twice.
func anyJSON() *rapid.Generator[json.RawMessage] {
	return rapid.Custom(func(t *rapid.T) json.RawMessage { return json.RawMessage(drawJSON(t, 3)) })
}

func drawJSON(t *rapid.T, depth int) string {
	leaves := []string{
		"true", "false", "0", "-0", "1.50", "1e400", "123456789012345678901234567890", `""`, `"a"`, `"\u003c<\/é\u00e9"`,
		`"\ud83d\ude00"`, `"\ud83d"`, `"null"`, "[]", "{}", "[ ]", "{\n}",
	}
	kind := rapid.IntRange(0, 3).Draw(t, "kind")
	if depth == 0 || kind < 2 {
		return rapid.SampledFrom(leaves).Draw(t, "leaf")
	}
	space := rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space")
	items := make([]string, rapid.IntRange(1, 3).Draw(t, "items"))
	for i := range items {
		items[i] = drawJSON(t, depth-1)
		if kind == 3 {
			items[i] = rapid.SampledFrom([]string{`"a"`, `"b"`, `"\u0061"`, `""`}).Draw(t, "name") + space + ":" + items[i]
		}
	}
	body := space + strings.Join(items, ","+space) + space
	if kind == 3 {
		return "{" + body + "}"
	}
	return "[" + body + "]"
}

func instants() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		return epoch.Add(time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "offset")))
	})
}

// submissions draws tasks as a producer may submit them.
func submissions() *rapid.Generator[task.Task] {
	return rapid.Custom(func(t *rapid.T) task.Task {
		taskType := rapid.SampledFrom([]string{"a", "http.request", "_x:y/z-1"}).Draw(t, "type")
		var unknown string
		if rapid.Bool().Draw(t, "has unknown") {
			unknown = fmt.Sprintf(`,"a_field_of_the_future":%s,"Task_Type":"b"`, anyJSON().Draw(t, "unknown"))
		}
		v, err := task.DecodeSubmission([]byte(fmt.Sprintf(`{"task_type":%q%s}`, taskType, unknown)), "t1", instants().Draw(t, "created"))
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "keyed") {
			v.IdempotencyKey = rapid.StringN(1, 20, 100).Draw(t, "key")
			v.IdempotencyScope = rapid.SampledFrom([]string{"", "queue", "é"}).Draw(t, "scope")
			v.ID = task.DeriveID(v.KeyScope(), v.IdempotencyKey)
		}
		switch rapid.IntRange(0, 2).Draw(t, "input") {
		case 0:
			v.Input = anyJSON().Draw(t, "input")
		case 1:
			v.InputRef = &task.PayloadRef{Key: task.PayloadPrefix(v.ID) + "input", Size: 7, SHA256: someSHA256}
		default:
		}
		v.MaxRetries = rapid.Int64Range(0, 3).Draw(t, "max_retries")
		if rapid.Bool().Draw(t, "bounded") {
			most := rapid.Int64Range(0, 3).Draw(t, "max_reschedules")
			v.MaxReschedules = &most
		}
		v.TimeoutSeconds = rapid.Int64Range(1, task.MaxTimeoutSeconds).Draw(t, "timeout")
		v.AvailableAt = instants().Draw(t, "available_at")
		if rapid.IntRange(0, 3).Draw(t, "expires") == 0 {
			at := instants().Draw(t, "expires_at")
			v.ExpiresAt = &at
		}
		for range rapid.IntRange(0, 3).Draw(t, "tiers") {
			v.Limits = append(v.Limits, task.Limit{
				Policy: "p", Key: rapid.StringN(0, 9, 40).Draw(t, "limit key"), Cost: rapid.Int64Range(0, task.MaxCount).Draw(t, "cost"),
			})
		}
		if tags := rapid.MapOfN(rapid.StringN(1, 9, 40), rapid.StringN(0, 9, 40), 0, 3).Draw(t, "tags"); len(tags) > 0 {
			v.Tags = tags
		}
		return v
	})
}

// events draws any event, whether or not it fits the task.
func events(now time.Time) *rapid.Generator[task.Event] {
	return rapid.Custom(func(t *rapid.T) task.Event {
		at := func(name string) time.Time {
			if rapid.IntRange(0, 9).Draw(t, name+" is far") == 0 {
				return rapid.SampledFrom([]time.Time{{}, task.MaxTime, task.MaxTime.Add(time.Hour), now.In(time.FixedZone("", 7200))}).Draw(t, name)
			}
			return now.Add(time.Duration(rapid.Int64Range(-int64(time.Minute), int64(time.Hour)).Draw(t, name)))
		}
		text := func(name string) string { return rapid.SampledFrom([]string{"", "boom", "é\xff"}).Draw(t, name) }
		jitter := rapid.Float64Range(0, 1).Draw(t, "jitter")
		switch rapid.IntRange(0, 15).Draw(t, "event") {
		case 0, 1, 2, 3:
			return task.Claim{
				LeaseID: rapid.SampledFrom([]string{"l1", "l2", ""}).Draw(t, "lease"), WorkerID: "w",
				LeaseExpiresAt: now.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "lease ends"))),
			}
		case 4:
			return task.Success{Output: anyJSON().Draw(t, "output")}
		case 5:
			return task.Failure{Error: text("error"), Permanent: rapid.Bool().Draw(t, "permanent"), Jitter: jitter}
		case 6, 7:
			return task.Reschedule{
				Delay:      time.Duration(rapid.Int64().Draw(t, "delay")),
				At:         rapid.SampledFrom([]time.Time{{}, at("at")}).Draw(t, "has at"),
				Checkpoint: rapid.SampledFrom([]json.RawMessage{nil, anyJSON().Draw(t, "checkpoint")}).Draw(t, "has checkpoint"),
			}
		case 8:
			return task.Throttle{Policy: "p", Key: text("key"), Until: at("until"), WakeAt: at("wake")}
		case 9:
			return task.Defer{Until: at("until"), Reason: text("reason")}
		case 10:
			return task.Unhandled{}
		case 11:
			return task.Reject{Error: text("error")}
		case 12:
			return task.LeaseOver{Jitter: jitter}
		case 13:
			return task.Expire{}
		case 14:
			return task.Cancel{}
		default:
			return task.Replay{InboxVersion: "v"}
		}
	})
}

// walk draws a life of a task and shows every step that was taken.
func walk(t *rapid.T, step func(before, after task.Task, event task.Event, effects task.Effects, now time.Time)) {
	v := submissions().Draw(t, "task")
	now := v.CreatedAt
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		switch rapid.IntRange(0, 3).Draw(t, "time passes") {
		case 0:
			if next := v.NextLook(); next.Sub(now) < 24*time.Hour {
				now = later(now, next)
			}
		case 1:
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "passes")))
		case 2: // another machine's clock is behind
			now = now.Add(-time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "behind")))
		default:
		}
		event := events(now).Draw(t, "event")
		given := v.Encode()
		next, effects, err := task.Apply(v, event, now)
		if !bytes.Equal(given, v.Encode()) {
			t.Fatalf("%T wrote through to the task it was given:\n%s\n%s", event, given, v.Encode())
		}
		if err != nil {
			if !reflect.DeepEqual(next, v) || effects != (task.Effects{}) {
				t.Fatalf("%T was refused and left %s, %+v", event, next.Encode(), effects)
			}
			continue
		}
		step(v, next, event, effects, now)
		v = next
	}
}

func TestEveryStepOfEveryLife(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		walk(t, func(before, after task.Task, event task.Event, effects task.Effects, now time.Time) {
			if after.Status == task.Running && before.Status == task.Pending && (!before.Due(now) || before.ExpiredAt(now)) {
				t.Fatalf("claimed at %v: %s", now, before.Encode())
			}
			if after.Status == task.Pending && after.AvailableAt.Before(now) {
				t.Fatalf("%T at %v: a sleep ends in the past, at %v", event, now, after.AvailableAt)
			}
			_, replay := event.(task.Replay)
			if effects.Outcome == task.OutcomeUnchanged {
				if !reflect.DeepEqual(before, after) {
					t.Fatalf("%T: unchanged, but %+v became %+v", event, before, after)
				}
			} else if after.Revision != before.Revision+1 {
				t.Fatalf("%T: revision %d became %d", event, before.Revision, after.Revision)
			}
			if before.Status.Terminal() && before.Status != after.Status && !replay {
				t.Fatalf("%T led from %s to %s", event, before.Status, after.Status)
			}
			if before.Status == task.Completed {
				t.Fatalf("%T was applied to a completed task", event)
			}
			for _, n := range [][2]int64{
				{before.Attempt, after.Attempt},
				{before.RetryCount, after.RetryCount},
				{before.RescheduleCount, after.RescheduleCount},
				{before.ThrottleCount, after.ThrottleCount},
			} {
				if n[1] < 0 || n[1] > n[0]+1 || n[1] < n[0] && !replay || replay && n[1] != 0 {
					t.Fatalf("%T: a counter went from %d to %d", event, n[0], n[1])
				}
			}
			if !bytes.Equal(before.Input, after.Input) || !reflect.DeepEqual(before.Tags, after.Tags) || !reflect.DeepEqual(before.Limits, after.Limits) {
				t.Fatalf("%T changed what the producer set", event)
			}
			mustBeConsistent(t, after, effects)
		})
	})
}

// mustBeConsistent asserts what holds for a task at any time.
func mustBeConsistent(t *rapid.T, v task.Task, effects task.Effects) {
	runs := v.Status == task.Running
	if (v.LeaseID != "") != runs || (v.LeaseExpiresAt != nil) != runs || (v.WorkerID != "") != runs {
		t.Fatalf("a %s task with the lease %q until %v of %q", v.Status, v.LeaseID, v.LeaseExpiresAt, v.WorkerID)
	}
	if v.Status.Terminal() != v.NextLook().IsZero() || v.Status.Terminal() != (v.CompletedAt != nil) || v.Status.Terminal() != effects.Finished {
		t.Fatalf("a %s task is looked at %v, ended at %v, finished %v", v.Status, v.NextLook(), v.CompletedAt, effects.Finished)
	}
	if v.Status != task.Pending && v.Throttled != nil || v.Status == task.Pending && v.CancelRequested {
		t.Fatalf("a %s task is throttled by %+v, cancel requested %v", v.Status, v.Throttled, v.CancelRequested)
	}
	if !effects.WakeAt.Equal(v.NextLook()) {
		t.Fatalf("woken at %v, looked at %v", effects.WakeAt, v.NextLook())
	}
	if v.RetryCount > v.MaxRetries || v.MaxReschedules != nil && v.RescheduleCount > *v.MaxReschedules {
		t.Fatalf("counters beyond their limits: %+v", v)
	}
	// Every claim ends in one retry, one sleep or the end: a task that only
	// ever kills its workers is claimed max_retries+1 times.
	charged := v.RetryCount + v.RescheduleCount
	switch {
	case v.Status == task.Pending && v.Attempt != charged,
		runs && v.Attempt != charged+1,
		v.Attempt < charged || v.Attempt > charged+1:
		t.Fatalf("a %s task has %d attempts, %d retries and %d sleeps", v.Status, v.Attempt, v.RetryCount, v.RescheduleCount)
	}
	back, err := task.Decode(v.Encode())
	if err != nil {
		t.Fatalf("%v: %s", err, v.Encode())
	}
	if !bytes.Equal(back.Encode(), v.Encode()) || !bytes.Equal(back.Input, v.Input) || !bytes.Equal(back.Output, v.Output) || !bytes.Equal(back.Checkpoint, v.Checkpoint) {
		t.Fatalf("%s\nreads back as\n%s", v.Encode(), back.Encode())
	}
	if v.Throttled != nil {
		v.Throttled = back.Throttled // text that is no UTF-8 was replaced
	}
	if !reflect.DeepEqual(back, v) {
		t.Fatalf("%+v\nreads back as\n%+v", v, back)
	}
}

func TestEveryRecordFitsItsSchema(t *testing.T) {
	t.Parallel()
	schema := compileSchema(t, task.RecordSchema)
	rapid.Check(t, func(t *rapid.T) {
		walk(t, func(_, after task.Task, _ task.Event, _ task.Effects, _ time.Time) {
			if err := schema.Validate(parseJSON(t, string(after.Encode()))); err != nil {
				t.Fatalf("%s: %v", after.Encode(), err)
			}
		})
	})
}

func TestASubmissionReadsBackAsItWas(t *testing.T) {
	t.Parallel()
	schema := compileSchema(t, task.SubmissionSchema)
	rapid.Check(t, func(t *rapid.T) {
		v := submissions().Draw(t, "task")
		v.ReplayRevision = rapid.Int64Range(0, 5).Draw(t, "replay_revision")
		if err := v.Validate(); err != nil {
			t.Fatal(err)
		}
		doc := v.EncodeSubmission()
		if err := schema.Validate(parseJSON(t, string(doc))); err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		back, err := task.DecodeSubmission(doc, v.ID, v.CreatedAt.Add(time.Hour))
		if err != nil {
			t.Fatalf("%v: %s", err, doc)
		}
		if !reflect.DeepEqual(back, v) {
			t.Fatalf("%+v\nreads back as\n%+v", v, back)
		}
	})
}

func TestEveryRunDies(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := submissions().Draw(t, "task")
		v.ExpiresAt = nil
		v.MaxRetries = rapid.Int64Range(0, 20).Draw(t, "max_retries")
		now := later(v.CreatedAt, v.AvailableAt)
		for !v.Status.Terminal() {
			for range rapid.IntRange(0, 2).Draw(t, "denials") {
				v = apply(t, v, task.Throttle{Policy: "p", Until: now.Add(time.Second)}, now)
				now = v.NextLook()
			}
			v = apply(t, v, task.Claim{LeaseID: "l", WorkerID: "w", LeaseExpiresAt: now.Add(time.Minute)}, now)
			now = v.NextLook()
			v = apply(t, v, task.LeaseOver{}, now)
			now = later(now, v.NextLook())
		}
		if v.Status != task.Failed || v.Attempt != v.MaxRetries+1 {
			t.Fatalf("%s after %d claims, want failed after %d", v.Status, v.Attempt, v.MaxRetries+1)
		}
	})
}

func apply(t *rapid.T, v task.Task, event task.Event, now time.Time) task.Task {
	next, _, err := task.Apply(v, event, now)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func TestBackoffIsBoundedAtAnyCount(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n, jitter := rapid.Int64().Draw(t, "n"), rapid.Float64().Draw(t, "jitter")
		if got := task.Backoff(n, jitter); got < 750*time.Millisecond || got > time.Minute {
			t.Fatalf("Backoff(%d, %v) = %v", n, jitter, got)
		}
	})
}
