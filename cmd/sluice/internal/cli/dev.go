package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/dev"
	"github.com/sluice-dev/sluice/shared/handlers"
)

const devLong = `Run the embedded cloud (S3, DynamoDB, EventBridge Scheduler, Lambda, SQS) with the
real claim function, and print what to export so that other terminals, the AWS command
line included, talk to it. Nothing outside this machine is called by it, and it is gone
when it ends, unless --data keeps it.

--data FOLDER keeps objects with their versions, schedules, items and messages, and the
next start goes on: wake-ups that became due meanwhile fire, and every live task is looked
at. It is saved about every second while something happens (less often when there is very
much) and at the end. kill -9 loses what happened since the last save, and nothing else.
A task that was running is run again when its lease is over, as after a crash on AWS.

--late, --duplicate, --drop and --reorder make deliveries as unreliable as they can be on
AWS: of the events of S3 that start tasks, and of wake-ups. No task is lost: what was
dropped is found by the sweep, some 20 minutes later.

A function process that dies, or is killed, is replaced, as Lambda would.`

const devExample = `  sluice dev
  sluice dev --data ./sluice-data
  sluice dev --late 60s --duplicate 0.1 --reorder 0.2
  sluice dev --claim ./functions/mine
  sluice dev --function greet=examples/python-handler/handler.py:handler`

// devFlags are the flags of dev.
type devFlags struct {
	port      int
	claim     string
	hosts     string
	functions map[string]string
	env       map[string]string
	notices   map[string]string
	data      textFlag
	late      durationFlag
	timeout   durationFlag
	retry     durationFlag

	duplicate, drop, reorder chanceFlag
}

// newDevCommand returns the command that runs a local cloud.
func (a *app) newDevCommand() *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use:     "dev [flags]",
		Short:   "Run Sluice on this machine, on an embedded cloud",
		Long:    devLong,
		Example: devExample,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.dev(cmd.Context(), &f) },
	}
	const usualPort = 4566
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&f.port, "port", usualPort, "the `port` to listen on, 0 for any free one")
	flags.StringVar(&f.claim, "claim", "", "the claim function: a compiled one or a `folder` with its Go source (default the stock one)")
	flags.StringVar(&f.hosts, "hosts", "*", "the `hosts` that http.request tasks may call, separated by commas")
	flags.StringToStringVar(&f.functions, "function", nil, "a further Lambda function for lambda.invoke tasks, `NAME=PATH`: compiled, a folder with Go source, or file.py:function")
	flags.StringToStringVar(&f.env, "env", nil, "a variable `NAME=VALUE` of the claim function")
	flags.StringToStringVar(&f.notices, "notices", nil, "tell a queue of SQS when tasks of a type have ended, `TYPE=QUEUE`, * for all other types")
	flags.Var(&f.timeout, "timeout", "the longest an invocation of the claim function may take, by `duration`, at most 15m (default 15m)")
	flags.Var(&f.retry, "retry-delay", "wait this `duration` before an invocation that died is tried again (default 1m, then 2m)")
	flags.Var(&f.data, "data", "keep the data in this `folder`, for the next start (default in memory only)")
	flags.Var(&f.late, "late", "fire schedules up to this `duration` late, as AWS does by up to 60s (default punctually)")
	flags.Var(&f.duplicate, "duplicate", "the probability that an event or a wake-up is delivered twice")
	flags.Var(&f.drop, "drop", "the probability that one is lost")
	flags.Var(&f.reorder, "reorder", "the probability that one is held back for up to 10s, so that later ones overtake it")
	return cmd
}

func (a *app) dev(ctx context.Context, f *devFlags) error {
	const mostPort = 65535
	if f.port < 0 || f.port > mostPort {
		return usagef("--port %d: want 0 to %d", f.port, mostPort)
	}
	environment := map[string]string{handlers.EnvHTTPHosts: f.hosts}
	maps.Copy(environment, f.env)
	options := dev.Options{
		Address:     fmt.Sprintf("127.0.0.1:%d", f.port),
		Claim:       f.claim,
		Functions:   f.functions,
		Environment: environment,
		Notices:     f.notices,
		Data:        f.data.value,
		Delivery:    cloud.Delivery{Duplicate: f.duplicate.value, Drop: f.drop.value, Reorder: f.reorder.value},
		Out:         a.out.file,
		Log:         a.out.file,
	}
	for _, d := range []struct {
		flag   durationFlag
		option *time.Duration
	}{{f.late, &options.Late}, {f.timeout, &options.Timeout}, {f.retry, &options.RetryDelay}} {
		if d.flag.value != nil {
			*d.option = *d.flag.value
		}
	}
	return dev.Run(ctx, options)
}

// chanceFlag is a probability.
type chanceFlag struct{ value float64 }

func (f *chanceFlag) Set(s string) error {
	p, err := strconv.ParseFloat(s, 64)
	if err != nil || !(p >= 0 && p <= 1) { // not a number is neither
		return errors.New("must be a probability from 0 to 1, such as 0.1")
	}
	f.value = p
	return nil
}

func (f *chanceFlag) String() string { return "" }
func (f *chanceFlag) Type() string   { return "p" }
