package sqsemu

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

type sendInput struct {
	QueueUrl          string
	Id                string `json:",omitempty"` // in a batch
	MessageBody       string
	DelaySeconds      int
	MessageAttributes map[string]Attribute
}

type sendOutput struct {
	Id               string `json:",omitempty"` // in a batch
	MD5OfMessageBody string
	MessageId        string
}

func (s *Server) sendMessage(_ *http.Request, in sendInput) (any, error) {
	m, err := s.send(in.QueueUrl, in.MessageBody, in.MessageAttributes, time.Duration(in.DelaySeconds)*time.Second)
	if err != nil {
		return nil, err
	}
	return sendOutput{MD5OfMessageBody: md5Hex(m.Body), MessageId: m.ID}, nil
}

type batchError struct {
	Id          string
	Code        string
	Message     string
	SenderFault bool
}

func batchErrorOf(id string, err error) batchError {
	if refusal, ok := errors.AsType[*apiError](err); ok {
		return batchError{Id: id, Code: refusal.code, Message: refusal.message, SenderFault: true}
	}
	return batchError{Id: id, Code: "InternalError", Message: err.Error()}
}

type sendBatchInput struct {
	QueueUrl string
	Entries  []sendInput
}

func (s *Server) sendMessageBatch(_ *http.Request, in sendBatchInput) (any, error) {
	if len(in.Entries) == 0 || len(in.Entries) > maxBatch {
		return nil, newError("TooManyEntriesInBatchRequest", "A batch has 1 to 10 entries.")
	}
	out := struct {
		Successful []sendOutput
		Failed     []batchError
	}{Successful: []sendOutput{}, Failed: []batchError{}}
	for _, entry := range in.Entries {
		m, err := s.send(in.QueueUrl, entry.MessageBody, entry.MessageAttributes, time.Duration(entry.DelaySeconds)*time.Second)
		if err != nil {
			out.Failed = append(out.Failed, batchErrorOf(entry.Id, err))
			continue
		}
		out.Successful = append(out.Successful, sendOutput{Id: entry.Id, MD5OfMessageBody: md5Hex(m.Body), MessageId: m.ID})
	}
	return out, nil
}

type receiveInput struct {
	QueueUrl                    string
	MaxNumberOfMessages         *int
	VisibilityTimeout           *int
	WaitTimeSeconds             int
	AttributeNames              []string // the older name of the next
	MessageSystemAttributeNames []string
	MessageAttributeNames       []string // patterns such as "All" and "color.*"
}

type receivedMessage struct {
	MessageId         string
	ReceiptHandle     string
	Body              string
	MD5OfBody         string
	Attributes        map[string]string    `json:",omitempty"`
	MessageAttributes map[string]Attribute `json:",omitempty"`
}

// keepAskedFor drops the attributes that the receiver did not ask for.
func (m *receivedMessage) keepAskedFor(in receiveInput) {
	m.Attributes = chosen(m.Attributes, slices.Concat(in.AttributeNames, in.MessageSystemAttributeNames))
	kept := map[string]Attribute{}
	for name, v := range m.MessageAttributes {
		if slices.ContainsFunc(in.MessageAttributeNames, func(pattern string) bool {
			group, isGroup := strings.CutSuffix(pattern, ".*")
			return pattern == "All" || pattern == name || isGroup && strings.HasPrefix(name, group)
		}) {
			kept[name] = v
		}
	}
	m.MessageAttributes = kept
}

func (s *Server) receiveMessage(r *http.Request, in receiveInput) (any, error) {
	n := 1
	if in.MaxNumberOfMessages != nil {
		n = *in.MaxNumberOfMessages
	}
	if n < 1 || n > maxBatch {
		return nil, newError("InvalidParameterValue", "MaxNumberOfMessages must be 1 to 10")
	}
	wait := time.Duration(in.WaitTimeSeconds) * time.Second
	if wait < 0 || wait > maxWait {
		return nil, newError("InvalidParameterValue", "WaitTimeSeconds must be 0 to 20")
	}
	messages, err := s.receive(r.Context(), in.QueueUrl, n, in.VisibilityTimeout, wait)
	if err != nil {
		return nil, err
	}
	for i := range messages {
		messages[i].keepAskedFor(in)
	}
	return struct {
		Messages []receivedMessage `json:",omitempty"`
	}{messages}, nil
}

// receive waits until there is a message, the wait is over, or ctx ends.
func (s *Server) receive(ctx context.Context, ref string, n int, visibility *int, wait time.Duration) ([]receivedMessage, error) {
	until := time.Now().Add(wait)
	for {
		messages, changed, next, err := s.receiveNow(ref, n, visibility)
		if err != nil || len(messages) > 0 {
			return messages, err
		}
		rest := time.Until(until)
		if rest <= 0 {
			return nil, nil
		}
		if !next.IsZero() {
			rest = min(rest, time.Until(next))
		}
		timer := time.NewTimer(rest)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

func (s *Server) receiveNow(ref string, n int, visibility *int) ([]receivedMessage, <-chan struct{}, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.queueLocked(ref)
	if err != nil {
		return nil, nil, time.Time{}, err
	}
	hidden := q.visibility()
	if visibility != nil {
		hidden = time.Duration(*visibility) * time.Second
	}
	taken, next := q.take(n, hidden, time.Now())
	var messages []receivedMessage
	for _, m := range taken {
		messages = append(messages, receivedMessage{
			MessageId: m.ID, ReceiptHandle: m.receipt, Body: m.Body, MD5OfBody: md5Hex(m.Body),
			Attributes: map[string]string{
				"SenderId":                         s.opts.AccountID,
				"SentTimestamp":                    strconv.FormatInt(m.Sent.UnixMilli(), 10),
				"ApproximateReceiveCount":          strconv.Itoa(m.received),
				"ApproximateFirstReceiveTimestamp": strconv.FormatInt(m.first.UnixMilli(), 10),
			},
			MessageAttributes: m.Attributes,
		})
	}
	return messages, q.changed, next, nil
}

type receiptInput struct {
	QueueUrl          string
	Id                string // in a batch
	ReceiptHandle     string
	VisibilityTimeout int
}

func (s *Server) deleteMessage(_ *http.Request, in receiptInput) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.queueLocked(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	if i := q.byReceipt(in.ReceiptHandle); i >= 0 {
		q.messages = slices.Delete(q.messages, i, i+1)
	}
	return empty{}, nil // an old receipt is no error
}

type deleteBatchInput struct {
	QueueUrl string
	Entries  []receiptInput
}

func (s *Server) deleteMessageBatch(r *http.Request, in deleteBatchInput) (any, error) {
	type deleted struct{ Id string }
	out := struct {
		Successful []deleted
		Failed     []batchError
	}{Successful: []deleted{}, Failed: []batchError{}}
	for _, entry := range in.Entries {
		entry.QueueUrl = in.QueueUrl
		if _, err := s.deleteMessage(r, entry); err != nil {
			out.Failed = append(out.Failed, batchErrorOf(entry.Id, err))
			continue
		}
		out.Successful = append(out.Successful, deleted{entry.Id})
	}
	return out, nil
}

func (s *Server) changeMessageVisibility(_ *http.Request, in receiptInput) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.queueLocked(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	i := q.byReceipt(in.ReceiptHandle)
	if i < 0 {
		return nil, newError("MessageNotInflight", "The message is not in flight")
	}
	q.messages[i].visible = time.Now().Add(time.Duration(in.VisibilityTimeout) * time.Second)
	q.wakeReceivers()
	return empty{}, nil
}
