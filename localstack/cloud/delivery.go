package cloud

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Source is where events come from that the cloud delivers.
type Source string

// The sources of events.
const (
	S3Events Source = "s3"        // notifications about objects
	Wakeups  Source = "scheduler" // schedules that fire
)

// Event is an event on its way to a function or a queue.
type Event struct {
	Source  Source
	Target  string // ARN of the function or queue
	Payload []byte

	// Of S3.
	Bucket, Key string

	// Of Scheduler.
	Group, Schedule string
}

// Delivery says how unreliable the delivery of events is. The zero value
// delivers each event at once and once.
type Delivery struct {
	// Duplicate is the probability, from 0 to 1, that an event is delivered
	// twice.
	Duplicate float64

	// Drop is the probability that an event is not delivered at all.
	Drop float64

	// Reorder is the probability that an event is held back for up to
	// ReorderWithin, so that later ones overtake it.
	Reorder       float64
	ReorderWithin time.Duration // defaults to 10 seconds

	// MinDelay and MaxDelay bound the delay of every delivery, which is
	// evenly distributed between them. A duplicate has a delay of its own.
	MinDelay, MaxDelay time.Duration

	// Plan decides instead of all of the above, when set: each element of
	// what it returns is one delivery after that delay, none means the event
	// is lost.
	Plan func(Event) []time.Duration
}

// Once is the plan of a reliable delivery.
func Once(Event) []time.Duration { return []time.Duration{0} }

// SetDelivery changes how events of a source are delivered from now on.
func (c *Cloud) SetDelivery(source Source, d Delivery) {
	dispatcher, ok := c.deliveries[source]
	if !ok {
		panic("cloud: there is no source of events called " + string(source))
	}
	dispatcher.mu.Lock()
	defer dispatcher.mu.Unlock()
	dispatcher.delivery = d
}

// dispatcher delivers the events of one source.
type dispatcher struct {
	cloud *Cloud

	mu       sync.Mutex
	delivery Delivery
	random   *rand.Rand
}

func newDispatcher(c *Cloud, seed uint64) *dispatcher {
	return &dispatcher{cloud: c, random: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // tests want to repeat it
}

// plan returns the delays of the deliveries of an event.
func (d *dispatcher) plan(event Event) []time.Duration {
	d.mu.Lock()
	chosen := d.delivery
	d.mu.Unlock()
	if chosen.Plan != nil {
		return chosen.Plan(event)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.chance(chosen.Drop) {
		return nil
	}
	delays := []time.Duration{d.delay(chosen)}
	if d.chance(chosen.Duplicate) {
		delays = append(delays, d.delay(chosen))
	}
	return delays
}

func (d *dispatcher) chance(probability float64) bool {
	return probability > 0 && d.random.Float64() < probability
}

func (d *dispatcher) delay(chosen Delivery) time.Duration {
	delay := chosen.MinDelay + d.upTo(chosen.MaxDelay-chosen.MinDelay)
	if d.chance(chosen.Reorder) {
		within := chosen.ReorderWithin
		if within <= 0 {
			within = 10 * time.Second
		}
		delay += d.upTo(within)
	}
	return delay
}

func (d *dispatcher) upTo(longest time.Duration) time.Duration {
	if longest <= 0 {
		return 0
	}
	return time.Duration(d.random.Int64N(int64(longest) + 1))
}

// dispatch delivers an event as planned. The error is that of the deliveries
// made at once; a later one that fails is logged.
func (d *dispatcher) dispatch(event Event) error {
	var failed error
	for _, delay := range d.plan(event) {
		if delay <= 0 {
			if err := d.cloud.deliver(event); err != nil {
				failed = err
			}
			continue
		}
		d.cloud.after(delay, func() { d.cloud.logUndelivered(event, d.cloud.deliver(event)) })
	}
	return failed
}
