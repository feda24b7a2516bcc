package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
)

func TestASubmitIsOnePut(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		b.submit(map[string]int{"n": 1})
		if got := b.cloud.Requests().Snapshot("producer").String(); got != "s3.PutObject=1" {
			t.Errorf("requests: %s", got)
		}
	})
}

func TestATaskHasTheDefaultsUnlessToldOtherwise(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		got := b.submit(nil)
		want := task.New(got.ID, "job", time.Now())
		want.InboxVersion = got.InboxVersion
		if !reflect.DeepEqual(got, want) {
			t.Errorf("submitted %s\nwant %s", got.Encode(), want.Encode())
		}
		if _, ok := task.IDTime(got.ID); !ok {
			t.Errorf("the id %s is no UUIDv7", got.ID)
		}
		if read := b.get(got.ID); !reflect.DeepEqual(read, want) {
			t.Errorf("read %s\nwant %s", read.Encode(), want.Encode())
		}
	})
}

func TestEveryOptionIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		now := time.Now()
		for name, tt := range map[string]struct {
			opts []queue.Option
			ok   func(task.Task) bool
		}{
			"max retries":           {[]queue.Option{queue.MaxRetries(7)}, func(got task.Task) bool { return got.MaxRetries == 7 }},
			"no retries":            {[]queue.Option{queue.MaxRetries(0)}, func(got task.Task) bool { return got.MaxRetries == 0 }},
			"max reschedules":       {[]queue.Option{queue.MaxReschedules(100)}, func(got task.Task) bool { return *got.MaxReschedules == 100 }},
			"no reschedules":        {[]queue.Option{queue.MaxReschedules(0)}, func(got task.Task) bool { return *got.MaxReschedules == 0 }},
			"unlimited reschedules": {nil, func(got task.Task) bool { return got.MaxReschedules == nil }},
			"timeout":               {[]queue.Option{queue.Timeout(time.Minute)}, func(got task.Task) bool { return got.TimeoutSeconds == 60 }},
			"timeout, rounded up":   {[]queue.Option{queue.Timeout(1500 * time.Millisecond)}, func(got task.Task) bool { return got.TimeoutSeconds == 2 }},
			"the longest timeout":   {[]queue.Option{queue.Timeout(task.MaxTimeoutSeconds * time.Second)}, func(got task.Task) bool { return got.TimeoutSeconds == task.MaxTimeoutSeconds }},
			"in":                    {[]queue.Option{queue.In(90 * time.Minute)}, func(got task.Task) bool { return got.AvailableAt.Equal(now.Add(90 * time.Minute)) }},
			"in, in the past":       {[]queue.Option{queue.In(-time.Hour)}, func(got task.Task) bool { return got.AvailableAt.Equal(now) }},
			"in, for ever":          {[]queue.Option{queue.In(math.MaxInt64)}, func(got task.Task) bool { return got.AvailableAt.Equal(now.Add(math.MaxInt64)) }},
			"at": {[]queue.Option{queue.At(now.Add(time.Hour).In(time.FixedZone("east", 7200)))}, func(got task.Task) bool {
				return got.AvailableAt.Equal(now.Add(time.Hour)) && got.AvailableAt.Location() == time.UTC
			}},
			"at, in the past":    {[]queue.Option{queue.At(now.Add(-time.Hour))}, func(got task.Task) bool { return got.Due(now) }},
			"at no time":         {[]queue.Option{queue.At(time.Time{})}, func(got task.Task) bool { return got.Due(now) }},
			"at the end of time": {[]queue.Option{queue.At(task.MaxTime)}, func(got task.Task) bool { return got.AvailableAt.Equal(task.MaxTime) }},
			"expires in":         {[]queue.Option{queue.ExpiresIn(time.Hour)}, func(got task.Task) bool { return got.ExpiresAt.Equal(now.Add(time.Hour)) }},
			"expires at":         {[]queue.Option{queue.ExpiresAt(now.Add(time.Minute))}, func(got task.Task) bool { return got.ExpiresAt.Equal(now.Add(time.Minute)) }},
			"tags": {[]queue.Option{queue.Tag("org", "acme"), queue.Tag("tier", "gold"), queue.Tag("org", "acme 2")}, func(got task.Task) bool {
				return reflect.DeepEqual(got.Tags, map[string]string{"org": "acme 2", "tier": "gold"})
			}},
			"limits": {[]queue.Option{queue.Limit("vendor", "acme", 3), queue.Limit("daily", "", 0)}, func(got task.Task) bool {
				return slices.Equal(got.Limits, []task.Limit{{Policy: "vendor", Key: "acme", Cost: 3}, {Policy: "daily"}})
			}},
			"id":                   {[]queue.Option{queue.ID("order-7")}, func(got task.Task) bool { return got.ID == "order-7" }},
			"the longest id":       {[]queue.Option{queue.ID(strings.Repeat("x", task.MaxIDBytes))}, func(got task.Task) bool { return len(got.ID) == task.MaxIDBytes }},
			"key, within its type": {[]queue.Option{queue.IdempotencyKey("k")}, func(got task.Task) bool { return got.ID == task.DeriveID("job", "k") && got.IdempotencyKey == "k" }},
			"key, with its scope": {[]queue.Option{queue.Scope("queue"), queue.IdempotencyKey("k")}, func(got task.Task) bool {
				return got.ID == task.DeriveID("queue", "k") && got.IdempotencyScope == "queue"
			}},
			"the longest key":       {[]queue.Option{queue.IdempotencyKey(strings.Repeat("é", task.MaxIdempotencyKeyBytes/2))}, func(got task.Task) bool { return len(got.IdempotencyKey) == task.MaxIdempotencyKeyBytes }},
			"the longest key's kin": {[]queue.Option{queue.IdempotencyKey(strings.Repeat("e\u0301", 300))}, func(got task.Task) bool { return got.ID == task.DeriveID("job", strings.Repeat("e\u0301", 300)) }},
		} {
			got, err := b.Submit(t.Context(), "job", name, tt.opts...)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if !tt.ok(got) {
				t.Errorf("%s: submitted %s", name, got.Encode())
			}
			if read := b.get(got.ID); !tt.ok(read) {
				t.Errorf("%s: read %s", name, read.Encode())
			}
		}
	})
}

