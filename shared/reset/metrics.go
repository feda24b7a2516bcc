package reset

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/emf"
)

// Metrics of the limiter's registry and of parked tasks, in the namespace "Sluice" with
// the dimension FunctionName. There are few, since each is billed. MetricParked has the
// dimension Policy besides, for policies on which tasks are parked: those of a group have
// the same number, since their tasks stand in one line.
const (
	MetricPolicies  = "LimitPolicies"  // registered, a gauge
	MetricOverrides = "LimitOverrides" // in force, a gauge
	MetricResets    = "LimitResets"    // of manual policies by their cron
	MetricParked    = "TasksParked"    // under places of policies, a gauge
	MetricPulled    = "TasksPulled"    // woken earlier than they asked for
)

// emit writes the run's line, and one for each policy on which tasks are parked. Gauges
// are only told when they are known.
func (r *Resetter) emit(ctx context.Context, at time.Time, report Report, round *dynamolimit.Round, err error) {
	for _, policy := range slices.Sorted(maps.Keys(report.Parked)) {
		r.Log.LogAttrs(ctx, slog.LevelInfo, "parked", emf.Attrs(at, emf.Dimension{Name: "Policy", Value: policy},
			count(MetricParked, report.Parked[policy]))...)
	}
	metrics := []emf.Metric{count(MetricResets, len(report.Resets))}
	if report.Policies > 0 || err == nil {
		metrics = append(metrics, count(MetricPolicies, report.Policies), count(MetricOverrides, report.Overrides))
	}
	if round != nil {
		metrics = append(metrics, count(MetricPulled, round.Pulled))
	}
	if report.Parked != nil {
		metrics = append(metrics, count(MetricParked, report.Waiting))
	}
	level := slog.LevelInfo
	attrs := emf.Attrs(at, emf.Dimension{Name: "FunctionName", Value: r.FunctionName}, metrics...)
	if err != nil {
		level = slog.LevelError
		attrs = append(attrs, slog.String("error", strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	r.Log.LogAttrs(ctx, level, "reset run", attrs...)
}

func count(name string, n int) emf.Metric {
	return emf.Metric{Name: name, Unit: emf.Count, Value: float64(n)}
}
