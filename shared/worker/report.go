package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sluice-dev/sluice/shared/emf"
	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/task"
)

// Metrics of the claim function, in the namespace "Sluice". Those of outcomes
// are counts by the dimension TaskType.
const (
	MetricCompleted   = "TasksCompleted"
	MetricFailed      = "TasksFailed"
	MetricRetried     = "TasksRetried"
	MetricRescheduled = "TasksRescheduled"
	MetricThrottled   = "TasksThrottled"
	MetricDeferred    = "TasksDeferred"
	MetricUnhandled   = "TasksUnhandled"
	MetricCancelled   = "TasksCancelled"
	MetricExpired     = "TasksExpired"
	// MetricSleepTime is how long tasks are to sleep that were rescheduled, in
	// seconds, by TaskType.
	MetricSleepTime = "SleepTime"
	// MetricHandlerTime is how long runs took, in seconds, by TaskType.
	MetricHandlerTime = "HandlerTime"
	// MetricWakeLateness is how long after its second a wake-up was acted on, in
	// seconds, by TaskType.
	MetricWakeLateness = "WakeLateness"
	// MetricThrottles counts denials by the dimension Policy.
	MetricThrottles = "Throttles"
	// MetricLimiterErrors counts tasks for which the limiter gave no answer, and
	// MetricLimiterDenied those of them for which the store denied access, by TaskType.
	MetricLimiterErrors = "LimiterErrors"
	MetricLimiterDenied = "LimiterAccessDenied"
	// MetricQuarantined counts what was set aside, by the dimension Source, which
	// is "inbox".
	MetricQuarantined = "Quarantined"
)

var outcomeMetrics = map[task.Outcome]string{
	task.OutcomeCompleted:   MetricCompleted,
	task.OutcomeFailed:      MetricFailed,
	task.OutcomeRetried:     MetricRetried,
	task.OutcomeRescheduled: MetricRescheduled,
	task.OutcomeThrottled:   MetricThrottled,
	task.OutcomeDeferred:    MetricDeferred,
	task.OutcomeUnhandled:   MetricUnhandled,
	task.OutcomeCancelled:   MetricCancelled,
	task.OutcomeExpired:     MetricExpired,
}

// report logs an outcome, one line each, which carries its metrics. Inputs,
// outputs and the texts of errors stay out of the log, they may hold secrets.
func (e *Engine) report(ctx context.Context, w *work, effects task.Effects) {
	t := w.rec.Task
	attrs := []slog.Attr{
		slog.String("outcome", string(effects.Outcome)),
		slog.String("task_id", t.ID),
		slog.String("task_type", t.Type),
		slog.String("status", string(t.Status)),
		slog.Int64("attempt", t.Attempt),
		slog.Int64("revision", t.Revision),
	}
	if t.LeaseID != "" {
		attrs = append(attrs, slog.String("lease_id", t.LeaseID))
	}
	if t.Status == task.Pending {
		attrs = append(attrs, slog.Time("available_at", t.AvailableAt))
	}
	if metrics := e.measure(w, effects.Outcome); len(metrics) > 0 {
		attrs = append(attrs, emf.Attrs(e.Now(), byType(t), metrics...)...)
	}
	e.Log.LogAttrs(ctx, slog.LevelInfo, "task", attrs...)
	if effects.Outcome == task.OutcomeThrottled {
		e.Log.LogAttrs(ctx, slog.LevelInfo, "throttled",
			emf.Attrs(e.Now(), emf.Dimension{Name: "Policy", Value: t.Throttled.Policy}, emf.One(MetricThrottles))...)
	}
}

// measure is what an outcome adds to the metrics.
func (e *Engine) measure(w *work, outcome task.Outcome) []emf.Metric {
	t := w.rec.Task
	var metrics []emf.Metric
	if name, ok := outcomeMetrics[outcome]; ok {
		metrics = append(metrics, emf.One(name))
	}
	switch {
	case outcome == task.OutcomeClaimed && w.second > 0 && w.runs == 0:
		metrics = append(metrics, emf.InSeconds(MetricWakeLateness, max(e.Now().Sub(time.Unix(w.second, 0)), 0)))
	case outcome == task.OutcomeRescheduled:
		metrics = append(metrics, emf.InSeconds(MetricSleepTime, t.AvailableAt.Sub(t.UpdatedAt)))
	}
	if w.ran > 0 {
		metrics = append(metrics, emf.InSeconds(MetricHandlerTime, w.ran))
		w.ran = 0
	}
	return metrics
}

func byType(t task.Task) emf.Dimension { return emf.Dimension{Name: "TaskType", Value: t.Type} }

// reportLimiter logs that the limiter gave no answer.
func (e *Engine) reportLimiter(ctx context.Context, w *work, err error) {
	metrics := []emf.Metric{emf.One(MetricLimiterErrors)}
	if errors.Is(err, limit.ErrStoreDenied) {
		metrics = append(metrics, emf.One(MetricLimiterDenied))
	}
	attrs := []slog.Attr{slog.String("task_id", w.id), slog.String("error", err.Error())}
	attrs = append(attrs, emf.Attrs(e.Now(), byType(w.rec.Task), metrics...)...)
	e.Log.LogAttrs(ctx, slog.LevelError, "limiter failed", attrs...)
}

// reportTraffic logs what an invocation asked of the limiter, if anything.
func (e *Engine) reportTraffic(ctx context.Context, i *invocation) {
	if metrics := i.traffic.Metrics(); len(metrics) > 0 {
		e.Log.LogAttrs(ctx, slog.LevelInfo, "limiter", emf.Attrs(e.Now(), emf.Dimension{Name: "FunctionName", Value: e.FunctionName}, metrics...)...)
	}
}
