// Package cli is the command line of Sluice: one file per command, and what
// they share. Commands print results to standard output and everything else to
// standard error, and read standard input only where "-" asks for it.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes of the command. A signal ends it with 128 and the signal's number, 130
// for Ctrl-C.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	exitSignal = 128
)

// app is what the commands share: the streams and the flags that every command has.
type app struct {
	stdin  *os.File
	out    *printer
	err    *printer
	target target
	json   bool
	// started tells that the flags and arguments were in order.
	started bool
}

// Main runs the command line of this process and returns its exit code.
func Main() int {
	ctx, stop := untilSignal(context.Background())
	defer stop()
	a := &app{stdin: os.Stdin, out: newPrinter(os.Stdout), err: newPrinter(os.Stderr)}
	return a.run(ctx, os.Args[1:])
}

func (a *app) run(ctx context.Context, args []string) int {
	root := a.newRootCommand() //nolint:contextcheck // cobra hands the context below to the commands
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if flushErr := a.out.flush(); err == nil && flushErr != nil {
		err = fmt.Errorf("write to standard output: %w", flushErr)
	}
	var signaled signalError
	var usage *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(context.Cause(ctx), &signaled):
		a.complain("%s", signaled)
		return exitSignal + int(signaled.number)
	case errors.As(err, &usage):
		a.complain("%s (see %s --help)", usage, cmd.CommandPath())
		return exitUsage
	case !a.started:
		a.complain("%v (see %s --help)", err, cmd.CommandPath())
		return exitUsage
	case !errors.Is(err, errReported):
		a.complain("%s", describe(err))
	}
	if coded, ok := errors.AsType[*codedError](err); ok {
		return coded.code
	}
	return exitFailed
}

// signalError is why the context of a command ended by a signal.
type signalError struct{ number syscall.Signal }

func (e signalError) Error() string {
	if e.number == syscall.SIGINT {
		return "interrupted"
	}
	return "stopped by a signal: " + e.number.String()
}

// untilSignal returns a context that the first SIGINT or SIGTERM ends. The second
// one ends the process at once.
func untilSignal(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			if number, ok := s.(syscall.Signal); ok {
				cancel(signalError{number})
			}
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// complain writes one line to standard error.
func (a *app) complain(format string, args ...any) {
	a.err.clearProgress()
	a.err.printf("sluice: %s\n", inline(fmt.Sprintf(format, args...)))
	_ = a.err.flush() // there is nowhere left to say it
}

// note writes one line of advice to standard error.
func (a *app) note(format string, args ...any) {
	a.err.clearProgress()
	a.err.printf("%s\n", a.err.dim(inline(fmt.Sprintf(format, args...))))
	_ = a.err.flush()
}
