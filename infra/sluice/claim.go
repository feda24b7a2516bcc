package sluice

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

// envHTTPHosts lists the hosts that the stock claim function's http.request tasks may call.
const envHTTPHosts = "SLUICE_HTTP_HOSTS"

// otherTypes stands for every task type that no function is named for, in the routes.
const otherTypes = "*"

// addClaims adds the functions that claim and run tasks.
func (q *Queue) addClaims(props Props, schedulerRole awsiam.Role) {
	q.Claim = q.addClaim(props, schedulerRole, claimFunction{
		id: "Claim", name: q.names.claim, arn: q.names.claimArn, props: props.Claim,
		description: "Claims and runs Sluice tasks",
	})
	q.Claims = make(map[string]awslambda.Function)
	for _, c := range props.Claims {
		q.Claims[c.Name] = q.addClaim(props, schedulerRole, claimFunction{
			id: "Claim-" + c.Name, name: q.names.claimOf(c.Name), arn: q.names.claimArns[c.Name], props: c.FunctionProps,
			description: "Claims and runs Sluice tasks: " + strings.Join(c.Types, ", "),
		})
	}
}

// claimFunction is what tells one claim function from another.
type claimFunction struct {
	id, name, arn, description string
	props                      FunctionProps
}

func (q *Queue) addClaim(props Props, schedulerRole awsiam.Role, c claimFunction) awslambda.Function {
	environment := map[string]string{
		envBucket:          q.names.bucket,
		envTable:           q.names.table,
		envRelease:         strconv.FormatInt(props.Release, 10),
		envScheduleGroup:   q.names.scheduleGroup,
		envScheduleRoleARN: *schedulerRole.RoleArn(),
		envClaimARN:        c.arn,
		envDeadLetterARN:   *q.DeadLetters.QueueArn(),
	}
	rights := slices.Concat(
		q.claimTasks(),
		q.armWakeUps(schedulerRole),
		[]awsiam.PolicyStatement{q.limitRates(), q.leavePlaces(), q.setAsideDeadLetters()},
	)
	if c.props.ReservedConcurrency > 0 {
		// So that tasks which wait in it for their turn leave most of it to others.
		environment[envConcurrency] = strconv.Itoa(c.props.ReservedConcurrency)
	}
	if len(props.Notices) > 0 {
		environment[envNotices] = noticeURLs(props.Notices)
		rights = append(rights, sendNotices(props.Notices)...)
	}
	if len(props.Claims) > 0 {
		environment[envRoutes] = q.routes(props, c.arn)
		others := slices.DeleteFunc(q.names.everyClaimArn(), func(arn string) bool { return arn == c.arn })
		rights = append(rights, handOver(others...))
	}
	claim := q.addFunction(props, function{
		id: c.id, name: c.name, description: c.description, props: c.props,
		environment: environment, rights: rights,
		// A handler may submit its successor for ever. Each hop writes one object, so Lambda would take the
		// chain for a runaway loop and stop it after 16 tasks.
		chains: true,
		limits: true,
	})

	// The construct of its own, not the function's OnFailure: that one also grants reading the queue.
	awslambda.NewCfnEventInvokeConfig(q, jsii.String(c.id+"Async"), &awslambda.CfnEventInvokeConfigProps{
		FunctionName:             claim.FunctionName(),
		Qualifier:                jsii.String("$LATEST"),
		MaximumEventAgeInSeconds: jsii.Number(MaxEventAge.Seconds()),
		MaximumRetryAttempts:     jsii.Number(RetryAttempts),
		DestinationConfig: &awslambda.CfnEventInvokeConfig_DestinationConfigProperty{
			OnFailure: &awslambda.CfnEventInvokeConfig_OnFailureProperty{Destination: q.DeadLetters.QueueArn()},
		},
	})

	return claim
}

// routes tell a claim function which other one serves which task types, as a JSON object. Types that no
// function is named for are those of the first, which itself has nowhere to hand them over to. A function
// may well be woken for a task that another serves by now: a deployment can move types about while tasks
// sleep.
func (q *Queue) routes(props Props, self string) string {
	routes := make(map[string]string)
	for _, c := range props.Claims {
		for _, taskType := range c.Types {
			routes[taskType] = q.names.claimArns[c.Name]
		}
	}
	routes[otherTypes] = q.names.claimArn
	for taskType, arn := range routes {
		if arn == self {
			delete(routes, taskType)
		}
	}
	text, err := json.Marshal(routes)
	if err != nil {
		panic(fmt.Errorf("sluice: the routes: %w", err))
	}

	return string(text)
}
