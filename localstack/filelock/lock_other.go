//go:build !unix

package filelock

import "os"

// Lock does nothing on this system: here it is up to the user not to start two processes on
// the same file.
func Lock(*os.File) error { return nil }
