package sqsemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// apiError is a refusal by SQS.
type apiError struct {
	code    string // as in the JSON protocol, such as QueueDoesNotExist
	message string
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

func newError(code, message string) error { return &apiError{code: code, message: message} }

// queryCode is the name that the code had in SQS's older protocol, which SDKs
// still show.
func (e *apiError) queryCode() string {
	switch e.code {
	case "QueueDoesNotExist":
		return "AWS.SimpleQueueService.NonExistentQueue"
	case "QueueNameExists":
		return "QueueAlreadyExists"
	}
	return e.code
}

const targetPrefix = "AmazonSQS."

// maxRequestBytes is more than the largest message with its attributes.
const maxRequestBytes = 4 << 20

type handler func(s *Server, r *http.Request, body []byte) (any, error)

var operations = map[string]handler{
	"ChangeMessageVisibility": operation((*Server).changeMessageVisibility),
	"CreateQueue":             operation((*Server).createQueue),
	"DeleteMessage":           operation((*Server).deleteMessage),
	"DeleteMessageBatch":      operation((*Server).deleteMessageBatch),
	"DeleteQueue":             operation((*Server).deleteQueue),
	"GetQueueAttributes":      operation((*Server).getQueueAttributes),
	"GetQueueUrl":             operation((*Server).getQueueURL),
	"ListQueues":              operation((*Server).listQueues),
	"PurgeQueue":              operation((*Server).purgeQueue),
	"ReceiveMessage":          operation((*Server).receiveMessage),
	"SendMessage":             operation((*Server).sendMessage),
	"SendMessageBatch":        operation((*Server).sendMessageBatch),
	"SetQueueAttributes":      operation((*Server).setQueueAttributes),
}

// operation turns a method on a decoded request into a handler.
func operation[In any](method func(*Server, *http.Request, In) (any, error)) handler {
	return func(s *Server, r *http.Request, body []byte) (any, error) {
		var in In
		if len(body) > 0 {
			if err := json.Unmarshal(body, &in); err != nil {
				return nil, newError("SerializationException", "The request could not be decoded: "+err.Error())
			}
		}
		return method(s, r, in)
	}
}

// ServeHTTP answers one request of SQS's JSON protocol.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out, err := s.serve(r)
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the caller has gone
	}
	h := w.Header()
	h.Set("Content-Type", "application/x-amz-json-1.0")
	h.Set("X-Amzn-Requestid", uuid.NewString())
	status := http.StatusOK
	if err != nil {
		var refusal *apiError
		if !errors.As(err, &refusal) {
			refusal = &apiError{code: "InternalError", message: err.Error()}
		}
		status = http.StatusBadRequest
		h.Set("X-Amzn-Query-Error", refusal.queryCode()+";Sender")
		out = map[string]string{"__type": "com.amazonaws.sqs#" + refusal.code, "message": refusal.message}
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out)
}

func (s *Server) serve(r *http.Request) (any, error) {
	name := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), targetPrefix)
	handle, ok := operations[name]
	if !ok {
		return nil, newError("UnsupportedOperation", fmt.Sprintf("this SQS emulator does not know the operation %q", name))
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequestBytes))
	if err != nil {
		return nil, newError("SerializationException", "The request could not be read: "+err.Error())
	}
	return handle(s, r, body)
}

type empty struct{}

type queueInput struct{ QueueUrl string }

type createQueueInput struct {
	QueueName  string
	Attributes map[string]string
}

func (s *Server) createQueue(r *http.Request, in createQueueInput) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.createLocked(in.QueueName, in.Attributes)
	if err != nil {
		return nil, err
	}
	for name, v := range in.Attributes {
		if q.attributes[name] != v {
			return nil, newError("QueueNameExists", "A queue already exists with the same name and a different value for attribute "+name)
		}
	}
	return queueInput{QueueUrl: s.url(r, q.name)}, nil
}

