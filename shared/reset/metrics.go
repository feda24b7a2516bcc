package reset

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/shared/emf"
)

// Metrics of the limiter's registry, in the namespace "Sluice" with the dimension
// FunctionName. There are few, since each is billed.
const (
	MetricPolicies  = "LimitPolicies"  // registered, a gauge
	MetricOverrides = "LimitOverrides" // in force, a gauge
	MetricResets    = "LimitResets"    // of manual policies by their cron
	MetricParked    = "TasksParked"    // under places of policies, a gauge
	MetricPulled    = "TasksPulled"    // woken earlier than they asked for
)

// emit writes the run's line. Gauges are only told when they are known.
func (r *Resetter) emit(ctx context.Context, at time.Time, report Report, err error) {
	metrics := []emf.Metric{count(MetricResets, len(report.Resets))}
	if report.Policies > 0 || err == nil {
		metrics = append(metrics, count(MetricPolicies, report.Policies), count(MetricOverrides, report.Overrides))
	}
	if r.Sleepers != nil && r.Wakeups != nil {
		metrics = append(metrics, count(MetricParked, report.Waiting), count(MetricPulled, report.Pulled))
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
