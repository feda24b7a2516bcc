package sluice

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"
)

// AlarmProps configures the alarms of a queue: dead letters, stuck tasks, a limiter or a function that
// fails, throttles, a cron that has stopped, and cost. Each costs 10 to 60 cents per month.
type AlarmProps struct {
	// Off leaves all alarms out.
	Off bool

	// Topic is told when an alarm goes off and when it is over. CloudWatch must be allowed to publish to it,
	// which is so unless it is encrypted with a key of yours.
	//
	// Defaults to none: alarms are seen in the console only.
	Topic awssns.ITopic

	// StuckAfter is for how long a task has to be overdue to count as stuck: whole seconds, at least one. It
	// exceeds the sweep's grace of 20 minutes, after which a task is looked at again.
	//
	// Defaults to one hour.
	StuckAfter time.Duration

	// HourlyCost is what a claim function and what it uses may cost in an hour, in US dollars at list
	// prices. It is there to find a task that submits itself for ever.
	//
	// Defaults to 1.
	HourlyCost float64
}

// metricsNamespace is where the functions' own metrics are, those in the embedded metric format.
const metricsNamespace = "Sluice"

const fiveMinutes = 5 * time.Minute

// alarm is one alarm: what is wrong when a metric is above or below a threshold.
type alarm struct {
	id, name, description string
	metric                awscloudwatch.IMetric
	above                 float64 // goes off when the metric is higher
	belowInstead          bool    // goes off when the metric is lower
	periods, of           int     // in so many of so many periods
	keepsState            bool    // when there are no data
}

func (q *Queue) addAlarms(props Props) {
	if props.Alarms.Off {
		return
	}
	for _, a := range slices.Concat(
		q.deliveryAlarms(props), q.limiterAlarms(props), q.cronAlarms(), q.costAlarms(props),
	) {
		q.addAlarm(props, a)
	}
}

func (q *Queue) addAlarm(props Props, a alarm) {
	comparison := awscloudwatch.ComparisonOperator_GREATER_THAN_THRESHOLD
	if a.belowInstead {
		comparison = awscloudwatch.ComparisonOperator_LESS_THAN_THRESHOLD
	}
	missing := awscloudwatch.TreatMissingData_NOT_BREACHING
	if a.keepsState {
		missing = awscloudwatch.TreatMissingData_IGNORE
	}
	made := awscloudwatch.NewAlarm(q, jsii.String(a.id+"Alarm"), &awscloudwatch.AlarmProps{
		AlarmName:          jsii.String(props.Name + "-" + a.name),
		AlarmDescription:   &a.description,
		Metric:             a.metric,
		Threshold:          &a.above,
		ComparisonOperator: comparison,
		DatapointsToAlarm:  jsii.Number(a.periods),
		EvaluationPeriods:  jsii.Number(a.of),
		TreatMissingData:   missing,
	})
	if props.Alarms.Topic != nil {
		action := awscloudwatchactions.NewSnsAction(props.Alarms.Topic)
		made.AddAlarmAction(action)
		made.AddOkAction(action)
	}
}

// deliveryAlarms watch over that every task is looked at when it is due.
func (q *Queue) deliveryAlarms(props Props) []alarm {
	return []alarm{
		{
			id: "DeadLetters", name: "dead-letters",
			description: "Events or wake-ups could not be delivered. The tasks are not lost: the sweep looks at them. " +
				"`sluice dead-letters list` tells why, `sluice dead-letters redrive` has them looked at now.",
			metric: q.DeadLetters.MetricApproximateNumberOfMessagesVisible(metricOptions("Maximum", fiveMinutes)),
			above:  0, periods: 1, of: 1,
		},
		{
			id: "StuckTasks", name: "stuck-tasks",
			description: fmt.Sprintf("A task has been overdue for more than %v, and looking at it again does not help. "+
				"The log of the sweep tells how many, that of the claim function why.", props.Alarms.StuckAfter),
			metric: ownMetric("SweepOldestOverdue", "Maximum", 15*time.Minute, q.Sweep),
			above:  props.Alarms.StuckAfter.Seconds(), periods: 1, of: 1,
		},
		{
			id: "UnreadableTasks", name: "unreadable-tasks",
			description: "The sweep cannot read tasks: their record is damaged, or it lacks a right. Its log names them.",
			metric:      ownMetric("SweepUnreadable", "Maximum", 15*time.Minute, q.Sweep),
			above:       0, periods: 2, of: 2,
		},
		{
			id: "ClaimErrors", name: "claim-errors",
			description: "Invocations of claim functions keep failing, as opposed to the tasks in them: S3 or EventBridge " +
				"Scheduler cannot be reached, a right is missing, or handlers kill their process.",
			metric: q.sumOf("Errors", q.claimFunctions()),
			above:  0, periods: 3, of: 3,
		},
		{
			id: "Throttles", name: "throttles",
			description: "Lambda keeps refusing invocations: the account's or a function's concurrency is used up. " +
				"Tasks are late, not lost. Raise the limit, or reserve concurrency.",
			metric: q.sumOf("Throttles", append(q.claimFunctions(), q.Limiter, q.Reset, q.Sweep)),
			above:  0, periods: 3, of: 3,
		},
	}
}

