// Package filelock keeps two processes on one machine from working on the same file: a
// journal, or the folder of a local cloud. The lock goes with the process, however it ends.
package filelock

import "errors"

// ErrLocked means that another process holds the lock.
var ErrLocked = errors.New("another process is using it")
