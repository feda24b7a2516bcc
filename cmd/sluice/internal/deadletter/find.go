package deadletter

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/worker"
)

// Objects is what the package asks of S3.
type Objects interface {
	GetBucketNotificationConfiguration(context.Context, *s3.GetBucketNotificationConfigurationInput, ...func(*s3.Options)) (*s3.GetBucketNotificationConfigurationOutput, error)
}

// ClaimFunctionOf finds the function that submissions start.
func ClaimFunctionOf(ctx context.Context, objects Objects, bucket string) (arn string, err error) {
	out, err := objects.GetBucketNotificationConfiguration(ctx, &s3.GetBucketNotificationConfigurationInput{Bucket: &bucket})
	if err != nil {
		return "", fmt.Errorf("look for the claim function of the bucket %s (or give --function): %w", bucket, err)
	}
	for _, n := range out.LambdaFunctionConfigurations {
		if prefix, _ := s3store.KeyFilter(n.Filter); prefix == s3store.InboxPrefix {
			return aws.ToString(n.LambdaFunctionArn), nil
		}
	}
	return "", fmt.Errorf("no function is started by objects under %s of the bucket %s: give --function, or see what `sluice doctor` says", s3store.InboxPrefix, bucket)
}

// FindQueue finds the queue of dead letters: that of the text, which is a URL, an ARN or a name, or for
// an empty one that which the claim function names.
func (b *Box) FindQueue(ctx context.Context, text string) error {
	if text == "" {
		out, err := b.Functions.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &b.ClaimFunction})
		if err != nil {
			return fmt.Errorf("look for the queue of %s (or give --queue): %w", b.ClaimFunction, err)
		}
		if out.Environment != nil {
			text = out.Environment.Variables[worker.EnvDeadLetterARN]
		}
		if text == "" {
			return fmt.Errorf("%s has no variable %s: give --queue", b.ClaimFunction, worker.EnvDeadLetterARN)
		}
	}
	if strings.Contains(text, "://") {
		b.QueueURL = text
		return nil
	}
	in := &sqs.GetQueueUrlInput{QueueName: &text}
	if parts := strings.Split(text, ":"); len(parts) > 1 { // arn:aws:sqs:region:account:name
		const account = 4
		in.QueueName = &parts[len(parts)-1]
		if len(parts) > account+1 {
			in.QueueOwnerAWSAccountId = &parts[account]
		}
	}
	out, err := b.Messages.GetQueueUrl(ctx, in)
	if err != nil {
		return fmt.Errorf("look for the queue %s: %w", text, err)
	}
	b.QueueURL = aws.ToString(out.QueueUrl)
	return nil
}