func TestWhatIsOutOfBoundsIsRefusedBeforeAnythingIsSent(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		tag := func(n int) []queue.Option {
			var opts []queue.Option
			for i := range n {
				opts = append(opts, queue.Tag(fmt.Sprint(i), "x"))
			}
			return opts
		}
		for want, tt := range map[string]struct {
			taskType string
			input    any
			opts     []queue.Option
		}{
			`"task_type" is missing`:            {"", nil, nil},
			`"task_type" is refused`:            {"a b", nil, nil},
			`"max_retries" is -1`:               {"job", nil, []queue.Option{queue.MaxRetries(-1)}},
			`"max_retries" is 9007199254740992`: {"job", nil, []queue.Option{queue.MaxRetries(1 << 53)}},
			`"max_reschedules" is -1`:           {"job", nil, []queue.Option{queue.MaxReschedules(-1)}},
			`"timeout_seconds" is 0`:            {"job", nil, []queue.Option{queue.Timeout(0)}},
			`"timeout_seconds" is -3599`:        {"job", nil, []queue.Option{queue.Timeout(-time.Hour)}},
			`"timeout_seconds" is 881`:          {"job", nil, []queue.Option{queue.Timeout(881 * time.Second)}},
			`between 1 and 880`:                 {"job", nil, []queue.Option{queue.Timeout(math.MaxInt64)}},
			`"limits" at 1 names no policy`:     {"job", nil, []queue.Option{queue.Limit("p", "", 1), queue.Limit("", "k", 1)}},
			`"limits" has 17 tiers`:             {"job", nil, slices.Repeat([]queue.Option{queue.Limit("p", "k", 1)}, 17)},
			`a key of 1025 bytes`:               {"job", nil, []queue.Option{queue.Limit("p", strings.Repeat("k", 1025), 1)}},
			`cost`:                              {"job", nil, []queue.Option{queue.Limit("p", "k", -1)}},
			`"tags" has 51 tags`:                {"job", nil, tag(51)},
			`a tag's name has 1 to 128 bytes`:   {"job", nil, []queue.Option{queue.Tag("", "x")}},
			`its value at most 256`:             {"job", nil, []queue.Option{queue.Tag("x", strings.Repeat("v", 257))}},
			`a tag that is not valid UTF-8`:     {"job", nil, []queue.Option{queue.Tag("x", "\xff")}},
			`task id "-a" is not valid`:         {"job", nil, []queue.Option{queue.ID("-a")}},
			`task id "" is not valid`:           {"job", nil, []queue.Option{queue.ID("")}},
			`task id "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" is not valid`: {"job", nil, []queue.Option{queue.ID(strings.Repeat("x", 53))}},
			`task id "a/b" is not valid`:           {"job", nil, []queue.Option{queue.ID("a/b")}},
			`"idempotency_key" has 1025 bytes`:     {"job", nil, []queue.Option{queue.IdempotencyKey(strings.Repeat("k", 1025))}},
			`"idempotency_key" is not valid UTF-8`: {"job", nil, []queue.Option{queue.IdempotencyKey("\xff")}},
			`"idempotency_scope" has 1025 bytes`:   {"job", nil, []queue.Option{queue.IdempotencyKey("k"), queue.Scope(strings.Repeat("k", 1025))}},
			`the idempotency key is empty`:         {"job", nil, []queue.Option{queue.IdempotencyKey("")}},
			`the scope of the idempotency key is`:  {"job", nil, []queue.Option{queue.IdempotencyKey("k"), queue.Scope("")}},
			`a scope is given and no`:              {"job", nil, []queue.Option{queue.Scope("s")}},
			`year 9999`:                            {"job", nil, []queue.Option{queue.At(task.MaxTime.Add(time.Second))}},
			`"expires_at" is 10000-01-01`:          {"job", nil, []queue.Option{queue.ExpiresAt(task.MaxTime.Add(time.Second))}},
			`an id and an idempotency key`:         {"job", nil, []queue.Option{queue.ID("a"), queue.IdempotencyKey("k")}},
			`the input can't be written as JSON`:   {"job", make(chan int), nil},
			`the input is not valid JSON`:          {"job", json.RawMessage(`{"a":`), nil},
			`one JSON value in UTF-8`:              {"job", json.RawMessage("\"\xff\""), nil},
			`not valid JSON: it must be`:           {"job", json.RawMessage(`1 2`), nil},
		} {
			got, err := b.Submit(t.Context(), tt.taskType, tt.input, tt.opts...)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error = %v; want %s (submitted %s)", err, want, got.Encode())
			}
		}
		if n := b.cloud.Requests().Snapshot("producer").Total(); n != 0 {
			t.Errorf("%d requests were sent", n)
		}
	})
}

