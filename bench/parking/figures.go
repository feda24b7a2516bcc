package main

import "fmt"

// figures are means over all runs, and the worst of them.
type figures struct {
	wakeups, drain, held                float64 // wake-ups and seconds held are per task
	worstWakeups, worstDrain, worstHeld float64

	keeps, rejoins, pulls, taken, back, again float64 // per task, see counts

	beyond int64 // tasks, the worst of all runs
	most   int   // invocations at once, the worst of all runs
}

// figures returns those of a run that has ended.
func (w *world) figures() figures {
	n := float64(len(w.tasks))
	f := figures{
		wakeups: float64(w.wakeups) / n,
		held:    float64(w.held) / 1000 / n,
		keeps:   float64(w.keeps) / n,
		rejoins: float64(w.rejoins) / n,
		pulls:   float64(w.pulls) / n,
		taken:   float64(w.taken) / n,
		back:    float64(w.back) / n,
		again:   float64(w.again) / n,
		most:    w.most,
	}
	var last int64
	for _, t := range w.admitted {
		last = max(last, t)
	}
	f.drain = float64(last) / float64(w.scenario.ideal())
	for _, r := range w.scenario.rules {
		f.beyond = max(f.beyond, beyond(r, w.admitted))
	}
	f.worstWakeups, f.worstDrain, f.worstHeld = f.wakeups, f.drain, f.held
	return f
}

func (f *figures) means() []*float64 {
	return []*float64{&f.wakeups, &f.drain, &f.held, &f.keeps, &f.rejoins, &f.pulls, &f.taken, &f.back, &f.again}
}

func (f *figures) add(g figures) {
	sums, more := f.means(), g.means()
	for i := range sums {
		*sums[i] += *more[i]
	}
	f.worstWakeups = max(f.worstWakeups, g.worstWakeups)
	f.worstDrain = max(f.worstDrain, g.worstDrain)
	f.worstHeld = max(f.worstHeld, g.worstHeld)
	f.beyond = max(f.beyond, g.beyond)
	f.most = max(f.most, g.most)
}

func (f *figures) divide(n float64) {
	for _, sum := range f.means() {
		*sum /= n
	}
}

func (f figures) details() string {
	return fmt.Sprintf("  worst: wake-ups %.3f, drain %.3f, held %.2f; per task: %.4f too early, %.4f sent to the end, "+
		"%.4f pulled forward, %.4f taken along, %.4f of them in vain, %.4f found at work; at most %d invocations at once",
		f.worstWakeups, f.worstDrain, f.worstHeld, f.keeps, f.rejoins, f.pulls, f.taken, f.back, f.again, f.most)
}
