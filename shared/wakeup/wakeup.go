// Package wakeup arms one-shot EventBridge schedules that wake a sleeping task.
//
// There is one schedule per task and second. Its name is made of both, so that
// arming the same wake-up twice is one schedule, whoever arms it and however often; it
// deletes itself when it has fired. EventBridge fires up to 60 s late and at
// least once: a wake-up is a hint to look at the task, nothing more.
package wakeup

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"

	"github.com/sluice-dev/sluice/shared/awserr"
)

// API is what arming asks of EventBridge Scheduler.
type API interface {
	CreateSchedule(context.Context, *scheduler.CreateScheduleInput, ...func(*scheduler.Options)) (*scheduler.CreateScheduleOutput, error)
}

// Config names the parts of the deployment that a schedule refers to.
type Config struct {
	// Group is the schedule group.
	Group string
	// RoleARN is the role with which Scheduler invokes the target.
	RoleARN string
	// TargetARN is the claim function.
	TargetARN string
	// DeadLetterARN is the SQS queue for wake-ups that could not be delivered.
	// Empty means none.
	DeadLetterARN string
}

// Event is what a wake-up delivers to the claim function.
type Event struct {
	TaskID string `json:"task_id"`
	// Second is the Unix second the wake-up was armed for.
	Second int64 `json:"second"`
	// Early tells that the task is to be looked at although it is not due: its turn may
	// have come earlier than it expected.
	Early bool `json:"early,omitempty"`
}

// MaxLeg is how far ahead a wake-up is armed. A task that sleeps longer is
// woken after each leg and armed again.
const MaxLeg = 90 * 24 * time.Hour

// Bounds of Scheduler's own attempts to deliver one wake-up.
const (
	maxEventAge = time.Hour
	maxAttempts = 10
)

// Armer arms wake-ups. Use [New].
type Armer struct {
	api    API
	config Config
}

// New returns the Armer of a deployment.
func New(api API, config Config) *Armer { return &Armer{api: api, config: config} }

// Arm makes sure that a wake-up of the task is armed for the time, rounded up
// to the second and at least [Lead] ahead, and returns that second. A second that is
// not to be used again, since its schedule has just fired and deletes itself, is given as
// spent (0 for none). That the wake-up is armed already is no error.
func (a *Armer) Arm(ctx context.Context, id string, at, now time.Time, spent int64) (int64, error) {
	return a.arm(ctx, Event{TaskID: id}, at, now, spent)
}

// ArmEarly is Arm for a wake-up before the task is due, see [Event].
func (a *Armer) ArmEarly(ctx context.Context, id string, at, now time.Time) error {
	_, err := a.arm(ctx, Event{TaskID: id, Early: true}, at, now, 0)
	return err
}

func (a *Armer) arm(ctx context.Context, event Event, at, now time.Time, spent int64) (int64, error) {
	const tries = 3
	var err error
	for try := range tries {
		event.Second = Second(at, now.Add(time.Duration(try)*2*time.Second), spent)
		if err = a.create(ctx, event); err == nil {
			return event.Second, nil
		}
		if !awserr.IsValidation(err) { // else: the second passed on the way, or clocks differ
			break
		}
	}
	return 0, fmt.Errorf("arm a wake-up of task %s in schedule group %s: %w", event.TaskID, a.config.Group, err)
}

func (a *Armer) create(ctx context.Context, event Event) error {
	input, err := json.Marshal(event)
	if err != nil {
		return err
	}
	target := &types.Target{
		Arn:     &a.config.TargetARN,
		RoleArn: &a.config.RoleARN,
		Input:   aws.String(string(input)),
		RetryPolicy: &types.RetryPolicy{
			MaximumEventAgeInSeconds: aws.Int32(int32(maxEventAge / time.Second)),
			MaximumRetryAttempts:     aws.Int32(maxAttempts),
		},
	}
	if a.config.DeadLetterARN != "" {
		target.DeadLetterConfig = &types.DeadLetterConfig{Arn: &a.config.DeadLetterARN}
	}
	_, err = a.api.CreateSchedule(ctx, &scheduler.CreateScheduleInput{
		Name:                       aws.String(Name(event.TaskID, event.Second)),
		GroupName:                  &a.config.Group,
		ScheduleExpression:         aws.String(Expression(event.Second)),
		ScheduleExpressionTimezone: aws.String("UTC"),
		FlexibleTimeWindow:         &types.FlexibleTimeWindow{Mode: types.FlexibleTimeWindowModeOff},
		ActionAfterCompletion:      types.ActionAfterCompletionDelete,
		Target:                     target,
	})
	if awserr.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// Name is the name of a task's schedule for a second: the id, "-" and the
// second in base 36, at most 64 characters.
func Name(id string, second int64) string { return id + "-" + strconv.FormatInt(second, 36) }

// ParseName takes a name apart that [Name] has made. It reports false for any other.
func ParseName(name string) (id string, second int64, ok bool) {
	cut := strings.LastIndexByte(name, '-')
	if cut < 0 {
		return "", 0, false
	}
	second, err := strconv.ParseInt(name[cut+1:], 36, 64)
	return name[:cut], second, err == nil && Name(name[:cut], second) == name
}

// Expression is the schedule expression of a second, in UTC.
func Expression(second int64) string {
	return "at(" + time.Unix(second, 0).UTC().Format("2006-01-02T15:04:05") + ")"
}

// Lead is how far ahead of now a wake-up is armed at least, so that its second
// has not passed when the request arrives: one second for the way, and one for a clock
// that is behind.
const Lead = 2 * time.Second

// Second is the second for which a wake-up at the time is armed: rounded up,
// [Lead] ahead of now at least, [MaxLeg] at most, and not the spent one.
func Second(at, now time.Time, spent int64) int64 {
	earliest := roundUp(now.Add(Lead))
	latest := now.Add(MaxLeg).Unix()
	second := min(max(roundUp(at), earliest), latest)
	if second == spent {
		second++
	}
	return second
}

// roundUp is the first whole second that is not before the time.
func roundUp(t time.Time) int64 {
	second := t.Unix()
	if t.Nanosecond() > 0 {
		second++
	}
	return second
}
