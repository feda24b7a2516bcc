package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/localstack/sluicetest"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/worker"
)

// stored are the options of a cloud that stores schedules and, for all that a test lives to see, never
// fires one.
func stored() cloud.Options {
	var o cloud.Options
	o.Scheduler.Lateness = func() time.Duration { return 200 * 365 * 24 * time.Hour }

	return o
}

func pumpOf(config aws.Config, group string) *pump {
	return newPump(scheduler.NewFromConfig(config), lambda.NewFromConfig(config), sqs.NewFromConfig(config), group)
}

// runPump pumps every second until the function that it returns is called.
func runPump(t *testing.T, p *pump) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.runEvery(ctx, time.Second)
	}()

	return func() {
		cancel()
		<-ended
	}
}

// A handler sleeps twice: on a cloud that fires nothing it sleeps for ever, with the pump it ends when it
// should, and no schedule is left.
func TestTasksAreWokenOnACloudThatFiresNoSchedules(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mux := worker.NewMux()
		worker.Handle(mux, "job", func(ctx context.Context, _ json.RawMessage) (any, error) {
			switch t, _ := worker.TaskFrom(ctx); t.Attempt {
			case 1:
				return nil, worker.Reschedule(time.Minute)
			case 2:
				return nil, worker.Reschedule(10 * time.Minute)
			}

			return "done", nil
		})
		s := sluicetest.Start(t, mux, sluicetest.Cloud(stored()), sluicetest.NoSweep())
		id := s.Submit("job", nil).ID
		time.Sleep(5 * time.Minute)
		if got := s.Get(id); got.Attempt != 1 {
			t.Fatalf("without a pump: %s", got.Encode())
		}

		p := pumpOf(s.Config("pump"), s.ScheduleGroup)
		pumping := time.Now()
		defer runPump(t, p)()
		got := s.Wait(id)
		took := aws.ToTime(got.CompletedAt).Sub(pumping)
		if got.Status != task.Completed || got.RescheduleCount != 2 || took > 10*time.Minute+5*time.Second {
			t.Errorf("after %v: %s", took, got.Encode())
		}
		if left := list(t, s.Config("test")); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	})
}

func TestManySchedulesAreFiredOnceEach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mux := worker.NewMux()
		worker.Handle(mux, "job", func(context.Context, json.RawMessage) (any, error) { return nil, nil })
		s := sluicetest.Start(t, mux, sluicetest.Cloud(stored()), sluicetest.NoSweep())
		const tasks = 120 // pages of a hundred
		var ids []string
		for range tasks {
			ids = append(ids, s.Submit("job", nil, queue.In(2*time.Minute)).ID)
		}
		time.Sleep(time.Minute)
		var invocations atomic.Int64
		s.Cloud.SetFault(func(r *cloud.Request) cloud.Fault {
			if r.From("pump") && r.Service == cloud.Lambda {
				invocations.Add(1)
			}

			return cloud.Fault{}
		})
		defer runPump(t, pumpOf(s.Config("pump"), ""))()
		for _, id := range ids {
			s.Wait(id)
		}
		if n := invocations.Load(); n != tasks {
			t.Errorf("%d invocations, want %d", n, tasks)
		}
	})
}

// bench is a cloud with a function that counts, and a way to make schedules.
type bench struct {
	*cloud.Cloud

	client  *scheduler.Client
	started atomic.Int64
}

