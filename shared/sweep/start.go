package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	lambdaclient "github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/sluice-dev/sluice/shared/retention"
	"github.com/sluice-dev/sluice/shared/s3store"
)

// Names of the environment variables that the deployment sets. The first two are
// required.
const (
	EnvBucket   = "SLUICE_BUCKET"
	EnvClaimARN = "SLUICE_CLAIM_FUNCTION_ARN"
	// EnvGrace is [Config].Grace as a duration, such as 20m.
	EnvGrace = "SLUICE_SWEEP_GRACE"
	// EnvRetentionEvery is [retention.Config].Every as a duration, such as 24h.
	EnvRetentionEvery = "SLUICE_RETENTION_EVERY"
	// EnvMaxRequests, EnvMaxTasks and EnvBatchSize are the settings of [Config] of that name.
	EnvMaxRequests = "SLUICE_SWEEP_MAX_REQUESTS"
	EnvMaxTasks    = "SLUICE_SWEEP_MAX_TASKS"
	EnvBatchSize   = "SLUICE_SWEEP_BATCH_SIZE"
)

// Start runs the sweep function, configured by the environment variables that
// the deployment sets. It does not return. A configuration that can't work ends the process with an
// error that names the variable.
func Start() {
	config, err := awsconfig.LoadDefaultConfig(context.Background())
	if err == nil {
		var s *Sweeper
		if s, err = FromEnvironment(config, os.Getenv); err == nil {
			lambda.Start(s.Handle)
			return
		}
	}
	fmt.Fprintln(os.Stderr, "sluice: sweep function:", err)
	os.Exit(1)
}

// FromEnvironment makes a Sweeper from the environment variables that the
// deployment sets, read by getenv.
func FromEnvironment(config aws.Config, getenv func(string) string) (*Sweeper, error) {
	c, err := ConfigFromEnvironment(config, getenv)
	if err != nil {
		return nil, err
	}
	if c.Retention, err = retentionFrom(c.Store, getenv); err != nil {
		return nil, err
	}
	return New(c)
}

// retentionFrom makes what removes expired records.
func retentionFrom(store *s3store.Store, getenv func(string) string) (*retention.Remover, error) {
	c := retention.Config{Store: store}
	if value := getenv(EnvRetentionEvery); value != "" {
		every, err := time.ParseDuration(value)
		if err != nil || every <= 0 {
			return nil, fmt.Errorf("the environment variable %s is %q: it must be a duration above 0, such as 24h", EnvRetentionEvery, value)
		}
		c.Every = every
	}
	return retention.New(c)
}

// ConfigFromEnvironment is the configuration that [FromEnvironment] uses, without Retention, to be changed
// before it is given to [New]. Errors name the variable that can't work.
func ConfigFromEnvironment(config aws.Config, getenv func(string) string) (Config, error) {
	c, err := settings(getenv)
	c.Store = s3store.New(s3store.NewClient(config), getenv(EnvBucket))
	c.Lambda = lambdaclient.NewFromConfig(config)
	return c, err
}

func settings(getenv func(string) string) (Config, error) {
	var errs []error
	for _, name := range []string{EnvBucket, EnvClaimARN} {
		if getenv(name) == "" {
			errs = append(errs, fmt.Errorf("the environment variable %s is not set, the Sluice construct sets it", name))
		}
	}
	c := Config{ClaimFunction: getenv(EnvClaimARN), FunctionName: getenv("AWS_LAMBDA_FUNCTION_NAME")}
	if value := getenv(EnvGrace); value != "" {
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			errs = append(errs, fmt.Errorf("the environment variable %s is %q: it must be a duration above 0, such as 20m", EnvGrace, value))
		}
		c.Grace = d
	}
	for _, setting := range []struct {
		name  string
		value *int
		least int
		most  int
	}{
		{EnvMaxRequests, &c.MaxRequests, LeastRequests, 1e9},
		{EnvMaxTasks, &c.MaxTasks, 1, 1e9},
		{EnvBatchSize, &c.BatchSize, 1, MaxBatchSize},
	} {
		value := getenv(setting.name)
		if value == "" {
			continue
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < setting.least || n > setting.most {
			errs = append(errs, fmt.Errorf("the environment variable %s is %q: it must be a whole number from %d to %d", setting.name, value, setting.least, setting.most))
		}
		*setting.value = n
	}
	return c, errors.Join(errs...)
}
