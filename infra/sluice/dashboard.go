package sluice

import (
	"fmt"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

// addDashboard adds the dashboard: what becomes of tasks, limits, deliveries, functions and the table, from
// top to bottom.
func (q *Queue) addDashboard(props Props) {
	if props.NoDashboard {
		return
	}
	dashboard := awscloudwatch.NewDashboard(q, jsii.String("Dashboard"), &awscloudwatch.DashboardProps{
		DashboardName: &props.Name,
	})
	perFunction := func(metric, statistic string) []awscloudwatch.IMetric {
		var metrics []awscloudwatch.IMetric
		for _, f := range append(q.claimFunctions(), q.Limiter, q.Sweep, q.Reset) {
			metrics = append(metrics, functionMetric(f, metric, statistic))
		}

		return metrics
	}
	for _, row := range [][]graph{
		{
			{"Completed, by task type", searches("TaskType", "Sum", "TasksCompleted")},
			{"Failed, retried, expired, without a handler", searches("TaskType", "Sum", "TasksFailed", "TasksRetried", "TasksExpired", "TasksUnhandled")},
			{"Time in the handler (s)", percentiles("HandlerTime")},
		},
		{
			{"Put to sleep: by the handler, by a limit, without an answer", searches("TaskType", "Sum", "TasksRescheduled", "TasksThrottled", "TasksDeferred")},
			{"Throttles, by policy", searches("Policy", "Sum", "Throttles")},
			{"Lateness of wake-ups (s)", percentiles("WakeLateness")},
		},
		{
			{"Could not be delivered, set aside", append(
				[]awscloudwatch.IMetric{q.DeadLetters.MetricApproximateNumberOfMessagesVisible(metricOptions("Maximum", fiveMinutes))},
				searches("Source", "Sum", "Quarantined")...,
			)},
			{"Found by the sweep", []awscloudwatch.IMetric{
				ownMetric("SweepRedriven", "Sum", fiveMinutes, q.Sweep), ownMetric("SweepUnreadable", "Sum", fiveMinutes, q.Sweep),
			}},
			{"Longest overdue (s)", []awscloudwatch.IMetric{ownMetric("SweepOldestOverdue", "Maximum", fiveMinutes, q.Sweep)}},
		},
		{
			{"Invocations", perFunction("Invocations", "Sum")},
			{"Errors and throttles", append(perFunction("Errors", "Sum"), perFunction("Throttles", "Sum")...)},
			{"Running at once", perFunction("ConcurrentExecutions", "Maximum")},
		},
		{
			{"Capacity used by the limiter", []awscloudwatch.IMetric{
				q.Table.MetricConsumedWriteCapacityUnits(metricOptions("Sum", fiveMinutes)),
				q.Table.MetricConsumedReadCapacityUnits(metricOptions("Sum", fiveMinutes)),
			}},
			{"Limiter: no answer, access denied; of the function, by code", append(
				searches("TaskType", "Sum", "LimiterErrors", "LimiterAccessDenied"), searches("Code", "Sum", "LimiterErrors")...,
			)},
			{"Policies and overrides", []awscloudwatch.IMetric{
				ownMetric("LimitPolicies", "Maximum", fiveMinutes, q.Reset), ownMetric("LimitOverrides", "Maximum", fiveMinutes, q.Reset),
				ownMetric("LimitResets", "Sum", fiveMinutes, q.Reset),
			}},
		},
		{
			{"Limiter: decisions and requests", searches("FunctionName", "Sum", "LimiterAdmitted", "LimiterDenied", "LimiterRequests")},
			{"Parked until their turn, by policy", searches("Policy", "Maximum", "TasksParked")},
			{"Parked in all, and woken earlier than they asked for", []awscloudwatch.IMetric{
				ownMetric("TasksParked", "Maximum", fiveMinutes, q.Reset), ownMetric("TasksPulled", "Sum", fiveMinutes, q.Reset),
			}},
		},
	} {
		var widgets []awscloudwatch.IWidget
		for _, g := range row {
			widgets = append(widgets, awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{
				Title: jsii.String(g.title), Left: &g.metrics, Width: jsii.Number(8), Period: seconds(fiveMinutes),
				LeftYAxis: &awscloudwatch.YAxisProps{Min: jsii.Number(0), ShowUnits: jsii.Bool(false)},
			}))
		}
		dashboard.AddWidgets(widgets...)
	}
}

type graph struct {
	title   string
	metrics []awscloudwatch.IMetric
}

// searches find the functions' own metrics by name, one line per value of the dimension: task types and
// policies need not be known here.
func searches(dimension, statistic string, names ...string) []awscloudwatch.IMetric {
	var metrics []awscloudwatch.IMetric
	for _, name := range names {
		label := name
		if statistic != "Sum" {
			label += " " + statistic
		}
		metrics = append(metrics, awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
			Expression: jsii.String(fmt.Sprintf(`SEARCH('{%s,%s} MetricName="%s"', '%s', %d)`,
				metricsNamespace, dimension, name, statistic, int(fiveMinutes/time.Second))),
			Label:        &label,
			Period:       seconds(fiveMinutes),
			UsingMetrics: &map[string]awscloudwatch.IMetric{},
		}))
	}

	return metrics
}

// percentiles are the usual and the worst value of a metric, by task type.
func percentiles(name string) []awscloudwatch.IMetric {
	return append(searches("TaskType", "p50", name), searches("TaskType", "p99", name)...)
}

func functionMetric(f awslambda.Function, name, statistic string) awscloudwatch.IMetric {
	return f.Metric(&name, &awscloudwatch.MetricOptions{
		Statistic: &statistic, Period: seconds(fiveMinutes), Label: jsii.String(*f.FunctionName() + " " + name),
	})
}
