package cli

import (
	"fmt"
	"maps"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/localstack/dev"
	"github.com/sluice-dev/sluice/shared/handlers"
)

// newDevCommand returns the command that runs a local cloud.
func (a *app) newDevCommand() *cobra.Command {
	var (
		port      int
		claim     string
		hosts     string
		functions map[string]string
		env       map[string]string
	)
	cmd := &cobra.Command{
		Use:   "dev [flags]",
		Short: "Run Sluice on this machine, on an embedded cloud",
		Long: `Run the embedded cloud (S3, DynamoDB, EventBridge Scheduler, Lambda, SQS) with the
real claim function, and print what to export so that other terminals, the AWS command
line included, talk to it. Nothing outside this machine is called by it, and it is gone
when it ends.`,
		Example: `  sluice dev
  sluice dev --claim ./functions/mine
  sluice dev --function greet=examples/python-handler/handler.py:handler`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			environment := map[string]string{handlers.EnvHTTPHosts: hosts}
			maps.Copy(environment, env)
			return dev.Run(cmd.Context(), dev.Options{
				Address:     fmt.Sprintf("127.0.0.1:%d", port),
				Claim:       claim,
				Functions:   functions,
				Environment: environment,
				Out:         cmd.OutOrStdout(),
				Log:         cmd.OutOrStdout(),
			})
		},
	}
	const usualPort = 4566
	flags := cmd.Flags()
	flags.IntVar(&port, "port", usualPort, "the `port` to listen on, 0 for any free one")
	flags.StringVar(&claim, "claim", "", "the claim function: a compiled one or a `folder` with its Go source (default the stock one)")
	flags.StringVar(&hosts, "hosts", "*", "the `hosts` that http.request tasks may call, separated by commas")
	flags.StringToStringVar(&functions, "function", nil, "a further Lambda function for lambda.invoke tasks, `NAME=PATH`: compiled, a folder with Go source, or file.py:function")
	flags.StringToStringVar(&env, "env", nil, "a variable `NAME=VALUE` of the claim function")
	return cmd
}
