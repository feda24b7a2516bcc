package lambdalimit

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"

	"github.com/sluice-dev/sluice/shared/dynamolimit"
)

var (
	_ Limiter = (*dynamolimit.Limiter)(nil)
	_ Once    = (*dynamolimit.Limiter)(nil)
	_ Parker  = (*dynamolimit.Limiter)(nil)
)

// Start runs the limiter function, configured by the environment variables that the
// deployment sets. It does not return. A configuration that can't work ends the
// process with an error that names the variable.
func Start() {
	config, err := awsconfig.LoadDefaultConfig(context.Background())
	if err == nil {
		var h *Handler
		if h, err = FromEnvironment(config, os.Getenv); err == nil {
			lambda.Start(h)
			return
		}
	}
	fmt.Fprintln(os.Stderr, "sluice: limiter function:", err)
	os.Exit(1)
}

// FromEnvironment makes the function from the environment variables that the
// deployment sets, read by getenv.
func FromEnvironment(config aws.Config, getenv func(string) string) (*Handler, error) {
	log := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	limiter, err := dynamolimit.FromEnvironment(config, getenv, dynamolimit.WithLog(log))
	if err != nil {
		return nil, err
	}
	return &Handler{Limiter: limiter, Log: log, FunctionName: getenv("AWS_LAMBDA_FUNCTION_NAME")}, nil
}
