package lambdalimit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"github.com/sluice-dev/sluice/shared/awserr"
	"github.com/sluice-dev/sluice/shared/limit"
)

// Invoker is what a Client asks of Lambda.
type Invoker interface {
	Invoke(context.Context, *lambda.InvokeInput, ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
}

// A Client is a limiter that has a function decide. It is safe for concurrent use.
type Client struct {
	api      Invoker
	function string
}

var (
	_ Limiter = (*Client)(nil)
	_ Once    = (*Client)(nil)
)

// NewClient returns the limiter of a function, given by its name or ARN.
func NewClient(api Invoker, function string) *Client {
	return &Client{api: api, function: function}
}

// Acquire implements [limit.Acquirer]. No tiers at all are admitted without asking.
func (c *Client) Acquire(ctx context.Context, tiers ...limit.Tier) (*limit.Reservation, error) {
	return c.AcquireOnce(ctx, uuid.NewString(), tiers...)
}

// AcquireOnce implements [Once].
func (c *Client) AcquireOnce(ctx context.Context, id string, tiers ...limit.Tier) (*limit.Reservation, error) {
	for _, t := range tiers {
		if err := limit.CheckKey(t.Key); err != nil { // JSON would mend what is not UTF-8
			return nil, err
		}
	}
	if len(tiers) == 0 {
		return limit.NewReservation(limit.Receipt{}, c), nil
	}
	var d Decision
	if err := c.call(ctx, Request{Op: OpAcquire, ID: id, Tiers: wireTiers(tiers)}, &d); err != nil {
		return nil, err
	}
	if !d.Admitted {
		return nil, limit.NewDenied(d.Blocked...)
	}
	receipt, err := decodeReceipt(d.Reservation)
	if err != nil {
		return nil, c.unintelligible(err)
	}
	return limit.NewReservation(receipt, c), nil
}

// Settle implements [limit.Settler]. The time is that of the function's clock,
// whatever at says: charges settled at a time that is past could mint. Likewise a
// settlement that gives something back and whose answer is lost counts as made, since
// doing it twice could mint.
func (c *Client) Settle(ctx context.Context, id string, closings []limit.Closing, _ time.Time) error {
	receipt := limit.Receipt{ID: id, Charges: make([]limit.Charge, len(closings))}
	actual := make([]Tier, len(closings))
	for i, closing := range closings {
		receipt.Charges[i] = closing.Charge
		actual[i] = Tier{Policy: closing.Charge.Policy, Key: closing.Charge.Key, Cost: &closing.Actual}
	}
	r := Request{Op: OpSettle, Reservation: encodeReceipt(receipt), Actual: actual}
	if !slices.ContainsFunc(closings, func(c limit.Closing) bool { return c.Actual < c.Charge.Units }) {
		return c.call(ctx, r, new(Done))
	}
	err := c.callOnce(ctx, r, new(Done))
	if errors.Is(err, errUnknown) {
		return nil
	}
	return err
}

// Inspect implements [limit.Limiter].
func (c *Client) Inspect(ctx context.Context, t limit.Tier) (limit.Reading, error) {
	if err := limit.CheckKey(t.Key); err != nil {
		return limit.Reading{}, err
	}
	var r Reading
	err := c.call(ctx, Request{Op: OpInspect, Policy: t.Policy.Name, Key: t.Key, Cost: &t.Units}, &r)
	return r.Reading, err
}

// Grant implements [limit.Operator].
func (c *Client) Grant(ctx context.Context, t limit.Tier, n int64) error {
	if err := limit.CheckKey(t.Key); err != nil {
		return err
	}
	return c.callOnce(ctx, Request{Op: OpGrant, Policy: t.Policy.Name, Key: t.Key, Amount: &n}, new(Done))
}

// Hold implements [limit.Operator].
func (c *Client) Hold(ctx context.Context, t limit.Tier, until time.Time) error {
	return c.change(ctx, Request{Op: OpHold, Until: new(until.UTC())}, t)
}

// Release implements [limit.Operator].
func (c *Client) Release(ctx context.Context, t limit.Tier) error {
	return c.change(ctx, Request{Op: OpRelease}, t)
}

func (c *Client) change(ctx context.Context, r Request, t limit.Tier) error {
	if err := limit.CheckKey(t.Key); err != nil {
		return err
	}
	r.Policy, r.Key = t.Policy.Name, t.Key
	return c.call(ctx, r, new(Done))
}

// SetOverride implements [limit.Operator].
func (c *Client) SetOverride(ctx context.Context, policy string, o limit.Override) (time.Time, error) {
	r := Request{Op: OpSetOverride, Policy: policy, Max: o.Max, Refill: o.Refill, By: o.By}
	if o.Interval != nil {
		if *o.Interval%time.Millisecond != 0 { // which the request could not say
			return time.Time{}, &limit.InvalidPolicyError{Policy: policy, Fields: []limit.FieldError{
				{Field: "interval_ms", Problem: fmt.Sprintf("%v: want whole milliseconds", *o.Interval)},
			}}
		}
		r.IntervalMS = new(o.Interval.Milliseconds())
	}
	if !o.Expires.IsZero() {
		r.ExpiresAt = new(o.Expires.UTC())
	}
	return c.amend(ctx, r)
}

// ClearOverride implements [limit.Operator].
func (c *Client) ClearOverride(ctx context.Context, policy, by string) (time.Time, error) {
	return c.amend(ctx, Request{Op: OpClearOverride, Policy: policy, By: by})
}

// Reset implements [limit.Operator].
func (c *Client) Reset(ctx context.Context, policy, by string) (time.Time, error) {
	var change Change
	err := c.callOnce(ctx, Request{Op: OpReset, Policy: policy, By: by}, &change)
	return change.InForceAt, err
}

func (c *Client) amend(ctx context.Context, r Request) (time.Time, error) {
	var change Change
	err := c.call(ctx, r, &change)
	return change.InForceAt, err
}

// Policies implements [limit.Operator].
func (c *Client) Policies(ctx context.Context) ([]limit.Entry, error) {
	var l Listing
	err := c.call(ctx, Request{Op: OpPolicies}, &l)
	return l.Policies, err
}

const (
	maxTries  = 4
	firstWait = 50 * time.Millisecond // doubled from try to try, with jitter
)

// errUnknown: nobody can know whether a request was carried out.
var errUnknown = errors.New("the answer is lost, and it may have been carried out")

// call invokes the function and decodes its answer. A try whose answer is lost is made
// again.
func (c *Client) call(ctx context.Context, r Request, into answer) error {
	return c.invoke(ctx, r, into, true)
}

// callOnce is call for what may not be carried out twice. If it may have been, the
// error is errUnknown.
func (c *Client) callOnce(ctx context.Context, r Request, into answer) error {
	return c.invoke(ctx, r, into, false)
}

func (c *Client) invoke(ctx context.Context, r Request, into answer, repeatable bool) error {
	payload, err := json.Marshal(r)
	if err != nil {
		return &limit.InvalidRequestError{Problem: fmt.Sprintf("%s can't be sent: %v", r.Op, err)}
	}
	for try := 1; ; try++ {
		doc, failure := c.try(ctx, payload)
		if failure == nil {
			return c.read(doc, into)
		}
		err := fmt.Errorf("%w: %s by %s: %w", failure.means, r.Op, c.function, failure.err)
		switch {
		case failure.ran && !repeatable:
			return fmt.Errorf("%w: %w", err, errUnknown)
		case ctx.Err() != nil, failure.final, try == maxTries:
			return err
		}
		wait := firstWait << (try - 1)
		if sleep(ctx, wait/2+rand.N(wait)) != nil { //nolint:gosec // jitter
			return err
		}
	}
}

// failure is an invocation that brought no answer.
type failure struct {
	err   error
	means error // the error of package limit
	ran   bool  // the function may have run
	final bool  // trying again is of no use
}

func (c *Client) try(ctx context.Context, payload []byte) ([]byte, *failure) {
	out, err := c.api.Invoke(ctx, &lambda.InvokeInput{
		FunctionName:   &c.function,
		InvocationType: types.InvocationTypeRequestResponse,
		Payload:        payload,
	}, func(o *lambda.Options) { o.RetryMaxAttempts = 1 })
	switch {
	case err == nil && out.FunctionError == nil:
		return out.Payload, nil
	case err == nil:
		const readable = 300
		return nil, &failure{err: fmt.Errorf("the function failed: %.*s", readable, out.Payload), means: limit.ErrStoreDown, ran: true}
	case awserr.IsThrottled(err):
		return nil, &failure{err: err, means: limit.ErrStoreBusy}
	case awserr.IsAccessDenied(err):
		return nil, &failure{err: err, means: limit.ErrStoreDenied, final: true}
	case awserr.IsNotFound(err), awserr.IsValidation(err):
		return nil, &failure{err: err, means: limit.ErrStoreDown, final: true}
	case neverSent(err):
		return nil, &failure{err: err, means: limit.ErrStoreDown}
	default: // Lambda's own trouble, or its answer was lost
		return nil, &failure{err: err, means: limit.ErrStoreDown, ran: true}
	}
}

// neverSent reports that no connection was made.
func neverSent(err error) bool {
	network, ok := errors.AsType[*net.OpError](err)
	return ok && network.Op == "dial"
}

// read decodes an answer. Members that are not known are those of a newer function.
func (c *Client) read(doc []byte, into answer) error {
	var f Failure
	if err := json.Unmarshal(doc, &f); err != nil {
		return c.unintelligible(err)
	}
	if f.Error != nil {
		if f.Error.Code == Internal || f.Error.Unwrap() == nil {
			return fmt.Errorf("%w: %s: %w", limit.ErrStoreDown, c.function, f.Error)
		}
		return f.Error
	}
	if err := json.Unmarshal(doc, into); err != nil {
		return c.unintelligible(err)
	}
	if !into.complete() {
		return c.unintelligible(errors.New("it lacks what was asked for"))
	}
	return nil
}

// unintelligible is the error of an answer that no limiter gives. Nothing is
// admitted on it.
func (c *Client) unintelligible(err error) error {
	return fmt.Errorf("%w: the answer of %s is not a limiter's, is it the right function? %w", limit.ErrStoreDown, c.function, err)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
