package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"

	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/wakeup"
)

// Names of the environment variables that the deployment sets.
const (
	EnvBucket          = "SLUICE_BUCKET"
	EnvScheduleGroup   = "SLUICE_SCHEDULE_GROUP"
	EnvScheduleRoleARN = "SLUICE_SCHEDULE_ROLE_ARN"
	EnvClaimARN        = "SLUICE_CLAIM_FUNCTION_ARN"
	EnvDeadLetterARN   = "SLUICE_DEAD_LETTER_ARN"
	EnvRest            = "SLUICE_REST"
	EnvUnhandledGrace  = "SLUICE_UNHANDLED_GRACE"
	EnvTable           = dynamolimit.TableVariable
	EnvRelease         = "SLUICE_RELEASE"
	EnvRoutes          = "SLUICE_ROUTES"
	// EnvConcurrency is how many invocations the function runs at once at most.
	EnvConcurrency = "SLUICE_CONCURRENCY"
)

// Start runs a claim function with the handlers of the mux, configured by the
// environment variables that the deployment sets. It does not return. A configuration that
// can't work ends the process with an error that names the variable.
func Start(mux *Mux) {
	config, err := awsconfig.LoadDefaultConfig(context.Background(), awsconfig.WithHTTPClient(newHTTPClient()))
	if err == nil {
		var engine *Engine
		if engine, err = FromEnvironment(config, mux, os.Getenv); err == nil {
			lambda.Start(engine.Handle)
			return
		}
	}
	fmt.Fprintln(os.Stderr, "sluice: claim function:", err)
	os.Exit(1)
}

// answerPatience is how long the engine waits for the answer to a request
// before it is sent again. A connection that hangs must not take the time that
// is kept for recording an outcome.
const answerPatience = 4 * time.Second

func newHTTPClient() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.ResponseHeaderTimeout = answerPatience
	})
}

// FromEnvironment makes the engine of a claim function from the environment
// variables that the deployment sets, read by getenv.
func FromEnvironment(config aws.Config, mux *Mux, getenv func(string) string) (*Engine, error) {
	var missing []error
	required := func(name string) string {
		value := getenv(name)
		if value == "" {
			missing = append(missing, fmt.Errorf("the environment variable %s is not set, the Sluice construct sets it", name))
		}
		return value
	}
	store := s3store.New(s3store.NewClient(config), required(EnvBucket))
	armer := wakeup.New(scheduler.NewFromConfig(config), wakeup.Config{
		Group:         required(EnvScheduleGroup),
		RoleARN:       required(EnvScheduleRoleARN),
		TargetARN:     required(EnvClaimARN),
		DeadLetterARN: getenv(EnvDeadLetterARN),
	})
	rest, err := durationFrom(getenv, EnvRest)
	if err == nil && rest != nil && *rest == 0 {
		*rest = NoRest
	}
	grace, graceErr := durationFrom(getenv, EnvUnhandledGrace)
	log := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	limiter, limiterErr := limiterFrom(config, mux, getenv, log)
	routes, routesErr := parseRoutes(getenv(EnvRoutes))
	notifier, noticesErr := notifierFrom(config, getenv)
	if err := errors.Join(append(missing, err, graceErr, limiterErr, routesErr, noticesErr)...); err != nil {
		return nil, err
	}
	c := Config{
		Store: store, Wakeups: armer, Mux: mux.without(routes), Limiter: limiter, Router: newRouter(config, routes),
		Notifier: notifier, WorkerID: workerID(getenv), FunctionName: getenv("AWS_LAMBDA_FUNCTION_NAME"), Log: log,
	}
	if rest != nil {
		c.Rest = *rest
	}
	if grace != nil {
		c.UnhandledGrace = *grace
	}
	return NewEngine(c), nil
}

// limiterFrom makes the limiter of the table that the deployment names, with
// the policies of the handlers declared. It is nil without a table, which is an
// error only if a handler has limits.
func limiterFrom(config aws.Config, mux *Mux, getenv func(string) string, log *slog.Logger) (Limiter, error) {
	policies, err := mux.Policies()
	if err != nil {
		return nil, err
	}
	if getenv(EnvTable) == "" {
		if len(policies) > 0 {
			return nil, fmt.Errorf("handlers have limits and the environment variable %s is not set, the Sluice construct sets it", EnvTable)
		}
		return nil, nil
	}
	release, err := releaseFrom(getenv)
	if err != nil {
		return nil, err
	}
	concurrency, err := countFrom(getenv, EnvConcurrency)
	if err != nil {
		return nil, err
	}
	limiter, err := dynamolimit.FromEnvironment(config, getenv,
		dynamolimit.WithPolicies(release, policies...), dynamolimit.WithConcurrency(concurrency), dynamolimit.WithLog(log))
	if err != nil {
		return nil, err
	}
	return limiter, nil
}

// releaseFrom is the release that declares the policies, of which a higher one
// replaces a lower one: a number from the environment, else the Unix time of the commit that
// the program was built from, else 0.
func releaseFrom(getenv func(string) string) (int64, error) {
	if value := getenv(EnvRelease); value != "" {
		release, err := strconv.ParseInt(value, 10, 64)
		if err != nil || release < 0 {
			return 0, fmt.Errorf("the environment variable %s is %q: it must be a whole number that grows with every release", EnvRelease, value)
		}
		return release, nil
	}
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return 0, nil
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.time" {
			if at, err := time.Parse(time.RFC3339, setting.Value); err == nil {
				return at.Unix(), nil
			}
		}
	}
	return 0, nil
}

// countFrom reads a number from an environment variable, 0 if it is not set.
func countFrom(getenv func(string) string, name string) (int, error) {
	value := getenv(name)
	if value == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("the environment variable %s is %q: it must be a whole number from 0", name, value)
	}
	return n, nil
}

// durationFrom reads a duration such as 5s from an environment variable, nil
// if it is not set.
func durationFrom(getenv func(string) string, name string) (*time.Duration, error) {
	value := getenv(name)
	if value == "" {
		return nil, nil
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		return nil, fmt.Errorf("the environment variable %s is %q: it must be a duration such as 5s or 1h30m", name, value)
	}
	return &d, nil
}

// workerID names this instance: the function and its log stream, which is where
// to read on.
func workerID(getenv func(string) string) string {
	name, stream := getenv("AWS_LAMBDA_FUNCTION_NAME"), getenv("AWS_LAMBDA_LOG_STREAM_NAME")
	switch {
	case name == "":
		return fmt.Sprintf("worker-%d", os.Getpid())
	case stream == "":
		return fmt.Sprintf("%s-%d", name, os.Getpid())
	}
	return name + "/" + stream
}