// limiterAlarms watch over the limiter, which admits nothing while it cannot ask its table.
func (q *Queue) limiterAlarms(props Props) []alarm {
	return []alarm{
		{
			id: "LimiterErrors", name: "limiter-errors",
			description: "The limiter gave no answer, so that limited tasks do not run. The logs of the claim and the limiter " +
				"functions tell whether DynamoDB cannot be reached, is busy, or denies access.",
			metric: awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
				Expression: jsii.String("FILL(unanswered, 0) + FILL(failed, 0)"),
				Label:      jsii.String("Requests without an answer"),
				Period:     seconds(fiveMinutes),
				UsingMetrics: &map[string]awscloudwatch.IMetric{
					"unanswered": q.limiterErrorsOf(props),
					"failed":     q.Limiter.MetricErrors(metricOptions("Sum", fiveMinutes)),
				},
			}),
			above: 0, periods: 2, of: 3,
		},
		{
			id: "TableThrottles", name: "table-throttles",
			description: "DynamoDB refuses requests of the limiter: one key takes more than about a thousand writes per second. " +
				"Split it into several keys, each with its part of the limit.",
			metric: awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
				Expression: jsii.String("FILL(reads, 0) + FILL(writes, 0)"),
				Label:      jsii.String("Requests that DynamoDB refused"),
				Period:     seconds(fiveMinutes),
				UsingMetrics: &map[string]awscloudwatch.IMetric{
					"reads":  q.Table.Metric(jsii.String("ReadThrottleEvents"), metricOptions("Sum", fiveMinutes)),
					"writes": q.Table.Metric(jsii.String("WriteThrottleEvents"), metricOptions("Sum", fiveMinutes)),
				},
			}),
			above: 0, periods: 3, of: 3,
		},
	}
}

// limiterErrorsOf makes a metric of the log lines of the claim functions and of the limiter function that
// say so: the embedded metric is there once per task type or code, and an alarm has to name its dimensions.
func (q *Queue) limiterErrorsOf(props Props) awscloudwatch.IMetric {
	const name = "LimiterErrors"
	namespace := metricsNamespace + "/" + props.Name
	for _, id := range slices.Sorted(maps.Keys(q.limitedLogs)) {
		awslogs.NewMetricFilter(q, jsii.String(id+"LimiterErrors"), &awslogs.MetricFilterProps{
			LogGroup:        q.limitedLogs[id],
			FilterPattern:   awslogs.FilterPattern_Literal(jsii.String("{ $." + name + " = * }")),
			MetricNamespace: &namespace,
			MetricName:      jsii.String(name),
			MetricValue:     jsii.String("$." + name),
		})
	}

	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: &namespace, MetricName: jsii.String(name),
		Statistic: jsii.String("Sum"), Period: seconds(fiveMinutes),
	})
}

// cronAlarms watch over the functions that the clock starts. A function that has never run yet raises no
// alarm, one that ran and has stopped keeps it.
func (q *Queue) cronAlarms() []alarm {
	succeeds := func(f awslambda.Function) awscloudwatch.IMetric {
		return awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
			Expression: jsii.String("FILL(runs, 0) - FILL(errors, 0)"),
			Label:      jsii.String("Runs that succeeded"),
			Period:     seconds(fiveMinutes),
			UsingMetrics: &map[string]awscloudwatch.IMetric{
				"runs":   f.MetricInvocations(metricOptions("Sum", fiveMinutes)),
				"errors": f.MetricErrors(metricOptions("Sum", fiveMinutes)),
			},
		})
	}

	return []alarm{
		{
			id: "Sweep", name: "sweep",
			description: "The sweep has not succeeded for half an hour: tasks that lose their event or wake-up stay lost. Its log says why.",
			metric:      succeeds(q.Sweep),
			above:       1, belowInstead: true, periods: 6, of: 6, keepsState: true,
		},
		{
			id: "Reset", name: "reset",
			description: "The reset function has not succeeded for a quarter of an hour: manual policies are not reset by their cron. Its log says why.",
			metric:      succeeds(q.Reset),
			above:       1, belowInstead: true, periods: 3, of: 3, keepsState: true,
		},
	}
}

