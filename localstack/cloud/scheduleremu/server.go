// Package scheduleremu is an EventBridge Scheduler that lives in memory and
// fires: an [http.Handler] for the service's REST API, as the AWS SDKs and the
// AWS command line speak it, and a clock that hands what is due to
// Options.OnFire.
//
// Whatever real schedules may do and other emulators never do can be had on
// purpose: arrive late, twice or not at all, fail and be retried, end up as
// dead letters. Time is that of package time, so inside a testing/synctest
// bubble a year of schedules passes at once.
//
// All state belongs to one [Server]; servers share nothing.
package scheduleremu

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // schedules name time zones, whatever the machine has installed

	"github.com/sluice-dev/sluice/localstack/cloud/internal/sortedmap"
)

// Options are the settings of a [Server]. The zero value is usable.
type Options struct {
	// Region is part of all ARNs. Defaults to "us-east-1".
	Region string

	// AccountID is part of all ARNs. Defaults to "000000000000".
	AccountID string

	// OnFire invokes a schedule's target. It is called in a goroutine of its
	// own, at most Concurrency of them at a time; its context ends with
	// Close. When it returns an error the invocation is tried again as the
	// schedule's retry policy says. Defaults to nil: targets are not
	// invoked, and every invocation counts as successful.
	OnFire func(context.Context, Fire) error

	// OnDeadLetter is told of an invocation whose tries are used up, also
	// when the schedule names no dead-letter queue (Fire.DeadLetterARN is
	// empty then, and the service would drop the event). Called like OnFire.
	// Defaults to nil.
	OnDeadLetter func(context.Context, DeadLetter)

	// Lateness is how long after its time a schedule fires; the service
	// takes up to 60 s. Asked once per invocation, when it is armed, with a
	// lock held: it must not call the server. Defaults to 0.
	Lateness func() time.Duration

	// Deliver decides what becomes of an invocation that is due. Called in
	// the goroutine that then calls OnFire, once per invocation and not
	// again for its retries. Defaults to [DeliverOnce].
	Deliver func(Fire) Delivery

	// RetryDelay is the pause before the retry with the given number, from
	// 1. Defaults to one second, doubled for each further retry, at most
	// five minutes. (The service says "exponential backoff" only.)
	RetryDelay func(retry int) time.Duration

	// Concurrency bounds the calls of OnFire at a time; what is due beyond
	// it waits in line. Defaults to 256.
	Concurrency int

	// MaxSchedules is the number of schedules at which another one is
	// refused with ServiceQuotaExceededException. Defaults to 10,000,000.
	MaxSchedules int
}

// Delivery is what becomes of an invocation that is due.
type Delivery int

// The decisions of Options.Deliver.
const (
	DeliverOnce  Delivery = iota
	DeliverTwice          // as an at-least-once service may
	Drop                  // nobody is told; the schedule counts as fired
)

// Fire is one invocation of a schedule's target.
type Fire struct {
	ScheduleARN   string
	Group         string
	Name          string
	TargetARN     string
	RoleARN       string
	DeadLetterARN string // "" when the schedule has no dead-letter queue
	Input         string // with its <aws.scheduler.…> keywords replaced
	Scheduled     time.Time
	Attempt       int    // from 1
	ExecutionID   string // of this attempt
}

// DeadLetter is an invocation that was given up.
type DeadLetter struct {
	Fire // the last attempt

	Err       error  // what OnFire returned for it
	Condition string // MaximumRetryAttempts or MaximumEventAgeInSeconds
}

// Server is a Scheduler of its own. Use [New] and, at the end,
// [Server.Close]. It is safe for concurrent use.
type Server struct {
	options Options
	ctx     context.Context //nolint:containedctx // of everything that fires, until Close
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	state   state
	agenda  agenda
	timer   *time.Timer // for the head of the agenda
	closed  bool
	held    bool // between Load and Resume nothing fires
	workers int
	line    []*invocation // due, and waiting for a worker
}

// state is everything a server remembers, apart from what is under way.
type state struct {
	Groups   sortedmap.Map[*group]
	Count    int // of schedules in all groups
	Deleted  map[string]time.Time
	Forget   []string // keys of Deleted, oldest first
	Sequence uint64
}

const defaultGroup = "default"

// New returns a server with the group "default" and no schedules.
func New(options Options) *Server {
	if options.Region == "" {
		options.Region = "us-east-1"
	}
	if options.AccountID == "" {
		options.AccountID = "000000000000"
	}
	if options.Lateness == nil {
		options.Lateness = func() time.Duration { return 0 }
	}
	if options.Deliver == nil {
		options.Deliver = func(Fire) Delivery { return DeliverOnce }
	}
	if options.RetryDelay == nil {
		options.RetryDelay = defaultRetryDelay
	}
	if options.Concurrency == 0 {
		options.Concurrency = 256
	}
	if options.MaxSchedules == 0 {
		options.MaxSchedules = 10_000_000
	}
	s := &Server{options: options, state: state{Deleted: map[string]time.Time{}}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.addGroup(defaultGroup, "", nil)
	return s
}

func defaultRetryDelay(retry int) time.Duration {
	return min(time.Second<<min(retry-1, 20), 5*time.Minute)
}

// Close stops the clock, ends the context of the invocations under way and
// waits until they have returned. The API goes on answering; nothing fires
// any more.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.line = nil
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
}

// request is one HTTP request, taken apart.
type request struct {
	*http.Request

	query url.Values
	name  string // of the schedule or group, or the ARN of a tagged resource
	id    string
}

// ServeHTTP answers one request of the Scheduler API.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req := &request{Request: r, query: r.URL.Query(), id: requestID()}
	w.Header().Set("X-Amzn-Requestid", req.id)
	w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	answer, err := s.serve(req)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, answer)
}

func (s *Server) serve(r *request) (any, error) {
	collection, name, named := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	var err error
	if r.name, err = url.PathUnescape(name); err != nil {
		return nil, validation("the path %q is not URL-encoded", r.URL.EscapedPath())
	}
	operation := r.Method + " " + collection
	if named {
		operation += "/"
	}
	switch operation {
	case "POST schedules/":
		return s.createSchedule(r)
	case "GET schedules/":
		return s.getSchedule(r)
	case "PUT schedules/":
		return s.updateSchedule(r)
	case "DELETE schedules/":
		return s.deleteSchedule(r)
	case "GET schedules":
		return s.listSchedules(r)
	case "POST schedule-groups/":
		return s.createGroup(r)
	case "GET schedule-groups/":
		return s.getGroup(r)
	case "DELETE schedule-groups/":
		return s.deleteGroup(r)
	case "GET schedule-groups":
		return s.listGroups(r)
	case "GET tags/":
		return s.listTags(r)
	case "POST tags/":
		return s.tag(r)
	case "DELETE tags/":
		return s.untag(r)
	}
	return nil, &apiError{http.StatusNotFound, "UnknownOperationException",
		"this Scheduler emulator does not know the operation " + r.Method + " " + r.URL.Path}
}

// requestID has the form of a UUID.
func requestID() string {
	h := randomHex(16)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails: it ends the program instead
	return hex.EncodeToString(b)
}
