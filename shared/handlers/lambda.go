package handlers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	jsonv2 "github.com/go-json-experiment/json"

	"github.com/sluice-dev/sluice/shared/awserr"
	"github.com/sluice-dev/sluice/shared/worker"
)

// TypeLambdaInvoke is the task type under which the stock function registers
// [Lambda].
const TypeLambdaInvoke = "lambda.invoke"

// LongestRun is the longest that a Lambda function can run. Register [Lambda]
// with worker.MinLease(LongestRun): an invocation can outlive the claim function's
// own, and no second one may start before.
const LongestRun = 15 * time.Minute

// busyDelay is how long a task sleeps whose function is at its concurrency
// limit.
const busyDelay = 10 * time.Second

// Invoker is what the handler asks of Lambda.
type Invoker interface {
	Invoke(context.Context, *lambda.InvokeInput, ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
}

// Invocation is the input of a task of type lambda.invoke.
type Invocation struct {
	// Function is the name or ARN of the handler function.
	Function string `json:"function"`
	// Payload is handed to the handler as its input.
	Payload json.RawMessage `json:"payload,omitempty"`
}

// Call is what the handler function is invoked with.
type Call struct {
	TaskID          string          `json:"task_id"`
	Attempt         int64           `json:"attempt"`
	RetryCount      int64           `json:"retry_count"`
	RescheduleCount int64           `json:"reschedule_count"`
	Input           json.RawMessage `json:"input"`
	// Checkpoint is what the handler saved when the task last went to sleep.
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"`
}

// Answer is what the handler function returns: just one of output, reschedule and
// error. A function that returns nothing, null in JSON, has no output and is done, too.
type Answer struct {
	// Output completes the task.
	Output json.RawMessage `json:"output,omitempty"`
	// Reschedule puts the task to sleep for so many seconds, with the checkpoint.
	Reschedule *float64        `json:"reschedule,omitempty"`
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"`
	// Error is a failed attempt; with Permanent the task fails at once.
	Error     *string `json:"error,omitempty"`
	Permanent bool    `json:"permanent,omitempty"`
}

// Lambda invokes another function as the handler: once per attempt. An
// exception there is a failed attempt; when no answer comes back, the lease decides, since the
// function may still be running.
type Lambda struct {
	// Client makes the client on first use.
	Client func() Invoker
}

// Handle is the handler.
func (l Lambda) Handle(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
	var in Invocation
	if err := jsonv2.Unmarshal(input, &in, jsonv2.RejectUnknownMembers(true)); err != nil {
		return nil, worker.Fail(fmt.Errorf("the input of a lambda.invoke task has function and payload: %w", err))
	}
	if in.Function == "" {
		return nil, worker.Fail(errors.New("the input names no function"))
	}
	payload, err := callOf(ctx, in)
	if err != nil {
		return nil, worker.Fail(err)
	}
	out, err := l.Client().Invoke(ctx, &lambda.InvokeInput{
		FunctionName:   &in.Function,
		InvocationType: types.InvocationTypeRequestResponse,
		Payload:        payload,
	}, func(o *lambda.Options) { o.RetryMaxAttempts = 1 })
	if err != nil {
		return nil, invokeError(in.Function, err)
	}
	if out.FunctionError != nil {
		return nil, functionError(in.Function, out.Payload)
	}
	return answer(in.Function, out.Payload)
}

func callOf(ctx context.Context, in Invocation) ([]byte, error) {
	c := Call{Input: in.Payload}
	if len(c.Input) == 0 {
		c.Input = json.RawMessage("null")
	}
	if t, ok := worker.TaskFrom(ctx); ok {
		c.TaskID, c.Attempt, c.Checkpoint = t.ID, t.Attempt, t.Checkpoint
		c.RetryCount, c.RescheduleCount = t.RetryCount, t.RescheduleCount
	}
	return json.Marshal(c)
}

// invokeError tells what an invocation means that brought no answer of the
// function.
func invokeError(function string, err error) error {
	err = fmt.Errorf("invoke %s: %w", function, err)
	switch {
	case awserr.IsNotFound(err), awserr.IsAccessDenied(err), awserr.IsValidation(err):
		return worker.Fail(err)
	case awserr.IsThrottled(err):
		return worker.Reschedule(busyDelay)
	case awserr.Code(err) != "": // Lambda answered: the function did not run
		return err
	}
	return worker.Unknown(err)
}

// functionError words an exception of the handler function.
func functionError(function string, payload []byte) error {
	var e struct {
		Message string `json:"errorMessage"`
		Type    string `json:"errorType"`
	}
	if err := json.Unmarshal(payload, &e); err != nil || e.Message == "" {
		return fmt.Errorf("%s failed: %s", function, bytes.TrimSpace(payload))
	}
	return fmt.Errorf("%s failed: %s: %s", function, e.Type, e.Message)
}

// answer reads what the handler function returned.
func answer(function string, payload []byte) (json.RawMessage, error) {
	if payload = bytes.TrimSpace(payload); len(payload) == 0 || isNull(payload) {
		return nil, nil
	}
	var a Answer
	if err := jsonv2.Unmarshal(payload, &a, jsonv2.RejectUnknownMembers(true)); err != nil {
		return nil, worker.Fail(fmt.Errorf(`%s must return an object with "output", "reschedule" or "error": %w`, function, err))
	}
	if err := a.validate(); err != nil {
		return nil, worker.Fail(fmt.Errorf("%s: %w", function, err))
	}
	switch {
	case a.Error != nil:
		err := errors.New(cmp.Or(*a.Error, function+" returned an error without a text"))
		if a.Permanent {
			return nil, worker.Fail(err)
		}
		return nil, err
	case a.Reschedule != nil:
		delay, err := secondsToDuration(*a.Reschedule)
		if err != nil {
			return nil, worker.Fail(fmt.Errorf("%s: %w", function, err))
		}
		if len(a.Checkpoint) > 0 {
			return nil, worker.Reschedule(delay, worker.Checkpoint(a.Checkpoint))
		}
		return nil, worker.Reschedule(delay)
	}
	return a.Output, nil
}

// validate refuses an answer that does not say just one thing: what it would be taken for
// is not what was meant.
func (a Answer) validate() error {
	said := 0
	for _, says := range []bool{len(a.Output) > 0, a.Reschedule != nil, a.Error != nil} {
		if says {
			said++
		}
	}
	switch {
	case said != 1:
		return fmt.Errorf(`its answer has %d of "output", "reschedule" and "error": want just one`, said)
	case len(a.Checkpoint) > 0 && !isNull(a.Checkpoint) && a.Reschedule == nil:
		return errors.New(`its answer has a "checkpoint", which goes with "reschedule" only`)
	case a.Permanent && a.Error == nil:
		return errors.New(`its answer has "permanent", which goes with "error" only`)
	}
	return nil
}

func isNull(value []byte) bool { return bytes.Equal(value, []byte("null")) }

func secondsToDuration(seconds float64) (time.Duration, error) {
	const most = float64(math.MaxInt64) / float64(time.Second)
	if math.IsNaN(seconds) || seconds >= most {
		return 0, fmt.Errorf("reschedule is %v: it must be a number of seconds below %.0f", seconds, most)
	}
	return time.Duration(max(seconds, 0) * float64(time.Second)), nil
}
