package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/localstack/sluicetest"
	"github.com/sluice-dev/sluice/localstack/stack"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/sweep"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/worker"
)

// marker is part of everything that users hand in and that no log may hold.
const marker = "s3cr3t"

// confidential is an input, of which everything is secret.
type confidential struct {
	Do   string
	Text string
}

func secret(place string) confidential { return confidential{Do: place, Text: marker + " of " + place} }

func (c confidential) key() string {
	if c.Do == "selector panics" {
		panic(c.Text)
	}
	return c.Text
}

// careless is a handler whose outcomes all hold secrets.
func careless(ctx context.Context, c confidential) (any, error) {
	t, _ := worker.TaskFrom(ctx)
	first := t.Attempt == 1
	switch {
	case c.Do == "error" && first:
		return nil, errors.New(c.Text)
	case c.Do == "fail":
		return nil, worker.Fail(errors.New(c.Text))
	case c.Do == "panic" && first:
		panic(c.Text)
	case c.Do == "sleep" && first, c.Do == "hold" && first:
		return nil, worker.Reschedule(time.Hour, worker.Checkpoint(c.Text), worker.HoldKey())
	case c.Do == "unknown" && first:
		return nil, worker.Unknown(errors.New(c.Text))
	case c.Do == "ignore" && first:
		time.Sleep(time.Hour)
	case c.Do == "unencodable":
		return map[string]any{c.Text: make(chan int)}, nil
	case c.Do == "large":
		return strings.Repeat(c.Text, 20_000), nil
	case c.Do == "settle":
		worker.Settle(ctx, perSecret, 3)
	}
	return c, nil
}

var perSecret = limit.Policy{Name: "per-secret", Rate: limit.Per(1, time.Minute), Max: 1}

// unreliable is a limiter that fails at times, with what it was asked in the error.
type unreliable struct {
	*limit.Memory

	mu   sync.Mutex
	asks int
}

func (u *unreliable) Acquire(ctx context.Context, tiers ...limit.Tier) (*limit.Reservation, error) {
	u.mu.Lock()
	u.asks++
	fails := u.asks%3 == 0
	u.mu.Unlock()
	if fails {
		return nil, fmt.Errorf("%w: no answer", limit.ErrStoreDown)
	}
	return u.Memory.Acquire(ctx, tiers...)
}

func (u *unreliable) Hold(context.Context, limit.Tier, time.Time) error { return limit.ErrStoreDenied }

// sink is a log that several functions write to.
type sink struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (s *sink) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Write(line)
}

func (s *sink) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Split(strings.TrimSpace(s.all.String()), "\n")
}

// Whatever a task holds and whatever becomes of it: no line of a log holds any of it.
func TestNoPayloadAndNoSecretIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory, err := limit.NewMemory(perSecret)
		if err != nil {
			t.Fatal(err)
		}
		limiter, log := &unreliable{Memory: memory}, &sink{}
		logger := slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		mux := worker.NewMux()
		worker.Handle(mux, "free", careless)
		worker.Handle(mux, "limited", careless, worker.WithLimits(limit.By(perSecret, confidential.key)))
		s := sluicetest.Start(t, mux,
			sluicetest.Engine(func(c *worker.Config) { c.Log, c.Limiter = logger, limiter }),
			sluicetest.Sweep(func(c *sweep.Config) { c.Log = logger }),
			sluicetest.Deployment(stack.Options{Timeout: 10 * time.Minute}),
		)
		submitSecrets(t, s)
		time.Sleep(72 * time.Hour)

		s.Cloud.FailNext(1000, cloud.InternalError, func(r *cloud.Request) bool { return r.From("claim") })
		s.Submit("free", secret("S3 down"))
		time.Sleep(time.Hour)

		lines := log.lines()
		for _, line := range lines {
			if strings.Contains(line, marker) {
				t.Errorf("logged: %s", line)
			}
		}
		for _, m := range s.Cloud.SQS().Messages(s.DeadLetters) {
			if strings.Contains(m.Body, marker) {
				t.Errorf("dead letter: %s", m.Body)
			}
		}
		assertLogged(t, lines)
	})
}

