package sluice

import (
	"slices"
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

// envHTTPHosts lists the hosts that the stock claim function's http.request tasks may call.
const envHTTPHosts = "SLUICE_HTTP_HOSTS"

// addClaim adds the function that claims and runs tasks.
func (q *Queue) addClaim(props Props, schedulerRole awsiam.Role) {
	q.Claim = q.addFunction(props, function{
		id:          "Claim",
		name:        q.names.claim,
		description: "Claims and runs Sluice tasks",
		props:       props.Claim,
		environment: map[string]string{
			envBucket:          q.names.bucket,
			envTable:           q.names.table,
			envRelease:         strconv.FormatInt(props.Release, 10),
			envScheduleGroup:   q.names.scheduleGroup,
			envScheduleRoleARN: *schedulerRole.RoleArn(),
			envClaimARN:        q.names.claimArn,
			envDeadLetterARN:   *q.DeadLetters.QueueArn(),
		},
		rights: slices.Concat(
			q.claimTasks(),
			q.armWakeUps(schedulerRole),
			[]awsiam.PolicyStatement{q.limitRates(), q.setAsideDeadLetters()},
		),
		// A handler may submit its successor for ever. Each hop writes one object, so Lambda would take the
		// chain for a runaway loop and stop it after 16 tasks.
		chains: true,
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
