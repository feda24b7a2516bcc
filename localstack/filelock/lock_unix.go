//go:build unix

package filelock

import (
	"errors"
	"os"
	"syscall"
)

// Lock locks an open file until it is closed. [ErrLocked] means that another process, or
// another open file of this one, has it.
func Lock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}
