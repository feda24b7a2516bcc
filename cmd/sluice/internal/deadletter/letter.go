// Package deadletter reads the queue of what Lambda and EventBridge Scheduler could not deliver to the
// claim function, and has the function look at the tasks in it again.
package deadletter

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/sluice-dev/sluice/shared/worker"
)

// Kind says where a letter comes from.
type Kind string

// The kinds of letters.
const (
	// Event is what Lambda gave up: the claim function failed on it, or was not free in time.
	Event Kind = "event"
	// WakeUp is what EventBridge Scheduler gave up: it could not start the claim function.
	WakeUp Kind = "wake_up"
	// Unknown is none of ours.
	Unknown Kind = "unknown"
)

// Letter is one message of the queue.
type Letter struct {
	ID     string    `json:"message_id"`
	SentAt time.Time `json:"sent_at,omitzero"`
	Kind   Kind      `json:"kind"`
	// TaskIDs are the tasks that were to be looked at.
	TaskIDs []string `json:"task_ids"`
	// Reason is why it was given up, in the word of the service: RetriesExhausted, EventAgeExceeded or an
	// error code.
	Reason string `json:"reason,omitempty"`
	// Tries is how often it was tried to deliver it, 0 if that is not known.
	Tries int `json:"tries,omitempty"`
	// Error is what the last try met.
	Error string `json:"error,omitempty"`

	event   json.RawMessage // for the claim function, nil if it is none of ours
	receipt string
}

// failure is what is read of a record that Lambda sends to its on-failure destination.
type failure struct {
	Context struct {
		Condition string `json:"condition"`
		Tries     int    `json:"approximateInvokeCount"`
	} `json:"requestContext"`
	Payload  json.RawMessage `json:"requestPayload"`
	Response struct {
		Message string `json:"errorMessage"`
	} `json:"responsePayload"`
}

// read makes a letter of a message.
func read(m types.Message) Letter {
	l := Letter{
		ID: aws.ToString(m.MessageId), Kind: Unknown, TaskIDs: []string{}, receipt: aws.ToString(m.ReceiptHandle),
	}
	if ms, err := strconv.ParseInt(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64); err == nil {
		l.SentAt = time.UnixMilli(ms).UTC()
	}
	body := json.RawMessage(aws.ToString(m.Body))
	var record failure
	if json.Unmarshal(body, &record) == nil && record.Payload != nil {
		l.Reason, l.Tries, l.Error = record.Context.Condition, record.Context.Tries, record.Response.Message
		l.address(Event, record.Payload)
		return l
	}
	l.Reason, l.Error = attribute(m, "ERROR_CODE"), attribute(m, "ERROR_MESSAGE")
	if retries, err := strconv.Atoi(attribute(m, "RETRY_ATTEMPTS")); err == nil {
		l.Tries = retries + 1
	}
	l.address(WakeUp, body)
	return l
}

// address finds out which tasks a letter is about, and what the claim function is to be started
// with: the ids, or the whole event if that names something else besides.
func (l *Letter) address(kind Kind, event json.RawMessage) {
	ids, others, err := worker.TasksOf(event)
	if err != nil {
		return
	}
	l.Kind, l.event = kind, event
	if len(ids) == 0 {
		return
	}
	l.TaskIDs = ids
	if others {
		return
	}
	if batch, err := json.Marshal(map[string][]string{"task_ids": ids}); err == nil {
		l.event = batch
	}
}

func attribute(m types.Message, name string) string {
	return aws.ToString(m.MessageAttributes[name].StringValue)
}