func TestInputsComeOutAsTheyWentIn(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		for _, input := range []string{
			`{"n":12345678901234567890.10,"b":1,"a":[1e2,"\u00e9"]}`, `{"a":1,"a":2}`, `"\ud800"`, `null`, `0`, `""`, ` [ 1 ,2 ] `,
			`"` + strings.Repeat("x", s3store.InlineBytes-2) + `"`, `"` + strings.Repeat("x", s3store.InlineBytes-1) + `"`,
			`{"large": ["` + large("é") + `", 1.10, "\ud800"], "large": 2}`,
		} {
			got := b.submit(json.RawMessage(input))
			for where, got := range map[string]task.Task{"submitted": got, "read": b.get(got.ID)} {
				text := string(got.Input)
				if text == "" {
					text = "null"
				}
				if strings.TrimSpace(text) != strings.TrimSpace(input) || got.InputRef != nil {
					t.Errorf("%s %.80s\nwant %.80s", where, text, input)
				}
			}
		}
	})
}

func TestALargeInputIsAnObjectOfItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		id := b.submit(large("a")).ID
		if got := b.cloud.Requests().Snapshot("producer").String(); got != "s3.PutObject=2" {
			t.Errorf("requests: %s", got)
		}
		sub, err := b.store.Submitted(t.Context(), id)
		if err != nil || sub.Task.InputRef == nil || sub.Task.Input != nil || sub.Task.InputRef.Size != s3store.InlineBytes+2 {
			t.Errorf("submission = %+v, %v", sub, err)
		}
		if n := len(b.versions("payloads/" + id + "/")); n != 1 {
			t.Errorf("%d payloads", n)
		}
	})
}

