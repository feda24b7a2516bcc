package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
)

// RescheduleError puts the task to sleep when a handler returns it. It is no
// failure: no retry is spent. Use [Reschedule], [RescheduleAt] or
// [RescheduleAfter].
type RescheduleError struct {
	// Delay is how long to sleep, At when to wake. At counts when it is set.
	Delay time.Duration
	At    time.Time
	// Checkpoint is what the handler saved, nil for nothing new.
	Checkpoint json.RawMessage

	err error // a checkpoint that can't be encoded

	// hold tells that a key is to be held until the task wakes: that of the policies, or of the
	// task's first limit if none is named.
	hold     bool
	policies []string
}

// holds tells whether the sleep holds the key of a policy, among the tiers of
// the task.
func (e *RescheduleError) holds(policy string, tiers []limit.Tier) bool {
	if e.hold && len(e.policies) == 0 {
		return policy == tiers[0].Policy.Name
	}
	return slices.Contains(e.policies, policy)
}

func (e *RescheduleError) Error() string {
	if e.err != nil {
		return e.err.Error()
	}
	if !e.At.IsZero() {
		return "rescheduled to " + e.At.UTC().Format(time.RFC3339)
	}
	return "rescheduled in " + e.Delay.String()
}

// Unwrap gives the error of a checkpoint that can't be encoded.
func (e *RescheduleError) Unwrap() error { return e.err }

// RescheduleOption adds to a reschedule.
type RescheduleOption func(*RescheduleError)

// Checkpoint saves v with the sleeping task, as JSON. The handler reads it
// with [LoadCheckpoint] when it runs again.
func Checkpoint(v any) RescheduleOption {
	return func(e *RescheduleError) {
		data, err := encode(v)
		if err != nil {
			e.err = Fail(fmt.Errorf("the checkpoint can't be written as JSON: %w", err))
			return
		}
		e.Checkpoint = data
	}
}

// HoldKey keeps every task of the same key from running until this one wakes:
// what a vendor's 429 with Retry-After means for all that call it with that key. The key is that
// under which the task is limited by the policy; without a policy, that of the task's first
// limit. A policy that the task is not limited by is ignored.
func HoldKey(policies ...limit.Policy) RescheduleOption {
	return func(e *RescheduleError) {
		e.hold = true
		for _, p := range policies {
			e.policies = append(e.policies, p.Name)
		}
	}
}

// Reschedule makes the task sleep for d and run again, as often as it asks for
// it up to the task's max_reschedules. A delay of 0 or less ends this invocation and
// lets other tasks run first. There is no upper limit.
func Reschedule(d time.Duration, opts ...RescheduleOption) error {
	return newReschedule(&RescheduleError{Delay: max(d, 0)}, opts)
}

// RescheduleAt makes the task sleep until the time, see [Reschedule]. A time
// that has passed is now.
func RescheduleAt(at time.Time, opts ...RescheduleOption) error {
	return newReschedule(&RescheduleError{At: at}, opts)
}

// RescheduleAfter makes the task sleep as long as the Retry-After header of
// the response says, see [RetryAfter]. Without a valid header it is an ordinary error
// that names the response's status: the task is retried with backoff.
func RescheduleAfter(res *http.Response, opts ...RescheduleOption) error {
	delay, ok := RetryAfter(res.Header, time.Now())
	if !ok {
		return fmt.Errorf("the response is %d %s without a valid Retry-After", res.StatusCode, http.StatusText(res.StatusCode))
	}
	return Reschedule(delay, opts...)
}

func newReschedule(e *RescheduleError, opts []RescheduleOption) error {
	for _, opt := range opts {
		opt(e)
	}
	return e
}

// FailError ends the task when a handler returns it, whatever retries are
// left. Use [Fail].
type FailError struct{ Err error }

func (e *FailError) Error() string { return e.Err.Error() }

// Unwrap gives the error that made the task fail.
func (e *FailError) Unwrap() error { return e.Err }

// Fail marks an error as permanent: the task fails at once. Fail(nil) is nil.
func Fail(err error) error {
	if err == nil {
		return nil
	}
	return &FailError{Err: err}
}

// errUnknown says that a run may still be going on somewhere: nothing is
// recorded, the end of the lease decides.
var errUnknown = errors.New("the outcome is unknown")

// Unknown marks an error of a handler whose work may still be going on
// elsewhere, for example in a Lambda function that did not answer in time. Nothing is
// recorded then: when the lease is over, the attempt counts as timed out. See [MinLease].
func Unknown(err error) error { return fmt.Errorf("%w: %w", errUnknown, err) }

// IsUnknown reports whether the error was marked by [Unknown].
func IsUnknown(err error) bool { return errors.Is(err, errUnknown) }
