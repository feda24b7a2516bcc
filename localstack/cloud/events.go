package cloud

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/localstack/cloud/s3emu"
	"github.com/sluice-dev/sluice/localstack/cloud/scheduleremu"
	"github.com/sluice-dev/sluice/localstack/cloud/sqsemu"
)

// deliver hands an event to its target, by the service in the target's ARN.
func (c *Cloud) deliver(event Event) error {
	defer c.activity.Add(1)
	switch service := arnService(event.Target); service {
	case "lambda":
		_, err := c.lambda.InvokeAsync(event.Target, event.Payload, lambdaemu.InvokeOptions{})
		return err
	case "sqs":
		_, err := c.sqs.Send(event.Target, string(event.Payload), nil)
		return err
	default:
		return fmt.Errorf("the target %s is neither a function nor a queue", event.Target)
	}
}

// arnService is the third part of an ARN.
func arnService(arn string) string {
	parts := strings.SplitN(arn, ":", 4)
	if len(parts) < 4 {
		return ""
	}
	return parts[2]
}

// logUndelivered tells of an event that nobody took, in the log of functions.
func (c *Cloud) logUndelivered(event Event, err error) {
	if err != nil && c.ctx.Err() == nil {
		c.lambda.Log(lambdaemu.FunctionName(event.Target), fmt.Sprintf(
			"an event of %s was not delivered to %s: %v", event.Source, event.Target, err))
	}
}

// s3Events delivers events to what the bucket's notification configuration
// names.
func (c *Cloud) s3Events(first func(s3emu.Event)) func(s3emu.Event) {
	return func(e s3emu.Event) {
		if first != nil {
			first(e)
		}
		for _, n := range c.s3.Notifications(e.Bucket) {
			if !n.Matches(e) {
				continue
			}
			event := Event{
				Source: S3Events, Target: n.ARN, Payload: s3emu.NotificationJSON(n.ID, e),
				Bucket: e.Bucket, Key: e.Key,
			}
			c.logUndelivered(event, c.deliveries[S3Events].dispatch(event))
		}
	}
}

// NotifyOnCreate has a function invoked for every object that is created in a
// bucket under a prefix. It adds to the bucket's notification configuration,
// which clients can read and replace. The same notification is added once.
func (c *Cloud) NotifyOnCreate(bucket, prefix, function string) error {
	notifications := c.s3.Notifications(bucket)
	added := s3emu.Notification{
		ID:  fmt.Sprintf("%s-on-create-%d", function, len(notifications)+1),
		ARN: c.lambda.ARN(function), Events: []string{"s3:ObjectCreated:*"}, Prefix: prefix,
	}
	for _, n := range notifications {
		if n.ARN == added.ARN && n.Prefix == prefix && n.Suffix == "" && slices.Equal(n.Events, added.Events) {
			return nil
		}
	}
	document := notificationDocument(append(notifications, added))
	r, err := http.NewRequestWithContext(c.ctx, http.MethodPut, "http://"+inMemoryHost+"/"+bucket+"?notification", strings.NewReader(document))
	if err != nil {
		return err
	}
	// To S3 itself: this is set-up, and neither counted nor made to fail.
	answer := &heldResponse{header: http.Header{}}
	c.s3.ServeHTTP(answer, asReceived(c.ctx, r))
	if answer.status >= http.StatusBadRequest {
		return fmt.Errorf("the notification of function %s about bucket %s was refused: %s", function, bucket, answer.body.String())
	}
	return nil
}

// notificationDocument is a notification configuration. Every target of it is
// written as a function or a queue, by its ARN.
func notificationDocument(notifications []s3emu.Notification) string {
	var b strings.Builder
	b.WriteString("<NotificationConfiguration>")
	for _, n := range notifications {
		kind, target := "CloudFunctionConfiguration", "CloudFunction"
		switch arnService(n.ARN) {
		case "sqs":
			kind, target = "QueueConfiguration", "Queue"
		case "sns":
			kind, target = "TopicConfiguration", "Topic"
		}
		b.WriteString("<" + kind + ">" + element("Id", n.ID) + element(target, n.ARN))
		for _, name := range n.Events {
			b.WriteString(element("Event", name))
		}
		b.WriteString("<Filter><S3Key>" + filterRule("prefix", n.Prefix) + filterRule("suffix", n.Suffix) + "</S3Key></Filter>")
		b.WriteString("</" + kind + ">")
	}
	b.WriteString("</NotificationConfiguration>")
	return b.String()
}

