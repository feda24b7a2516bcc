// Package sluice is the CDK construct that deploys a Sluice queue: the bucket that holds the tasks, the
// claim function that runs them, what wakes the sleeping ones, and the limiter with its table.
//
// Put it into a stack of your own:
//
//	queue := sluice.New(stack, "Sluice", &sluice.Props{})
//	queue.GrantSubmit(myProducer)
//
// or deploy the stock stack of the parent folder, which is [NewStack] with its props read from the CDK
// context. The function binaries must be built first: `make build`.
package sluice

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsscheduler"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
)

// Queue is a deployed Sluice queue. Its fields are there to be granted on, watched and referred to; what
// this package sets on them should be changed by Props, not by hand.
type Queue struct {
	constructs.Construct

	// Bucket holds every task: submissions, records, payloads and what was set aside.
	Bucket awss3.Bucket

	// Claim runs the tasks. It is started by the bucket's events, by wake-ups and by batches of task ids.
	Claim awslambda.Function

	// Claims are the further claim functions, by ClaimProps.Name.
	Claims map[string]awslambda.Function

	// Table holds the limiter's state: the registry of policies, and what of each key is used.
	Table awsdynamodb.Table

	// Limiter answers handlers in other languages and operators. See GrantLimiter.
	Limiter awslambda.Function

	// Reset resets manual policies at the times of their cron.
	Reset awslambda.Function

	// Sweep finds tasks that lost their event, wake-up or worker.
	Sweep awslambda.Function

	// ScheduleGroup holds one schedule per sleeping task and second.
	ScheduleGroup awsscheduler.CfnScheduleGroup

	// DeadLetters receives what Lambda and EventBridge Scheduler could not deliver within their retries.
	// Nothing in it is a lost task (the record is in the bucket), but somebody should look.
	DeadLetters awssqs.Queue

	names names
	// limitedLogs are those of the functions that ask the limiter's table about tiers, by the functions' ids.
	limitedLogs map[string]awslogs.LogGroup
}

// New adds a queue to a stack. It panics, as CDK constructs do, when a prop is not usable; the message
// names the prop.
func New(scope constructs.Construct, id string, props *Props) *Queue {
	if props == nil {
		props = &Props{}
	}
	effective, err := props.withDefaults(scope)
	if err != nil {
		panic(fmt.Errorf("sluice.New(%q): %w", id, err))
	}

	queue := &Queue{names: newNames(scope, effective), limitedLogs: make(map[string]awslogs.LogGroup)}
	constructs.NewConstruct_Override(queue, scope, &id)
	queue.addDeadLetters(effective)
	role := queue.addScheduler()
	queue.addTable(effective)
	queue.addClaims(effective, role)
	queue.addLimiter(effective)
	queue.addReset(effective, role)
	queue.addSweep(effective)
	queue.addBucket(effective)
	queue.addAlarms(effective)
	queue.addDashboard(effective)

	return queue
}
