package sluice

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsscheduler"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"
)

// addScheduler adds the group that holds the wake-ups, and the role that EventBridge Scheduler takes on
// to deliver them.
func (q *Queue) addScheduler() awsiam.Role {
	q.ScheduleGroup = awsscheduler.NewCfnScheduleGroup(q, jsii.String("ScheduleGroup"), &awsscheduler.CfnScheduleGroupProps{
		Name: &q.names.scheduleGroup,
	})

	// The conditions keep the role from being used by schedules of another account or another group that
	// somebody points at it (the confused deputy).
	return awsiam.NewRole(q, jsii.String("SchedulerRole"), &awsiam.RoleProps{
		Description: jsii.String("EventBridge Scheduler wakes Sluice tasks"),
		AssumedBy: awsiam.NewServicePrincipal(jsii.String("scheduler.amazonaws.com"), &awsiam.ServicePrincipalOpts{
			Conditions: &map[string]any{
				"StringEquals": map[string]any{
					"aws:SourceAccount": awscdk.Stack_Of(q).Account(),
					"aws:SourceArn":     q.names.scheduleGroupArn,
				},
			},
		}),
		InlinePolicies: inlinePolicy([]awsiam.PolicyStatement{
			// A task is woken in the function that put it to sleep.
			allow("WakeTasks", []string{"lambda:InvokeFunction"}, q.names.everyClaimArn()...),
			allow("SetAsideDeadLetters", []string{"sqs:SendMessage"}, *q.DeadLetters.QueueArn()),
		}),
	})
}

// addDeadLetters adds the queue for what was not delivered: events that the claim function could not take
// within MaxEventAge, and wake-ups whose delivery failed for good.
func (q *Queue) addDeadLetters(props Props) {
	q.DeadLetters = awssqs.NewQueue(q, jsii.String("DeadLetters"), &awssqs.QueueProps{
		Encryption:      awssqs.QueueEncryption_SQS_MANAGED,
		EnforceSSL:      jsii.Bool(true),
		RetentionPeriod: awscdk.Duration_Days(jsii.Number(14)), // the longest that SQS offers
		RemovalPolicy:   props.removalPolicy(),
	})
	explain(q.DeadLetters, "AwsSolutions-SQS3", deadLettersReason, "")
}
