package sluice

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
)

// Props configures a queue. The zero value is a complete, production-ready queue that runs the stock
// claim function.
type Props struct {
	// Name is the prefix of every physical name: the claim function is <name>-claim, the schedule group
	// <name>. 1 to 32 of lower-case letters, digits and hyphens, starting with a letter. Two queues in one
	// account and Region need two names.
	//
	// Defaults to the stack's name in lower case.
	Name string

	// BucketName is the name of the bucket. It has to be known before the bucket exists, because the
	// permission that lets S3 start the claim function names the bucket and must be there first.
	//
	// Defaults to <name>-<account>-<region>, which no other account can have taken by accident.
	BucketName string

	// Retention is how long finished tasks, their payloads and old versions of records are kept. Whole
	// days, at least one. A task that is not finished is kept however long it sleeps.
	//
	// Defaults to 30 days.
	Retention time.Duration

	// QuarantineRetention is how long submissions that are no tasks are kept under quarantine/. Whole
	// days, at least one.
	//
	// Defaults to 30 days.
	QuarantineRetention time.Duration

	// AccessLogs is a bucket that S3 writes a line to for every request to the queue's bucket, below <name>/.
	//
	// Defaults to none.
	AccessLogs awss3.IBucket

	// LogRetention is how long the functions' logs are kept.
	//
	// Defaults to one month.
	LogRetention awslogs.RetentionDays

	// Architecture of every function of the queue. The binaries must have been built for it: `make build`
	// builds for arm64, `make build GOARCH=amd64` for x86_64.
	//
	// Defaults to arm64.
	Architecture awslambda.Architecture

	// Assets is the folder that holds <function>/bootstrap for each function, as `make build` writes it.
	// A relative path starts at the root of the Go module that the CDK app runs in.
	//
	// Defaults to dist.
	Assets string

	// Release orders what is deployed: the limiter's policies as the claim function declares them replace
	// those that an older release has declared, and an older function that is still running goes by the
	// newer ones. A number above 0 that grows from deployment to deployment.
	//
	// Defaults to the commit time of the Git repository that the CDK app runs in, in Unix seconds; with
	// changes that are not committed, or without a repository, to the time of the synthesis.
	Release int64

	// Claim configures the function that claims and runs tasks.
	Claim FunctionProps

	// Claims are further claim functions, each for some task types. The one above is started by every
	// submission and hands tasks of these types over.
	Claims []ClaimProps

	// Notices names the queue of SQS that is told when a task of a type has ended, in whatever way; the type
	// "*" stands for all that are not named. A notice says which task has ended and how, not what is in it,
	// and may come more than once. The queue is of this Region and lets this account send to it.
	//
	// Defaults to none: nothing is sent, and costs nothing.
	Notices map[string]awssqs.IQueue

	// Limiter configures the function that answers handlers in other languages.
	Limiter FunctionProps

	// Reset configures the function that resets manual policies.
	Reset FunctionProps

	// Sweep configures the function that finds tasks nobody will look at.
	Sweep FunctionProps

	// VPC puts the functions into a network, unless they have one of their own. They need a way from there
	// to S3, DynamoDB, EventBridge Scheduler, Lambda and CloudWatch Logs: gateway and interface endpoints, or
	// the Internet.
	//
	// Defaults to none: functions reach AWS and the Internet, and nothing in your networks.
	VPC *VPCProps

	// Alarms configures the alarms.
	Alarms AlarmProps

	// NoDashboard leaves the dashboard out, which costs three dollars per month from the fourth of an
	// account on.
	NoDashboard bool

	// Ephemeral makes the stateful resources (bucket, table, dead letters, logs) go with the stack instead of
	// outliving it. CloudFormation deletes empty buckets only, so `cdk destroy` of an ephemeral queue
	// needs its bucket emptied first: `sluice empty`. Never set it where tasks matter.
	//
	// Defaults to false: destroying the stack keeps every task.
	Ephemeral bool
}

