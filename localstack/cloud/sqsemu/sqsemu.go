// Package sqsemu is an SQS that lives in memory, as far as dead letters need
// one: standard queues with visibility timeouts and long polling, by the JSON
// protocol of the AWS SDKs, and a few methods for tests that want to look at a
// queue without a client.
//
// A [Server] runs no goroutine and keeps no timer, so it works inside
// testing/synctest bubbles.
package sqsemu

import (
	"crypto/md5" //nolint:gosec // the checksum that SQS clients verify
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Options configure a [Server]. The zero value works.
type Options struct {
	// Region and AccountID stand in the ARNs of queues. They default to
	// us-east-1 and 000000000000.
	Region    string
	AccountID string
}

// Server is an SQS with its own queues. It is safe for concurrent use.
type Server struct {
	opts Options

	mu     sync.Mutex
	queues map[string]*queue
}

// New returns a server without queues.
func New(opts Options) *Server {
	if opts.Region == "" {
		opts.Region = "us-east-1"
	}
	if opts.AccountID == "" {
		opts.AccountID = "000000000000"
	}
	return &Server{opts: opts, queues: map[string]*queue{}}
}

// Attribute is a message attribute.
type Attribute struct {
	DataType    string
	StringValue string `json:",omitempty"`
	BinaryValue []byte `json:",omitempty"`
}

// Text is an attribute of the type String.
func Text(value string) Attribute { return Attribute{DataType: "String", StringValue: value} }

// Message is a message that has been sent and not yet deleted.
type Message struct {
	ID         string
	Body       string
	Attributes map[string]Attribute
	Sent       time.Time
}

type queue struct {
	name       string
	created    time.Time
	attributes map[string]string
	messages   []*message    // oldest first
	changed    chan struct{} // closed and replaced when a message may have become visible
}

type message struct {
	Message

	visible  time.Time // when it can be received (again)
	receipt  string    // of the last time it was received
	received int
	first    time.Time // when it was received first
}

// The defaults of AWS.
const (
	defaultVisibility = 30 * time.Second
	maxWait           = 20 * time.Second
	maxBatch          = 10
	maxBodyBytes      = 1 << 20
)

var queueName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,80}$`)

// CreateQueue makes a queue, or does nothing when there is one of that name,
// and returns its ARN. Names are 1 to 80 letters, digits, "-" and "_".
func (s *Server) CreateQueue(name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.createLocked(name, nil); err != nil {
		return "", err
	}
	return s.ARN(name), nil
}

func (s *Server) createLocked(name string, attributes map[string]string) (*queue, error) {
	if !queueName.MatchString(name) {
		return nil, newError("InvalidParameterValue", fmt.Sprintf(
			"Queue name %q: use 1 to 80 letters, digits, '-' and '_' (FIFO queues are not emulated)", name))
	}
	if q, ok := s.queues[name]; ok {
		return q, nil
	}
	q := &queue{name: name, created: time.Now(), attributes: map[string]string{}, changed: make(chan struct{})}
	if err := q.setAttributes(attributes); err != nil {
		return nil, err
	}
	s.queues[name] = q
	return q, nil
}

// ARN is the Amazon Resource Name of a queue, whether or not it exists.
func (s *Server) ARN(name string) string {
	return "arn:aws:sqs:" + s.opts.Region + ":" + s.opts.AccountID + ":" + name
}

// Queues returns the names of all queues, sorted.
func (s *Server) Queues() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.queues))
	for name := range s.queues {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Send puts a message into a queue, which is named by its name, URL or ARN. It
// fails when there is no such queue and when the body is empty or larger than
// 1 MB.
func (s *Server) Send(ref, body string, attributes map[string]Attribute) (Message, error) {
	return s.send(ref, body, attributes, 0)
}

func (s *Server) send(ref, body string, attributes map[string]Attribute, delay time.Duration) (Message, error) {
	switch {
	case body == "":
		return Message{}, newError("MissingParameter", "The request must contain the parameter MessageBody.")
	case len(body) > maxBodyBytes:
		return Message{}, newError("InvalidParameterValue",
			fmt.Sprintf("One or more parameters are invalid. Reason: Message must be shorter than %d bytes.", maxBodyBytes))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.queueLocked(ref)
	if err != nil {
		return Message{}, err
	}
	now := time.Now()
	m := &message{
		Message: Message{ID: uuid.NewString(), Body: body, Attributes: attributes, Sent: now},
		visible: now.Add(delay),
	}
	q.messages = append(q.messages, m)
	q.wakeReceivers()
	return m.Message, nil
}

// Messages returns what is in a queue, oldest first and in flight or not,
// without receiving it; nothing when there is no such queue.
func (s *Server) Messages(ref string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.queueLocked(ref)
	if err != nil {
		return nil
	}
	messages := make([]Message, len(q.messages))
	for i, m := range q.messages {
		messages[i] = m.Message
	}
	return messages
}

func (s *Server) queueLocked(ref string) (*queue, error) {
	if q, ok := s.queues[lastPart(ref)]; ok {
		return q, nil
	}
	return nil, newError("QueueDoesNotExist", "The specified queue does not exist: "+ref)
}

// lastPart is the name at the end of a queue's ARN or URL.
func lastPart(ref string) string {
	for i := len(ref) - 1; i >= 0; i-- {
		if ref[i] == ':' || ref[i] == '/' {
			return ref[i+1:]
		}
	}
	return ref
}

func (q *queue) wakeReceivers() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// take receives up to n visible messages, and tells when the next one will
// become visible by itself (zero when none will).
func (q *queue) take(n int, visibility time.Duration, now time.Time) ([]*message, time.Time) {
	var taken []*message
	var next time.Time
	for _, m := range q.messages {
		if m.visible.After(now) {
			if next.IsZero() || m.visible.Before(next) {
				next = m.visible
			}
			continue
		}
		if len(taken) == n {
			break
		}
		m.visible = now.Add(visibility)
		m.receipt = uuid.NewString()
		m.received++
		if m.received == 1 {
			m.first = now
		}
		taken = append(taken, m)
	}
	return taken, next
}

func (q *queue) byReceipt(receipt string) int {
	return slices.IndexFunc(q.messages, func(m *message) bool { return m.receipt != "" && m.receipt == receipt })
}

func md5Hex(text string) string {
	sum := md5.Sum([]byte(text)) //nolint:gosec // the checksum that SQS clients verify
	return hex.EncodeToString(sum[:])
}
