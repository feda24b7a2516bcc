// Parking plays what happens when a crowd of tasks meets a limit, in virtual time and
// with the limiter's real decisions: how often tasks are woken, how long the crowd takes
// beyond what the limit makes it take, how long functions wait, and whether ever more was
// admitted than the policy allows. It compares places in a queue with sleeping for as
// long as the limiter says and trying again, without and with jitter.
//
//	go run ./bench/parking -seeds 20
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
)

func main() {
	seeds := flag.Int("seeds", 20, "runs of each scenario, with the seeds 1, 2, …")
	only := flag.String("only", "", "words that the printed line must contain, such as scenario=10ps")
	wait := flag.Duration("wait", 14*time.Second, "how long a woken task waits inside the function")
	rest := flag.Duration("rest", 5*time.Second, "how long a newcomer waits inside the function")
	linger := flag.Duration("linger", 2*time.Second, "how long a function that is done with a task waits for the turn of another")
	runs := flag.Duration("run", 100*time.Millisecond, "how long a task runs")
	concurrency := flag.Int("concurrency", 1000, "invocations that the function runs at most at once")
	verbose := flag.Bool("v", false, "print more about each line")
	flag.Parse()
	set := settings{
		patience:    limit.Patience{Wait: *wait, Rest: *rest, Linger: *linger},
		concurrency: *concurrency,
		runs:        runs.Milliseconds(),
	}
	fmt.Printf("parking: seeds 1 to %d, wait %v, rest %v, linger %v, tasks run %v, concurrency %d\n",
		*seeds, *wait, *rest, *linger, *runs, *concurrency)
	for _, s := range scenarios() {
		for _, l := range latenesses() {
			for _, st := range strategies() {
				label := fmt.Sprintf("figure parking scenario=%s lateness=%s strategy=%s", s.name, l.name, st.name)
				if !containsAll(label, *only) {
					continue
				}
				began := time.Now()
				r := runAll(s, l, st, *seeds, set)
				fmt.Printf("%s wakeups_per_task=%.3f drain_ratio=%.3f held_seconds_per_task=%.2f = %d\n", label, r.wakeups, r.drain, r.held, r.beyond)
				if *verbose {
					fmt.Printf("  worst drain %.3f, worst wakeups %.3f, worst held %.2f, too early %.4f, rejoined %.4f, pulled %.4f, taken along %.4f, put back %.4f, again %.4f per task; at most %d at work; took %v\n",
						r.worstDrain, r.worstWakeups, r.worstHeld, r.keeps, r.rejoins, r.pulls, r.taken, r.back, r.again, r.most, time.Since(began).Round(time.Millisecond))
				}
			}
		}
	}
	os.Exit(0)
}

func containsAll(s, words string) bool {
	for word := range strings.FieldsSeq(words) {
		if !strings.Contains(s+" ", word+" ") {
			return false
		}
	}
	return true
}

// figures are the means over all seeds, and the worst of them.
type figures struct {
	wakeups, drain, held                      float64
	worstWakeups, worstDrain, worstHeld       float64
	keeps, rejoins, pulls, taken, back, again float64
	beyond                                    int64
	most                                      int
}

func runAll(s scenario, l lateness, st strategy, seeds int, set settings) figures {
	var mu sync.Mutex
	var total figures
	var wg sync.WaitGroup
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	for seed := range seeds {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			w := newWorld(s, l, st, uint64(seed+1), set)
			w.run()
			f := w.figures()
			mu.Lock()
			defer mu.Unlock()
			total.add(f)
		})
	}
	wg.Wait()
	n := float64(seeds)
	for _, x := range []*float64{&total.wakeups, &total.drain, &total.held, &total.keeps, &total.rejoins, &total.pulls, &total.taken, &total.back, &total.again} {
		*x /= n
	}
	return total
}

func (f *figures) add(g figures) {
	f.wakeups += g.wakeups
	f.drain += g.drain
	f.held += g.held
	f.keeps += g.keeps
	f.rejoins += g.rejoins
	f.pulls += g.pulls
	f.taken += g.taken
	f.back += g.back
	f.again += g.again
	f.worstWakeups = max(f.worstWakeups, g.wakeups)
	f.worstDrain = max(f.worstDrain, g.drain)
	f.worstHeld = max(f.worstHeld, g.held)
	f.beyond = max(f.beyond, g.beyond)
	f.most = max(f.most, g.most)
}

func (w *world) figures() figures {
	n := float64(len(w.tasks))
	f := figures{
		wakeups: float64(len(w.woken)) / n,
		held:    float64(w.held) / 1000 / n,
		keeps:   float64(w.keeps) / n, rejoins: float64(w.rejoins) / n, pulls: float64(w.pulls) / n,
		taken: float64(w.taken) / n, back: float64(w.back) / n, again: float64(w.again) / n, most: w.most,
	}
	var last int64
	for _, t := range w.admitted {
		last = max(last, t)
	}
	f.drain = float64(last) / float64(w.scenario.ideal())
	for _, r := range w.scenario.rules {
		f.beyond = max(f.beyond, beyond(r, w.admitted))
	}
	return f
}
