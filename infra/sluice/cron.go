package sluice

import (
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

const (
	// ResetEvery is how often the reset function runs: a boundary of a manual policy's cron is a whole
	// minute, and is served within the next.
	ResetEvery = time.Minute

	// SweepEvery is how often the sweep runs. It is no part of what tasks wait for: it finds those whose
	// event or wake-up was lost.
	SweepEvery = 5 * time.Minute

	// cronEvent is what both functions are started with. They need to be told nothing.
	cronEvent = "{}"
)

// addReset adds the function that resets manual policies at the times of their cron, and wakes parked
// tasks that can run earlier than they were told.
func (q *Queue) addReset(props Props, schedulerRole awsiam.Role) {
	q.Reset = q.addFunction(props, function{
		id:          "Reset",
		name:        q.names.reset,
		description: "Resets the manual policies of the Sluice limiter at the times of their cron",
		props:       props.Reset,
		environment: map[string]string{
			envTable:           q.names.table,
			envScheduleGroup:   q.names.scheduleGroup,
			envScheduleRoleARN: *schedulerRole.RoleArn(),
			envClaimARN:        q.names.claimArn,
			envDeadLetterARN:   *q.DeadLetters.QueueArn(),
		},
		rights: append(q.armWakeUps(schedulerRole), q.resetPolicies()),
	})
	q.runEvery("Reset", q.Reset, ResetEvery)
}

// addSweep adds the function that has the claim function look at tasks that nobody else will.
func (q *Queue) addSweep(props Props) {
	q.Sweep = q.addFunction(props, function{
		id:          "Sweep",
		name:        q.names.sweep,
		description: "Finds Sluice tasks that lost their event, wake-up or worker",
		props:       props.Sweep,
		environment: map[string]string{envBucket: q.names.bucket, envClaimARN: q.names.claimArn},
		rights:      slices.Concat(q.sweepTasks(), []awsiam.PolicyStatement{q.startClaim()}),
	})
	q.runEvery("Sweep", q.Sweep, SweepEvery)
}

// runEvery starts a function again and again. A rule of EventBridge does, not a schedule: it costs nothing
// and needs no role of its own. A run that is late or fails is not repeated: the next one is due
// soon and does the work of both.
func (q *Queue) runEvery(id string, f awslambda.Function, every time.Duration) {
	rule := awsevents.NewCfnRule(q, jsii.String(id+"Cron"), &awsevents.CfnRuleProps{
		Description:        jsii.String("Starts the " + strings.ToLower(id) + " function of Sluice"),
		ScheduleExpression: awsevents.Schedule_Rate(awscdk.Duration_Seconds(jsii.Number(every.Seconds()))).ExpressionString(),
		State:              jsii.String("ENABLED"),
		Targets: []any{&awsevents.CfnRule_TargetProperty{
			Id:    jsii.String("Function"),
			Arn:   f.FunctionArn(),
			Input: jsii.String(cronEvent),
		}},
	})
	awslambda.NewCfnPermission(q, jsii.String("CronMayInvoke"+id), &awslambda.CfnPermissionProps{
		Action:        jsii.String("lambda:InvokeFunction"),
		FunctionName:  f.FunctionArn(),
		Principal:     jsii.String("events.amazonaws.com"),
		SourceAccount: awscdk.Stack_Of(q).Account(),
		SourceArn:     rule.AttrArn(),
	})
	awslambda.NewCfnEventInvokeConfig(q, jsii.String(id+"Async"), &awslambda.CfnEventInvokeConfigProps{
		FunctionName:             f.FunctionName(),
		Qualifier:                jsii.String("$LATEST"),
		MaximumEventAgeInSeconds: jsii.Number(time.Minute.Seconds()),
		MaximumRetryAttempts:     jsii.Number(0),
	})
}
