package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/sluice-dev/sluice/shared/awserr"
)

// schedules is what the pump asks of EventBridge Scheduler.
type schedules interface {
	ListSchedules(context.Context, *scheduler.ListSchedulesInput, ...func(*scheduler.Options)) (*scheduler.ListSchedulesOutput, error)
	GetSchedule(context.Context, *scheduler.GetScheduleInput, ...func(*scheduler.Options)) (*scheduler.GetScheduleOutput, error)
	DeleteSchedule(context.Context, *scheduler.DeleteScheduleInput, ...func(*scheduler.Options)) (*scheduler.DeleteScheduleOutput, error)
}

// functions is what the pump asks of Lambda.
type functions interface {
	Invoke(context.Context, *lambda.InvokeInput, ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
}

// queues is what the pump asks of SQS.
type queues interface {
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
	SendMessage(context.Context, *sqs.SendMessageInput, ...func(*sqs.Options)) (*sqs.SendMessageOutput, error)
}

// pump fires what is due. Use newPump.
type pump struct {
	schedules schedules
	functions functions
	queues    queues
	group     string // all groups if empty
	log       *slog.Logger
	now       func() time.Time

	known map[string]*plan // by group and name
	round int
}

// plan is what the pump knows of a schedule.
type plan struct {
	group, name string
	modified    time.Time
	due         time.Time // zero if the pump has nothing to do for it
	definition  *scheduler.GetScheduleOutput
	tries       int
	done        bool // fired, and to stay
	round       int  // in which it was last listed
}

func newPump(s schedules, f functions, q queues, group string) *pump {
	return &pump{
		schedules: s, functions: f, queues: q, group: group,
		log: slog.New(slog.DiscardHandler), now: time.Now, known: make(map[string]*plan),
	}
}

// runEvery pumps again and again until ctx ends. What fails is logged and tried again.
func (p *pump) runEvery(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if err := p.once(ctx); err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "the schedules could not be read", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// once lists the schedules and fires those that are due.
func (p *pump) once(ctx context.Context) error {
	p.round++
	in := &scheduler.ListSchedulesInput{MaxResults: aws.Int32(100)}
	if p.group != "" {
		in.GroupName = &p.group
	}
	var due []*plan
	pages := scheduler.NewListSchedulesPaginator(p.schedules, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("listing schedules: %w", err)
		}
		for _, summary := range page.Schedules {
			plan, err := p.learn(ctx, summary)
			if err != nil {
				return err
			}
			if plan != nil && !plan.done && !plan.due.IsZero() && !plan.due.After(p.now()) {
				due = append(due, plan)
			}
		}
	}
	for key, plan := range p.known {
		if plan.round != p.round { // deleted
			delete(p.known, key)
		}
	}
	for _, plan := range due {
		p.fire(ctx, plan)
	}

	return nil
}

// learn reads what a schedule is to do, unless that is known. It is nil for one that has gone meanwhile.
func (p *pump) learn(ctx context.Context, summary types.ScheduleSummary) (*plan, error) {
	group, name, modified := aws.ToString(summary.GroupName), aws.ToString(summary.Name), aws.ToTime(summary.LastModificationDate)
	key := group + "/" + name
	if known := p.known[key]; known != nil && known.modified.Equal(modified) {
		known.round = p.round

		return known, nil
	}
	definition, err := p.schedules.GetSchedule(ctx, &scheduler.GetScheduleInput{GroupName: &group, Name: &name})
	if awserr.IsNotFound(err) {
		return nil, nil //nolint:nilnil // gone
	}
	if err != nil {
		return nil, fmt.Errorf("reading the schedule %s: %w", key, err)
	}
	plan := &plan{group: group, name: name, modified: modified, definition: definition, round: p.round}
	if plan.due, err = dueAt(definition); err != nil {
		p.log.WarnContext(ctx, "the pump leaves this schedule alone", "schedule", key, "reason", err.Error())
	}
	p.known[key] = plan

	return plan, nil
}

var atGrammar = regexp.MustCompile(`^at\((\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\)$`)

// dueAt is when a schedule is to fire, zero if it is switched off. The error says why the pump can't do it.
func dueAt(s *scheduler.GetScheduleOutput) (time.Time, error) {
	if s.State == types.ScheduleStateDisabled {
		return time.Time{}, nil
	}
	text := aws.ToString(s.ScheduleExpression)
	match := atGrammar.FindStringSubmatch(text)
	if match == nil {
		return time.Time{}, fmt.Errorf("%s is not a single time, at(...)", text)
	}
	if s.Target == nil || !strings.Contains(aws.ToString(s.Target.Arn), ":lambda:") {
		return time.Time{}, errors.New("its target is not a Lambda function")
	}
	zone, err := time.LoadLocation(aws.ToString(s.ScheduleExpressionTimezone))
	if err != nil {
		return time.Time{}, err
	}

	return time.ParseInLocation("2006-01-02T15:04:05", match[1], zone)
}

// fire starts the target of a schedule. Lambda's acceptance is all that is waited for. What it does not accept
// is tried again in the next round, as often as the schedule says, and then becomes a dead letter.
func (p *pump) fire(ctx context.Context, s *plan) {
	target := s.definition.Target
	s.tries++
	_, err := p.functions.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: target.Arn, InvocationType: lambdatypes.InvocationTypeEvent, Payload: []byte(aws.ToString(target.Input)),
	})
	log := p.log.With("schedule", s.group+"/"+s.name, "late", p.now().Sub(s.due).Round(time.Second).String())
	switch {
	case ctx.Err() != nil:
		return
	case err != nil && s.tries <= p.retries(s):
		log.WarnContext(ctx, "not accepted, it is tried again", "error", err.Error())

		return
	case err != nil:
		log.ErrorContext(ctx, "given up", "error", err.Error())
		if err := p.deadLetter(ctx, s, err); err != nil {
			log.ErrorContext(ctx, "the dead letter could not be sent, it is tried again", "error", err.Error())

			return
		}
	default:
		log.InfoContext(ctx, "fired")
	}
	s.done = true
	if s.definition.ActionAfterCompletion != types.ActionAfterCompletionDelete {
		return
	}
	_, err = p.schedules.DeleteSchedule(ctx, &scheduler.DeleteScheduleInput{GroupName: &s.group, Name: &s.name})
	if err != nil && !awserr.IsNotFound(err) {
		s.done = false // it fires again, which is better than that it stays for ever
		log.WarnContext(ctx, "fired, and could not be deleted", "error", err.Error())
	}
}

