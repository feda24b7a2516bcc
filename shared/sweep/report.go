package sweep

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluice-dev/sluice/shared/emf"
	"github.com/sluice-dev/sluice/shared/retention"
)

// Report says what a run did.
type Report struct {
	// Listed is the number of objects under inbox/ that were passed.
	Listed int `json:"listed"`
	// Redriven is the number of tasks that the claim function was asked to look
	// at: the sum of the next five.
	Redriven    int `json:"redriven"`
	LostEvents  int `json:"lost_events"`
	LostWakeups int `json:"lost_wakeups"`
	DeadLeases  int `json:"dead_leases"`
	Leftovers   int `json:"leftovers"`
	NoTasks     int `json:"no_tasks"`
	// Unreadable is the number of tasks that could not be looked at.
	Unreadable int `json:"unreadable"`
	// OldestOverdueSeconds is for how long the task was overdue that waited longest.
	OldestOverdueSeconds float64 `json:"oldest_overdue_seconds"`
	// Requests is the number of requests to S3 and Lambda.
	Requests int `json:"requests"`
	// Round says that the run reached the end of the inbox, RoundSeconds since when
	// that round was under way: a task that is overdue is found within the grace period and a round.
	Round        bool    `json:"round"`
	RoundSeconds float64 `json:"round_seconds,omitempty"`
	// Stop is why the run ended before the inbox did, empty otherwise.
	Stop Stop `json:"stop,omitempty"`
	// Retention is what was done about expired records, after the run.
	Retention *retention.Report `json:"retention,omitempty"`
}

// Stop is why a run ended before it had seen all of the inbox.
type Stop string

// The reasons to stop.
const (
	StopBudget       Stop = "budget"
	StopTime         Stop = "time"
	StopAnotherSweep Stop = "another_sweep"
)

func (r *Report) add(f finding, now time.Time) {
	r.Redriven++
	r.OldestOverdueSeconds = max(r.OldestOverdueSeconds, now.Sub(f.since).Seconds())
	switch f.kind {
	case LostEvent:
		r.LostEvents++
	case LostWakeup:
		r.LostWakeups++
	case DeadLease:
		r.DeadLeases++
	case Leftover:
		r.Leftovers++
	case NoTask:
		r.NoTasks++
	}
}

// Metrics of the sweep, in the namespace "Sluice" with the dimension
// FunctionName. There are few, since each is billed; the log line that carries them has
// the other figures.
const (
	MetricRedriven      = "SweepRedriven"      // count
	MetricUnreadable    = "SweepUnreadable"    // count
	MetricOldestOverdue = "SweepOldestOverdue" // seconds
	MetricRoundTime     = "SweepRoundTime"     // seconds, when a round ends
)

// emit writes the run's one log line, which carries its metrics.
func (r *run) emit(ctx context.Context, err error) {
	p := r.report
	metrics := []emf.Metric{
		{Name: MetricRedriven, Unit: emf.Count, Value: float64(p.Redriven)},
		{Name: MetricUnreadable, Unit: emf.Count, Value: float64(p.Unreadable)},
		{Name: MetricOldestOverdue, Unit: emf.Seconds, Value: p.OldestOverdueSeconds},
	}
	if p.Round {
		metrics = append(metrics, emf.Metric{Name: MetricRoundTime, Unit: emf.Seconds, Value: p.RoundSeconds})
	}
	attrs := append(emf.Attrs(r.Now(), emf.Dimension{Name: "FunctionName", Value: r.FunctionName}, metrics...),
		slog.Int("listed", p.Listed),
		slog.Int("lost_events", p.LostEvents), slog.Int("lost_wakeups", p.LostWakeups),
		slog.Int("dead_leases", p.DeadLeases), slog.Int("leftovers", p.Leftovers), slog.Int("no_tasks", p.NoTasks),
		slog.Int("requests", p.Requests), slog.Bool("round", p.Round), slog.String("stop", string(p.Stop)),
	)
	level := slog.LevelInfo
	if err != nil {
		level = slog.LevelError
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	r.Log.LogAttrs(ctx, level, "sweep", attrs...)
}
