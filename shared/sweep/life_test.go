package sweep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/localstack/sluicetest"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/sweep"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/worker"
)

// deaf is a Sluice in which no event and no wake-up ever arrives.
func deaf(t *testing.T, opts ...sluicetest.Option) *sluicetest.Stack {
	t.Helper()
	mux := worker.NewMux()
	worker.Handle(mux, "plain", func(_ context.Context, in json.RawMessage) (json.RawMessage, error) { return in, nil })
	worker.Handle(mux, "sleeper", func(ctx context.Context, naps int64) (string, error) {
		if t, _ := worker.TaskFrom(ctx); t.RescheduleCount < naps {
			return "", worker.Reschedule(time.Hour)
		}
		return "rested", nil
	})
	worker.Handle(mux, "failing", func(context.Context, any) (any, error) { return nil, errors.New("boom") })
	worker.Handle(mux, "deadly", func(ctx context.Context, _ any) (any, error) {
		lambdaemu.Exit(ctx)
		return nil, nil
	})
	s := sluicetest.Start(t, mux, opts...)
	s.Cloud.SetDelivery(cloud.S3Events, cloud.Delivery{Drop: 1})
	s.Cloud.SetDelivery(cloud.Wakeups, cloud.Delivery{Drop: 1})
	return s
}

func TestEveryTaskEndsBySweepsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := deaf(t)
		type expectation struct {
			id     string
			status task.Status
			check  func(task.Task) bool
		}
		var want []expectation
		for i := range 12 {
			plain := s.Submit("plain", i)
			sleeper := s.Submit("sleeper", i%4)
			failing := s.Submit("failing", nil, queue.MaxRetries(2))
			deadly := s.Submit("deadly", nil, queue.MaxRetries(1))
			delayed := s.Submit("plain", i, queue.In(time.Duration(i)*time.Hour))
			expiring := s.Submit("plain", nil, queue.In(48*time.Hour), queue.ExpiresIn(time.Hour))
			cancelled := s.Submit("plain", nil, queue.In(time.Hour))
			if _, err := s.Queue.Cancel(t.Context(), cancelled.ID); err != nil {
				t.Fatal(err)
			}
			want = append(want,
				expectation{plain.ID, task.Completed, func(got task.Task) bool { return got.Attempt == 1 && string(got.Output) == fmt.Sprint(i) }},
				expectation{sleeper.ID, task.Completed, func(got task.Task) bool { return got.RescheduleCount == int64(i%4) && got.RetryCount == 0 }},
				expectation{failing.ID, task.Failed, func(got task.Task) bool { return got.Attempt == 3 && got.LastError == "boom" }},
				expectation{deadly.ID, task.Failed, func(got task.Task) bool { return got.LastError == "Timeout after max retries (2 attempts)" }},
				expectation{delayed.ID, task.Completed, func(got task.Task) bool { return !got.UpdatedAt.Before(got.AvailableAt) }},
				expectation{expiring.ID, task.Expired, func(got task.Task) bool { return got.Attempt == 0 }},
				expectation{cancelled.ID, task.Cancelled, func(got task.Task) bool { return got.Attempt == 0 }},
			)
		}
		for _, w := range want {
			if got := s.Wait(w.id); got.Status != w.status || !w.check(got) {
				t.Errorf("task = %s", got.Encode())
			}
		}
		assertInboxEmpty(t, s)
	})
}

// A lost event delays a task by the grace period, the interval of the sweep and
// the length of a run: not more.
func TestALostEventDelaysATaskByTheGraceAndOneInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := deaf(t)
		got := s.Wait(s.Submit("plain", 1).ID)
		if delay := got.CompletedAt.Sub(got.CreatedAt); delay < sweep.DefaultGrace || delay > sweep.DefaultGrace+5*time.Minute+time.Minute {
			t.Errorf("the task ended after %s", delay)
		}
	})
}

func TestWhatIsNoTaskIsSetAsideThoughItsEventWasLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := deaf(t)
		client := s3store.NewClient(s.Config("test"))
		id := s.Submit("plain", 1, queue.In(2*time.Hour)).ID
		odd := []string{"inbox/readme.txt", "inbox/0/a b+c%20é.json", "inbox/1/control\x01.json", "inbox/" + task.Shard("broken") + "/broken.json", s3store.InboxKey(id)}
		for _, key := range odd {
			_, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &s.Bucket, Key: &key, Body: strings.NewReader("no task")})
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		for _, key := range odd {
			out, err := client.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{
				Bucket: &s.Bucket, Prefix: aws.String("quarantine/" + strings.TrimPrefix(key, "inbox/") + "/"), EncodingType: "url",
			})
			if err != nil || len(out.Contents) != 1 {
				t.Errorf("%q was set aside %d times, %v", key, len(out.Contents), err)
			}
		}
		if got := s.Wait(id); got.Status != task.Completed {
			t.Errorf("junk over its inbox object harmed the task: %s", got.Encode())
		}
		assertInboxEmpty(t, s)
	})
}

