package sluice

import (
	"maps"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"
)

// addClaim adds the function that claims and runs tasks.
func (q *Queue) addClaim(props Props, schedulerRole awsiam.Role) {
	claim := props.Claim
	logs := awslogs.NewLogGroup(q, jsii.String("ClaimLogs"), &awslogs.LogGroupProps{
		Retention:     props.LogRetention,
		RemovalPolicy: props.removalPolicy(),
	})
	statements := slices.Concat(
		q.claimTasks(),
		q.armWakeUps(schedulerRole),
		q.setAsideDeadLetters(),
		invokeHandlers(claim.Handlers),
		writeLogs(logs),
	)

	var reserved *float64
	if claim.ReservedConcurrency > 0 {
		reserved = jsii.Number(claim.ReservedConcurrency)
	}
	q.Claim = awslambda.NewFunction(q, jsii.String("Claim"), &awslambda.FunctionProps{
		FunctionName:                 &q.names.claim,
		Description:                  jsii.String("Claims and runs Sluice tasks"),
		Runtime:                      awslambda.Runtime_PROVIDED_AL2023(),
		Architecture:                 props.Architecture,
		Handler:                      jsii.String("bootstrap"),
		Code:                         claim.Code,
		MemorySize:                   jsii.Number(claim.MemoryMiB),
		Timeout:                      awscdk.Duration_Seconds(jsii.Number(claim.Timeout.Seconds())),
		ReservedConcurrentExecutions: reserved,
		Environment:                  q.claimEnvironment(claim, schedulerRole),
		Role:                         q.functionRole("ClaimRole", statements),
		LogGroup:                     logs,
		// A handler may submit its successor for ever. Each hop writes one object, so Lambda would take the
		// chain for a runaway loop and stop it after 16 tasks.
		RecursiveLoop: awslambda.RecursiveLoop_ALLOW,
	})

	// The construct of its own, not the function's OnFailure: that one also grants reading the queue.
	awslambda.NewCfnEventInvokeConfig(q, jsii.String("ClaimAsync"), &awslambda.CfnEventInvokeConfigProps{
		FunctionName:             q.Claim.FunctionName(),
		Qualifier:                jsii.String("$LATEST"),
		MaximumEventAgeInSeconds: jsii.Number(MaxEventAge.Seconds()),
		MaximumRetryAttempts:     jsii.Number(RetryAttempts),
		DestinationConfig: &awslambda.CfnEventInvokeConfig_DestinationConfigProperty{
			OnFailure: &awslambda.CfnEventInvokeConfig_OnFailureProperty{Destination: q.DeadLetters.QueueArn()},
		},
	})
}

// claimEnvironment is what the claim function reads at start. Everything else it needs to know about AWS
// comes from the variables that Lambda itself sets.
func (q *Queue) claimEnvironment(claim ClaimProps, schedulerRole awsiam.Role) *map[string]*string {
	env := map[string]*string{
		"SLUICE_BUCKET":             &q.names.bucket,
		"SLUICE_SCHEDULE_GROUP":     &q.names.scheduleGroup,
		"SLUICE_SCHEDULE_ROLE_ARN":  schedulerRole.RoleArn(),
		"SLUICE_CLAIM_FUNCTION_ARN": &q.names.claimArn,
		"SLUICE_DEAD_LETTER_ARN":    q.DeadLetters.QueueArn(),
	}
	for _, name := range slices.Sorted(maps.Keys(claim.Environment)) {
		env[name] = jsii.String(claim.Environment[name])
	}

	return &env
}
