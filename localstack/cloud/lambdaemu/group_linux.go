package lambdaemu

import "syscall"

// ownGroup puts a child into a process group of its own, so that it can be
// killed with all it has started, and has the kernel kill it when this process
// dies, even by SIGKILL.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