func TestAReplayIsDoneThoughItsProducerDiedAndItsEventWasLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := deaf(t)
		id := s.Submit("plain", 7, queue.In(time.Hour)).ID
		if _, err := s.Queue.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		s.Cloud.FailNext(10, cloud.Unreachable, func(r *cloud.Request) bool {
			return r.From("producer") && r.Is(cloud.S3, "PutObject") && strings.HasPrefix(r.Key, "tasks/")
		})
		if _, err := s.Queue.Replay(t.Context(), id); err == nil {
			t.Fatal("the producer did not die")
		}
		s.Cloud.SetFault(nil)
		time.Sleep(time.Hour)
		if got := s.Get(id); got.Status != task.Completed || string(got.Output) != "7" {
			t.Errorf("task = %s", got.Encode())
		}
		assertInboxEmpty(t, s)
	})
}

// With a claim function that is down for hours, what the sweep adds to its load
// stays bounded, and all is done when it is back.
func TestTheSweepDoesNotFloodAClaimFunctionThatIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := deaf(t, sluicetest.Sweep(func(c *sweep.Config) { c.MaxTasks = 20 }))
		ids := make([]string, 60)
		for i := range ids {
			ids[i] = s.Submit("plain", i).ID
		}
		var down atomic.Bool
		down.Store(true)
		s.Cloud.SetFault(func(r *cloud.Request) cloud.Fault {
			if down.Load() && r.From("claim") {
				return cloud.InternalError
			}
			return cloud.Fault{}
		})
		time.Sleep(3 * time.Hour)
		if n := s.Cloud.Requests().Snapshot("sweep").Of(cloud.Lambda); n > 3*12 {
			t.Errorf("%d invocations in three hours", n)
		}
		down.Store(false)
		for _, id := range ids {
			if got := s.Wait(id); got.Status != task.Completed || got.Attempt != 1 {
				t.Errorf("task = %s", got.Encode())
			}
		}
	})
}

func assertInboxEmpty(t *testing.T, s *sluicetest.Stack) {
	t.Helper()
	time.Sleep(2 * time.Hour)
	entries, _, err := s.Store("test").ScanInbox(t.Context(), "", 1000)
	if err != nil || len(entries) > 0 {
		t.Errorf("left in the inbox: %v, %v", entries, err)
	}
}

func TestTheEnvironmentConfiguresTheSweep(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		sweep.EnvBucket: "b", sweep.EnvClaimARN: "arn:claim", "AWS_LAMBDA_FUNCTION_NAME": "acme-sweep",
		sweep.EnvGrace: "30m", sweep.EnvMaxRequests: "100", sweep.EnvMaxTasks: "50", sweep.EnvBatchSize: "5",
	}
	c, err := sweep.ConfigFromEnvironment(aws.Config{}, func(name string) string { return env[name] })
	if err != nil || c.Store.Bucket() != "b" || c.ClaimFunction != "arn:claim" || c.FunctionName != "acme-sweep" ||
		c.Grace != 30*time.Minute || c.MaxRequests != 100 || c.MaxTasks != 50 || c.BatchSize != 5 {
		t.Errorf("config = %+v, %v", c, err)
	}
}

func TestAnEnvironmentThatCannotWorkNamesEveryVariable(t *testing.T) {
	t.Parallel()
	env := map[string]string{sweep.EnvGrace: "5", sweep.EnvMaxRequests: "9", sweep.EnvMaxTasks: "many", sweep.EnvBatchSize: "1001"}
	_, err := sweep.FromEnvironment(aws.Config{}, func(name string) string { return env[name] })
	for _, want := range []string{
		sweep.EnvBucket + " is not set", sweep.EnvClaimARN + " is not set", sweep.EnvGrace + ` is "5"`,
		sweep.EnvMaxRequests + ` is "9"`, sweep.EnvMaxTasks + ` is "many"`, sweep.EnvBatchSize + ` is "1001"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v\nit lacks: %s", err, want)
		}
	}
}
