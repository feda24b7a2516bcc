//go:build !unix

package lambdaemu

import (
	"os"
	"syscall"
)

// ownGroup: there are no process groups here.
func ownGroup() *syscall.SysProcAttr { return nil }

// killGroup kills the process only.
func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}
