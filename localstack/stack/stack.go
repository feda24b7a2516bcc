// Package stack deploys Sluice onto the embedded cloud, wired as the CDK
// construct in infra/ wires it on AWS: the versioned bucket whose inbox/ starts the
// claim function, the schedule group, the limiter with its table, reset and sweep with
// their crons, and the queue for what could not be delivered.
package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	schedulertypes "github.com/aws/aws-sdk-go-v2/service/scheduler/types"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/worker"
)

// Options describe what to deploy. Claim is required.
type Options struct {
	// Name is the prefix of every physical name. Defaults to "sluice".
	Name string
	// Claim makes the claim function's runtime from the environment that the
	// deployment gives it.
	Claim func(environment map[string]string) lambdaemu.Runtime
	// Environment is added to that of the claim function.
	Environment map[string]string
	// Sweep makes the sweep function's runtime from its environment. Nil deploys
	// none: then a lost event is lost.
	Sweep func(environment map[string]string) lambdaemu.Runtime
	// SweepEvery is how often the sweep runs. Defaults to 5 minutes, as on AWS.
	// A negative one deploys it without a cron, to be invoked by hand.
	SweepEvery time.Duration
	// Limiter makes the runtime of the limiter function from its environment. Nil
	// deploys none: handlers in other languages have nothing to ask then.
	Limiter func(environment map[string]string) lambdaemu.Runtime
	// Reset makes the runtime of the reset function from its environment. Nil
	// deploys none: then nothing resets manual policies by their cron.
	Reset func(environment map[string]string) lambdaemu.Runtime
	// ResetEvery is how often reset runs. Defaults to a minute, as on AWS. A
	// negative one deploys it without a cron, to be invoked by hand.
	ResetEvery time.Duration
	// Timeout of the claim function. Defaults to 15 minutes, as on AWS.
	Timeout time.Duration
	// Concurrency is how many instances of the claim function run at once.
	// Defaults to 10.
	Concurrency int
	// Notices names a queue of SQS for task types whose end is to be told there; the type "*"
	// stands for all that are not named. The queues are created.
	Notices map[string]string
	// RetryDelays are Lambda's waits before it tries an event again. Defaults
	// to 1 and 2 minutes, as on AWS.
	RetryDelays []time.Duration
}

// MaxEventAge is how long Lambda keeps an event that it can't deliver.
const MaxEventAge = 15 * time.Minute

// Stack is a deployed Sluice.
type Stack struct {
	Cloud         *cloud.Cloud
	Bucket        string
	Function      string
	ScheduleGroup string
	// Sweep is the name of the sweep function, empty if there is none.
	Sweep string
	// Limiter and Reset are the names of those functions, empty if there are none.
	Limiter, Reset string
	// DeadLetters is the name of the queue for what could not be delivered.
	DeadLetters string
	// Table is the name of the limiter's table.
	Table string
}

// Deploy deploys Sluice onto the cloud. What is there already stays, with what it
// holds: an earlier deployment's, or what a cloud has loaded.
func Deploy(ctx context.Context, c *cloud.Cloud, o Options) (*Stack, error) {
	if o.Name == "" {
		o.Name = "sluice"
	}
	if o.Timeout == 0 {
		o.Timeout = 15 * time.Minute
	}
	s := &Stack{
		Cloud:         c,
		Bucket:        o.Name + "-" + c.AccountID() + "-" + c.Region(),
		Function:      o.Name + "-claim",
		ScheduleGroup: o.Name,
		DeadLetters:   o.Name + "-dead-letters",
		Table:         o.Name + "-limits",
	}
	config := c.Config(cloud.Label("deploy"))
	if err := createBucket(ctx, s3store.NewClient(config), s.Bucket); err != nil {
		return nil, fmt.Errorf("deploy the bucket: %w", err)
	}
	if err := createGroup(ctx, scheduler.NewFromConfig(config), s.ScheduleGroup); err != nil {
		return nil, fmt.Errorf("deploy the schedule group: %w", err)
	}
	if err := createTable(ctx, dynamodb.NewFromConfig(config), s.Table); err != nil {
		return nil, fmt.Errorf("deploy the limiter's table: %w", err)
	}
	onFailure, err := c.DeadLetterQueue(s.DeadLetters)
	if err != nil {
		return nil, fmt.Errorf("deploy the dead-letter queue: %w", err)
	}
	environment := s.environment(o)
	if err := s.addNotices(environment, o.Notices); err != nil {
		return nil, fmt.Errorf("deploy the notices: %w", err)
	}
	err = c.Register(lambdaemu.Function{
		Name:        s.Function,
		Runtime:     o.Claim(environment),
		MemoryMB:    256,
		Timeout:     o.Timeout,
		Concurrency: o.Concurrency,
		Env:         environment,
		MaxEventAge: MaxEventAge,
		RetryDelays: o.RetryDelays,
		OnFailure:   onFailure,
	})
	if err != nil {
		return nil, fmt.Errorf("deploy the claim function: %w", err)
	}
	if err := c.NotifyOnCreate(s.Bucket, "inbox/", s.Function); err != nil {
		return nil, fmt.Errorf("deploy the bucket's notification: %w", err)
	}
	for _, deploy := range []func(Options) error{s.deployLimiter, s.deployReset, s.deploySweep} {
		if err := deploy(o); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func createBucket(ctx context.Context, client *s3.Client, bucket string) error {
	_, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &bucket})
	if _, there := errors.AsType[*types.BucketAlreadyOwnedByYou](err); err != nil && !there {
		return err
	}
	_, err = client.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{
		Bucket:                  &bucket,
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
	})
	if err != nil {
		return err
	}
	_, err = client.PutBucketLifecycleConfiguration(ctx, &s3.PutBucketLifecycleConfigurationInput{
		Bucket: &bucket, LifecycleConfiguration: lifecycle(),
	})
	return err
}

