package faultproof_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestMain lets garbage pile up: thousands of little clouds come and go.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// live walks one case, and returns the sites it came by and what was wrong.
func live(t *testing.T, s scenario, p plan, v variant) (sites []site, reached int, problems []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, s, p, v)
		s.life(w)
		ids := slices.Sorted(maps.Keys(s.want))
		if !s.purged {
			w.awaitEnd(ids...)
		}
		w.settle()
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, id := range ids {
			w.check(id, s.want[id])
		}
		w.checkEnd()
		sites, reached, problems = w.sites, w.reached, w.problems
	})
	return sites, reached, problems
}

// settle waits until everything has come that is still on its way, and the
// sweep has cleared what was left.
func (w *world) settle() {
	const roundsOfSweep = 4
	w.wait(2 * time.Hour)
	for range roundsOfSweep {
		w.wait(sweepEvery)
	}
	time.Sleep(time.Hour) // for the last schedules
	if w.scenario.parks {
		w.clearIndex()
	}
}

// sitesOf are the sites of a life without faults.
func sitesOf(t *testing.T, s scenario) []site {
	t.Helper()
	sites, _, problems := live(t, s, nil, 0)
	for _, p := range problems {
		t.Errorf("without a fault: %s", p)
	}
	return slices.DeleteFunc(sites, func(site site) bool {
		const mostOfSweep = 4
		return site.req.client == sweepClient && (!s.sweeps || site.n > mostOfSweep)
	})
}

// caseOf is one fault at one site.
type caseOf struct {
	name string
	plan plan
}

func casesOf(in scenario, sites []site) []caseOf {
	var cases []caseOf
	for n := range variants {
		cases = append(cases, caseOf{name: fmt.Sprintf("no-fault#%d", n)})
	}
	for _, s := range sites {
		for _, f := range faultsAt(in, s) {
			cases = append(cases, caseOf{s.String() + ":" + f.name, plan{s.String(): f}})
		}
	}
	return cases
}

// variants is how many lives without a fault are tried, with clocks that
// differ and schedules that are late.
const variants = 12

func TestEveryFaultInEveryLife(t *testing.T) {
	var tried, unreached atomic.Int64
	t.Run("life", func(t *testing.T) {
		for _, s := range lives() {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				sites := sitesOf(t, s)
				if t.Failed() {
					return
				}
				for _, c := range casesOf(s, sites) {
					if !chosen(s, c.name) {
						continue
					}
					t.Run(c.name, func(t *testing.T) {
						reached := try(t, s, c)
						tried.Add(1)
						if len(c.plan) > 0 && reached == 0 {
							unreached.Add(1)
						}
					})
				}
			})
		}
	})
	fmt.Fprintf(os.Stdout, "figure fault_cases = %d (in %d lives, %d did not come by their fault)\n", tried.Load(), len(lives()), unreached.Load())
}

func try(t *testing.T, s scenario, c caseOf) (reached int) {
	t.Helper()
	_, reached, problems := live(t, s, c.plan, variantOf(c.name))
	for _, p := range problems {
		t.Error(p)
	}
	if t.Failed() {
		t.Logf("to repeat it alone: go test ./shared/worker/faultproof -run '%s'", pattern(t.Name()))
	}
	return reached
}

// pattern is the -run that selects just this test.
func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + strings.NewReplacer("+", `\+`, ".", `\.`).Replace(part) + "$"
	}
	return strings.Join(parts, "/")
}

func TestPairsOfFaults(t *testing.T) {
	pairs := 600
	var tried atomic.Int64
	t.Run("life", func(t *testing.T) {
		for _, s := range lives() {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				sites := sitesOf(t, s)
				for n := range pairs / len(lives()) {
					c := pairOf(s, sites, n)
					if !chosen(s, c.name) {
						continue
					}
					t.Run(c.name, func(t *testing.T) {
						try(t, s, c)
						tried.Add(1)
					})
				}
			})
		}
	})
	fmt.Fprintf(os.Stdout, "figure fault_pairs = %d\n", tried.Load())
}

// pairOf is the n-th pair of a scenario, the same in every run.
func pairOf(in scenario, sites []site, n int) caseOf {
	random := rand.New(rand.NewPCG(uint64(variantOf(in.name)), uint64(n)))
	p := plan{}
	for len(p) < 2 {
		s := sites[random.IntN(len(sites))]
		faults := faultsAt(in, s)
		p[s.String()] = faults[random.IntN(len(faults))]
	}
	var names []string
	for _, at := range slices.Sorted(maps.Keys(p)) {
		names = append(names, at+":"+p[at].name)
	}
	return caseOf{strings.Join(names, "+"), p}
}

// chosen tells whether a case is tried. Under the race detector, and with
// -short, only some are, and of those of parked tasks, who have long lives, a third: which,
// their names decide. To catch a mutant all are, until one does.
func chosen(s scenario, name string) bool {
	every := uint64(1)
	switch {
	case os.Getenv(mutantVariable) != "":
	case raceEnabled:
		every = 24
	case testing.Short():
		every = 8
	}
	if s.parks && every > 1 {
		every *= 4
	} else if s.parks && os.Getenv(mutantVariable) == "" {
		every = 3
	}
	return uint64(variantOf(s.name+name))%every == 0
}
