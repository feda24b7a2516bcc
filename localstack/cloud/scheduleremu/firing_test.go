package scheduleremu_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"

	"github.com/sluice-dev/sluice/localstack/cloud/scheduleremu"
)

// A one-shot schedule fires at its second, once, and then is gone.
func TestOneShotFiresAndVanishes(t *testing.T) {
	t.Parallel()
	bubble(t, scheduleremu.Options{}, func(t *testing.T, b *bundle) {
		b.create(t, "one", b.at(5*time.Second))
		time.Sleep(5*time.Second - 1)
		synctest.Wait()
		if n := len(b.fired.all()); n != 0 {
			t.Fatalf("fired %d times before its time", n)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		fires := b.fired.all()
		if len(fires) != 1 || fires[0].Input != `{"task_id":"one"}` || fires[0].TargetARN != function ||
			fires[0].RoleARN != role || fires[0].Attempt != 1 || !fires[0].Scheduled.Equal(b.start.Add(5*time.Second)) {
			t.Fatalf("fired %+v", fires)
		}
		_, err := b.tryGet(t, "one")
		expect(t, "GetSchedule", err, "404 ResourceNotFoundException")
		time.Sleep(48 * time.Hour)
		if n := len(b.fired.all()); n != 1 {
			t.Errorf("fired %d times", n)
		}
	})
}

// Without DELETE a finished schedule stays, and keeps its name.
func TestFinishedScheduleStays(t *testing.T) {
	t.Parallel()
	bubble(t, scheduleremu.Options{}, func(t *testing.T, b *bundle) {
		keep := func(in *scheduler.CreateScheduleInput) { in.ActionAfterCompletion = "" }
		b.create(t, "one", b.at(time.Second), keep)
		time.Sleep(time.Minute)
		synctest.Wait()
		out, err := b.tryGet(t, "one")
		expect(t, "GetSchedule", err, "ok")
		if out != nil && out.ActionAfterCompletion != types.ActionAfterCompletionNone {
			t.Errorf("action %s", out.ActionAfterCompletion)
		}
		expect(t, "CreateSchedule", b.tryCreate(t, "one", b.at(time.Hour), keep), "409 ConflictException")
	})
}

// While a target is being invoked the schedule is still there.
func TestScheduleExistsUntilItsInvocationReturns(t *testing.T) {
	t.Parallel()
	options := scheduleremu.Options{OnFire: func(ctx context.Context, _ scheduleremu.Fire) error {
		time.Sleep(10 * time.Second)
		return ctx.Err()
	}}
	bubble(t, options, func(t *testing.T, b *bundle) {
		b.create(t, "one", b.at(time.Second))
		time.Sleep(5 * time.Second)
		expect(t, "CreateSchedule", b.tryCreate(t, "one", b.at(time.Hour)), "409 ConflictException")
		time.Sleep(10 * time.Second)
		expect(t, "CreateSchedule", b.tryCreate(t, "one", b.at(time.Hour)), "ok")
	})
}

func TestKeywordsInInput(t *testing.T) {
	t.Parallel()
	bubble(t, scheduleremu.Options{}, func(t *testing.T, b *bundle) {
		b.create(t, "one", b.at(90*time.Second), func(in *scheduler.CreateScheduleInput) {
			in.Target.Input = aws.String(`{"arn":"<aws.scheduler.schedule-arn>","at":"<aws.scheduler.scheduled-time>",` +
				`"id":"<aws.scheduler.execution-id>","n":<aws.scheduler.attempt-number>,"x":"<aws.scheduler.other>"}`)
		})
		b.create(t, "two", b.at(91*time.Second), func(in *scheduler.CreateScheduleInput) { in.Target.Input = nil })
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		fires := b.fired.all()
		want := `{"arn":"arn:aws:scheduler:us-east-1:000000000000:schedule/default/one","at":"2000-01-01T00:01:30Z",` +
			`"id":"` + fires[0].ExecutionID + `","n":1,"x":"<aws.scheduler.other>"}`
		if fires[0].Input != want || fires[0].ExecutionID == "" {
			t.Errorf("input %s, want %s", fires[0].Input, want)
		}
		if in := fires[1].Input; !strings.Contains(in, `"detail-type":"Scheduled Event"`) || !strings.Contains(in, "2000-01-01T00:01:31Z") {
			t.Errorf("input made up: %s", in)
		}
	})
}

// Retries, by the retry policy and its bounds.
func TestRetriesAndDeadLetters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		failures   int // of the target, before it succeeds
		retries    int32
		age        int32
		attempts   int
		condition  string // of the dead letter, "" for none
		retryDelay func(int) time.Duration
	}{
		{"success", 0, 3, 3600, 1, "", nil},
		{"success on the last retry", 3, 3, 3600, 4, "", nil},
		{"retries used up", 100, 3, 3600, 4, "MaximumRetryAttempts", nil},
		{"no retries", 100, 0, 3600, 1, "MaximumRetryAttempts", nil},
		{"too old", 100, 185, 60, 4, "MaximumEventAgeInSeconds", func(int) time.Duration { return 20 * time.Second }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			log := &fireLog{}
			failed := errors.New("throttled")
			options := scheduleremu.Options{RetryDelay: c.retryDelay, OnDeadLetter: log.addDead,
				OnFire: func(ctx context.Context, f scheduleremu.Fire) error {
					_ = log.add(ctx, f)
					if f.Attempt <= c.failures {
						return failed
					}
					return nil
				}}
			bubble(t, options, func(t *testing.T, b *bundle) {
				b.create(t, "one", b.at(time.Second), func(in *scheduler.CreateScheduleInput) {
					in.Target.RetryPolicy = &types.RetryPolicy{MaximumRetryAttempts: &c.retries, MaximumEventAgeInSeconds: &c.age}
					in.Target.DeadLetterConfig = &types.DeadLetterConfig{Arn: aws.String(queue)}
				})
				time.Sleep(time.Hour)
				synctest.Wait()
				for i, f := range log.fires {
					if f.Attempt != i+1 {
						t.Errorf("attempt %d is numbered %d", i+1, f.Attempt)
					}
				}
				if len(log.fires) != c.attempts {
					t.Errorf("%d attempts, want %d", len(log.fires), c.attempts)
				}
				switch {
				case c.condition == "" && len(log.dead) != 0:
					t.Errorf("dead letters: %+v", log.dead)
				case c.condition != "" && (len(log.dead) != 1 || log.dead[0].Condition != c.condition ||
					log.dead[0].DeadLetterARN != queue || !errors.Is(log.dead[0].Err, failed) || log.dead[0].Attempt != c.attempts):
					t.Errorf("dead letters: %+v, want one by %s", log.dead, c.condition)
				}
				_, err := b.tryGet(t, "one")
				expect(t, "GetSchedule at the end", err, "404 ResourceNotFoundException")
			})
		})
	}
}

