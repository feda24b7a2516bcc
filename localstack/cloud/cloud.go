// Package cloud is the part of AWS that Sluice uses, in memory: S3, DynamoDB,
// EventBridge Scheduler, Lambda and SQS, wired together as they are in a
// deployment.
//
// In a test everything happens in one process and without a socket: clients
// made from [Cloud.Config] talk to the cloud in memory, functions are Go
// functions, and inside a testing/synctest bubble time is virtual. For people
// the same cloud listens on a port ([Cloud.Listen]), and functions are child
// processes or Python files.
//
//	c := cloud.New(cloud.Options{})
//	defer c.Close()
//	err := c.Register(lambdaemu.Function{Name: "claim", Runtime: lambdaemu.Func(claim)})
//	client := s3.NewFromConfig(c.Config())
//	… create the bucket …
//	err = c.NotifyOnCreate("tasks", "inbox/", "claim")
//
// Everything that can go wrong on AWS can be made to go wrong here: requests
// fail, get lost or are repeated ([Cloud.SetFault]), events come twice, late,
// out of order or never ([Cloud.SetDelivery]). Every request is counted by
// operation ([Cloud.Requests]).
package cloud

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud/dynamodbemu"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/localstack/cloud/s3emu"
	"github.com/sluice-dev/sluice/localstack/cloud/scheduleremu"
	"github.com/sluice-dev/sluice/localstack/cloud/sqsemu"
)

// Options configure a [Cloud]. The zero value is a cloud that is fast,
// punctual and reliable.
type Options struct {
	// Region and AccountID are used by all services, and override those of
	// the options below. They default to us-east-1 and 000000000000.
	Region    string
	AccountID string

	// S3, DynamoDB, Scheduler and Lambda are the options of the services. The
	// cloud adds its own wiring to the hooks by which services tell of
	// events: a hook set here is called first.
	S3        s3emu.Options
	DynamoDB  dynamodbemu.Options
	Scheduler scheduleremu.Options
	Lambda    lambdaemu.Options

	// Latency is how long requests to a service take, half of it before they
	// have their effect and half of it after. Defaults to none.
	Latency map[Service]time.Duration

	// Seed makes the choices of [Delivery] repeatable. Defaults to 1.
	Seed uint64
}

// Cloud is a set of emulated services that know each other. Use [New], and
// [Cloud.Close] at the end. It is safe for concurrent use.
type Cloud struct {
	opts Options

	s3        *s3emu.Server
	dynamodb  *dynamodbemu.Server
	scheduler *scheduleremu.Server
	lambda    *lambdaemu.Server
	sqs       *sqsemu.Server
	requests  *Counters
	activity  atomic.Uint64

	ctx     context.Context //nolint:containedctx // the life of the cloud, cancelled by Close
	cancel  context.CancelFunc
	running sync.WaitGroup // requests, deliveries and listeners
	ended   chan struct{}  // closed at the end of Close

	mu         sync.Mutex
	closed     bool
	fault      func(*Request) Fault
	planned    []*plannedFault
	latency    map[Service]time.Duration
	deliveries map[Source]*dispatcher
	servers    []*http.Server
}

// New returns a cloud without buckets, tables, functions and queues. Nothing
// runs until it is asked for something.
func New(opts Options) *Cloud {
	if opts.Region == "" {
		opts.Region = "us-east-1"
	}
	if opts.AccountID == "" {
		opts.AccountID = "000000000000"
	}
	if opts.Seed == 0 {
		opts.Seed = 1
	}
	c := &Cloud{opts: opts, requests: newCounters(), latency: map[Service]time.Duration{}, ended: make(chan struct{})}
	maps.Copy(c.latency, opts.Latency)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.deliveries = map[Source]*dispatcher{
		S3Events: newDispatcher(c, opts.Seed),
		Wakeups:  newDispatcher(c, opts.Seed+1),
	}
	c.startServices()
	return c
}

func (c *Cloud) startServices() {
	o := c.opts
	o.S3.Region, o.S3.AccountID = o.Region, o.AccountID
	o.DynamoDB.Region, o.DynamoDB.AccountID = o.Region, o.AccountID
	o.Scheduler.Region, o.Scheduler.AccountID = o.Region, o.AccountID
	o.Lambda.Region, o.Lambda.AccountID = o.Region, o.AccountID

	o.S3.OnEvent = c.s3Events(o.S3.OnEvent)
	o.Scheduler.OnFire = c.scheduledInvocations(o.Scheduler.OnFire)
	o.Scheduler.OnDeadLetter = c.scheduledDeadLetters(o.Scheduler.OnDeadLetter)

	c.s3 = s3emu.New(o.S3)
	c.dynamodb = dynamodbemu.New(o.DynamoDB)
	c.sqs = sqsemu.New(sqsemu.Options{Region: o.Region, AccountID: o.AccountID})
	c.lambda = lambdaemu.New(o.Lambda)
	c.scheduler = scheduleremu.New(o.Scheduler)
}