// retries is how often a schedule is tried again: once a round, so the age of the event never comes first.
func (p *pump) retries(s *plan) int {
	const usual = 185 // what Scheduler does when nothing is said
	if policy := s.definition.Target.RetryPolicy; policy != nil && policy.MaximumRetryAttempts != nil {
		return int(*policy.MaximumRetryAttempts)
	}

	return usual
}

// deadLetter puts an event that was given up into the schedule's queue, if it has one.
func (p *pump) deadLetter(ctx context.Context, s *plan, cause error) error {
	config := s.definition.Target.DeadLetterConfig
	if config == nil || config.Arn == nil {
		return nil
	}
	name := (*config.Arn)[strings.LastIndexByte(*config.Arn, ':')+1:]
	queue, err := p.queues.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		return err
	}
	text := func(value string) sqstypes.MessageAttributeValue {
		return sqstypes.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
	}
	_, err = p.queues.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: queue.QueueUrl, MessageBody: s.definition.Target.Input,
		MessageAttributes: map[string]sqstypes.MessageAttributeValue{
			"ERROR_CODE":     text("AWS.Lambda." + awserr.Code(cause)),
			"ERROR_MESSAGE":  text(cause.Error()),
			"RETRY_ATTEMPTS": text(strconv.Itoa(s.tries - 1)),
			"TARGET_ARN":     text(aws.ToString(s.definition.Target.Arn)),
		},
	})

	return err
}