// A submit whose answer gets lost is repeated by the SDK, and finds its own
// work done: it is accepted once, and says so.
func TestASubmitWhoseAnswerIsLostIsAcceptedOnce(t *testing.T) {
	for name, opts := range map[string][]queue.Option{
		"plain": nil, "with an id": {queue.ID("mine")}, "keyed": {queue.IdempotencyKey("k")},
	} {
		for input, value := range map[string]any{"small": 1, "large": large("x")} {
			for at, fault := range map[string]cloud.Fault{
				"before": cloud.Unreachable, "after": cloud.LostAnswer, "500 after": {Status: 500, Code: "InternalError", After: true},
				"twice": {Repeat: true}, "conflict": cloud.Conflict, "503": cloud.SlowDown,
			} {
				t.Run(name+", "+input+", "+at, func(t *testing.T) {
					inBubble(t, func(t *testing.T, b *bundle) {
						for i := range 5 {
							b.cloud.FailNext(1, fault, func(r *cloud.Request) bool {
								return r.From("producer") && (r.Number+i)%2 == 0 && (at != "conflict" || r.HTTP.Header.Get("If-None-Match") != "")
							})
							got := b.submit(value, append(opts, queue.Tag("i", fmt.Sprint(i)))...)
							if read := b.get(got.ID); read.ID != got.ID || !read.CreatedAt.Equal(got.CreatedAt) {
								t.Errorf("submitted %s, read %s", got.Encode(), read.Encode())
							}
							if n := len(b.versions("inbox/")); n != 1 {
								t.Errorf("%d submissions", n)
							}
							if err := b.Purge(t.Context(), got.ID); err != nil {
								t.Fatal(err)
							}
						}
					})
				})
			}
		}
	}
}

func TestASubmitThatFailsIsAnErrorThatSaysWhy(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		for want, fault := range map[string]cloud.Fault{
			"access to the bucket tasks is denied":   {Status: 403, Code: "AccessDenied"},
			"the bucket tasks does not exist here":   {Status: 404, Code: "NoSuchBucket"},
			"exceeded maximum number of attempts, 3": cloud.InternalError,
			"submit task":                            cloud.Unreachable,
			"api error ConditionalRequestConflict":   cloud.Conflict,
		} {
			b.cloud.FailNext(100, fault, func(r *cloud.Request) bool { return r.From("producer") })
			_, err := b.Submit(t.Context(), "job", 1)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error = %v; want %s", err, want)
			}
			b.cloud.SetFault(nil)
			b.cloud = setup(t).cloud // plans can't be taken back
			b.Queue = queue.New(b.cloud.Config(cloud.Label("producer")), b.bucket)
		}
	})
}

func TestAnIDThatIsTakenIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		b.submit(1, queue.ID("mine"))
		taken := func(state string) {
			time.Sleep(time.Second)
			for _, input := range []any{1, 2, large("x")} {
				if got, err := b.Submit(t.Context(), "job", input, queue.ID("mine")); !errors.Is(err, queue.ErrExists) {
					t.Errorf("%s: %s, %v", state, got.Encode(), err)
				}
			}
			if n := len(b.versions("inbox/")); state == "completed" && n != 0 || state != "completed" && n != 1 {
				t.Errorf("%s: %d submissions", state, n)
			}
		}
		taken("submitted")
		b.apply("mine", claim())
		taken("running")
		b.apply("mine", task.Success{})
		taken("completed")
		if got := b.get("mine"); got.Status != task.Completed || string(got.Input) != "1" {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func TestSubmitManyHandsOverEveryResult(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		const n = 500
		requests := make([]queue.Request, n)
		for i := range requests {
			requests[i] = queue.Request{Type: "job", Input: i, Options: []queue.Option{queue.Tag("i", fmt.Sprint(i))}}
			if i%50 == 7 {
				requests[i].Type = "not valid"
			}
		}
		seen := make(map[int]bool)
		refused := 0
		b.SubmitMany(t.Context(), requests, func(r queue.Result) {
			if seen[r.Index] {
				t.Errorf("result %d came twice", r.Index)
			}
			seen[r.Index] = true
			switch {
			case r.Err != nil:
				refused++
			case r.Task.Tags["i"] != fmt.Sprint(r.Index):
				t.Errorf("result %d is of another request", r.Index)
			}
		})
		if len(seen) != n || refused != n/50 || len(b.versions("inbox/")) != n-n/50 {
			t.Errorf("%d results, %d refused, %d submissions", len(seen), refused, len(b.versions("inbox/")))
		}
	})
}

func TestSubmitManyOfNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		b.SubmitMany(t.Context(), nil, func(queue.Result) { t.Error("a result of nothing") })
	})
}

func TestSubmitManyEndsWithItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		b.cloud.SetLatency(cloud.S3, time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		accepted, failed := 0, 0
		b.SubmitMany(ctx, slices.Repeat([]queue.Request{{Type: "job"}}, 200), func(r queue.Result) {
			if r.Err == nil {
				accepted++
			} else {
				failed++
			}
		})
		if accepted != 64 || failed != 136 {
			t.Errorf("%d accepted, %d failed", accepted, failed)
		}
	})
}
