package sqsemu

import (
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
	body, err := json.Marshal(out)
	if err != nil { // nothing in an answer can cause that
		status, body = http.StatusInternalServerError, []byte(`{"__type":"com.amazonaws.sqs#InternalError"}`)
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
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
	maps.Copy(all, q.attributes)
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