// Prices per unit in US dollars: us-east-1, December 2026, without free tiers.
const (
	pricePerGBSecondArm = 0.0000133334
	pricePerGBSecondX86 = 0.0000166667
	pricePerInvocation  = 0.0000002
	pricePerTask        = 0.0000154 // in S3: three writes and a read, the usual task
	pricePerWrite       = 0.000000625
	pricePerRead        = 0.000000125
)

// costAlarms estimate what an hour costs, from what CloudWatch counts without charge.
func (q *Queue) costAlarms(props Props) []alarm {
	const hour = time.Hour
	perGBSecond := pricePerGBSecondArm
	if *props.Architecture.Name() == "x86_64" {
		perGBSecond = pricePerGBSecondX86
	}
	estimate := func(f awslambda.Function, memoryMiB int) (expression string, metrics map[string]awscloudwatch.IMetric) {
		perMillisecond := perGBSecond * float64(memoryMiB) / 1024 / 1000
		expression = fmt.Sprintf("FILL(time, 0) * %s + FILL(invocations, 0) * %s", decimal(perMillisecond), decimal(pricePerInvocation+pricePerTask))

		return expression, map[string]awscloudwatch.IMetric{
			"time":        f.MetricDuration(metricOptions("Sum", hour)),
			"invocations": f.MetricInvocations(metricOptions("Sum", hour)),
		}
	}
	costs := func(id, name, expression string, metrics map[string]awscloudwatch.IMetric) alarm {
		return alarm{
			id: id, name: name,
			description: fmt.Sprintf("This hour costs more than $%s at list prices. Is there a task that submits itself, or that retries what costs much?", decimal(props.Alarms.HourlyCost)),
			metric: awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
				Expression: &expression, Label: jsii.String("US dollars per hour"), Period: seconds(hour), UsingMetrics: &metrics,
			}),
			above: props.Alarms.HourlyCost, periods: 1, of: 1,
		}
	}
	expression, metrics := estimate(q.Claim, props.Claim.MemoryMiB)
	expression += fmt.Sprintf(" + FILL(writes, 0) * %s + FILL(reads, 0) * %s", decimal(pricePerWrite), decimal(pricePerRead))
	metrics["writes"] = q.Table.MetricConsumedWriteCapacityUnits(metricOptions("Sum", hour))
	metrics["reads"] = q.Table.MetricConsumedReadCapacityUnits(metricOptions("Sum", hour))
	alarms := []alarm{costs("Cost", "cost", expression, metrics)}
	for _, c := range props.Claims {
		expression, metrics := estimate(q.Claims[c.Name], c.MemoryMiB)
		alarms = append(alarms, costs("Cost-"+c.Name, "cost-"+c.Name, expression, metrics))
	}

	return alarms
}

// claimFunctions are all claim functions, the first one first.
func (q *Queue) claimFunctions() []awslambda.Function {
	all := []awslambda.Function{q.Claim}
	for _, name := range slices.Sorted(maps.Keys(q.Claims)) {
		all = append(all, q.Claims[name])
	}

	return all
}

// sumOf adds a metric of Lambda up over functions. An alarm takes ten at most.
func (q *Queue) sumOf(name string, functions []awslambda.Function) awscloudwatch.IMetric {
	const most = 10
	metrics := make(map[string]awscloudwatch.IMetric)
	var terms []string
	for i, f := range functions[:min(len(functions), most)] {
		id := "f" + strconv.Itoa(i)
		metrics[id] = f.Metric(&name, metricOptions("Sum", fiveMinutes))
		terms = append(terms, "FILL("+id+", 0)")
	}
	expression := strings.Join(terms, " + ")

	return awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
		Expression: &expression, Label: &name, Period: seconds(fiveMinutes), UsingMetrics: &metrics,
	})
}

// ownMetric is a metric that a function writes into its log in the embedded metric format.
func ownMetric(name, statistic string, period time.Duration, f awslambda.Function) awscloudwatch.IMetric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: jsii.String(metricsNamespace), MetricName: &name,
		DimensionsMap: &map[string]*string{"FunctionName": f.FunctionName()},
		Statistic:     &statistic, Period: seconds(period),
	})
}

func metricOptions(statistic string, period time.Duration) *awscloudwatch.MetricOptions {
	return &awscloudwatch.MetricOptions{Statistic: &statistic, Period: seconds(period)}
}

func seconds(d time.Duration) awscdk.Duration {
	return awscdk.Duration_Seconds(jsii.Number(d.Seconds()))
}

// decimal writes a number as metric math reads it, without an exponent.
func decimal(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
