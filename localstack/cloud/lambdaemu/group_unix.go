//go:build unix && !linux

package lambdaemu

import "syscall"

// ownGroup puts a child into a process group of its own, so that it can be
// killed with all it has started. Only Linux can tie its life to this process.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
