// Command ministack runs another command against a MiniStack of its own: a local cloud that takes real
// CloudFormation and runs real function binaries.
//
//	go run ./localstack/ministack -python .tools/ministack/bin/python -- localstack/e2e.sh
//
// It starts MiniStack, waits until it answers, runs the command with an environment in which every AWS
// SDK, the AWS command line and CDK talk to it, and stops it again, also after a failure, Ctrl-C or
// SIGTERM. Its exit status is that of the command. Nothing keeps running and nothing is left in the
// temporary folder; the log stays when something went wrong.
//
// MiniStack runs with IAM enforced (AUTH) and over TLS (USE_SSL), so that what passes here has shown
// two more things: each function gets along with the rights that the stack gives it, and the policies
// that refuse plain HTTP, that of CDK's own staging bucket among them, stand in nobody's way.
//
// What to know about MiniStack 1.5.33, found by trying:
//
//   - It judges every schedule as one of the group "default", whatever its group, so a policy on the
//     schedules of another group is not enough; the end-to-end stack adds that one right.
//   - It judges the first object of a DeleteObjects as if no version of it were named: the end-to-end stack
//     adds that right, too.
//   - Schedules fire on a tick of 10 s, and at() in the past is accepted; AWS refuses it, and fires up to
//     60 s late.
//   - Its DynamoDB rounds sums to 28 digits, and its HTTP/2 breaks connections off: both are set right here.
//   - It judges transactions by the rights on what they hold, as AWS does.
//   - Rules of EventBridge with a rate fire on time.
//   - It refuses alarms with metric math; the end-to-end stack has none there.
//   - It answers 412 and 404 to conditional writes, never 409.
//   - Keys in S3 events are form-encoded and carry version and sequencer, as on AWS.
//   - provided.al2023 functions run as child processes of the host's architecture, several at once and
//     reused; their environment is MiniStack's own plus the function's, so that AWS_CA_BUNDLE and the
//     endpoint reach them.
//   - Python functions run on MiniStack's own interpreter, whatever their runtime says.
//   - SIGTERM ends it together with its functions. All of them are in one process group.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

const (
	// usualPort is the port that people expect a local cloud at. When it is taken, any free one does.
	usualPort = 4566

	// startLimit is how long MiniStack may take until it answers: two seconds as a rule, more when it
	// compiles its modules for the first time on a busy machine.
	startLimit = 2 * time.Minute

	// stopLimit is how long a process may take to end after SIGTERM before it gets SIGKILL.
	stopLimit = 15 * time.Second
)

func main() {
	python := flag.String("python", ".tools/ministack/bin/python", "the Python `interpreter` that has MiniStack installed")
	logs := flag.String("log", ".local/ministack.log", "the `file` that MiniStack's own output goes to, the functions' included")
	port := flag.Int("port", usualPort, "the `port` to listen on; when it is taken, any free one")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: ministack [flags] -- command [argument...]")
		flag.PrintDefaults()
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	status, err := run(ctx, server{Python: *python, Log: *logs, Port: *port}, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "ministack:", err)
	}
	os.Exit(status)
}

// run returns the status to exit with: that of the command, or 1 with an error when it could not be run
// to its end.
func run(ctx context.Context, s server, command []string) (status int, err error) {
	instance, err := s.start(ctx)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, instance.stop()) }()
	fmt.Printf("ministack: answers at %s (log: %s)\n", instance.url(), s.Log)

	err = runCommand(ctx, command, instance.environment())
	var failed *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 130, errors.New("interrupted")
	case errors.As(err, &failed):
		return failed.ExitCode(), nil
	case err != nil:
		return 1, err
	default:
		return 0, nil
	}
}

// runCommand runs the command in a process group of its own, so that Ctrl-C reaches it once, through
// this process, and nothing it started survives it.
func runCommand(ctx context.Context, command, environment []string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = environment
	inOwnGroup(cmd)
	cmd.Cancel = func() error { return signalGroup(cmd, syscall.SIGTERM) }
	cmd.WaitDelay = stopLimit
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running %s: %w", command[0], errors.Join(err, signalGroup(cmd, syscall.SIGKILL)))
	}

	return signalGroup(cmd, syscall.SIGKILL)
}
