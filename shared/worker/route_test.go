package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/worker"
)

// Two functions of one code, each with all handlers: routes tell which serves what.
func TestAFunctionServesItsTypesAndHandsTheOthersOver(t *testing.T) {
	t.Parallel()
	const bucket, first, second = "tasks", "first", "second"
	c := cloud.New(cloud.Options{})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	store := s3store.New(s3store.NewClient(c.Config()), bucket)
	makeBucket(t, s3store.NewClient(c.Config()), bucket)
	var (
		mu  sync.Mutex
		ran []string
	)
	function := func(name, routes string) {
		mux := worker.NewMux()
		for _, taskType := range []string{"a", "b"} {
			worker.Handle(mux, taskType, func(ctx context.Context, _ json.RawMessage) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				ran = append(ran, taskType+" in "+name)
				return name, nil
			})
		}
		env := map[string]string{
			worker.EnvBucket: bucket, worker.EnvScheduleGroup: "default", worker.EnvScheduleRoleARN: "arn:aws:iam::000000000000:role/r",
			worker.EnvClaimARN: c.Lambda().ARN(name), worker.EnvRoutes: routes,
		}
		engine, err := worker.FromEnvironment(c.Config(cloud.Label(name)), mux, func(name string) string { return env[name] })
		if err != nil {
			t.Fatal(err)
		}
		engine.Log = slog.New(slog.DiscardHandler)
		err = c.Register(lambdaemu.Function{Name: name, Timeout: 15 * time.Minute, Runtime: lambdaemu.Func(func(ctx context.Context, event []byte) ([]byte, error) {
			return nil, engine.Handle(ctx, event)
		})})
		if err != nil {
			t.Fatal(err)
		}
	}
	arn := c.Lambda().ARN
	function(first, fmt.Sprintf(`{"b":%q}`, arn(second)))
	function(second, fmt.Sprintf(`{"*":%q,"a":%q}`, arn(first), arn(first)))
	if err := c.NotifyOnCreate(bucket, "inbox/", first); err != nil {
		t.Fatal(err)
	}
	q := queue.Over(store)
	for _, taskType := range []string{"a", "b"} {
		made, err := q.Submit(t.Context(), taskType, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := q.Wait(t.Context(), made.ID); err != nil || got.Status != task.Completed {
			t.Errorf("%s: %s, %v", taskType, got.Encode(), err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"a in first", "b in second"}; !slices.Equal(ran, want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
}

func makeBucket(t *testing.T, client *s3.Client, name string) {
	t.Helper()
	_, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name})
	if err == nil {
		_, err = client.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{
			Bucket: &name, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestRoutesThatAreNoObjectAreRefused(t *testing.T) {
	t.Parallel()
	_, err := worker.FromEnvironment(aws.Config{}, worker.NewMux(), func(name string) string {
		return map[string]string{worker.EnvRoutes: `["a"]`}[name]
	})
	if err == nil || !strings.Contains(err.Error(), worker.EnvRoutes) {
		t.Errorf("error = %v", err)
	}
}