// The hooks make schedules late, double and lost.
func TestLateTwiceAndLost(t *testing.T) {
	t.Parallel()
	options := scheduleremu.Options{
		Lateness: func() time.Duration { return 42 * time.Second },
		Deliver: func(f scheduleremu.Fire) scheduleremu.Delivery {
			return map[string]scheduleremu.Delivery{"lost": scheduleremu.Drop, "twice": scheduleremu.DeliverTwice}[f.Name]
		},
	}
	bubble(t, options, func(t *testing.T, b *bundle) {
		for _, name := range []string{"lost", "twice", "once"} {
			b.create(t, name, b.at(time.Second))
		}
		time.Sleep(43*time.Second - 1)
		synctest.Wait()
		if n := len(b.fired.all()); n != 0 {
			t.Errorf("%d fired early", n)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		count := map[string]int{}
		for _, f := range b.fired.all() {
			count[f.Name]++
		}
		if fmt.Sprint(count) != "map[once:1 twice:2]" {
			t.Errorf("fired %v", count)
		}
		out, err := b.ListSchedules(t.Context(), &scheduler.ListSchedulesInput{})
		if err != nil || len(out.Schedules) != 0 {
			t.Errorf("left: %+v, %v", out, err)
		}
	})
}

func TestRecurringSchedules(t *testing.T) {
	t.Parallel()
	every := func(step time.Duration) []time.Duration {
		var times []time.Duration
		for d := time.Duration(0); d <= 10*time.Minute; d += step {
			times = append(times, d)
		}
		return times
	}
	for _, c := range []struct {
		expression string
		start, end time.Duration // 0 is none
		want       []time.Duration
	}{
		{"rate(5 minutes)", 0, 0, every(5 * time.Minute)}, // the first one at once
		{"rate(1 minute)", 0, 0, every(1 * time.Minute)},
		{"cron(*/2 * * * ? *)", 0, 0, every(2 * time.Minute)},
		{"rate(4 minutes)", 3 * time.Minute, 0, []time.Duration{3 * time.Minute, 7 * time.Minute}},
		{"cron(* * * * ? *)", 150 * time.Second, 5 * time.Minute, []time.Duration{3 * time.Minute, 4 * time.Minute, 5 * time.Minute}},
	} {
		t.Run(c.expression, func(t *testing.T) {
			t.Parallel()
			bubble(t, scheduleremu.Options{}, func(t *testing.T, b *bundle) {
				b.create(t, "recurring", c.expression, func(in *scheduler.CreateScheduleInput) {
					if c.start > 0 {
						in.StartDate = aws.Time(b.start.Add(c.start))
					}
					if c.end > 0 {
						in.EndDate = aws.Time(b.start.Add(c.end))
					}
				})
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				var got []time.Duration
				for _, at := range b.fired.times {
					got = append(got, at.Sub(b.start))
				}
				if fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Errorf("fired at %v, want %v", got, c.want)
				}
				_, err := b.tryGet(t, "recurring")
				want := "ok"
				if c.end > 0 {
					want = "404 ResourceNotFoundException" // the last invocation is over
				}
				expect(t, "GetSchedule", err, want)
			})
		})
	}
}

