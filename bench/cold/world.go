package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/localstack/stack"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/handlers"
	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/worker"
)

// quota is a policy that admits every request at once.
var quota = limit.Policy{Name: "quota", Window: limit.Days("UTC"), Max: 1_000_000}

// world is what the functions work on: a deployed queue whose functions don't run by
// themselves, and an HTTP API that tasks call.
type world struct {
	runtime  *runtimeAPI
	cloud    *cloud.Cloud
	endpoint string
	stack    *stack.Stack
	queue    *queue.Queue
	api      *http.Server
	apiHost  string
	// submitted is the id of the task that claim is to run.
	submitted string
}

func startWorld(ctx context.Context) (_ *world, err error) {
	w := &world{cloud: cloud.New(cloud.Options{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if w.runtime, err = startRuntime(ctx); err != nil {
		return nil, err
	}
	if w.endpoint, err = w.cloud.Listen("127.0.0.1:0"); err != nil {
		return nil, err
	}
	if err := w.startAPI(ctx); err != nil {
		return nil, err
	}
	ignore := func(map[string]string) lambdaemu.Runtime {
		return lambdaemu.Func(func(context.Context, []byte) ([]byte, error) { return nil, nil })
	}
	if w.stack, err = stack.Deploy(ctx, w.cloud, stack.Options{Claim: ignore}); err != nil {
		return nil, err
	}
	w.queue = w.stack.Queue()
	return w, dynamolimit.New(dynamodb.NewFromConfig(w.stack.Config("operator")), w.stack.Table).Declare(ctx, 1, quota)
}

func (w *world) startAPI(ctx context.Context) error {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	w.apiHost = l.Addr().String()
	w.api = &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }),
		ReadHeaderTimeout: 10 * time.Second,
	}
	go func() { _ = w.api.Serve(l) }()
	return nil
}

func (w *world) close() error {
	for _, server := range []*http.Server{w.api, w.server()} {
		if server != nil {
			_ = server.Close()
		}
	}
	return w.cloud.Close()
}

func (w *world) server() *http.Server {
	if w.runtime == nil {
		return nil
	}
	return w.runtime.server
}

// environment is what Lambda and the deployment give a function.
func (w *world) environment(name string) []string {
	return []string{
		"AWS_LAMBDA_FUNCTION_NAME=" + name, "AWS_LAMBDA_FUNCTION_MEMORY_SIZE=256", "_HANDLER=bootstrap",
		"AWS_REGION=" + w.cloud.Region(), "AWS_ENDPOINT_URL=" + w.endpoint,
		"AWS_ACCESS_KEY_ID=" + name, "AWS_SECRET_ACCESS_KEY=local", "AWS_SESSION_TOKEN=local",
		"PATH=" + os.Getenv("PATH"),
		worker.EnvBucket + "=" + w.stack.Bucket,
		worker.EnvTable + "=" + w.stack.Table,
		worker.EnvScheduleGroup + "=" + w.stack.ScheduleGroup,
		worker.EnvScheduleRoleARN + "=arn:aws:iam::" + w.cloud.AccountID() + ":role/scheduler",
		worker.EnvClaimARN + "=" + w.cloud.Lambda().ARN(w.stack.Function),
		worker.EnvDeadLetterARN + "=" + w.cloud.SQS().ARN(w.stack.DeadLetters),
		handlers.EnvHTTPHosts + "=" + w.apiHost,
	}
}

func (w *world) functions() []function {
	cron := func(context.Context) ([]byte, error) { return []byte(stack.CronEvent), nil }
	ran := func(context.Context, []byte) error { return nil }
	return []function{
		{"claim", w.submit, w.completed},
		{"limiter", func(context.Context) ([]byte, error) {
			return []byte(`{"op":"acquire","tiers":[{"policy":"quota","key":"acme"}]}`), nil
		}, admitted},
		{"reset", cron, ran},
		{"sweep", cron, ran},
	}
}

// submit submits a task and makes the event that S3 would start claim with.
func (w *world) submit(ctx context.Context) ([]byte, error) {
	made, err := w.queue.Submit(ctx, handlers.TypeHTTPRequest, handlers.Request{URL: "http://" + w.apiHost})
	if err != nil {
		return nil, err
	}
	w.submitted = made.ID
	return fmt.Appendf(nil, `{"Records":[{"eventName":"ObjectCreated:Put","s3":{"bucket":{"name":%q},"object":{"key":%q}}}]}`,
		w.stack.Bucket, s3store.InboxKey(made.ID)), nil
}

func (w *world) completed(ctx context.Context, _ []byte) error {
	t, err := w.queue.Get(ctx, w.submitted)
	if err == nil && t.Status != task.Completed {
		err = fmt.Errorf("the task has not completed: %s", t.Encode())
	}
	return err
}

func admitted(_ context.Context, answer []byte) error {
	var a struct {
		Admitted bool `json:"admitted"`
	}
	if err := json.Unmarshal(answer, &a); err != nil || !a.Admitted {
		return fmt.Errorf("the request was not admitted: %s", answer)
	}
	return nil
}
