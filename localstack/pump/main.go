// Command pump fires the schedules of a cloud that stores them and does nothing more, as LocalStack does:
// it lists them, invokes the target of each that is due, and deletes it if it is to be deleted then. It does so
// until it is interrupted, or for as long as another command runs.
//
//	go run ./localstack/pump -group sluice
//	go run ./localstack/pump -- go test ./localstack/e2e
//
// The cloud is the one that the AWS variables of its environment name. On a cloud that fires schedules itself
// each task would be woken twice, which costs a look at it and does no harm.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// groupVariable names the group, unless the flag does. The command that deploys the end-to-end stack sets it.
const groupVariable = "SLUICE_E2E_SCHEDULE_GROUP"

func main() {
	group := flag.String("group", os.Getenv(groupVariable), "the `name` of the group (default $"+groupVariable+", or else all groups)")
	every := flag.Duration("every", time.Second, "how often to look")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, *group, *every, flag.Args())
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "pump:", err)
	var failed *exec.ExitError
	if errors.As(err, &failed) && failed.ExitCode() > 0 {
		os.Exit(failed.ExitCode())
	}
	os.Exit(1)
}

// run pumps until ctx ends or the command does, whose failure is returned.
func run(ctx context.Context, group string, every time.Duration, command []string) error {
	settings, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return fmt.Errorf("loading the AWS configuration: %w", err)
	}
	p := newPump(scheduler.NewFromConfig(settings), lambda.NewFromConfig(settings), sqs.NewFromConfig(settings), group)
	p.log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	if len(command) == 0 {
		p.runEvery(ctx, every)

		return nil
	}

	pumping, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.runEvery(pumping, every)
	}()
	err = execute(ctx, command)
	stop()
	<-ended

	return err
}

// execute runs a command that has the terminal for itself, and ends it with ctx.
func execute(ctx context.Context, command []string) error {
	const patience = 10 * time.Second
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // to run what its caller says is what it is for
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running %s: %w", command[0], err)
	}

	return nil
}