// What a limiter is asked about is secret too: the keys are chosen from inputs.
func TestNoKeyOfALimitIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &sink{}
		logger := slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		mux := worker.NewMux()
		var broken atomic.Bool // the table, for the claim function
		worker.Handle(mux, "limited", func(ctx context.Context, c confidential) (any, error) {
			broken.Store(true)
			time.AfterFunc(time.Minute, func() { broken.Store(false) })
			return careless(ctx, c)
		}, worker.WithLimits(limit.By(perSecret, confidential.key)))
		var s *sluicetest.Stack
		s = sluicetest.Start(t, mux, sluicetest.Engine(func(c *worker.Config) {
			c.Log = logger
			c.Limiter = dynamolimit.New(dynamodb.NewFromConfig(s.Config("claim")), s.Table,
				dynamolimit.WithPolicies(1, perSecret), dynamolimit.WithLog(logger))
		}))
		denied := cloud.Fault{Status: http.StatusBadRequest, Code: "AccessDeniedException", Message: "no"}
		for _, fault := range []cloud.Fault{cloud.InternalError, cloud.Unreachable, cloud.LostAnswer, denied, {Delay: time.Minute}} {
			s.Cloud.SetFault(func(r *cloud.Request) cloud.Fault {
				if broken.Load() && r.From("claim") && r.Service == cloud.DynamoDB {
					return fault
				}
				return cloud.Fault{}
			})
			for _, do := range []string{"complete", "hold", "settle", "sleep"} {
				s.Submit("limited", secret(do))
				s.Submit("limited", secret(do))
				time.Sleep(3 * time.Hour)
			}
		}
		lines := log.lines()
		for _, line := range lines {
			if strings.Contains(line, marker) {
				t.Errorf("logged: %s", line)
			}
		}
		if all := strings.Join(lines, "\n"); !strings.Contains(all, "limiter failed") || !strings.Contains(all, "hold failed") || !strings.Contains(all, "settle failed") || !strings.Contains(all, `"outcome":"completed"`) {
			t.Errorf("nothing to be seen: %s", all)
		}
	})
}

// submitSecrets brings tasks, and what is none, into every situation in which something is logged.
func submitSecrets(t *testing.T, s *sluicetest.Stack) {
	t.Helper()
	for _, do := range []string{"complete", "error", "fail", "panic", "sleep", "unknown", "ignore", "unencodable", "large"} {
		s.Submit("free", secret(do), queue.Tag("tag", marker))
	}
	for _, do := range []string{"complete", "error", "hold", "settle", "selector panics", "fail"} {
		s.Submit("limited", secret(do))
		s.Submit("limited", secret(do)) // it is throttled by the one before
	}
	s.Submit("free", secret("keyed"), queue.IdempotencyKey(marker+" key"))
	s.Submit("free", secret("limits of the submission"), queue.Limit(perSecret.Name, marker+" key", 1))
	s.Submit("free", secret("unknown policy"), queue.Limit("unknown", marker+" key", 1))
	s.Submit("free", secret("never"), queue.Limit(perSecret.Name, marker+" key", 2))
	s.Submit("free", marker+" is no input of this handler")
	s.Submit("free", confidential{Do: "complete", Text: strings.Repeat(marker, 50_000)})
	s.Submit("unhandled", secret("unhandled"))
	if _, err := s.Queue.Cancel(t.Context(), s.Submit("free", secret("sleep"), queue.In(time.Hour)).ID); err != nil {
		t.Fatal(err)
	}
	put := func(key, document string) {
		t.Helper()
		_, err := s3store.NewClient(s.Config("test")).PutObject(t.Context(), &s3.PutObjectInput{
			Bucket: &s.Bucket, Key: aws.String(key), Body: strings.NewReader(document),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put(s3store.InboxKey("junk"), marker)
	put(s3store.InboxKey("odd"), `{"task_type":"free","input":1,"max_retries":"`+marker+`"}`)
	put(s3store.InboxKey("twice"), `{"task_type":"free","`+marker+`":1,"`+marker+`":2}`)
	damaged := s.Submit("free", secret("sleep"))
	time.Sleep(time.Second)
	put(s3store.TaskKey(damaged.ID), `{"status":"`+marker+`","input":"`+marker+`"}`)
	_, err := s.Cloud.Lambda().InvokeAsync(s.Function, []byte(`{"task_ids":["`+damaged.ID+`"]}`), lambdaemu.InvokeOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// assertLogged checks that the test has met what it is about.
func assertLogged(t *testing.T, lines []string) {
	t.Helper()
	messages, outcomes := map[string]int{}, map[string]int{}
	for _, text := range lines {
		var line struct{ Msg, Outcome string }
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		messages[line.Msg]++
		outcomes[line.Outcome]++
	}
	for _, m := range []string{
		"task", "throttled", "quarantine", "limiter failed", "hold failed, other tasks of the key go on", "visit failed", "record damaged",
		"handler ignores its context, the process exits and the lease decides", "outcome unknown, the lease decides", "sweep",
	} {
		if messages[m] == 0 {
			t.Errorf("nothing has logged %q: %v", m, messages)
		}
	}
	for _, o := range []task.Outcome{
		task.OutcomeCompleted, task.OutcomeFailed, task.OutcomeRetried, task.OutcomeRescheduled, task.OutcomeThrottled,
		task.OutcomeDeferred, task.OutcomeUnhandled,
	} {
		if outcomes[string(o)] == 0 {
			t.Errorf("no task was %s: %v", o, outcomes)
		}
	}
}
