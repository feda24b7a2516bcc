package main

import (
	"errors"
	"os/exec"
	"syscall"
)

// inOwnGroup makes a command the leader of a process group: it does not get the terminal's Ctrl-C, and
// what it starts can be ended with it.
func inOwnGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// signalGroup sends a signal to every process of the command's group. A group that is gone is no error.
func signalGroup(cmd *exec.Cmd, signal syscall.Signal) error {
	if cmd.Process == nil {
		return nil
	}
	if err := syscall.Kill(-cmd.Process.Pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}

	return nil
}
