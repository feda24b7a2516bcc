package sluice_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/infra/sluice"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/lambdalimit"
	"github.com/sluice-dev/sluice/shared/reset"
	"github.com/sluice-dev/sluice/shared/sweep"
	"github.com/sluice-dev/sluice/shared/worker"
)

func TestAlarmsGoOffWhen(t *testing.T) {
	t.Parallel()
	const sum = "{f0} + {f1} + {f2} + {f3}"
	want := map[string]string{
		"sluice-dead-letters":     "ApproximateNumberOfMessagesVisible > 0 in 1 of 1 times 300 s",
		"sluice-stuck-tasks":      "SweepOldestOverdue > 3600 in 1 of 1 times 900 s",
		"sluice-unreadable-tasks": "SweepUnreadable > 0 in 2 of 2 times 900 s",
		"sluice-claim-errors":     "{f0} > 0 in 3 of 3 times 300 s; f0 = Errors",
		"sluice-throttles":        sum + " > 0 in 3 of 3 times 300 s; f0 = Throttles; f1 = Throttles; f2 = Throttles; f3 = Throttles",
		"sluice-limiter-errors":   "{unanswered} + {failed} > 0 in 2 of 3 times 300 s; failed = Errors; unanswered = LimiterErrors",
		"sluice-table-throttles":  "{reads} + {writes} > 0 in 3 of 3 times 300 s; reads = ReadThrottleEvents; writes = WriteThrottleEvents",
		"sluice-sweep":            "{runs} - {errors} < 1 in 6 of 6 times 300 s; errors = Errors; runs = Invocations",
		"sluice-reset":            "{runs} - {errors} < 1 in 3 of 3 times 300 s; errors = Errors; runs = Invocations",
		"sluice-cost": "{time} * 0.00000000333335 + {invocations} * 0.0000156 + {writes} * 0.000000625 + {reads} * 0.000000125 > 1 in 1 of 1 times 3600 s; " +
			"invocations = Invocations; reads = ConsumedReadCapacityUnits; time = Duration; writes = ConsumedWriteCapacityUnits",
	}
	got := make(map[string]string)
	for _, a := range stock().ofType("AWS::CloudWatch::Alarm") {
		got[text(a.at(t, "AlarmName"))] = condition(t, a)
		if actions := a.Properties["AlarmActions"]; actions != nil {
			t.Errorf("%s tells %v", a.id, actions)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if got[name] != want[name] {
			t.Errorf("%s: %s\nwant %s", name, got[name], want[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d alarms, want %d", len(got), len(want))
	}
}

var fill = regexp.MustCompile(`FILL\((\w+), 0\)`)

// condition writes when an alarm goes off.
func condition(t *testing.T, a resource) string {
	t.Helper()
	comparison := map[string]string{"GreaterThanThreshold": ">", "LessThanThreshold": "<"}[text(a.at(t, "ComparisonOperator"))]
	name, period := "", ""
	var terms []string
	if metrics, ok := a.at(t, "Metrics").([]any); ok {
		for _, metric := range metrics {
			metric, _ := metric.(map[string]any)
			if expression, ok := metric["Expression"].(string); ok {
				name = fill.ReplaceAllString(expression, "{$1}")
				continue
			}
			stat, _ := metric["MetricStat"].(map[string]any)
			of, _ := stat["Metric"].(map[string]any)
			terms = append(terms, fmt.Sprintf("; %s = %s", text(metric["Id"]), text(of["MetricName"])))
			period = text(stat["Period"])
		}
		slices.Sort(terms)
	} else {
		name, period = text(a.at(t, "MetricName")), text(a.at(t, "Period"))
	}

	return fmt.Sprintf("%s %s %s in %s of %s times %s s%s", name, comparison, text(a.at(t, "Threshold")),
		text(a.at(t, "DatapointsToAlarm")), text(a.at(t, "EvaluationPeriods")), period, strings.Join(terms, ""))
}

func TestATopicIsToldOfEveryAlarmAndOfItsEnd(t *testing.T) {
	t.Parallel()
	alarms := custom().ofType("AWS::CloudWatch::Alarm")
	for _, a := range alarms {
		for _, actions := range []string{"AlarmActions", "OKActions"} {
			if got := text(a.at(t, actions)); got != "arn:aws:sns:us-east-1:1:ops" {
				t.Errorf("%s: %s are %s", a.id, actions, got)
			}
		}
	}
	cost := custom().only(t, "AWS::CloudWatch::Alarm", "CostAlarm")
	if got := text(cost.at(t, "Threshold")); got != "2.5" {
		t.Errorf("the cost alarm goes off at %s", got)
	}
	if len(alarms) == 0 {
		t.Error("no alarms")
	}
}

func TestEachClaimFunctionHasACostAlarm(t *testing.T) {
	t.Parallel()
	for id, memory := range map[string]string{"CostAlarm": "0.00000000333335", "CostmailAlarm": "0.00000000333335", "CostrenderAlarm": "0.0000000266668"} {
		got := condition(t, several().named(t, "AWS::CloudWatch::Alarm", id))
		if !strings.HasPrefix(got, "{time} * "+memory+" + ") {
			t.Errorf("%s: %s", id, got)
		}
	}
}

// The limiter's errors are there by task type, from claim functions, and by code, from the limiter function.
// The alarm sees them all.
func TestTheLimitersErrorsAreFoundInTheLogsOfEveryFunctionThatWritesThem(t *testing.T) {
	t.Parallel()
	if worker.MetricLimiterErrors != lambdalimit.MetricErrors {
		t.Errorf("two names: %s and %s", worker.MetricLimiterErrors, lambdalimit.MetricErrors)
	}
	var logs []string
	for _, filter := range several().ofType("AWS::Logs::MetricFilter") {
		logs = append(logs, shortID(strings.Trim(text(filter.at(t, "LogGroupName")), "{}")))
		made, _ := filter.at(t, "MetricTransformations", 0).(map[string]any)
		if pattern := text(filter.at(t, "FilterPattern")); pattern != "{ $.LimiterErrors = * }" ||
			made["MetricNamespace"] != "Sluice/several" || made["MetricName"] != "LimiterErrors" || made["MetricValue"] != "$.LimiterErrors" {
			t.Errorf("%s: %s makes %v", filter.id, pattern, made)
		}
	}
	slices.Sort(logs)
	if want := []string{"ClaimLogs", "ClaimmailLogs", "ClaimrenderLogs", "LimiterLogs"}; !slices.Equal(logs, want) {
		t.Errorf("found in %v, want %v", logs, want)
	}
	body := text(stock().only(t, "AWS::CloudWatch::Dashboard", "Dashboard").at(t, "DashboardBody"))
	if !strings.Contains(body, "{Sluice,Code} MetricName=") {
		t.Error("the dashboard does not show the limiter's errors by code")
	}
}

func TestAlarmsAndDashboardCanBeLeftOut(t *testing.T) {
	t.Parallel()
	bare := synth(map[string]any{"alarms": "false", "dashboard": "false"}, sluice.Props{})
	for _, kind := range []string{"AWS::CloudWatch::Alarm", "AWS::CloudWatch::Dashboard", "AWS::Logs::MetricFilter"} {
		if left := bare.ofType(kind); len(left) != 0 {
			t.Errorf("%d of %s", len(left), kind)
		}
	}
}

// What the dashboard and the alarms look at is what the functions write.
func TestEveryMetricThatIsLookedAtIsWritten(t *testing.T) {
	t.Parallel()
	written := []string{
		worker.MetricCompleted, worker.MetricFailed, worker.MetricRetried, worker.MetricRescheduled, worker.MetricThrottled,
		worker.MetricDeferred, worker.MetricUnhandled, worker.MetricExpired, worker.MetricHandlerTime, worker.MetricWakeLateness,
		worker.MetricThrottles, worker.MetricLimiterErrors, worker.MetricLimiterDenied, worker.MetricQuarantined,
		dynamolimit.MetricAdmitted, dynamolimit.MetricDenied, dynamolimit.MetricRequests,
		sweep.MetricRedriven, sweep.MetricUnreadable, sweep.MetricOldestOverdue,
		reset.MetricPolicies, reset.MetricOverrides, reset.MetricResets, reset.MetricParked, reset.MetricPulled,
	}
	body := text(stock().only(t, "AWS::CloudWatch::Dashboard", "Dashboard").at(t, "DashboardBody"))
	var looked []string
	for _, match := range regexp.MustCompile(`MetricName=\\"(\w+)\\"|"Sluice","(\w+)"`).FindAllStringSubmatch(body, -1) {
		looked = append(looked, match[1]+match[2])
	}
	slices.Sort(looked)
	looked = slices.Compact(looked)
	slices.Sort(written)
	if !slices.Equal(looked, written) {
		t.Errorf("the dashboard shows\n%v\nwant\n%v", looked, written)
	}
}
