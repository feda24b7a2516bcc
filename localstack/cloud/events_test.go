package cloud_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
)

// keysOf are the keys of the objects that S3 events tell of.
func keysOf(t *testing.T, payloads []string) []string {
	t.Helper()
	keys := make([]string, 0, len(payloads))
	for _, payload := range payloads {
		var event events.S3Event
		if err := json.Unmarshal([]byte(payload), &event); err != nil {
			t.Fatal(err)
		}
		for _, record := range event.Records {
			keys = append(keys, record.S3.Object.URLDecodedKey)
		}
	}
	return keys
}

func TestNewObjectsInvokeTheFunctionOfTheirPrefix(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, cloud.Options{})
		inbox, logs := &payloads{}, &payloads{}
		b.register(t, inbox.function("claim"))
		b.register(t, logs.function("logs"))
		for range 2 { // the second time changes nothing
			if err := b.NotifyOnCreate(bucket, "inbox/", "claim"); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.NotifyOnCreate(bucket, "logs/", "logs"); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"inbox/a b", "tasks/x", "logs/1"} {
			b.mustPut(t, key, "{}")
		}
		synctest.Wait()
		if got := keysOf(t, inbox.list()); !slices.Equal(got, []string{"inbox/a b"}) {
			t.Errorf("claim was told of %q", got)
		}
		if got := keysOf(t, logs.list()); !slices.Equal(got, []string{"logs/1"}) {
			t.Errorf("logs was told of %q", got)
		}
		if err := b.NotifyOnCreate("no-such-bucket", "", "claim"); err == nil {
			t.Error("a notification on an absent bucket was taken")
		}
		if got := b.Requests().Snapshot().String(); got != "s3.PutObject=3" {
			t.Errorf("counted %q", got)
		}
	})
}

func TestDeliveryOfS3Events(t *testing.T) {
	t.Parallel()
	const n = 200
	tests := []struct {
		name     string
		delivery cloud.Delivery
		times    func(deliveries int) bool
	}{
		{"reliable", cloud.Delivery{}, func(d int) bool { return d == n }},
		{"all twice", cloud.Delivery{Duplicate: 1}, func(d int) bool { return d == 2*n }},
		{"none", cloud.Delivery{Drop: 1}, func(d int) bool { return d == 0 }},
		{"some twice", cloud.Delivery{Duplicate: 0.5}, func(d int) bool { return d > n && d < 2*n }},
		{"some lost", cloud.Delivery{Drop: 0.5}, func(d int) bool { return d > 0 && d < n }},
		{"delayed", cloud.Delivery{MinDelay: time.Second, MaxDelay: time.Minute}, func(d int) bool { return d == n }},
		{"reordered", cloud.Delivery{Reorder: 0.5}, func(d int) bool { return d == n }},
		{"planned", cloud.Delivery{Drop: 1, Plan: func(cloud.Event) []time.Duration { return []time.Duration{0, time.Hour, time.Hour} }}, func(d int) bool { return d == 3*n }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, cloud.Options{})
				seen := watch(t, b)
				b.SetDelivery(cloud.S3Events, tt.delivery)
				sent := make([]string, 0, n)
				for i := range n {
					key := strings.Repeat("k", i+1)
					sent = append(sent, key)
					b.mustPut(t, key, "")
				}
				time.Sleep(2 * time.Hour)
				got := keysOf(t, seen.list())
				if !tt.times(len(got)) {
					t.Errorf("%d deliveries of %d events", len(got), n)
				}
				if tt.name == "reordered" && slices.Equal(got, sent) {
					t.Error("all events came in order")
				}
			})
		})
	}
}

func TestSchedulesInvokeTheirTarget(t *testing.T) {
	opts := cloud.Options{}
	opts.Scheduler.Lateness = func() time.Duration { return 30 * time.Second }
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, opts)
		woken := &payloads{}
		b.register(t, woken.function("claim"))
		client := scheduler.NewFromConfig(b.Config())
		due := time.Now().Add(time.Hour)
		if err := schedule(t.Context(), client, "default", "task-1", due, b.Lambda().ARN("claim"), ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(due.Add(29 * time.Second)))
		if got := woken.list(); len(got) != 0 {
			t.Errorf("woken early: %q", got)
		}
		time.Sleep(2 * time.Second)
		if got := woken.list(); !slices.Equal(got, []string{`{"task_id":"task-1"}`}) {
			t.Errorf("woken by %q", got)
		}
		_, err := client.GetSchedule(t.Context(), &scheduler.GetScheduleInput{Name: aws.String("task-1")})
		if codeOf(err) != "ResourceNotFoundException" {
			t.Errorf("the schedule is still there: %v", err)
		}
	})
}

