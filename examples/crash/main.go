// Command crash is a claim function whose instances die: examples/crash.sh shows what
// becomes of the tasks that they were running.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/sluice-dev/sluice/shared/worker"
)

func main() {
	mux := worker.NewMux()
	worker.Handle(mux, "slow", Slow)
	worker.Handle(mux, "fatal", Fatal)
	worker.Start(mux)
}

// Slow takes a while, and tells which process to kill meanwhile.
func Slow(ctx context.Context, duration string) (string, error) {
	d, err := time.ParseDuration(duration)
	if err != nil {
		return "", worker.Fail(err)
	}
	t, _ := worker.TaskFrom(ctx)
	fmt.Printf("%s: attempt %d runs in process %d\n", t.ID, t.Attempt, os.Getpid())
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-time.After(d):
		return fmt.Sprintf("done by attempt %d", t.Attempt), nil
	}
}

// Fatal ends its process at every attempt, as one does that runs out of memory.
func Fatal(context.Context, string) (string, error) {
	os.Exit(1)
	return "", nil
}