func filterRule(name, value string) string {
	if value == "" {
		return ""
	}
	return "<FilterRule>" + element("Name", name) + element("Value", value) + "</FilterRule>"
}

func element(name, text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes everything
	return "<" + name + ">" + b.String() + "</" + name + ">"
}

// scheduledInvocations delivers what Scheduler fires to the schedule's target.
func (c *Cloud) scheduledInvocations(first func(context.Context, scheduleremu.Fire) error) func(context.Context, scheduleremu.Fire) error {
	return func(ctx context.Context, f scheduleremu.Fire) error {
		if first != nil {
			if err := first(ctx, f); err != nil {
				return err
			}
		}
		return c.deliveries[Wakeups].dispatch(Event{
			Source: Wakeups, Target: f.TargetARN, Payload: []byte(f.Input), Group: f.Group, Schedule: f.Name,
		})
	}
}

// scheduledDeadLetters puts what Scheduler gives up into the schedule's
// dead-letter queue, with the attributes that Scheduler adds.
func (c *Cloud) scheduledDeadLetters(first func(context.Context, scheduleremu.DeadLetter)) func(context.Context, scheduleremu.DeadLetter) {
	return func(ctx context.Context, d scheduleremu.DeadLetter) {
		if first != nil {
			first(ctx, d)
		}
		defer c.activity.Add(1)
		if d.DeadLetterARN == "" {
			return
		}
		_, err := c.sqs.Send(d.DeadLetterARN, d.Input, map[string]sqsemu.Attribute{
			"ERROR_CODE":                sqsemu.Text(errorCode(d.Err)),
			"ERROR_MESSAGE":             sqsemu.Text(d.Err.Error()),
			"EXECUTION_ID":              sqsemu.Text(d.ExecutionID),
			"EXHAUSTED_RETRY_CONDITION": sqsemu.Text(d.Condition),
			"RETRY_ATTEMPTS":            sqsemu.Text(strconv.Itoa(d.Attempt - 1)),
			"SCHEDULED_TIME":            sqsemu.Text(d.Scheduled.UTC().Format(time.RFC3339)),
			"SCHEDULE_ARN":              sqsemu.Text(d.ScheduleARN),
			"TARGET_ARN":                sqsemu.Text(d.TargetARN),
		})
		c.logUndelivered(Event{Source: Wakeups, Target: d.DeadLetterARN}, err)
	}
}

func errorCode(err error) string {
	if refusal, ok := errors.AsType[*lambdaemu.Error](err); ok {
		return "AWS.Lambda." + refusal.Code
	}
	return "AWS.Scheduler.InternalServerError"
}

// DeadLetterQueue creates a queue and returns what has a function's on-failure
// records sent there, for lambdaemu.Function.OnFailure. The records are read
// by SQS().Messages(queue) or with an SQS client.
func (c *Cloud) DeadLetterQueue(queue string) (func(lambdaemu.FailureRecord), error) {
	if _, err := c.sqs.CreateQueue(queue); err != nil {
		return nil, err
	}
	return func(record lambdaemu.FailureRecord) {
		defer c.activity.Add(1)
		body, err := json.Marshal(record)
		if err == nil {
			_, err = c.sqs.Send(queue, string(body), nil)
		}
		c.logUndelivered(Event{Source: "lambda", Target: c.sqs.ARN(queue)}, err)
	}, nil
}

// Cron invokes a function asynchronously every so often, for the first time
// after one interval, as an EventBridge rule with a rate does. It ends with
// the cloud, or when the function that Cron returns is called.
func (c *Cloud) Cron(function string, every time.Duration, payload []byte) (stop func()) {
	if every <= 0 {
		panic("cloud: the interval of a cron must be positive")
	}
	ctx, cancel := context.WithCancel(c.ctx)
	event := Event{Source: "cron", Target: c.lambda.ARN(function), Payload: payload}
	var tick func()
	tick = func() {
		if ctx.Err() != nil {
			return
		}
		c.after(every, tick)
		c.logUndelivered(event, c.deliver(event))
	}
	c.after(every, tick)
	return cancel
}
