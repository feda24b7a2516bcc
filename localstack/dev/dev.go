// Package dev runs Sluice on this machine for people: the embedded cloud on a
// port, with the real function binaries, for as long as it is wanted.
package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/localstack/stack"
)

// Options say what to run. The zero value runs the stock claim function on the
// usual port.
type Options struct {
	// Address to listen on. Defaults to 127.0.0.1:4566.
	Address string
	// Claim is the claim function: a compiled one, or a folder with its Go
	// source, which is built. Defaults to what `make build` built.
	Claim string
	// Functions are further Lambda functions by name, for tasks of type
	// lambda.invoke: a compiled one, a folder with Go source, or a Python handler as
	// path/to/file.py:function.
	Functions map[string]string
	// Environment is added to that of the claim function.
	Environment map[string]string
	// Notices names a queue of SQS by task type that is told when a task of the type has ended; the
	// type "*" stands for all others. The queues are made.
	Notices map[string]string
	// Data is a folder to keep the cloud's data in: objects with their versions,
	// schedules, items and messages. It is made if need be. Defaults to none: everything is
	// gone at the end.
	//
	// It is saved about once a second while something happens, and at the end. A process
	// that is killed (kill -9, a power failure) loses what happened since the last save, and
	// nothing else: the file is replaced whole. What was to happen meanwhile happens at the
	// next start.
	Data string
	// Delivery makes the events of S3 and the wake-ups of Scheduler unreliable. Defaults to
	// reliable ones.
	Delivery cloud.Delivery
	// Late is the most that a schedule fires late; each does by a time of its own between 0
	// and Late. On AWS it is a minute. Defaults to 0.
	Late time.Duration
	// Timeout is the longest that an invocation of the claim function may take. Defaults to 15
	// minutes, as on AWS. A task whose own timeout does not fit is refused.
	Timeout time.Duration
	// RetryDelay is what Lambda waits before it tries an event again on which the claim
	// function died. Defaults to 1 minute, and 2 minutes for the second time, as on AWS.
	RetryDelay time.Duration
	// Out takes what to do next, Log every line that a function logs.
	Out, Log io.Writer
}

// defaultClaim is where `make build` puts the claim function for this machine.
var defaultClaim = stockFunction("claim")

func stockFunction(name string) string { return filepath.Join("dist", "host", name, "bootstrap") }

// Instance is a running Sluice. Close ends it.
type Instance struct {
	*stack.Stack
	// Endpoint is the URL of the cloud.
	Endpoint string

	scratch string
	data    *data
}

// Start starts Sluice.
func Start(ctx context.Context, o Options) (_ *Instance, err error) {
	scratch, err := os.MkdirTemp("", "sluice-dev-*")
	if err != nil {
		return nil, err
	}
	c := newCloud(o)
	i := &Instance{scratch: scratch, Stack: &stack.Stack{Cloud: c}}
	defer func() {
		if err != nil {
			err = errors.Join(err, i.Close())
		}
	}()
	if o.Data != "" {
		if i.data, err = openData(o.Data, c, o.Out); err != nil {
			return nil, err
		}
	}
	if err := i.deploy(ctx, o); err != nil {
		return nil, err
	}
	if i.data == nil {
		return i, nil
	}
	if i.data.loaded {
		if err := redrive(ctx, i.Stack); err != nil {
			return nil, fmt.Errorf("go on with the tasks of the run before: %w", err)
		}
		c.Resume()
	}
	i.data.keep()
	return i, nil
}

// newCloud is a cloud that is as unreliable as asked for.
func newCloud(o Options) *cloud.Cloud {
	options := cloud.Options{Lambda: lambdaemu.Options{LogSink: logTo(o.Log)}, Seed: rand.Uint64()} //nolint:gosec // any seed will do
	if o.Late > 0 {
		options.Scheduler.Lateness = func() time.Duration { return rand.N(o.Late + 1) } //nolint:gosec // as above
	}
	c := cloud.New(options)
	c.SetDelivery(cloud.S3Events, o.Delivery)
	c.SetDelivery(cloud.Wakeups, o.Delivery)
	return c
}

// deploy listens, and deploys Sluice and the further functions.
func (i *Instance) deploy(ctx context.Context, o Options) error {
	bootstrap, err := compiled(ctx, i.scratch, "claim", o.Claim)
	if err != nil {
		return err
	}
	if i.Endpoint, err = i.Cloud.Listen(cmp.Or(o.Address, "127.0.0.1:4566")); err != nil {
		return err
	}
	deployment := stack.Options{
		Claim: stack.Process(bootstrap), Environment: o.Environment, Timeout: o.Timeout, Notices: o.Notices,
		Limiter: ifBuilt("limiter"), Reset: ifBuilt("reset"), Sweep: ifBuilt("sweep"),
	}
	if o.RetryDelay > 0 {
		deployment.RetryDelays = []time.Duration{o.RetryDelay}
	}
	deployed, err := stack.Deploy(ctx, i.Cloud, deployment)
	if err != nil {
		return err
	}
	i.Stack = deployed
	for _, name := range slices.Sorted(maps.Keys(o.Functions)) {
		if err := i.addFunction(ctx, name, o.Functions[name]); err != nil {
			return err
		}
	}
	return nil
}