func createGroup(ctx context.Context, client *scheduler.Client, group string) error {
	_, err := client.CreateScheduleGroup(ctx, &scheduler.CreateScheduleGroupInput{Name: &group})
	if _, there := errors.AsType[*schedulertypes.ConflictException](err); there {
		return nil
	}
	return err
}

func createTable(ctx context.Context, client *dynamodb.Client, table string) error {
	key := func(name string, role ddbtypes.KeyType) ddbtypes.KeySchemaElement {
		return ddbtypes.KeySchemaElement{AttributeName: &name, KeyType: role}
	}
	text := func(name string) ddbtypes.AttributeDefinition {
		return ddbtypes.AttributeDefinition{AttributeName: &name, AttributeType: ddbtypes.ScalarAttributeTypeS}
	}
	_, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:            &table,
		KeySchema:            []ddbtypes.KeySchemaElement{key("pk", ddbtypes.KeyTypeHash), key("sk", ddbtypes.KeyTypeRange)},
		AttributeDefinitions: []ddbtypes.AttributeDefinition{text("pk"), text("sk")},
		BillingMode:          ddbtypes.BillingModePayPerRequest,
	})
	if _, there := errors.AsType[*ddbtypes.ResourceInUseException](err); there {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               &table,
		TimeToLiveSpecification: &ddbtypes.TimeToLiveSpecification{AttributeName: aws.String("ttl"), Enabled: aws.Bool(true)},
	})
	return err
}

// environment is what connects a function to its queue.
func (s *Stack) environment(o Options) map[string]string {
	env := maps.Clone(o.Environment)
	if env == nil {
		env = make(map[string]string)
	}
	env[worker.EnvBucket] = s.Bucket
	env[worker.EnvScheduleGroup] = s.ScheduleGroup
	env[worker.EnvScheduleRoleARN] = "arn:aws:iam::" + s.Cloud.AccountID() + ":role/" + s.ScheduleGroup + "-scheduler"
	env[worker.EnvClaimARN] = s.Cloud.Lambda().ARN(s.Function)
	env[worker.EnvDeadLetterARN] = s.Cloud.SQS().ARN(s.DeadLetters)
	env[worker.EnvTable] = s.Table
	if o.Concurrency > 0 {
		env[worker.EnvConcurrency] = strconv.Itoa(o.Concurrency)
	}
	return env
}

// addNotices creates the queues for notices, and tells the claim function of them.
func (s *Stack) addNotices(environment, notices map[string]string) error {
	if len(notices) == 0 {
		return nil
	}
	urls := make(map[string]string, len(notices))
	for taskType, name := range notices {
		if _, err := s.Cloud.SQS().CreateQueue(name); err != nil {
			return err
		}
		urls[taskType] = "https://sqs." + s.Cloud.Region() + ".amazonaws.com/" + s.Cloud.AccountID() + "/" + name
	}
	text, err := json.Marshal(urls)
	environment[worker.EnvNotices] = string(text)
	return err
}

// Process runs a compiled function: the path of its bootstrap file.
func Process(bootstrap string) func(map[string]string) lambdaemu.Runtime {
	return func(map[string]string) lambdaemu.Runtime { return lambdaemu.Process{Path: bootstrap} }
}

// Config is the configuration of a client of the stack's cloud, in this
// process.
func (s *Stack) Config(label string) aws.Config { return s.Cloud.Config(cloud.Label(label)) }

// Store is the stack's bucket as the adapter sees it.
func (s *Stack) Store(label string) *s3store.Store {
	return s3store.New(s3store.NewClient(s.Config(label)), s.Bucket)
}

// Queue is a producer's handle on the stack.
func (s *Stack) Queue() *queue.Queue { return queue.Over(s.Store("producer")) }