// FunctionProps configures one of the queue's functions.
type FunctionProps struct {
	// Code is the function's code: a folder with a file named bootstrap at its top.
	//
	// Defaults to the folder of the function's name in Props.Assets: the stock function.
	Code awslambda.Code

	// MemoryMiB is the function's memory in MiB, 128 to 10,240. CPU grows with it.
	//
	// Defaults to 256.
	MemoryMiB int

	// Timeout is the longest a single invocation may take: whole seconds, at most 15 minutes. That of the
	// claim function bounds the longest task: a task whose own timeout does not fit is refused.
	//
	// Defaults to 15 minutes for the claim function (an idle second is not billed, so there is no reason
	// for less), to 10 seconds for the limiter, and to a little less than the time between two runs for
	// reset and sweep.
	Timeout time.Duration

	// ReservedConcurrency caps how many invocations run at once, and reserves as many for this function.
	// Above the cap Lambda queues and retries for up to the 15 minutes an event may wait here; an
	// invocation of the limiter is refused, and its client tries again. A claim function is told of it, so
	// that tasks which wait in it for their turn under a limit leave most of it to others.
	//
	// Defaults to 0, which means unreserved.
	ReservedConcurrency int

	// Environment is added to the function's environment. The variables that connect the function to its
	// queue (SLUICE_BUCKET and the like) cannot be set here.
	Environment map[string]string

	// Policies are rights that the function's handlers need beside those that it has: to read a secret, to
	// send mail.
	Policies []awsiam.PolicyStatement

	// VPC is the function's network.
	//
	// Defaults to Props.VPC.
	VPC *VPCProps

	// Tracing has AWS X-Ray sample and record the function's invocations, at a price. Whoever began a trace,
	// it is passed on to all that the function asks of AWS, the functions of lambda.invoke tasks included.
	//
	// Defaults to false.
	Tracing bool
}

// ClaimProps configures a further claim function, which serves some task types: with other code, more
// memory, a cap of its own on how many run at once.
type ClaimProps struct {
	// Name is the last part of the function's name, <name>-claim-<Name>: 1 to 24 lower-case letters, digits
	// and hyphens, starting with a letter.
	Name string

	// Types are the task types that the function serves, at least one. No other function may serve them.
	Types []string

	// FunctionProps configure the function itself. Code defaults to that of Props.Claim: functions of one
	// code, with different settings.
	FunctionProps
}

// VPCProps is a network that functions run in.
type VPCProps struct {
	// VPC is the network. Required.
	VPC awsec2.IVpc

	// Subnets are those that the function's network interfaces are in.
	//
	// Defaults to the private subnets of the VPC.
	Subnets *awsec2.SubnetSelection

	// SecurityGroups are those of the function's network interfaces.
	//
	// Defaults to one of its own, which lets everything out and nothing in.
	SecurityGroups []awsec2.ISecurityGroup
}

const (
	// MaxEventAge is how long Lambda keeps an event that it cannot deliver to the claim function. The
	// sweep waits longer than this before it drives a task again.
	MaxEventAge = 15 * time.Minute

	// RetryAttempts is how often Lambda repeats an invocation that ended in an error. Handler errors never
	// cause one: tasks are retried by the state machine alone.
	RetryAttempts = 2

	day = 24 * time.Hour

	defaultRetention = 30 * day
	defaultMemoryMiB = 256
	limiterTimeout   = 10 * time.Second
	resetTimeout     = 50 * time.Second
	sweepTimeout     = 4 * time.Minute
	maxTimeout       = 15 * time.Minute
	maxMemoryMiB     = 10_240
	minMemoryMiB     = 128
)

// nameGrammar leaves room for the account and the longest Region within a bucket name's 63 characters.
var nameGrammar = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// claimGrammar leaves room for <name>-claim- within a function name's 64 characters.
var claimGrammar = regexp.MustCompile(`^[a-z][a-z0-9-]{0,23}$`)

