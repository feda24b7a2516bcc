// Command ops prints what tasks cost in requests: the real function binaries run them on
// the embedded cloud, which counts every request as it arrives, those that fail and those
// that are sent again included.
//
// Counted are the requests of producers and functions, from a task's submit until nothing
// of it is left to do. A task calls an HTTP API, which is no request to AWS. Run it in the
// repository, after `make build-host`; `make bench-ops` does both.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/localstack/stack"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/handlers"
	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/queue"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// Labels under which the requests of this process are counted.
const (
	producer = "producer"
	observer = "observer" // not part of any figure
)

// patience is how long all of it may take.
const patience = 4 * time.Minute

// quota is a policy that admits every task at once.
var quota = limit.Policy{Name: "quota", Window: limit.Days("UTC"), Max: 1_000_000}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench/ops:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to clean up
	}
}

func run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	api, err := startAPI(ctx)
	if err != nil {
		return err
	}
	defer api.close()
	logs := &logMeter{}
	c := cloud.New(cloud.Options{Lambda: lambdaemu.Options{LogSink: logs.add}})
	defer func() { err = errors.Join(err, c.Close()) }()
	s, err := deploy(ctx, c, api.host())
	if err != nil {
		return err
	}
	limiter := dynamolimit.New(dynamodb.NewFromConfig(s.Config(observer)), s.Table)
	if err := limiter.Declare(ctx, 1, quota); err != nil {
		return err
	}
	b := &bench{stack: s, api: api, logs: logs, queue: queue.Over(s.Store(producer)), observer: queue.Over(s.Store(observer))}
	for _, step := range []func(context.Context) error{b.perTask, b.perSleep, b.perIdleHour} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// deploy deploys the binaries of this machine. The crons stand still: reset and sweep are
// counted by themselves.
func deploy(ctx context.Context, c *cloud.Cloud, hosts string) (*stack.Stack, error) {
	binary := func(name string) func(map[string]string) lambdaemu.Runtime {
		return stack.Process(filepath.Join("dist", "host", name, "bootstrap"))
	}
	const byHand = -1
	return stack.Deploy(ctx, c, stack.Options{
		Claim:       binary("claim"),
		Limiter:     binary("limiter"),
		Reset:       binary("reset"),
		ResetEvery:  byHand,
		Sweep:       binary("sweep"),
		SweepEvery:  byHand,
		Environment: map[string]string{handlers.EnvHTTPHosts: hosts},
	})
}
