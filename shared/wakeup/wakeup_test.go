package wakeup_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"
	"github.com/aws/smithy-go"
	"pgregory.net/rapid"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/wakeup"
)

func TestSecondRoundsUpAndIsNeverInThePast(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 600_000_000)
	tests := []struct {
		name  string
		at    time.Time
		spent int64
		want  int64
	}{
		{"a whole second is kept", time.Unix(1010, 0), 0, 1010},
		{"a fraction is rounded up", time.Unix(1010, 1), 0, 1011},
		{"now is far enough ahead to arrive in time", now, 0, 1003},
		{"the past is now", time.Unix(1, 0), 0, 1003},
		{"the spent second is not used again", time.Unix(1010, 0), 1010, 1011},
		{"another spent second does not matter", time.Unix(1010, 0), 1009, 1010},
		{"a far time is armed in legs", now.Add(10 * wakeup.MaxLeg), 0, now.Add(wakeup.MaxLeg).Unix()},
		{"the end of time", task.MaxTime, 0, now.Add(wakeup.MaxLeg).Unix()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := wakeup.Second(tt.at, now, tt.spent); got != tt.want {
				t.Errorf("Second = %d, want %d", got, tt.want)
			}
		})
	}
}

func TestEveryNameFitsAScheduleAndIsOfOneTaskAndSecond(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9_-]{0,51}`).Draw(t, "id")
		second := rapid.Int64Range(0, task.MaxTime.Unix()).Draw(t, "second")
		name := wakeup.Name(id, second)
		if len(name) > 64 || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
			t.Fatalf("name %q does not fit", name)
		}
		if gotID, gotSecond, ok := wakeup.ParseName(name); gotID != id || gotSecond != second || !ok {
			t.Fatalf("name %q is that of task %q at %d, %v; want %q, %d", name, gotID, gotSecond, ok, id, second)
		}
	})
	for _, other := range []string{"", "nothing", "a-", "a-B", "a-01", "a-+1"} {
		if _, _, ok := wakeup.ParseName(other); ok {
			t.Errorf("%q is taken for a wake-up", other)
		}
	}
}

var config = wakeup.Config{
	Group:         "sluice",
	RoleARN:       "arn:aws:iam::000000000000:role/scheduler",
	TargetARN:     "arn:aws:lambda:us-east-1:000000000000:function:claim",
	DeadLetterARN: "arn:aws:sqs:us-east-1:000000000000:dead",
}

// setup is an armer on an embedded Scheduler, and a client to look at it.
func setup(t *testing.T) (*wakeup.Armer, *scheduler.Client, *cloud.Cloud) {
	t.Helper()
	c := cloud.New(cloud.Options{})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	client := scheduler.NewFromConfig(c.Config())
	if _, err := client.CreateScheduleGroup(t.Context(), &scheduler.CreateScheduleGroupInput{Name: &config.Group}); err != nil {
		t.Fatal(err)
	}
	return wakeup.New(client, config), client, c
}

func TestArmedTwiceIsOneScheduleThatDeletesItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		armer, client, _ := setup(t)
		at := time.Now().Add(time.Hour)
		for range 2 {
			if second, err := armer.Arm(t.Context(), "task-1", at, time.Now(), 0); err != nil || second != at.Unix() {
				t.Fatalf("Arm = %d, %v; want %d", second, err, at.Unix())
			}
		}
		got, err := client.GetSchedule(t.Context(), &scheduler.GetScheduleInput{
			GroupName: &config.Group, Name: aws.String(wakeup.Name("task-1", at.Unix())),
		})
		if err != nil {
			t.Fatal(err)
		}
		var event wakeup.Event
		if err := json.Unmarshal([]byte(aws.ToString(got.Target.Input)), &event); err != nil || event != (wakeup.Event{TaskID: "task-1", Second: at.Unix()}) {
			t.Errorf("input = %s", aws.ToString(got.Target.Input))
		}
		if got.ActionAfterCompletion != types.ActionAfterCompletionDelete || got.Target.DeadLetterConfig == nil ||
			aws.ToInt32(got.Target.RetryPolicy.MaximumRetryAttempts) > 20 {
			t.Errorf("schedule = %+v, target = %+v", got, got.Target)
		}
	})
}

// fakeScheduler refuses as told, and keeps what it was asked.
type fakeScheduler struct {
	errs  []error
	asked []string
}

func (f *fakeScheduler) CreateSchedule(_ context.Context, in *scheduler.CreateScheduleInput, _ ...func(*scheduler.Options)) (*scheduler.CreateScheduleOutput, error) {
	f.asked = append(f.asked, aws.ToString(in.ScheduleExpression))
	if len(f.asked) <= len(f.errs) {
		return nil, f.errs[len(f.asked)-1]
	}
	return &scheduler.CreateScheduleOutput{}, nil
}

func TestASecondThatPassedOnTheWayIsMovedAhead(t *testing.T) {
	t.Parallel()
	past := &smithy.GenericAPIError{Code: "ValidationException", Message: "at() is in the past"}
	f := &fakeScheduler{errs: []error{past}}
	second, err := wakeup.New(f, config).Arm(t.Context(), "t", time.Unix(1000, 0), time.Unix(1000, 0), 0)
	if err != nil || second != 1004 || len(f.asked) != 2 {
		t.Errorf("Arm = %d, %v after %v; want 1004", second, err, f.asked)
	}
}

func TestOtherErrorsAreReturnedNamingTheTask(t *testing.T) {
	t.Parallel()
	f := &fakeScheduler{errs: []error{&smithy.GenericAPIError{Code: "ServiceQuotaExceededException"}}}
	_, err := wakeup.New(f, config).Arm(t.Context(), "task-9", time.Unix(1000, 0), time.Unix(1000, 0), 0)
	var api smithy.APIError
	if !errors.As(err, &api) || !strings.Contains(err.Error(), "task-9") || len(f.asked) != 1 {
		t.Errorf("Arm: %v after %v", err, f.asked)
	}
}