func TestWakeupsCanBeDoubledAndLost(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		delivery cloud.Delivery
		times    int
	}{
		"doubled": {cloud.Delivery{Duplicate: 1}, 2},
		"lost":    {cloud.Delivery{Drop: 1}, 0},
		"late":    {cloud.Delivery{MinDelay: time.Minute, MaxDelay: time.Minute}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, cloud.Options{})
				woken := &payloads{}
				b.register(t, woken.function("claim"))
				b.SetDelivery(cloud.Wakeups, want.delivery)
				if err := schedule(t.Context(), scheduler.NewFromConfig(b.Config()), "default", "s", time.Now().Add(time.Minute), b.Lambda().ARN("claim"), ""); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				if got := woken.list(); len(got) != want.times {
					t.Errorf("woken %d times, want %d", len(got), want.times)
				}
			})
		})
	}
}

func TestWakeupsOfAnAbsentFunctionBecomeDeadLetters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, cloud.Options{})
		arn, err := b.SQS().CreateQueue("dead")
		if err != nil {
			t.Fatal(err)
		}
		if err := schedule(t.Context(), scheduler.NewFromConfig(b.Config()), "default", "s", time.Now().Add(time.Minute), b.Lambda().ARN("absent"), arn); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		dead := b.SQS().Messages("dead")
		if len(dead) != 1 || dead[0].Body != `{"task_id":"s"}` {
			t.Fatalf("dead letters: %+v", dead)
		}
		for name, want := range map[string]string{
			"ERROR_CODE": "AWS.Lambda.ResourceNotFoundException", "EXHAUSTED_RETRY_CONDITION": "MaximumRetryAttempts", "RETRY_ATTEMPTS": "1",
		} {
			if got := dead[0].Attributes[name].StringValue; got != want {
				t.Errorf("%s = %q, want %q", name, got, want)
			}
		}
	})
}

func TestFailuresOfAFunctionGoToItsQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, cloud.Options{})
		onFailure, err := b.DeadLetterQueue("failures")
		if err != nil {
			t.Fatal(err)
		}
		b.register(t, lambdaemu.Function{Name: "claim", OnFailure: onFailure, Runtime: lambdaemu.Func(func(context.Context, []byte) ([]byte, error) {
			return nil, errors.New("no luck")
		})})
		if err := b.NotifyOnCreate(bucket, "inbox/", "claim"); err != nil {
			t.Fatal(err)
		}
		b.mustPut(t, "inbox/a", "{}")
		time.Sleep(10 * time.Minute)
		client := sqs.NewFromConfig(b.Config())
		url, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("failures")})
		if err != nil {
			t.Fatal(err)
		}
		out, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url.QueueUrl})
		if err != nil || len(out.Messages) != 1 {
			t.Fatalf("received %+v, %v", out, err)
		}
		var record lambdaemu.FailureRecord
		if err := json.Unmarshal([]byte(*out.Messages[0].Body), &record); err != nil {
			t.Fatal(err)
		}
		if record.RequestContext.Condition != lambdaemu.RetriesExhausted || record.RequestContext.ApproximateInvokeCount != 3 {
			t.Errorf("record %+v", record)
		}
		if got := keysOf(t, []string{string(record.RequestPayload)}); !slices.Equal(got, []string{"inbox/a"}) {
			t.Errorf("the record is about %q", got)
		}
	})
}

func TestCronInvokesUntilItIsStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, cloud.Options{})
		swept := &payloads{}
		b.register(t, swept.function("sweep"))
		stop := b.Cron("sweep", time.Minute, []byte(`"tick"`))
		time.Sleep(5*time.Minute + time.Second)
		if got := swept.list(); len(got) != 5 {
			t.Errorf("%d ticks in 5 minutes", len(got))
		}
		stop()
		time.Sleep(time.Hour)
		if got := swept.list(); len(got) != 5 {
			t.Errorf("%d ticks, 5 of them before it was stopped", len(got))
		}
	})
}

func TestUndeliverableEventsAreLogged(t *testing.T) {
	var lines []string
	opts := cloud.Options{}
	opts.Lambda.LogSink = func(_, _, line string) { lines = append(lines, line) }
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, opts)
		if err := b.NotifyOnCreate(bucket, "", "absent"); err != nil {
			t.Fatal(err)
		}
		b.mustPut(t, "k", "")
		if len(lines) != 1 || !strings.Contains(lines[0], "Function not found") {
			t.Errorf("log: %q", lines)
		}
	})
}
