package handlers_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/smithy-go"

	"github.com/sluice-dev/sluice/shared/handlers"
	"github.com/sluice-dev/sluice/shared/worker"
)

// fakeInvoker answers as told and records what it was asked.
type fakeInvoker struct {
	in            *lambda.InvokeInput
	payload       string
	functionError bool
	err           error
}

func (f *fakeInvoker) Invoke(_ context.Context, in *lambda.InvokeInput, _ ...func(*lambda.Options)) (*lambda.InvokeOutput, error) {
	f.in = in
	if f.err != nil {
		return nil, f.err
	}
	out := &lambda.InvokeOutput{Payload: []byte(f.payload)}
	if f.functionError {
		out.FunctionError = aws.String("Unhandled")
	}
	return out, nil
}

func invoke(f *fakeInvoker) (json.RawMessage, error) {
	h := handlers.Lambda{Client: func() handlers.Invoker { return f }}
	return h.Handle(context.Background(), json.RawMessage(`{"function":"fn","payload":{"n":1e2}}`))
}

func TestLambdaHandsOverTheInputAndReturnsTheOutput(t *testing.T) {
	t.Parallel()
	f := &fakeInvoker{payload: `{"output":{"sum":12345678901234567890}}`}
	out, err := invoke(f)
	if err != nil || string(out) != `{"sum":12345678901234567890}` {
		t.Fatalf("output = %s, %v", out, err)
	}
	if got := string(f.in.Payload); !strings.Contains(got, `"input":{"n":1e2}`) {
		t.Errorf("invoked with %s", got)
	}
}

func TestLambdaTellsFromTheAnswerWhatBecomesOfTheTask(t *testing.T) {
	t.Parallel()
	apiError := func(code string) error { return &smithy.GenericAPIError{Code: code} }
	tests := []struct {
		name    string
		fake    fakeInvoker
		sleep   time.Duration
		fails   bool
		unknown bool
		text    string
	}{
		{name: "reschedule sleeps", fake: fakeInvoker{payload: `{"reschedule":1.5}`}, sleep: 1500 * time.Millisecond},
		{name: "an error is retried", fake: fakeInvoker{payload: `{"error":"boom"}`}, text: "boom"},
		{name: "a permanent error fails", fake: fakeInvoker{payload: `{"error":"boom","permanent":true}`}, fails: true},
		{name: "an exception is retried", fake: fakeInvoker{payload: `{"errorType":"ValueError","errorMessage":"bad"}`, functionError: true}, text: "ValueError: bad"},
		{name: "an error without a text is one", fake: fakeInvoker{payload: `{"error":""}`}, text: "without a text"},
		{name: "an answer that says nothing fails", fake: fakeInvoker{payload: `{}`}, fails: true},
		{name: "so does no sleep", fake: fakeInvoker{payload: `{"reschedule":null}`}, fails: true},
		{name: "an answer that says two things fails", fake: fakeInvoker{payload: `{"output":1,"reschedule":5}`}, fails: true},
		{name: "a checkpoint without a sleep fails", fake: fakeInvoker{payload: `{"output":1,"checkpoint":{}}`}, fails: true},
		{name: "permanent without an error fails", fake: fakeInvoker{payload: `{"output":1,"permanent":true}`}, fails: true},
		{name: "an answer of another shape fails", fake: fakeInvoker{payload: `{"result":1}`}, fails: true},
		{name: "an endless sleep fails", fake: fakeInvoker{payload: `{"reschedule":1e300}`}, fails: true},
		{name: "no such function fails", fake: fakeInvoker{err: apiError("ResourceNotFoundException")}, fails: true},
		{name: "a busy function sleeps", fake: fakeInvoker{err: apiError("TooManyRequestsException")}, sleep: 10 * time.Second},
		{name: "trouble inside Lambda is retried", fake: fakeInvoker{err: apiError("ServiceException")}},
		{name: "no answer at all leaves it to the lease", fake: fakeInvoker{err: context.DeadlineExceeded}, unknown: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := invoke(&tt.fake)
			var sleep *worker.RescheduleError
			var failed *worker.FailError
			switch {
			case err == nil:
				t.Fatal("no error")
			case errors.As(err, &sleep) != (tt.sleep > 0), sleep != nil && sleep.Delay != tt.sleep:
				t.Errorf("err = %v, want a sleep of %v", err, tt.sleep)
			case errors.As(err, &failed) != tt.fails:
				t.Errorf("err = %v, want permanent: %v", err, tt.fails)
			case worker.IsUnknown(err) != tt.unknown:
				t.Errorf("err = %v, want unknown: %v", err, tt.unknown)
			case !strings.Contains(err.Error(), tt.text):
				t.Errorf("err = %v, want %q in it", err, tt.text)
			}
		})
	}
}