// S3 is the cloud's S3 itself, for what its API does not offer.
func (c *Cloud) S3() *s3emu.Server { return c.s3 }

// DynamoDB is the cloud's DynamoDB itself, for what its API does not offer.
func (c *Cloud) DynamoDB() *dynamodbemu.Server { return c.dynamodb }

// Scheduler is the cloud's Scheduler itself, for what its API does not offer.
func (c *Cloud) Scheduler() *scheduleremu.Server { return c.scheduler }

// Lambda is the cloud's Lambda itself, for what its API does not offer.
func (c *Cloud) Lambda() *lambdaemu.Server { return c.lambda }

// SQS is the cloud's SQS itself, for what its API does not offer.
func (c *Cloud) SQS() *sqsemu.Server { return c.sqs }

// Region is the region of everything in the cloud.
func (c *Cloud) Region() string { return c.opts.Region }

// AccountID is the account of everything in the cloud.
func (c *Cloud) AccountID() string { return c.opts.AccountID }

// Requests counts the requests to all services. Those by which function
// processes get their events are not among them.
func (c *Cloud) Requests() *Counters { return c.requests }

// SetLatency changes how long requests to a service take, half of it before
// they have their effect and half of it after.
func (c *Cloud) SetLatency(service Service, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latency[service] = d
}

func (c *Cloud) latencyOf(service Service) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latency[service]
}

// ServeHTTP answers a request to any of the services.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	service := serviceOf(r)
	if service == S3 {
		r = pathStyle(r)
	}
	if service == runtimeAPI {
		c.lambda.ServeHTTP(w, r)
		return
	}
	request := &Request{Service: service, Client: clientOf(r), HTTP: r}
	request.names()
	request.Number = c.requests.add(request)
	handler := c.handler(service)
	if handler == nil {
		writeFault(w, request, Fault{Status: http.StatusNotImplemented, Code: "NotImplemented",
			Message: fmt.Sprintf("This cloud has no service %q; it has s3, dynamodb, scheduler, lambda and sqs.", service)})
		return
	}
	defer c.activity.Add(1)
	c.carryOut(w, request, handler, c.faultFor(request)) //nolint:contextcheck // the request carries it
}

func (c *Cloud) handler(service Service) http.Handler {
	switch service {
	case S3:
		return c.s3
	case DynamoDB:
		return c.dynamodb
	case Scheduler:
		return c.scheduler
	case Lambda:
		return c.lambda
	case SQS:
		return c.sqs
	case runtimeAPI:
		return c.lambda
	}
	return nil
}

// clientOf is the label of the client that sent a request: that of the
// transport when it came in memory, and the access key otherwise.
func clientOf(r *http.Request) string {
	if label, ok := r.Context().Value(labelKey{}).(string); ok {
		return label
	}
	return credentialOf(r).accessKey
}

// Register adds a function to Lambda, or replaces the one of that name. A
// function that is a process needs the cloud to be reachable: when it does not
// listen yet, it starts to do so on a free port of this machine.
func (c *Cloud) Register(fn lambdaemu.Function) error {
	_, inProcess := fn.Runtime.(lambdaemu.Func)
	if fn.Runtime != nil && !inProcess && c.lambda.Endpoint() == "" {
		if _, err := c.Listen("127.0.0.1:0"); err != nil {
			return fmt.Errorf("function %s: %w", fn.Name, err)
		}
	}
	return c.lambda.Register(fn)
}

// Close ends everything: listeners, function processes, schedules, deliveries
// under way and the contexts of in-process functions. It returns when all
// goroutines of the cloud have ended, with an error that names in-process
// functions which do not. Later calls wait for the first one and return nil.
func (c *Cloud) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		<-c.ended
		return nil
	}
	c.closed = true
	defer close(c.ended)
	servers := c.servers
	c.mu.Unlock()

	c.cancel()
	c.scheduler.Close()
	errs := []error{c.lambda.Close()}
	for _, server := range servers {
		errs = append(errs, server.Close())
	}
	c.running.Wait()
	return errors.Join(errs...)
}

// spawn runs fn in a goroutine that Close waits for. It reports false, without
// running fn, when the cloud is closed.
func (c *Cloud) spawn(fn func()) bool {
	if !c.enter() {
		return false
	}
	go func() {
		defer c.running.Done()
		fn()
	}()
	return true
}

// enter keeps Close waiting until running.Done is called. It reports false
// when the cloud is closed.
func (c *Cloud) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.running.Add(1)
	return true
}

// after runs fn once d has passed, unless the cloud is closed by then.
func (c *Cloud) after(d time.Duration, fn func()) {
	time.AfterFunc(d, func() {
		if !c.enter() {
			return
		}
		defer c.running.Done()
		fn()
	})
}