func TestDeletedDisabledAndUpdatedSchedules(t *testing.T) {
	t.Parallel()
	bubble(t, scheduleremu.Options{}, func(t *testing.T, b *bundle) {
		for _, name := range []string{"deleted", "disabled", "moved"} {
			b.create(t, name, b.at(time.Minute))
		}
		if _, err := b.DeleteSchedule(t.Context(), &scheduler.DeleteScheduleInput{Name: aws.String("deleted")}); err != nil {
			t.Fatal(err)
		}
		update := func(name, expression string, state types.ScheduleState) {
			in := input(name, expression)
			if _, err := b.UpdateSchedule(t.Context(), &scheduler.UpdateScheduleInput{
				Name: in.Name, ScheduleExpression: in.ScheduleExpression, State: state,
				FlexibleTimeWindow: in.FlexibleTimeWindow, Target: in.Target,
			}); err != nil {
				t.Fatal(err)
			}
		}
		update("disabled", b.at(time.Minute), types.ScheduleStateDisabled)
		update("moved", b.at(time.Hour), "")
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		if fires := b.fired.all(); len(fires) != 0 {
			t.Errorf("fired %+v", fires)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if fires := b.fired.all(); len(fires) != 1 || fires[0].Name != "moved" {
			t.Errorf("fired %+v", fires)
		}
		out, err := b.tryGet(t, "moved")
		if err != nil || out.ActionAfterCompletion != types.ActionAfterCompletionNone {
			t.Errorf("the update left out the action after completion, so it is back at its default: %+v, %v", out, err)
		}
	})
}

// Schedules share one timer and a bounded number of goroutines.
func TestManySchedules(t *testing.T) {
	t.Parallel()
	const n = 5_000
	bubble(t, scheduleremu.Options{Concurrency: 16}, func(t *testing.T, b *bundle) {
		b.createMany(t, n)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		b.fired.mu.Lock()
		defer b.fired.mu.Unlock()
		if len(b.fired.fires) != n {
			t.Fatalf("%d fired", len(b.fired.fires))
		}
		for i, f := range b.fired.fires {
			if !f.Scheduled.Equal(b.fired.times[i]) {
				t.Fatalf("%s fired at %s instead of %s", f.Name, b.fired.times[i], f.Scheduled)
			}
		}
	})
}

// createMany spreads schedules over ten minutes, out of order.
func (b *bundle) createMany(tb testing.TB, n int) {
	tb.Helper()
	for i := range n {
		at := b.at(time.Duration(1+i*7919%600) * time.Second)
		status, answer := b.send("POST", fmt.Sprintf("/schedules/task-%05d", i), fmt.Sprintf(plainSchedule, at))
		if status != http.StatusOK {
			tb.Fatalf("status %d: %s", status, answer)
		}
	}
}

// Creating and deleting 50,000 schedules.
func BenchmarkFiftyThousandSchedules(b *testing.B) {
	for b.Loop() {
		many := setup(scheduleremu.Options{})
		many.start = many.start.Add(time.Hour)
		many.createMany(b, 50_000)
		for i := range 50_000 {
			many.send("DELETE", fmt.Sprintf("/schedules/task-%05d", i), "")
		}
		many.server.Close()
	}
}

// After Close nothing fires, and what was under way has returned.
func TestClose(t *testing.T) {
	t.Parallel()
	returned := 0
	options := scheduleremu.Options{OnFire: func(ctx context.Context, _ scheduleremu.Fire) error {
		<-ctx.Done()
		returned++
		return ctx.Err()
	}}
	bubble(t, options, func(t *testing.T, b *bundle) {
		b.create(t, "under-way", b.at(time.Second))
		b.create(t, "later", b.at(time.Minute))
		time.Sleep(2 * time.Second)
		b.server.Close()
		if returned != 1 {
			t.Errorf("%d invocations returned", returned)
		}
		time.Sleep(time.Hour)
		if returned != 1 {
			t.Errorf("something fired after Close")
		}
	})
}