func newBench(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{Cloud: cloud.New(stored())}
		defer func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}()
		b.client = scheduler.NewFromConfig(b.Config())
		err := b.Register(lambdaemu.Function{Name: "f", Runtime: lambdaemu.Func(func(context.Context, []byte) ([]byte, error) {
			b.started.Add(1)

			return nil, nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		test(t, b)
	})
}

// create makes a schedule for in a minute, in the zone of Paris.
func (b *bench) create(t *testing.T, name string, change func(*scheduler.CreateScheduleInput)) {
	t.Helper()
	paris, err := time.LoadLocation("Europe/Paris")
	if err != nil {
		t.Fatal(err)
	}
	in := &scheduler.CreateScheduleInput{
		Name: &name, ScheduleExpression: aws.String("at(" + time.Now().Add(time.Minute).In(paris).Format("2006-01-02T15:04:05") + ")"),
		ScheduleExpressionTimezone: aws.String("Europe/Paris"),
		FlexibleTimeWindow:         &types.FlexibleTimeWindow{Mode: types.FlexibleTimeWindowModeOff},
		ActionAfterCompletion:      types.ActionAfterCompletionDelete,
		Target: &types.Target{
			Arn: aws.String(b.Lambda().ARN("f")), RoleArn: aws.String("arn:aws:iam::000000000000:role/r"), Input: aws.String(`{"a":1}`),
			RetryPolicy: &types.RetryPolicy{MaximumRetryAttempts: aws.Int32(2), MaximumEventAgeInSeconds: aws.Int32(3600)},
		},
	}
	if change != nil {
		change(in)
	}
	if _, err := b.client.CreateSchedule(t.Context(), in); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, config aws.Config) (names []string) {
	t.Helper()
	out, err := scheduler.NewFromConfig(config).ListSchedules(t.Context(), &scheduler.ListSchedulesInput{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range out.Schedules {
		names = append(names, *s.Name)
	}

	return names
}

func TestAScheduleFiresAtItsTimeInItsZoneAndNotBefore(t *testing.T) {
	newBench(t, func(t *testing.T, b *bench) {
		b.create(t, "s", nil)
		p := pumpOf(b.Config(), "default")
		time.Sleep(59 * time.Second)
		pumpOnce(t, p)
		if b.started.Load() != 0 {
			t.Error("it fired early")
		}
		time.Sleep(time.Second)
		pumpOnce(t, p)
		if b.started.Load() != 1 || len(list(t, b.Config())) != 0 {
			t.Errorf("started %d times, left %v", b.started.Load(), list(t, b.Config()))
		}
	})
}

func TestAScheduleThatIsToStayFiresOnceAndStays(t *testing.T) {
	newBench(t, func(t *testing.T, b *bench) {
		b.create(t, "s", func(in *scheduler.CreateScheduleInput) { in.ActionAfterCompletion = types.ActionAfterCompletionNone })
		stop := runPump(t, pumpOf(b.Config(), ""))
		time.Sleep(5 * time.Minute)
		stop()
		if b.started.Load() != 1 || len(list(t, b.Config())) != 1 {
			t.Errorf("started %d times, left %v", b.started.Load(), list(t, b.Config()))
		}
	})
}

func TestAScheduleThatIsUpdatedIsReadAgain(t *testing.T) {
	newBench(t, func(t *testing.T, b *bench) {
		b.create(t, "s", nil)
		p := pumpOf(b.Config(), "")
		pumpOnce(t, p)
		time.Sleep(time.Second)
		_, err := b.client.UpdateSchedule(t.Context(), &scheduler.UpdateScheduleInput{
			Name: aws.String("s"), ScheduleExpression: aws.String("at(" + time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05") + ")"),
			FlexibleTimeWindow: &types.FlexibleTimeWindow{Mode: types.FlexibleTimeWindowModeOff},
			Target:             &types.Target{Arn: aws.String(b.Lambda().ARN("f")), RoleArn: aws.String("arn:aws:iam::000000000000:role/r")},
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Minute)
		pumpOnce(t, p)
		if b.started.Load() != 0 {
			t.Error("it fired at the time that it had before")
		}
		time.Sleep(time.Hour)
		pumpOnce(t, p)
		if b.started.Load() != 1 {
			t.Errorf("started %d times", b.started.Load())
		}
	})
}

func TestWhatThePumpCannotFireIsLeftAlone(t *testing.T) {
	newBench(t, func(t *testing.T, b *bench) {
		b.create(t, "off", func(in *scheduler.CreateScheduleInput) { in.State = types.ScheduleStateDisabled })
		b.create(t, "rate", func(in *scheduler.CreateScheduleInput) { in.ScheduleExpression = aws.String("rate(1 minute)") })
		b.create(t, "queue", func(in *scheduler.CreateScheduleInput) {
			in.Target.Arn = aws.String("arn:aws:sqs:us-east-1:000000000000:q")
		})
		stop := runPump(t, pumpOf(b.Config(), ""))
		time.Sleep(5 * time.Minute)
		stop()
		if b.started.Load() != 0 || len(list(t, b.Config())) != 3 {
			t.Errorf("started %d times, left %v", b.started.Load(), list(t, b.Config()))
		}
	})
}

func TestWhatLambdaDoesNotAcceptIsTriedAgainAndThenADeadLetter(t *testing.T) {
	for name, c := range map[string]struct {
		fails            int
		started, letters int64
	}{"twice": {2, 1, 0}, "for ever": {1000, 0, 1}} {
		t.Run(name, func(t *testing.T) {
			newBench(t, func(t *testing.T, b *bench) {
				arn, err := b.SQS().CreateQueue("dead")
				if err != nil {
					t.Fatal(err)
				}
				b.create(t, "s", func(in *scheduler.CreateScheduleInput) {
					in.Target.DeadLetterConfig = &types.DeadLetterConfig{Arn: &arn}
				})
				b.FailNext(c.fails, cloud.Fault{Status: 403, Code: "AccessDeniedException"}, func(r *cloud.Request) bool { return r.Service == cloud.Lambda })
				stop := runPump(t, pumpOf(b.Config(), ""))
				time.Sleep(time.Hour)
				stop()
				letters := b.SQS().Messages("dead")
				if b.started.Load() != c.started || int64(len(letters)) != c.letters || len(list(t, b.Config())) != 0 {
					t.Errorf("started %d times, %d dead letters, left %v", b.started.Load(), len(letters), list(t, b.Config()))
				}
				for _, l := range letters {
					if l.Body != `{"a":1}` || l.Attributes["ERROR_CODE"].StringValue != "AWS.Lambda.AccessDeniedException" || l.Attributes["RETRY_ATTEMPTS"].StringValue != "2" {
						t.Errorf("dead letter %+v", l)
					}
				}
			})
		})
	}
}

func TestThePumpGoesOnWhenTheSchedulesCannotBeRead(t *testing.T) {
	newBench(t, func(t *testing.T, b *bench) {
		b.create(t, "s", nil)
		stop := runPump(t, pumpOf(b.Config(), ""))
		time.Sleep(30 * time.Second)
		b.FailNext(20, cloud.Fault{Status: 403, Code: "AccessDeniedException"}, func(r *cloud.Request) bool { return r.Service == cloud.Scheduler })
		time.Sleep(5 * time.Minute)
		stop()
		if b.started.Load() != 1 {
			t.Errorf("started %d times", b.started.Load())
		}
	})
}

func pumpOnce(t *testing.T, p *pump) {
	t.Helper()
	if err := p.once(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// The command beside which the pump runs decides how it ends.
func TestThePumpEndsWithItsCommandAndItsExitCode(t *testing.T) {
	if os.Getenv("PUMP_TEST_EXIT") != "" {
		os.Exit(7)
	}
	c := cloud.New(stored())
	defer c.Close()
	endpoint, err := c.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1", "PUMP_TEST_EXIT": "1",
	} {
		t.Setenv(name, value)
	}
	err = run(t.Context(), "", time.Millisecond, []string{os.Args[0], "-test.run", "^" + t.Name() + "$"})
	var failed *exec.ExitError
	if !errors.As(err, &failed) || failed.ExitCode() != 7 {
		t.Errorf("error: %v", err)
	}
	if err := run(t.Context(), "", time.Millisecond, []string{"no-such-command"}); err == nil || !strings.Contains(err.Error(), "no-such-command") {
		t.Errorf("error: %v", err)
	}
}
