package deadletter

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-dev/sluice/shared/awserr"
)

// Messages is what the package asks of SQS.
type Messages interface {
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessage(context.Context, *sqs.DeleteMessageInput, ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error)
	ChangeMessageVisibility(context.Context, *sqs.ChangeMessageVisibilityInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error)
}

// Functions is what the package asks of Lambda.
type Functions interface {
	GetFunctionConfiguration(context.Context, *lambda.GetFunctionConfigurationInput, ...func(*lambda.Options)) (*lambda.GetFunctionConfigurationOutput, error)
	Invoke(context.Context, *lambda.InvokeInput, ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
}

// Box is the queue of dead letters, with the claim function they were meant for.
type Box struct {
	Messages  Messages
	Functions Functions
	// QueueURL is the queue's.
	QueueURL string
	// ClaimFunction is the name or ARN of the function that is to look at the tasks. That of the queue
	// which every submission starts: it hands tasks over that another function serves.
	ClaimFunction string
}

const (
	// hidden is for how long SQS keeps a letter from others that was taken: long enough to look at all of
	// them, and not for ever should this process die.
	hidden = 2 * time.Minute
	// patience is how long SQS waits for a message, so that it asks all of its servers.
	patience = time.Second
	// atOnce is how many letters are put back at the same time.
	atOnce = 8
	// receivable is the most that SQS gives at once.
	receivable = 10
)

// Take takes letters that were sent before the time, if it is set, and at most so many, or all for 0. Others
// do not see them for two minutes, or until they are put back.
func (b *Box) Take(ctx context.Context, before time.Time, most int) iter.Seq2[Letter, error] {
	return func(yield func(Letter, error) bool) {
		seen := make(map[string]bool)
		for most == 0 || len(seen) < most {
			size := receivable
			if most > 0 {
				size = min(size, most-len(seen))
			}
			out, err := b.Messages.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
				QueueUrl: &b.QueueURL, MaxNumberOfMessages: int32(size),
				VisibilityTimeout: int32(hidden / time.Second), WaitTimeSeconds: int32(patience / time.Second),
				MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameSentTimestamp},
				MessageAttributeNames:       []string{"All"},
			})
			if err != nil {
				yield(Letter{}, fmt.Errorf("read the dead letters: %w", err))
				return
			}
			fresh := 0
			for _, m := range out.Messages {
				l := read(m)
				if seen[l.ID] || !before.IsZero() && !l.SentAt.Before(before) {
					_ = b.PutBack(ctx, l) // it comes back by itself, later
					continue
				}
				fresh++
				seen[l.ID] = true
				if !yield(l, nil) {
					return
				}
			}
			if fresh == 0 { // none is left, or none that is wanted
				return
			}
		}
	}
}

// PutBack leaves letters in the queue for others to see at once. One that is gone is no error.
func (b *Box) PutBack(ctx context.Context, letters ...Letter) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, l := range letters {
		group.Go(func() error {
			_, err := b.Messages.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
				QueueUrl: &b.QueueURL, ReceiptHandle: &l.receipt, VisibilityTimeout: 0,
			})
			if code := awserr.Code(err); code == "MessageNotInflight" || code == "ReceiptHandleIsInvalid" {
				return nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("put dead letters back, they are seen again in two minutes: %w", err)
	}
	return nil
}

// ErrUnknown is the error for a letter that is none of ours.
var ErrUnknown = errors.New("it is no event of the claim function")

// Redrive has the claim function look at the tasks of a letter again, and deletes the letter once Lambda
// has accepted that. What fails again becomes another letter.
func (b *Box) Redrive(ctx context.Context, l Letter) error {
	if l.Kind == Unknown {
		return ErrUnknown
	}
	out, err := b.Functions.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: &b.ClaimFunction, InvocationType: lambdatypes.InvocationTypeEvent, Payload: l.event,
	})
	const accepted = 202
	if err == nil && out.StatusCode != accepted {
		err = fmt.Errorf("the answer was %d", out.StatusCode)
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", b.ClaimFunction, err)
	}
	_, err = b.Messages.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &b.QueueURL, ReceiptHandle: aws.String(l.receipt)})
	if err != nil {
		return fmt.Errorf("the tasks are looked at, but the letter could not be deleted: %w", err)
	}
	return nil
}
