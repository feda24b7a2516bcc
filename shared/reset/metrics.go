package reset

import (
	"context"
	"log/slog"
	"strings"
	"time"
)

// Metrics of the limiter's registry, in the namespace "Sluice" with the dimension
// FunctionName. There are few, since each is billed.
const (
	MetricPolicies  = "LimitPolicies"  // registered, a gauge
	MetricOverrides = "LimitOverrides" // in force, a gauge
	MetricResets    = "LimitResets"    // of manual policies by their cron
)

// emfDirective tells CloudWatch which members of a log line are metrics.
type emfDirective struct {
	Timestamp         int64       `json:"Timestamp"`
	CloudWatchMetrics []emfMetric `json:"CloudWatchMetrics"`
}

type emfMetric struct {
	Namespace  string      `json:"Namespace"`
	Dimensions [][]string  `json:"Dimensions"`
	Metrics    []emfMember `json:"Metrics"`
}

type emfMember struct {
	Name string `json:"Name"`
	Unit string `json:"Unit"`
}

// emit writes the run's line. Gauges are only told when they are known.
func (r *Resetter) emit(ctx context.Context, at time.Time, report Report, err error) {
	level := slog.LevelInfo
	attrs := []slog.Attr{
		slog.String("FunctionName", r.FunctionName),
		slog.Int(MetricResets, len(report.Resets)),
	}
	members := []emfMember{{MetricResets, "Count"}}
	if report.Policies > 0 || err == nil {
		members = append(members, emfMember{MetricPolicies, "Count"}, emfMember{MetricOverrides, "Count"})
		attrs = append(attrs, slog.Int(MetricPolicies, report.Policies), slog.Int(MetricOverrides, report.Overrides))
	}
	attrs = append(attrs, slog.Any("_aws", emfDirective{
		Timestamp:         at.UnixMilli(),
		CloudWatchMetrics: []emfMetric{{Namespace: "Sluice", Dimensions: [][]string{{"FunctionName"}}, Metrics: members}},
	}))
	if err != nil {
		level = slog.LevelError
		attrs = append(attrs, slog.String("error", strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	r.Log.LogAttrs(ctx, level, "reset run", attrs...)
}
