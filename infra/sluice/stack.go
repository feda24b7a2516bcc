package sluice

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// StackName is the name of the stock stack when the context does not give another (-c stack=...).
const StackName = "Sluice"

// NewStack is the stock stack: one queue, configured by props and then by the CDK context, and the outputs
// that the command line and the end-to-end suite read. Account and Region are those of the credentials
// that deploy it.
//
// Besides what [Props.FromContext] reads, the context may name the stack (-c stack=...) and the Lambda
// functions that tasks of type lambda.invoke may call (-c handlers=one,two).
func NewStack(app awscdk.App, props Props) (awscdk.Stack, *Queue) {
	name := StackName
	if value, ok := contextString(app, "stack"); ok {
		name = value
	}
	stack := awscdk.NewStack(app, &name, &awscdk.StackProps{
		Description: jsii.String("Sluice: a serverless task queue with a distributed rate limiter"),
	})
	stack.TemplateOptions().SetMetadata(&map[string]any{
		// W3005: CDK says "depends on" where a reference says it already. Nothing to act on.
		"cfn-lint": map[string]any{"config": map[string]any{"ignore_checks": []string{"W3005"}}},
	})
	props, err := props.FromContext(stack)
	if err != nil {
		panic(err)
	}
	queue := New(stack, "Queue", &props)
	grantHandlers(stack, queue)

	output := func(id, description string, value *string) {
		awscdk.NewCfnOutput(stack, &id, &awscdk.CfnOutputProps{Value: value, Description: &description})
	}
	output("BucketName", "Submit tasks here: SLUICE_BUCKET", queue.Bucket.BucketName())
	output("ClaimFunctionName", "The function that runs the tasks", queue.Claim.FunctionName())
	output("TableName", "The limiter's state: SLUICE_TABLE", queue.Table.TableName())
	output("LimiterFunctionName", "What handlers in other languages invoke to ask the limiter", queue.Limiter.FunctionName())
	output("ResetFunctionName", "Resets manual policies", queue.Reset.FunctionName())
	output("SweepFunctionName", "Finds tasks that nobody else will look at", queue.Sweep.FunctionName())
	output("ScheduleGroupName", "The wake-ups of sleeping tasks", queue.ScheduleGroup.Ref())
	output("DeadLetterQueueUrl", "What could not be delivered", queue.DeadLetters.QueueUrl())

	return stack, queue
}

// grantHandlers lets tasks of type lambda.invoke call the functions that the context names
// (-c handlers=one,two): handlers in any language, deployed by anybody in this account and Region. A
// stack of your own says handler.GrantInvoke(queue.Claim) instead.
func grantHandlers(stack awscdk.Stack, queue *Queue) {
	list, _ := contextString(stack, "handlers")
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		handler := awslambda.Function_FromFunctionName(stack, jsii.String("Handler-"+name), &name)
		handler.GrantInvoke(queue.Claim)
	}
}

// FromContext returns the props with what the CDK context (`cdk deploy -c key=value`) sets on top:
//
//	name           Props.Name
//	bucket         Props.BucketName
//	retentionDays  Props.Retention, in days
//	architecture   arm64 or x86_64
//	assets         Props.Assets
//	ephemeral      true or false
//	concurrency    Props.Claim.ReservedConcurrency
//	release        Props.Release
//	alarms         true or false: Props.Alarms.Off is the opposite
//	alarmTopic     the ARN of Props.Alarms.Topic
//	hourlyCost     Props.Alarms.HourlyCost
//	dashboard      true or false: Props.NoDashboard is the opposite
//	hosts          the hosts that http.request tasks may call, separated by commas
//	notices        Props.Notices: TYPE=ARN, separated by commas
//
// The error names the key whose value is of no use.
func (p Props) FromContext(scope constructs.Construct) (Props, error) {
	for _, key := range contextKeys {
		value, ok := contextString(scope, key.name)
		if !ok {
			continue
		}
		if err := key.set(&p, value); err != nil {
			return p, fmt.Errorf("context %s=%s: %w", key.name, value, err)
		}
	}
	if arn, ok := contextString(scope, "alarmTopic"); ok {
		p.Alarms.Topic = awssns.Topic_FromTopicArn(scope, jsii.String("AlarmTopic"), &arn)
	}
	if value, ok := contextString(scope, "notices"); ok {
		queues, err := noticesFromContext(scope, value)
		if err != nil {
			return p, fmt.Errorf("context notices=%s: %w", value, err)
		}
		p.Notices = queues
	}

	return p, nil
}

