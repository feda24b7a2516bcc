package scheduleremu_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"
	"github.com/aws/smithy-go"

	"github.com/sluice-dev/sluice/localstack/cloud/scheduleremu"
)

const (
	function = "arn:aws:lambda:us-east-1:000000000000:function:claim"
	role     = "arn:aws:iam::000000000000:role/scheduler"
	queue    = "arn:aws:sqs:us-east-1:000000000000:dead-letters"
)

// inMemory is a transport that calls a handler: no socket, no goroutine.
type inMemory struct{ handler http.Handler }

func (t inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	t.handler.ServeHTTP(recorder, r)
	if r.Body != nil {
		r.Body.Close()
	}
	response := recorder.Result()
	response.Request = r
	return response, nil
}

// bundle is a server, a client of it, and what has fired so far.
type bundle struct {
	*scheduler.Client

	server *scheduleremu.Server
	fired  *fireLog
	start  time.Time
}

type fireLog struct {
	mu    sync.Mutex
	fires []scheduleremu.Fire
	times []time.Time
	dead  []scheduleremu.DeadLetter
}

func (l *fireLog) add(_ context.Context, f scheduleremu.Fire) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fires = append(l.fires, f)
	l.times = append(l.times, time.Now())
	return nil
}

func (l *fireLog) addDead(_ context.Context, d scheduleremu.DeadLetter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = append(l.dead, d)
}

func (l *fireLog) all() []scheduleremu.Fire {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]scheduleremu.Fire(nil), l.fires...)
}

// bubble runs a test in virtual time, which starts at 2000-01-01T00:00:00Z.
func bubble(t *testing.T, options scheduleremu.Options, test func(t *testing.T, b *bundle)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := setup(options)
		defer b.server.Close()
		test(t, b)
	})
}

func setup(options scheduleremu.Options) *bundle {
	log := &fireLog{}
	if options.OnFire == nil {
		options.OnFire = log.add
	}
	if options.OnDeadLetter == nil {
		options.OnDeadLetter = log.addDead
	}
	server := scheduleremu.New(options)
	return &bundle{server: server, fired: log, start: time.Now(), Client: newClient("http://scheduler.test", inMemory{server})}
}

func newClient(endpoint string, transport http.RoundTripper) *scheduler.Client {
	return scheduler.New(scheduler.Options{
		Region:           "us-east-1",
		BaseEndpoint:     aws.String(endpoint),
		Credentials:      credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient:       &http.Client{Transport: transport},
		RetryMaxAttempts: 1,
	})
}

// at is the expression of a time after the start of the bubble.
func (b *bundle) at(d time.Duration) string {
	return "at(" + b.start.Add(d).UTC().Format("2006-01-02T15:04:05") + ")"
}

func input(name, expression string) *scheduler.CreateScheduleInput {
	return &scheduler.CreateScheduleInput{
		Name: aws.String(name), ScheduleExpression: aws.String(expression),
		ActionAfterCompletion: types.ActionAfterCompletionDelete,
		FlexibleTimeWindow:    &types.FlexibleTimeWindow{Mode: types.FlexibleTimeWindowModeOff},
		Target:                &types.Target{Arn: aws.String(function), RoleArn: aws.String(role), Input: aws.String(`{"task_id":"` + name + `"}`)},
	}
}

func (b *bundle) create(t *testing.T, name, expression string, change ...func(*scheduler.CreateScheduleInput)) {
	t.Helper()
	if err := b.tryCreate(t, name, expression, change...); err != nil {
		t.Fatal(err)
	}
}

func (b *bundle) tryCreate(t *testing.T, name, expression string, change ...func(*scheduler.CreateScheduleInput)) error {
	t.Helper()
	in := input(name, expression)
	for _, c := range change {
		c(in)
	}
	_, err := b.CreateSchedule(t.Context(), in)
	return err
}

func (b *bundle) tryGet(t *testing.T, name string) (*scheduler.GetScheduleOutput, error) {
	t.Helper()
	return b.GetSchedule(t.Context(), &scheduler.GetScheduleInput{Name: aws.String(name)})
}

// outcome is an answer in short: "ok", or status and error code.
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	var status interface{ HTTPStatusCode() int }
	var api smithy.APIError
	if !errors.As(err, &status) || !errors.As(err, &api) {
		return err.Error()
	}
	return fmt.Sprint(status.HTTPStatusCode(), " ", api.ErrorCode())
}

func expect(t *testing.T, what string, err error, want string) {
	t.Helper()
	if got := outcome(err); got != want {
		t.Errorf("%s: %s, want %s (%v)", what, got, want, err)
	}
}

// plainSchedule is the body of a CreateSchedule, but for its expression.
const plainSchedule = `{"ScheduleExpression":"%s","FlexibleTimeWindow":{"Mode":"OFF"},"ActionAfterCompletion":"DELETE",` +
	`"Target":{"Arn":"` + function + `","RoleArn":"` + role + `"}}`

// send makes a request without the SDK, which would refuse what the server is
// to refuse.
func (b *bundle) send(method, path, body string) (status int, answer string) {
	recorder := httptest.NewRecorder()
	b.server.ServeHTTP(recorder, httptest.NewRequest(method, path, strings.NewReader(body)))
	return recorder.Code, recorder.Body.String()
}
