package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTheOracleFindsWhatIsBeyond(t *testing.T) {
	t.Parallel()
	perSecond := rule{tokens: 2, interval: 1000, burst: 3}
	for _, tt := range []struct {
		name  string
		times []int64
		want  int64
	}{
		{"nothing", nil, 0},
		{"the burst", []int64{5, 5, 5}, 0},
		{"one beyond the burst", []int64{5, 5, 5, 5}, 1},
		{"at the rate", []int64{0, 0, 0, 500, 1000, 1500}, 0},
		{"a millisecond early", []int64{0, 0, 0, 500, 999}, 1},
		{"two late in a quiet time, then a burst", []int64{0, 10_000, 10_000, 10_000, 10_400}, 1},
		{"in any order", []int64{1000, 0, 500, 0, 0}, 0},
		{"ten at once", slices.Repeat([]int64{7}, 10), 7},
	} {
		if got := beyond(perSecond, tt.times); got != tt.want {
			t.Errorf("%s: %d beyond, want %d", tt.name, got, tt.want)
		}
	}
}

// The oracle agrees with going through all stretches of time one by one.
func TestTheOracleGoesThroughAllStretches(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		r := rule{tokens: 1 + random.Int64N(5), interval: 100 * (1 + random.Int64N(5)), burst: 1 + random.Int64N(4)}
		times := make([]int64, random.IntN(20))
		for i := range times {
			times[i] = random.Int64N(2000)
		}
		sorted := slices.Clone(times)
		slices.Sort(sorted)
		var most int64
		for i := range sorted {
			for j := i; j < len(sorted); j++ {
				allowed := r.burst*r.interval + (sorted[j]-sorted[i])*r.tokens
				most = max(most, (int64(j-i+1)*r.interval-allowed+r.interval-1)/r.interval)
			}
		}
		if got := beyond(r, times); got != most {
			t.Fatalf("%+v %v: %d beyond, want %d", r, times, got, most)
		}
	}
}

func TestTheAgendaIsInOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	var a agenda
	for i := range 2000 {
		a.add(event{at: random.Int64N(50), task: int32(i)})
	}
	last := event{at: -1}
	for e, ok := a.next(); ok; e, ok = a.next() {
		if e.before(last) {
			t.Fatalf("%+v after %+v", e, last)
		}
		last = e
	}
}

// Each strategy runs every task of a small crowd, never more than allowed, and the same
// seed plays the same run again.
func TestSmallCrowds(t *testing.T) {
	t.Parallel()
	small := []scenario{
		newScenario("bucket", 200, []int64{5, 1000, 5}),
		newScenario("two", 60, []int64{2, 1000, 2}, []int64{30, 60_000, 10}),
	}
	set := settings{concurrency: 50, runs: 100}
	for _, s := range small {
		for _, l := range latenesses() {
			for _, st := range strategies() {
				c := combination{s, l, st}
				t.Run(strings.ReplaceAll(c.label(), " ", ","), func(t *testing.T) {
					t.Parallel()
					f := c.play(2, set)
					if f.beyond != 0 || f.most > set.concurrency {
						t.Errorf("%s %s", c.line(f), f.details())
					}
					if g := c.play(2, set); f != g {
						t.Errorf("another time it is %s", c.line(g))
					}
				})
			}
		}
	}
}

// One of the crowds that the targets are about.
func TestPlacesReachTheirTargets(t *testing.T) {
	t.Parallel()
	set := settings{concurrency: 1000, runs: 100}
	for _, l := range latenesses() {
		c := combination{newScenario("10ps", 5000, []int64{10, 1000, 10}), l, strategies()[0]}
		if missed := c.missed(c.play(3, set)); len(missed) > 0 {
			t.Error(strings.Join(missed, "\n"))
		}
	}
}

func TestWholeSecondsAreThoseOfTheClock(t *testing.T) {
	t.Parallel()
	for _, ms := range []int64{0, 1, 543, 544, 545, 1544, 123_456} {
		whole := at(wholeSecond(ms))
		if !whole.Equal(whole.Truncate(time.Second)) || whole.Before(at(ms)) || whole.Sub(at(ms)) >= time.Second {
			t.Errorf("%v is rounded up to %v", at(ms), whole)
		}
	}
}