// contextKeys are the keys of FromContext, each with what it sets.
var contextKeys = []struct {
	name string
	set  func(p *Props, value string) error
}{
	{"name", func(p *Props, value string) error { p.Name = value; return nil }},
	{"bucket", func(p *Props, value string) error { p.BucketName = value; return nil }},
	{"assets", func(p *Props, value string) error { p.Assets = value; return nil }},
	{"retentionDays", setRetention},
	{"architecture", setArchitecture},
	{"ephemeral", setEphemeral},
	{"concurrency", setConcurrency},
	{"release", setRelease},
	{"alarms", setAlarms},
	{"hourlyCost", setHourlyCost},
	{"dashboard", setDashboard},
	{"hosts", setHosts},
}

func setRetention(p *Props, value string) error {
	count, err := strconv.Atoi(value)
	if err != nil || count < 1 {
		return errors.New("want a whole number of days, at least 1")
	}
	p.Retention = time.Duration(count) * day

	return nil
}

func setArchitecture(p *Props, value string) error {
	switch value {
	case "arm64":
		p.Architecture = awslambda.Architecture_ARM_64()
	case "x86_64":
		p.Architecture = awslambda.Architecture_X86_64()
	default:
		return errors.New("want arm64 or x86_64")
	}

	return nil
}

func setEphemeral(p *Props, value string) error {
	ephemeral, err := strconv.ParseBool(value)
	if err != nil {
		return errors.New("want true or false")
	}
	p.Ephemeral = ephemeral

	return nil
}

func setAlarms(p *Props, value string) error {
	on, err := strconv.ParseBool(value)
	if err != nil {
		return errors.New("want true or false")
	}
	p.Alarms.Off = !on

	return nil
}

func setHourlyCost(p *Props, value string) error {
	dollars, err := strconv.ParseFloat(value, 64)
	if err != nil || !(dollars > 0) {
		return errors.New("want dollars above 0")
	}
	p.Alarms.HourlyCost = dollars

	return nil
}

func setDashboard(p *Props, value string) error {
	on, err := strconv.ParseBool(value)
	if err != nil {
		return errors.New("want true or false")
	}
	p.NoDashboard = !on

	return nil
}

func setConcurrency(p *Props, value string) error {
	count, err := strconv.Atoi(value)
	if err != nil || count < 0 {
		return errors.New("want a whole number; 0 means unreserved")
	}
	p.Claim.ReservedConcurrency = count

	return nil
}

func setRelease(p *Props, value string) error {
	release, err := strconv.ParseInt(value, 10, 64)
	if err != nil || release < 1 {
		return errors.New("want a whole number, at least 1")
	}
	p.Release = release

	return nil
}

func setHosts(p *Props, value string) error {
	environment := map[string]string{}
	maps.Copy(environment, p.Claim.Environment) // the caller's map stays as it is
	environment[envHTTPHosts] = value
	p.Claim.Environment = environment

	return nil
}

// contextString reads a context value. Those given on the command line are strings; cdk.json may hold
// numbers and booleans as well.
func contextString(scope constructs.Construct, key string) (string, bool) {
	value := scope.Node().TryGetContext(&key)
	if value == nil {
		return "", false
	}

	return fmt.Sprint(value), true
}
