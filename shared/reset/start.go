package reset

import (
	"context"
	"fmt"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"

	"github.com/sluice-dev/sluice/shared/dynamolimit"
)

// Start runs the reset function, configured by the environment variables that the
// deployment sets. It does not return. A configuration that can't work ends the
// process with an error that names the variable.
func Start() {
	config, err := awsconfig.LoadDefaultConfig(context.Background())
	if err == nil {
		var r *Resetter
		if r, err = FromEnvironment(config, os.Getenv); err == nil {
			lambda.Start(r.Handle)
			return
		}
	}
	fmt.Fprintln(os.Stderr, "sluice: reset function:", err)
	os.Exit(1)
}

// FromEnvironment makes the function from the environment variables that the
// deployment sets, read by getenv.
func FromEnvironment(config aws.Config, getenv func(string) string) (*Resetter, error) {
	limiter, err := dynamolimit.FromEnvironment(config, getenv)
	if err != nil {
		return nil, err
	}
	wakeups, err := wakeupsFrom(config, getenv)
	if err != nil {
		return nil, err
	}
	return New(Config{Registry: limiter, Sleepers: limiter, Wakeups: wakeups, FunctionName: getenv("AWS_LAMBDA_FUNCTION_NAME")}), nil
}
