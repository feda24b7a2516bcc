package dynamodbemu

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
)

// Options configure a Server. The zero value is a plain, fast, punctual DynamoDB.
type Options struct {
	// Region and AccountID stand in the ARNs of tables. They default to
	// us-east-1 and 000000000000.
	Region    string
	AccountID string

	// Clock gives the server's time: the Date header of every answer (whole
	// seconds), what TTL compares with, and the age of idempotency tokens.
	// Defaults to time.Now. Callers correct their own clocks by the Date header,
	// so a test sets this to give the service and a caller different times.
	Clock func() time.Time

	// Latency says how long a call waits before it takes effect and how long its
	// answer then waits. A call whose context ends first gets no answer; in the
	// second wait it has taken effect all the same. Defaults to none.
	Latency func(Call) (before, after time.Duration)

	// Fault is asked about every call and may make it fail. Defaults to none.
	// FailNext is the simpler way to fail a few calls.
	Fault func(Call) Fault

	// Conflicts makes transactions conflict as they do on AWS: a transaction
	// holds its items while Latency keeps it waiting to take effect, and other
	// writes and transactions on these items are then refused. Defaults to false:
	// conflicts happen only where Fault asks for them.
	Conflicts bool

	// NoItemOnFailure ignores ReturnValuesOnConditionCheckFailure, as several
	// emulators do, so that callers' ways around it can be tested.
	NoItemOnFailure bool

	// TTLDelay is how long after its expiry an item of a table with TTL enabled
	// is deleted. Zero, the default, means never: only ExpireNow deletes.
	TTLDelay time.Duration
}

// A Server is one DynamoDB with its own tables. It is safe for concurrent use.
type Server struct {
	opts Options

	mu       sync.Mutex
	tables   map[string]*table
	consumed map[string]Capacity
	tokens   tokens
	inFlight map[string]bool // items held by transactions, see Options.Conflicts
	planned  []plannedFault
	calls    int64
}

// New returns a Server without tables.
func New(opts Options) *Server {
	if opts.Region == "" {
		opts.Region = "us-east-1"
	}
	if opts.AccountID == "" {
		opts.AccountID = "000000000000"
	}
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	return &Server{
		opts:     opts,
		tables:   make(map[string]*table),
		consumed: make(map[string]Capacity),
		inFlight: make(map[string]bool),
	}
}

// A Call is a request as hooks see it.
type Call struct {
	// Operation is the name in the X-Amz-Target header, such as "UpdateItem".
	Operation string
	// Body is the request's JSON. Hooks must not change it.
	Body []byte
	// Number counts the calls of a Server from 1.
	Number int64
}

// An operation is a decoded and checked request. Run carries it out under the
// server's lock; cleanup, if set, is run once, whether or not run was.
type operation struct {
	run     func() (any, error)
	cleanup func()
}

// operations maps the names in X-Amz-Target to what prepares them.
var operations = map[string]func(*Server, []byte) (operation, error){
	"BatchGetItem":       (*Server).batchGetItem,
	"BatchWriteItem":     (*Server).batchWriteItem,
	"CreateTable":        (*Server).createTable,
	"DeleteItem":         (*Server).deleteItem,
	"DeleteTable":        (*Server).deleteTable,
	"DescribeTable":      (*Server).describeTable,
	"DescribeTimeToLive": (*Server).describeTimeToLive,
	"GetItem":            (*Server).getItem,
	"ListTables":         (*Server).listTables,
	"ListTagsOfResource": (*Server).listTagsOfResource,
	"PutItem":            (*Server).putItem,
	"Query":              (*Server).query,
	"Scan":               (*Server).scan,
	"TagResource":        (*Server).tagResource,
	"TransactGetItems":   (*Server).transactGetItems,
	"TransactWriteItems": (*Server).transactWriteItems,
	"UntagResource":      (*Server).untagResource,
	"UpdateItem":         (*Server).updateItem,
	"UpdateTable":        (*Server).updateTable,
	"UpdateTimeToLive":   (*Server).updateTimeToLive,
}

const (
	targetPrefix = "DynamoDB_20120810."
	contentType  = "application/x-amz-json-1.0"
	// maxRequestBytes is the largest request body DynamoDB reads.
	maxRequestBytes = 16 << 20
)

// ServeHTTP answers one request of the awsJson1_0 protocol. Signatures are not checked.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	result, err := s.serve(r)
	status := http.StatusOK
	if err != nil {
		api := asAPIError(err)
		status, result = api.status, api.body()
	}
	body, err := json.Marshal(result)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"__type":"`+codeInternalServerError+`"}`)
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Date", s.opts.Clock().UTC().Format(http.TimeFormat))
	h.Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10))
	h.Set("X-Amzn-Requestid", strings.ToUpper(uuid.NewString()))
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:gosec // JSON with its content type, and a caller that has gone is no concern of ours
}

func asAPIError(err error) *apiError {
	if api, ok := errors.AsType[*apiError](err); ok {
		return api
	}
	return errInternal()
}

func (s *Server) serve(r *http.Request) (any, error) {
	name, found := strings.CutPrefix(r.Header.Get("X-Amz-Target"), targetPrefix)
	prepare := operations[name]
	if r.Method != http.MethodPost || !found || prepare == nil {
		return nil, newError(codeUnknownOperation, fmt.Sprintf("Unknown operation %q: this DynamoDB emulator does not support it", name))
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequestBytes+1))
	if err != nil {
		return nil, newError(codeSerialization, "The request could not be read")
	}
	if len(body) > maxRequestBytes {
		return nil, newError(codeSerialization, "Request size has exceeded the maximum of 16 MB")
	}
	call := Call{Operation: name, Body: body}
	fault := s.admit(&call)
	if err := fault.before(call); err != nil {
		return nil, err
	}
	op, err := prepare(s, body)
	if err != nil {
		return nil, err
	}
	if op.cleanup != nil {
		defer op.cleanup()
	}
	return s.carryOut(r.Context(), call, op, fault)
}

// admit numbers the call and finds what is to go wrong with it.
func (s *Server) admit(call *Call) Fault {
	s.mu.Lock()
	s.calls++
	call.Number = s.calls
	fault := s.plannedFault(*call)
	s.mu.Unlock()
	if fault.Kind == NoFault && s.opts.Fault != nil {
		fault = s.opts.Fault(*call)
	}
	return fault
}

func (s *Server) carryOut(ctx context.Context, call Call, op operation, fault Fault) (any, error) {
	var before, after time.Duration
	if s.opts.Latency != nil {
		before, after = s.opts.Latency(call)
	}
	if err := wait(ctx, before); err != nil {
		return nil, err
	}
	result, err := s.locked(op.run)
	if waitErr := wait(ctx, after); waitErr != nil {
		return nil, waitErr
	}
	if fault.Kind == LostAnswer {
		return nil, errInternal()
	}
	return result, err
}

func (s *Server) locked(run func() (any, error)) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return run()
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// decode reads a request's JSON. Unknown members are ignored, as on AWS.
func decode(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return newError(codeSerialization, "The request could not be decoded: "+err.Error())
	}
	return nil
}