// EnvLimiterFunction is the variable that tells further functions the name of the
// limiter function, empty if that is not built.
const EnvLimiterFunction = "SLUICE_LIMITER_FUNCTION"

// ifBuilt is the stock function of that name, nil unless `make build` built it.
func ifBuilt(name string) func(map[string]string) lambdaemu.Runtime {
	path, err := filepath.Abs(stockFunction(name))
	if err != nil || !isFile(path) {
		return nil
	}
	return stack.Process(path)
}

// addFunction registers a function that lambda.invoke tasks can call.
func (i *Instance) addFunction(ctx context.Context, name, path string) error {
	var runtime lambdaemu.Runtime
	if file, function, ok := strings.Cut(path, ".py:"); ok {
		runtime = lambdaemu.Python{Handler: filepath.Base(file) + "." + function, Dir: filepath.Dir(file)}
	} else {
		bootstrap, err := compiled(ctx, i.scratch, name, path)
		if err != nil {
			return err
		}
		runtime = lambdaemu.Process{Path: bootstrap}
	}
	return i.Cloud.Register(lambdaemu.Function{
		Name: name, Runtime: runtime, Timeout: 15 * time.Minute,
		Env: map[string]string{EnvLimiterFunction: i.Limiter},
	})
}

// Close ends the cloud and every function process, and saves the data if they are kept.
func (i *Instance) Close() error {
	err := i.Cloud.Close()
	if i.data != nil {
		err = errors.Join(err, i.data.close())
	}
	return errors.Join(err, os.RemoveAll(i.scratch))
}

// Exports are the lines to paste into a shell, so that the Sluice and AWS
// command lines and every SDK talk to this instance.
func (i *Instance) Exports() string {
	return strings.Join([]string{
		"export AWS_ENDPOINT_URL=" + i.Endpoint,
		"export AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local",
		"export AWS_REGION=" + i.Cloud.Region() + " AWS_DEFAULT_REGION=" + i.Cloud.Region(),
		"export SLUICE_BUCKET=" + i.Bucket + " SLUICE_TABLE=" + i.Table,
	}, "\n")
}

// Environment is the environment of a process that talks to this instance.
func (i *Instance) Environment() []string {
	return append(os.Environ(),
		"AWS_ENDPOINT_URL="+i.Endpoint,
		"AWS_ACCESS_KEY_ID=local", "AWS_SECRET_ACCESS_KEY=local", "AWS_SESSION_TOKEN=",
		"AWS_REGION="+i.Cloud.Region(),
		"SLUICE_BUCKET="+i.Bucket,
		"SLUICE_TABLE="+i.Table,
	)
}

// Run starts Sluice, says how to use it, and ends it with the context.
func Run(ctx context.Context, o Options) error {
	i, err := Start(ctx, o)
	if err != nil {
		return err
	}
	kept := "in memory: it is gone when this ends (Ctrl-C)"
	if o.Data != "" {
		kept = "with its data in " + o.Data + ": they are there again at the next start"
	}
	fmt.Fprintf(o.Out, `Sluice runs at %s, %s.

In another terminal:

%s

sluice submit -t http.request -i '{"url": "https://example.com"}' --wait
sluice list

What the functions log:

`, i.Endpoint, kept, i.Exports())
	<-ctx.Done()
	return i.Close()
}

// compiled is the executable of a Go function: the path itself, or what the
// folder's source is built to.
func compiled(ctx context.Context, scratch, name, path string) (string, error) {
	if path == "" {
		if _, err := os.Stat(defaultClaim); err != nil {
			return "", fmt.Errorf("the stock claim function is not at %s: run `make build` in the repository of Sluice, or name your own function with --claim", defaultClaim)
		}
		return filepath.Abs(defaultClaim)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("the function %s: %w", name, err)
	}
	if !info.IsDir() {
		return filepath.Abs(path)
	}
	bootstrap := filepath.Join(scratch, name, "bootstrap")
	build := exec.CommandContext(ctx, "go", "build", "-tags", "lambda.norpc", "-o", bootstrap, ".")
	build.Dir = path
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the function %s in %s: %w\n%s", name, path, err, text)
	}
	return bootstrap, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func logTo(w io.Writer) func(function, instance, line string) {
	if w == nil {
		return nil
	}
	return func(function, _, line string) { fmt.Fprintf(w, "%s  %s\n", function, line) }
}
