// Command cold prints how long the functions take to start: from the start of the process to
// the answer to its first invocation, the median of twenty, and how large the binaries are.
//
// Each function runs as Lambda would run it, against a minimal Runtime API, and does real
// work on the embedded cloud: claim runs a task from its submission to its end, limiter
// admits a request, reset and sweep make a run. The network adds nothing here. Run it in the
// repository, after `make build-host`; `make bench-cold` does both.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"
)

// starts is how often each function is started.
const starts = 20

// patience is how long all of it may take.
const patience = 4 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench/cold:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to clean up
	}
}

func run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	w, err := startWorld(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	for _, f := range w.functions() {
		if err := measure(ctx, w, f); err != nil {
			return fmt.Errorf("the function %s: %w", f.name, err)
		}
	}
	return nil
}

// function is one that is measured.
type function struct {
	name string
	// event makes the event of the invocation that comes first, check judges what came of it.
	event func(ctx context.Context) ([]byte, error)
	check func(ctx context.Context, answer []byte) error
}

func measure(ctx context.Context, w *world, f function) error {
	path, err := filepath.Abs(filepath.Join("dist", "host", f.name, "bootstrap"))
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("%w: run `make build-host` first", err)
	}
	var whole, init []time.Duration
	for range starts {
		event, err := f.event(ctx)
		if err != nil {
			return err
		}
		s, err := w.runtime.start(ctx, path, w.environment(f.name), event)
		if err != nil {
			return err
		}
		if err := f.check(ctx, s.answer); err != nil {
			return err
		}
		whole, init = append(whole, s.whole), append(init, s.init)
	}
	fmt.Printf("figure cold_start_ms function=%s = %.1f\n", f.name, milliseconds(median(whole)))
	fmt.Printf("figure init_ms function=%s = %.1f\n", f.name, milliseconds(median(init)))
	fmt.Printf("figure binary_mb function=%s = %.1f\n", f.name, float64(info.Size())/1e6)
	return nil
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return (d[(len(d)-1)/2] + d[len(d)/2]) / 2
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
