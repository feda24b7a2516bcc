// Parking plays what happens when a crowd of tasks meets a limit, in virtual time and
// with the limiter's real decisions: how often tasks are woken, how long the crowd takes
// compared with the least time in which the policy allows it, how long functions wait for
// a turn, and whether more was ever admitted than the policy allows. It compares places in
// a queue with sleeping for as long as the limiter says and trying again, without and with
// jitter.
//
//	go run ./bench/parking -seeds 20
//
// It prints a line for each scenario, lateness of wake-ups and strategy, with the means
// over all seeds; the last number, after the equals sign, is the most that was admitted
// beyond the policy in any of them, and it fails if that is not 0. Where places miss one
// of their targets, a line says so at the end.
//
// With -realtime, for which `make build-host` has to have been run, a small scenario is
// played on the embedded cloud too, by the real functions, and two lines compare that with
// its simulation.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "parking:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to clean up
	}
}

func run(ctx context.Context) error {
	seeds := flag.Int("seeds", 20, "runs of each scenario with places, with the seeds 1, 2, …")
	others := flag.Int("other-seeds", 2, "runs with the other strategies, of which some wake tasks millions of times")
	only := flag.String("only", "", `words that the printed lines must contain, such as "scenario=10ps strategy=place"`)
	plot := flag.String("plot", "", "write a plot of the strategies to this SVG file, and nothing else")
	runs := flag.Duration("run", 100*time.Millisecond, "how long a task runs")
	concurrency := flag.Int("concurrency", 1000, "invocations that the function runs at most at once")
	strict := flag.Bool("strict", false, "fail if a target is missed, not only if more is admitted than allowed")
	verbose := flag.Bool("v", false, "print more about each line")
	realtime := flag.Bool("realtime", false, "at the end, play a small scenario on the embedded cloud too, beside its simulation")
	flag.Parse()
	set := settings{concurrency: *concurrency, runs: runs.Milliseconds()}
	if *plot != "" {
		return writePlot(*plot, set)
	}
	fmt.Printf("parking: seeds 1 to %d (1 to %d for strategies without places), tasks run %v, concurrency %d\n",
		*seeds, *others, *runs, *concurrency)
	var missed []string
	var beyondErr error
	for _, c := range combinations() {
		if !containsAll(c.label(), *only) {
			continue
		}
		n := *seeds
		if !c.strategy.places {
			n = min(n, *others)
		}
		f := c.play(n, set)
		fmt.Println(c.line(f))
		if *verbose {
			fmt.Println(f.details())
		}
		missed = append(missed, c.missed(f)...)
		if f.beyond > 0 {
			beyondErr = fmt.Errorf("%s: %d more were admitted than the policy allows", c.label(), f.beyond)
		}
	}
	for _, m := range missed {
		fmt.Println("missed", m)
	}
	if *strict && len(missed) > 0 {
		return errors.Join(beyondErr, fmt.Errorf("%d targets are missed", len(missed)))
	}
	if *realtime {
		return errors.Join(beyondErr, compareWithRealTime(ctx))
	}
	return beyondErr
}

// combination is a line of the output.
type combination struct {
	scenario scenario
	lateness lateness
	strategy strategy
}

func combinations() (all []combination) {
	for _, s := range scenarios() {
		for _, l := range latenesses() {
			for _, st := range strategies() {
				all = append(all, combination{s, l, st})
			}
		}
	}
	return all
}

func (c combination) label() string {
	return fmt.Sprintf("scenario=%s lateness=%s strategy=%s", c.scenario.name, c.lateness.name, c.strategy.name)
}

func (c combination) line(f figures) string {
	return fmt.Sprintf("figure parking %s wakeups_per_task=%.3f drain_ratio=%.3f held_seconds_per_task=%.2f = %d",
		c.label(), f.wakeups, f.drain, f.held, f.beyond)
}

func containsAll(s, words string) bool {
	for word := range strings.FieldsSeq(words) {
		if !strings.Contains(s+" ", word+" ") {
			return false
		}
	}
	return true
}

// play runs a combination with the seeds 1 to n, as many at a time as there are processors.
func (c combination) play(n int, set settings) figures {
	var mu sync.Mutex
	var total figures
	var wg sync.WaitGroup
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	for seed := range n {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			w := newWorld(c, uint64(seed+1), set)
			w.run()
			f := w.figures()
			mu.Lock()
			defer mu.Unlock()
			total.add(f)
		})
	}
	wg.Wait()
	total.divide(float64(n))
	return total
}

// missed returns which of the targets of places the figures miss.
func (c combination) missed(f figures) (missed []string) {
	if !c.strategy.places {
		return nil
	}
	drain, held := 1.05, 8.0
	switch c.lateness.name {
	case "correlated":
		drain = 1.10
	case "punctual":
		held = 15
	}
	for _, t := range []struct {
		name      string
		got, most float64
	}{
		{"admitted beyond the policy", float64(f.beyond), 0},
		{"wake-ups per task", f.wakeups, 1.10},
		{"drain ratio", f.drain, drain},
		{"seconds held per task", f.held, held},
	} {
		if t.got > t.most {
			missed = append(missed, fmt.Sprintf("%s: %s %.3f, want at most %.2f", c.label(), t.name, t.got, t.most))
		}
	}
	return missed
}
