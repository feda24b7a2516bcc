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

// function is one of the queue's functions, as the construct sees it.
type function struct {
	id          string // of the construct: Claim
	name        string // its physical name
	description string
	props       FunctionProps
	environment map[string]string
	rights      []awsiam.PolicyStatement
	// chains says that the function may start itself again and again, by way of S3 and Lambda.
	chains bool
	// limits says that the function asks the limiter's table, and logs it when there is no answer.
	limits bool
}

// addFunction adds a function with a role and a log group of its own.
func (q *Queue) addFunction(props Props, f function) awslambda.Function {
	logs := awslogs.NewLogGroup(q, jsii.String(f.id+"Logs"), &awslogs.LogGroupProps{
		Retention:     props.LogRetention,
		RemovalPolicy: props.removalPolicy(),
	})
	if f.limits {
		q.limitedLogs[f.id] = logs
	}
	var reserved *float64
	if f.props.ReservedConcurrency > 0 {
		reserved = jsii.Number(f.props.ReservedConcurrency)
	}
	var loops awslambda.RecursiveLoop
	if f.chains {
		loops = awslambda.RecursiveLoop_ALLOW
	}
	rights := slices.Concat(f.rights, []awsiam.PolicyStatement{writeLogs(logs)}, f.props.Policies)
	settings := &awslambda.FunctionProps{
		FunctionName:                 &f.name,
		Description:                  &f.description,
		Runtime:                      awslambda.Runtime_PROVIDED_AL2023(),
		Architecture:                 props.Architecture,
		Handler:                      jsii.String("bootstrap"),
		Code:                         f.props.Code,
		MemorySize:                   jsii.Number(f.props.MemoryMiB),
		Timeout:                      awscdk.Duration_Seconds(jsii.Number(f.props.Timeout.Seconds())),
		ReservedConcurrentExecutions: reserved,
		Environment:                  f.variables(),
		LogGroup:                     logs,
		RecursiveLoop:                loops,
	}
	if f.props.Tracing {
		settings.Tracing = awslambda.Tracing_ACTIVE
	}
	if network := f.props.VPC; network != nil {
		rights = append(rights, joinNetwork(functionArn(awscdk.Stack_Of(q), f.name))...)
		settings.Vpc, settings.VpcSubnets = network.VPC, network.Subnets
		if len(network.SecurityGroups) > 0 {
			settings.SecurityGroups = &network.SecurityGroups
		}
	}
	settings.Role = q.functionRole(f.id+"Role", rights)

	return awslambda.NewFunction(q, &f.id, settings)
}

// variables are the function's environment: what the user adds, and what connects it to its queue.
func (f function) variables() *map[string]*string {
	all := maps.Clone(f.props.Environment)
	if all == nil {
		all = make(map[string]string)
	}
	maps.Copy(all, f.environment)
	env := make(map[string]*string, len(all))
	for name, value := range all {
		env[name] = &value
	}

	return &env
}

// The variables that connect the functions to their queue, which each reads at its start. Everything else
// that they need to know about AWS is in the variables that Lambda itself sets.
const (
	envBucket          = "SLUICE_BUCKET"
	envTable           = "SLUICE_TABLE"
	envRelease         = "SLUICE_RELEASE"
	envScheduleGroup   = "SLUICE_SCHEDULE_GROUP"
	envScheduleRoleARN = "SLUICE_SCHEDULE_ROLE_ARN"
	envClaimARN        = "SLUICE_CLAIM_FUNCTION_ARN"
	envDeadLetterARN   = "SLUICE_DEAD_LETTER_ARN"
	envRoutes          = "SLUICE_ROUTES"
	envNotices         = "SLUICE_NOTICES"
	envConcurrency     = "SLUICE_CONCURRENCY"
)

// queueVariables cannot be set by props.
var queueVariables = []string{
	envBucket, envTable, envRelease, envScheduleGroup, envScheduleRoleARN, envClaimARN, envDeadLetterARN, envRoutes, envNotices,
}
