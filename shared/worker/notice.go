package worker

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/sluice-dev/sluice/shared/notice"
	"github.com/sluice-dev/sluice/shared/task"
)

// EnvNotices says who is told of the end of tasks, by task type. See [notice.EnvNotices].
const EnvNotices = notice.EnvNotices

// Notifier tells others that a task has ended. The engine calls it at least once for each task
// that ends in it, before it removes the submission; an error makes it come back to that.
type Notifier interface {
	Send(ctx context.Context, ended task.Task) error
}

// notifierFrom makes the notifier that the deployment asks for, nil for none.
func notifierFrom(config aws.Config, getenv func(string) string) (Notifier, error) {
	sender, err := notice.New(getenv(EnvNotices), func() notice.API { return sqs.NewFromConfig(config) })
	if sender == nil || err != nil {
		return nil, err
	}
	return sender, nil
}

func (e *Engine) notify(ctx context.Context, ended task.Task) error {
	if e.Notifier == nil {
		return nil
	}
	return e.Notifier.Send(ctx, ended)
}
