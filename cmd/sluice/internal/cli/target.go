package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	"github.com/spf13/pflag"

	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/s3store"
)

// Environment variables that name the queue.
const (
	envBucket = "SLUICE_BUCKET"
	envStack  = "SLUICE_STACK"
)

// bucketOutput is the output of the deployed stack that names the bucket.
const bucketOutput = "BucketName"

// target says which queue a command works on. What is empty comes from the
// environment.
type target struct {
	region, profile, endpointURL string
	bucket, stack                string
}

func (t *target) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&t.bucket, "bucket", "", "the queue's `bucket` (default $"+envBucket+")")
	flags.StringVar(&t.stack, "stack", "", "find the bucket in the outputs of this CloudFormation `stack` (default $"+envStack+")")
	flags.StringVar(&t.region, "region", "", "AWS `region` (default $AWS_REGION or the profile's)")
	flags.StringVar(&t.profile, "profile", "", "AWS `profile` (default $AWS_PROFILE)")
	flags.StringVar(&t.endpointURL, "endpoint-url", "", "`URL` of another AWS, such as a local one (default $AWS_ENDPOINT_URL)")
}

// queue opens the queue.
func (t target) queue(ctx context.Context) (*queue.Queue, error) {
	store, err := t.store(ctx)
	if err != nil {
		return nil, err
	}
	return queue.Over(store), nil
}

// store opens the queue's bucket.
func (t target) store(ctx context.Context) (*s3store.Store, error) {
	bucket, stack, err := t.names()
	if err != nil {
		return nil, err
	}
	config, err := t.config(ctx)
	if err != nil {
		return nil, err
	}
	if bucket == "" {
		if bucket, err = bucketOf(ctx, cloudformation.NewFromConfig(config), stack); err != nil {
			return nil, err
		}
	}
	return s3store.New(s3store.NewClient(config), bucket), nil
}

// names returns the bucket, or else the stack to look it up in. Flags come before
// variables.
func (t target) names() (bucket, stack string, err error) {
	if t.bucket != "" && t.stack != "" {
		return "", "", usagef("--bucket and --stack are both given: each names the bucket, give one of them")
	}
	if t.stack != "" {
		return "", t.stack, nil
	}
	bucket, stack = cmp.Or(t.bucket, os.Getenv(envBucket)), os.Getenv(envStack)
	if bucket == "" && stack == "" {
		return "", "", usagef("which queue? give --bucket or --stack, or set %s or %s", envBucket, envStack)
	}
	return bucket, stack, nil
}

// config is the AWS configuration, with a region and with credentials.
func (t target) config(ctx context.Context) (aws.Config, error) {
	config, err := t.load(ctx)
	if err != nil {
		return aws.Config{}, err
	}
	if config.Region == "" {
		return aws.Config{}, usagef("which region? %s", giveRegion)
	}
	if _, err := config.Credentials.Retrieve(ctx); err != nil {
		if ctx.Err() != nil {
			return aws.Config{}, ctx.Err()
		}
		return aws.Config{}, fmt.Errorf("no AWS credentials were found: %s: %w", giveAccess, root(err))
	}
	return config, nil
}

// What to do about what is missing.
const (
	giveRegion = "give --region, set AWS_REGION or name a profile that has one"
	giveAccess = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or log in with `aws sso login`"
)

// load is the AWS configuration: that of every AWS tool, with the flags before it. The
// region is empty if there is none and the endpoint is that of AWS.
func (t target) load(ctx context.Context) (aws.Config, error) {
	options := []func(*awsconfig.LoadOptions) error{
		awsconfig.WithLogger(logging.Nop{}),
		awsconfig.WithRegion(t.region),
	}
	if t.profile != "" {
		options = append(options, awsconfig.WithSharedConfigProfile(t.profile))
	}
	if t.endpointURL != "" {
		u, err := url.Parse(t.endpointURL)
		if err != nil || u.Scheme == "" || u.Host == "" {
			return aws.Config{}, usagef("--endpoint-url %q is no URL: write it with its scheme, such as http://localhost:4566", t.endpointURL)
		}
		options = append(options, awsconfig.WithBaseEndpoint(strings.TrimSuffix(t.endpointURL, "/")))
	}
	config, err := awsconfig.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return aws.Config{}, fmt.Errorf("load the AWS configuration: %w", err)
	}
	if t.endpointURL != "" {
		config.ConfigSources = nil // else AWS_ENDPOINT_URL_S3 would win over the flag
	}
	if config.Region == "" && s3store.NewClient(config).Options().BaseEndpoint != nil {
		config.Region = "us-east-1" // of no account behind another endpoint, but signatures need one
	}
	return config, nil
}

// root is the innermost error, which says what failed in the end.
func root(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// stacks is what the command asks of CloudFormation.
type stacks interface {
	DescribeStacks(context.Context, *cloudformation.DescribeStacksInput, ...func(*cloudformation.Options)) (*cloudformation.DescribeStacksOutput, error)
}

// bucketOf looks a stack's bucket up.
func bucketOf(ctx context.Context, api stacks, stack string) (string, error) {
	return outputOf(ctx, api, stack, bucketOutput, "bucket")
}

// tableOf looks a stack's table up.
func tableOf(ctx context.Context, api stacks, stack string) (string, error) {
	return outputOf(ctx, api, stack, tableOutput, "table")
}

// outputOf looks an output of a stack up, which names what the flag would.
func outputOf(ctx context.Context, api stacks, stack, output, flag string) (string, error) {
	outputs, err := outputsOf(ctx, api, stack)
	if err != nil {
		return "", fmt.Errorf("look for the %s of %w", flag, err)
	}
	if value, ok := outputs[output]; ok {
		return value, nil
	}
	return "", fmt.Errorf("the stack %s has no output %s: is it a stack of Sluice? Else give --%s", stack, output, flag)
}

// outputsOf are the outputs of a stack. Errors begin with "the stack".
func outputsOf(ctx context.Context, api stacks, stack string) (map[string]string, error) {
	out, err := api.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &stack})
	if err != nil {
		if _, answered := errors.AsType[smithy.APIError](err); answered {
			return nil, fmt.Errorf("the stack %s (check its name, the region and the account): %w", stack, err)
		}
		return nil, fmt.Errorf("the stack %s: %w", stack, err)
	}
	outputs := make(map[string]string)
	for _, s := range out.Stacks {
		for _, o := range s.Outputs {
			outputs[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
		}
	}
	return outputs, nil
}