// bucketGrammar is S3's rule for bucket names, without dots: those break TLS on virtual-hosted requests.
var bucketGrammar = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$`)

// withDefaults returns a copy in which every field holds what is in force, or one error that names every
// unusable field.
func (p Props) withDefaults(scope constructs.Construct) (Props, error) {
	if p.Name == "" {
		p.Name = strings.ToLower(*awscdk.Stack_Of(scope).StackName())
	}
	p.Retention = orDefault(p.Retention, defaultRetention)
	p.QuarantineRetention = orDefault(p.QuarantineRetention, defaultRetention)
	p.LogRetention = orDefault(p.LogRetention, awslogs.RetentionDays_ONE_MONTH)
	p.Assets = orDefault(p.Assets, "dist")
	p.Claims = slices.Clone(p.Claims) // the caller's stay as they are
	for _, f := range p.functions() {
		f.props.MemoryMiB = orDefault(f.props.MemoryMiB, defaultMemoryMiB)
		f.props.Timeout = orDefault(f.props.Timeout, f.timeout)
		f.props.VPC = orDefault(f.props.VPC, p.VPC)
	}
	p.Alarms.StuckAfter = orDefault(p.Alarms.StuckAfter, time.Hour)
	p.Alarms.HourlyCost = orDefault(p.Alarms.HourlyCost, 1)
	if p.Architecture == nil {
		p.Architecture = awslambda.Architecture_ARM_64()
	}

	if p.Release == 0 {
		p.Release = currentRelease(time.Now())
	}

	if err := p.validate(scope); err != nil {
		return Props{}, err
	}

	for _, f := range p.functions() {
		if f.props.Code != nil {
			continue
		}
		if f.folder == "" {
			f.props.Code = p.Claim.Code
			continue
		}
		code, err := assetCode(p.Assets, f.folder)
		if err != nil {
			return Props{}, err
		}
		f.props.Code = code
	}

	return p, nil
}

// configured is one of the functions that props configure.
type configured struct {
	field   string // of Props
	folder  string // of the code, by default; empty for that of the claim function
	props   *FunctionProps
	timeout time.Duration // by default
}

func (p *Props) functions() []configured {
	all := []configured{
		{"Claim", "claim", &p.Claim, maxTimeout},
		{"Limiter", "limiter", &p.Limiter, limiterTimeout},
		{"Reset", "reset", &p.Reset, resetTimeout},
		{"Sweep", "sweep", &p.Sweep, sweepTimeout},
	}
	for i := range p.Claims {
		c := &p.Claims[i]
		all = append(all, configured{fmt.Sprintf("Claims[%d]", i), "", &c.FunctionProps, maxTimeout})
	}

	return all
}

func (p *Props) validate(scope constructs.Construct) error {
	var errs []error
	refuse := func(field, format string, arguments ...any) {
		errs = append(errs, fmt.Errorf("the prop "+field+" is "+format, arguments...))
	}
	if !nameGrammar.MatchString(p.Name) {
		refuse("Name", "%q (from the stack's name, unless it is set): want 1 to 32 lower-case letters, digits and hyphens, starting with a letter", p.Name)
	}
	if p.BucketName != "" && !bucketGrammar.MatchString(p.BucketName) {
		refuse("BucketName", "%q: want 3 to 63 lower-case letters, digits and hyphens", p.BucketName)
	}
	if !wholeDays(p.Retention) {
		refuse("Retention", "%v: want whole days, at least one", p.Retention)
	}
	if !wholeDays(p.QuarantineRetention) {
		refuse("QuarantineRetention", "%v: want whole days, at least one", p.QuarantineRetention)
	}
	if p.Release < 0 {
		refuse("Release", "%d: want a number above 0", p.Release)
	}
	if p.Alarms.StuckAfter < time.Second || p.Alarms.StuckAfter%time.Second != 0 {
		refuse("Alarms.StuckAfter", "%v: want whole seconds, at least one", p.Alarms.StuckAfter)
	}
	if !(p.Alarms.HourlyCost > 0) {
		refuse("Alarms.HourlyCost", "%v: want dollars above 0", p.Alarms.HourlyCost)
	}
	for _, f := range p.functions() {
		f.props.validate(func(field, format string, arguments ...any) { refuse(f.field+"."+field, format, arguments...) })
	}
	p.validateClaims(refuse)
	p.validateNotices(scope, refuse)

	return errors.Join(errs...)
}

// validateClaims checks that it is clear which function serves a task type.
func (p *Props) validateClaims(refuse func(field, format string, arguments ...any)) {
	names := make(map[string]bool)
	servedBy := make(map[string]string)
	for i, c := range p.Claims {
		field := fmt.Sprintf("Claims[%d].", i)
		if !claimGrammar.MatchString(c.Name) {
			refuse(field+"Name", "%q: want 1 to 24 lower-case letters, digits and hyphens, starting with a letter", c.Name)
		}
		if names[c.Name] {
			refuse(field+"Name", "%q: another claim function has it", c.Name)
		}
		names[c.Name] = true
		if len(c.Types) == 0 {
			refuse(field+"Types", "empty: want the task types that the function serves")
		}
		for _, taskType := range c.Types {
			if other, taken := servedBy[taskType]; taken {
				refuse(field+"Types", "not unique: %q is served by %q as well", taskType, other)
			}
			if taskType == "" || taskType == otherTypes {
				refuse(field+"Types", "of no use: %q is no task type", taskType)
			}
			servedBy[taskType] = c.Name
		}
	}
}

func (f *FunctionProps) validate(refuse func(field, format string, arguments ...any)) {
	if f.MemoryMiB < minMemoryMiB || f.MemoryMiB > maxMemoryMiB {
		refuse("MemoryMiB", "%d: want %d to %d", f.MemoryMiB, minMemoryMiB, maxMemoryMiB)
	}
	if f.Timeout < time.Second || f.Timeout > maxTimeout || f.Timeout%time.Second != 0 {
		refuse("Timeout", "%v: want whole seconds up to %v", f.Timeout, maxTimeout)
	}
	if f.ReservedConcurrency < 0 {
		refuse("ReservedConcurrency", "%d: want 0 (unreserved) or more", f.ReservedConcurrency)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Environment)) {
		if slices.Contains(queueVariables, name) {
			refuse("Environment", "set for %s: the queue itself sets that one", name)
		}
	}
	if _, set := f.Environment[envConcurrency]; set && f.ReservedConcurrency > 0 {
		refuse("Environment", "set for %s: ReservedConcurrency sets that one", envConcurrency)
	}
	if f.VPC != nil && f.VPC.VPC == nil {
		refuse("VPC", "without a VPC: want the network that the function is to run in")
	}
}

func wholeDays(d time.Duration) bool {
	return d >= day && d%day == 0
}

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}

	return value
}

// assetCode is the built function below the assets folder, or an error that says how to build it.
func assetCode(assets, function string) (awslambda.Code, error) {
	dir := filepath.Join(assets, function)
	if !filepath.IsAbs(dir) {
		root, err := moduleRoot()
		if err != nil {
			return nil, fmt.Errorf("finding the assets folder %s: %w", assets, err)
		}
		dir = filepath.Join(root, dir)
	}
	if _, err := os.Stat(filepath.Join(dir, "bootstrap")); err != nil {
		return nil, fmt.Errorf("no %s function in %s: run `make build` first, or set Props.Assets or the function's Code", function, dir)
	}

	return awslambda.Code_FromAsset(&dir, nil), nil
}

// moduleRoot finds the nearest folder with a go.mod, so that the app works from any folder below it.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working folder: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod here or above; give an absolute path")
		}
		dir = parent
	}
}
