package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// cdk runs the CDK command line. What it prints is progress for people, several screens of it: it is shown
// only when the step fails.
func (d *deployment) cdk(ctx context.Context, step string, arguments ...string) error {
	log, err := os.CreateTemp(d.dir, "cdk-*.log")
	if err != nil {
		return fmt.Errorf("opening the log of cdk %s: %w", step, err)
	}
	defer log.Close()
	begun := time.Now()
	cmd := command(ctx, d.CDK, append([]string{step, "--no-notices", "--no-color"}, arguments...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(),
		"CDK_DISABLE_VERSION_CHECK=1",
		"CDK_DISABLE_CLI_TELEMETRY=true",
		"CI=true", // no progress bar
		"JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=18,20,22",
		"NODE_NO_WARNINGS=1",
	)
	if err := cmd.Run(); err != nil {
		if _, seekErr := log.Seek(0, io.SeekStart); seekErr == nil {
			_, _ = io.Copy(os.Stderr, log)
		}

		return fmt.Errorf("cdk %s: %w", step, err)
	}
	fmt.Printf("%s: cdk %s done in %.0f s\n", d.Target, step, time.Since(begun).Seconds())

	return nil
}

// execute runs a command with the terminal as its output and nothing to read.
func execute(ctx context.Context, environment []string, name string, arguments ...string) error {
	cmd := command(ctx, name, arguments...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = environment
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running %s: %w", name, err)
	}

	return nil
}

// command makes a command that ends with its context: SIGTERM, then SIGKILL to it and all it started. It
// leads a process group of its own, so that Ctrl-C does not reach it behind this process's back: the stack
// could not be taken down with the AWS client gone half way.
func command(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	const patience = 10 * time.Second
	cmd := exec.CommandContext(ctx, name, arguments...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = patience

	return cmd
}
