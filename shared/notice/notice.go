// Package notice tells others that a task has ended, so that they need not ask: a message
// in a queue of SQS, for the task types that the deployment names.
//
// A notice says which task has ended and how. It holds neither the task's input nor its
// output nor the text of an error: they may be large, or for few eyes only, and are read
// from the task. The claim function sends it after the terminal record is written and before the
// submission is removed, and again if it dies in between: at least once. What ends without a
// claim function, by a cancel of a pending task or a purge, sends none: whoever asked for it knows.
package notice

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/go-json-experiment/json"

	"github.com/sluice-dev/sluice/shared/task"
)

// Notice is the body of a message, in JSON.
type Notice struct {
	TaskID   string      `json:"task_id"`
	TaskType string      `json:"task_type"`
	Status   task.Status `json:"status"`
	// Revision tells apart the ends of a task that is replayed.
	Revision    int64             `json:"revision"`
	Attempt     int64             `json:"attempt"`
	CreatedAt   time.Time         `json:"created_at"`
	CompletedAt time.Time         `json:"completed_at"`
	Tags        map[string]string `json:"tags,omitempty"`
}

// API is what the package asks of SQS.
type API interface {
	SendMessage(context.Context, *sqs.SendMessageInput, ...func(*sqs.Options)) (*sqs.SendMessageOutput, error)
}

// EnvNotices names the environment variable that the deployment sets: a JSON object
// of task types and URLs of queues, where the type [OtherTypes] stands for all that are not named.
const EnvNotices = "SLUICE_NOTICES"

// OtherTypes is the task type that stands for all that are not named.
const OtherTypes = "*"

// A Sender sends notices. Use [New].
type Sender struct {
	api    func() API
	queues map[string]string // URLs by task type
}

// New returns the sender for queues as [EnvNotices] has them. It is nil for an empty text. The client is
// made when it is first needed.
func New(text string, api func() API) (*Sender, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // nobody wants notices
	}
	s := &Sender{api: sync.OnceValue(api)}
	if err := json.Unmarshal([]byte(text), &s.queues); err != nil {
		return nil, fmt.Errorf(`the environment variable %s must be JSON such as {"send_mail": "https://sqs.…"}: %w`, EnvNotices, err)
	}
	for taskType, queue := range s.queues {
		if u, err := url.Parse(queue); err != nil || u.Host == "" || taskType == "" {
			return nil, fmt.Errorf("the environment variable %s has %q for the task type %q: it must be the URL of a queue of SQS", EnvNotices, queue, taskType)
		}
	}
	return s, nil
}

// Send tells that a task has ended, if anybody wants to know of its type; else it does nothing. An error
// names the task and the queue; the notice may have been sent all the same.
func (s *Sender) Send(ctx context.Context, t task.Task) error {
	queue, wanted := s.queues[t.Type]
	if !wanted {
		if queue, wanted = s.queues[OtherTypes]; !wanted {
			return nil
		}
	}
	body, err := json.Marshal(Notice{
		TaskID: t.ID, TaskType: t.Type, Status: t.Status, Revision: t.Revision, Attempt: t.Attempt,
		CreatedAt: t.CreatedAt, CompletedAt: aws.ToTime(t.CompletedAt), Tags: t.Tags,
	})
	if err != nil {
		return fmt.Errorf("notice of the end of task %s: %w", t.ID, err)
	}
	in := &sqs.SendMessageInput{
		QueueUrl: &queue, MessageBody: aws.String(string(body)),
		MessageAttributes: map[string]types.MessageAttributeValue{
			"task_type": text(t.Type), "status": text(string(t.Status)),
		},
	}
	// A queue that keeps the order keeps it by task, and drops a repetition within five minutes.
	if strings.HasSuffix(queue, ".fifo") {
		in.MessageGroupId = &t.ID
		in.MessageDeduplicationId = aws.String(t.ID + "." + strconv.FormatInt(t.Revision, 10))
	}
	if _, err := s.api().SendMessage(ctx, in); err != nil {
		return fmt.Errorf("send the notice of the end of task %s to %s: %w", t.ID, queue, err)
	}
	return nil
}

func text(s string) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &s}
}
