package sluice

import (
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

// The variables that connect the claim function to its queue. It reads them at start; everything else it
// needs to know about AWS is in the variables that Lambda itself sets.
const (
	envBucket          = "SLUICE_BUCKET"
	envScheduleGroup   = "SLUICE_SCHEDULE_GROUP"
	envScheduleRoleARN = "SLUICE_SCHEDULE_ROLE_ARN"
	envClaimARN        = "SLUICE_CLAIM_FUNCTION_ARN"
	envDeadLetterARN   = "SLUICE_DEAD_LETTER_ARN"
)

// envHTTPHosts lists the hosts that the stock claim function's http.request tasks may call.
const envHTTPHosts = "SLUICE_HTTP_HOSTS"

var queueVariables = []string{envBucket, envScheduleGroup, envScheduleRoleARN, envClaimARN, envDeadLetterARN}

func (q *Queue) claimEnvironment(claim ClaimProps, schedulerRole awsiam.Role) *map[string]*string {
	env := map[string]*string{
		envBucket:          &q.names.bucket,
		envScheduleGroup:   &q.names.scheduleGroup,
		envScheduleRoleARN: schedulerRole.RoleArn(),
		envClaimARN:        &q.names.claimArn,
		envDeadLetterARN:   q.DeadLetters.QueueArn(),
	}
	for name, value := range claim.Environment {
		env[name] = &value
	}

	return &env
}