// url is where clients are told to find a queue: at the host they talk to.
func (s *Server) url(r *http.Request, name string) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host + "/" + s.opts.AccountID + "/" + name
}

type queueNameInput struct{ QueueName string }

func (s *Server) getQueueURL(r *http.Request, in queueNameInput) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.queueLocked(in.QueueName)
	if err != nil {
		return nil, err
	}
	return queueInput{QueueUrl: s.url(r, q.name)}, nil
}

type listQueuesInput struct{ QueueNamePrefix string }

func (s *Server) listQueues(r *http.Request, in listQueuesInput) (any, error) {
	out := struct{ QueueUrls []string }{}
	for _, name := range s.Queues() {
		if strings.HasPrefix(name, in.QueueNamePrefix) {
			out.QueueUrls = append(out.QueueUrls, s.url(r, name))
		}
	}
	return out, nil
}

func (s *Server) deleteQueue(_ *http.Request, in queueInput) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.queueLocked(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	delete(s.queues, q.name)
	q.wakeReceivers()
	return empty{}, nil
}

func (s *Server) purgeQueue(_ *http.Request, in queueInput) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.queueLocked(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	q.messages = nil
	return empty{}, nil
}

type attributesInput struct {
	QueueUrl       string
	AttributeNames []string
	Attributes     map[string]string
}

func (s *Server) setQueueAttributes(_ *http.Request, in attributesInput) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.queueLocked(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	return empty{}, q.setAttributes(in.Attributes)
}

// setAttributes keeps all attributes; the visibility timeout is the one that
// has an effect.
func (q *queue) setAttributes(attributes map[string]string) error {
	if v, ok := attributes["VisibilityTimeout"]; ok {
		if seconds, err := strconv.Atoi(v); err != nil || seconds < 0 || seconds > 43200 {
			return newError("InvalidAttributeValue", "VisibilityTimeout must be 0 to 43200 seconds, not "+v)
		}
	}
	maps.Copy(q.attributes, attributes)
	return nil
}

func (q *queue) visibility() time.Duration {
	seconds, err := strconv.Atoi(q.attributes["VisibilityTimeout"])
	if err != nil {
		return defaultVisibility
	}
	return time.Duration(seconds) * time.Second
}

func (s *Server) getQueueAttributes(_ *http.Request, in attributesInput) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.queueLocked(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	var visible, inFlight, delayed int
	now := time.Now()
	for _, m := range q.messages {
		switch {
		case !m.visible.After(now):
			visible++
		case m.received > 0:
			inFlight++
		default:
			delayed++
		}
	}
	all := map[string]string{
		"QueueArn":                              s.ARN(q.name),
		"ApproximateNumberOfMessages":           strconv.Itoa(visible),
		"ApproximateNumberOfMessagesNotVisible": strconv.Itoa(inFlight),
		"ApproximateNumberOfMessagesDelayed":    strconv.Itoa(delayed),
		"CreatedTimestamp":                      strconv.FormatInt(q.created.Unix(), 10),
		"VisibilityTimeout":                     strconv.Itoa(int(q.visibility().Seconds())),
	}
	for name, v := range q.attributes {
		all[name] = v
	}
	return map[string]any{"Attributes": chosen(all, in.AttributeNames)}, nil
}

// chosen keeps the entries that were asked for by name or by "All".
func chosen(all map[string]string, names []string) map[string]string {
	if slices.Contains(names, "All") {
		return all
	}
	kept := map[string]string{}
	for _, name := range names {
		if v, ok := all[name]; ok {
			kept[name] = v
		}
	}
	return kept
}

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
	var refusal *apiError
	if errors.As(err, &refusal) {
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
	QueueUrl            string
	MaxNumberOfMessages *int
	VisibilityTimeout   *int
	WaitTimeSeconds     int
}

type receivedMessage struct {
	MessageId         string
	ReceiptHandle     string
	Body              string
	MD5OfBody         string
	Attributes        map[string]string
	MessageAttributes map[string]Attribute `json:",omitempty"`
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
