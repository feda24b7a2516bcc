package lambdalimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/emf"
	"github.com/sluice-dev/sluice/shared/limit"
)

// A Limiter is what the function asks: a limiter that can also settle reservations
// that another instance of the function has taken.
type Limiter interface {
	limit.Limiter
	limit.Settler
}

// Once is what a Limiter may be able to do besides: charges that are named, so that
// asking for one again, from another instance of the function too, finds it instead of
// charging again. Without it a request that is sent again may be charged again.
type Once interface {
	AcquireOnce(ctx context.Context, id string, tiers ...limit.Tier) (*limit.Reservation, error)
}

// Parker is what a Limiter may be able to do besides: say how many tasks are parked on
// the key that it inspects.
type Parker interface {
	InspectParked(ctx context.Context, t limit.Tier) (r limit.Reading, parked int64, err error)
}

// Handler is the function: a lambda.Handler of package aws-lambda-go.
type Handler struct {
	// Limiter decides.
	Limiter Limiter

	// Log gets a line for each request that failed by no fault of the caller, which
	// carries a metric if it is JSON, and a line of metrics for each other. Defaults to slog.Default.
	Log *slog.Logger

	// FunctionName is the dimension of those. Defaults to "sluice-limiter".
	FunctionName string
}

// margin is how long before the end of an invocation its answer has to be ready.
const margin = 300 * time.Millisecond

// Invoke answers one request. The error is always nil: what goes wrong is in the
// answer.
func (h *Handler) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-margin))
		defer cancel()
	}
	var traffic dynamolimit.Traffic
	answer, op, err := h.answer(traffic.Context(ctx), payload)
	h.reportTraffic(ctx, &traffic, answer)
	if err != nil {
		e := errorOf(err)
		h.report(ctx, op, e)
		answer = Failure{Error: e}
	}
	doc, err := json.Marshal(answer)
	if err != nil {
		return json.Marshal(Failure{Error: &Error{Code: Internal, Message: fmt.Sprintf("write the answer: %v", err)}})
	}
	return doc, nil
}

// answer decodes and carries out a request. A panic is an internal error, and its
// stack is for the log alone.
func (h *Handler) answer(ctx context.Context, payload []byte) (answer any, op Op, err error) {
	defer func() {
		if p := recover(); p != nil {
			h.log().ErrorContext(ctx, "panic", "op", op, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			answer, err = nil, &Error{Code: Internal, Message: "the function met a fault, its log says more"}
		}
	}()
	r, err := decode(payload)
	if err != nil {
		return nil, "", err
	}
	op = r.Op
	answer, err = h.do(ctx, r)
	return answer, op, err
}

func (h *Handler) do(ctx context.Context, r *Request) (any, error) {
	one := tierOf(r.Policy, r.Key, r.Cost)
	switch r.Op {
	case OpAcquire:
		return h.acquire(ctx, r)
	case OpSettle, OpRefund:
		return done(h.settle(ctx, r))
	case OpInspect:
		return h.inspect(ctx, one)
	case OpGrant:
		return done(h.Limiter.Grant(ctx, one, *r.Amount))
	case OpHold:
		until := time.Now()
		if r.Until != nil {
			until = *r.Until
		} else {
			until = until.Add(time.Duration(*r.ForMS) * time.Millisecond)
		}
		return done(h.Limiter.Hold(ctx, one, until))
	case OpRelease:
		return done(h.Limiter.Release(ctx, one))
	case OpReset:
		return inForce(h.Limiter.Reset(ctx, r.Policy, r.By))
	case OpSetOverride:
		return inForce(h.Limiter.SetOverride(ctx, r.Policy, r.override()))
	case OpClearOverride:
		return inForce(h.Limiter.ClearOverride(ctx, r.Policy, r.By))
	case OpPolicies:
		entries, err := h.Limiter.Policies(ctx)
		return Listing{Policies: entries}, err
	default:
		return nil, badMember("op", "%q: want %s", string(r.Op), opNames())
	}
}

func (h *Handler) acquire(ctx context.Context, r *Request) (any, error) {
	tiers := make([]limit.Tier, len(r.Tiers))
	for i, t := range r.Tiers {
		tiers[i] = t.tier()
	}
	if len(r.Only) > 0 {
		var err error
		if tiers, err = limit.Only(tiers, r.Only...); err != nil {
			return nil, err
		}
	}
	take := h.Limiter.Acquire
	if once, ok := h.Limiter.(Once); ok && r.ID != "" {
		take = func(ctx context.Context, tiers ...limit.Tier) (*limit.Reservation, error) {
			return once.AcquireOnce(ctx, r.ID, tiers...)
		}
	}
	reservation, err := take(ctx, tiers...)
	var refusal *limit.Denied
	switch {
	case errors.As(err, &refusal):
		return Denied(refusal), nil
	case err != nil:
		return nil, err
	}
	return Admitted(reservation), nil
}

func (h *Handler) inspect(ctx context.Context, t limit.Tier) (any, error) {
	if parker, ok := h.Limiter.(Parker); ok {
		r, parked, err := parker.InspectParked(ctx, t)
		return Reading{Reading: r, Parked: &parked}, err
	}
	r, err := h.Limiter.Inspect(ctx, t)
	return Reading{Reading: r}, err
}

func (h *Handler) settle(ctx context.Context, r *Request) error {
	receipt, err := decodeReceipt(r.Reservation)
	if err != nil {
		return err
	}
	reservation := limit.NewReservation(receipt, h.Limiter)
	if r.Op == OpRefund {
		return reservation.Refund(ctx)
	}
	actual := make([]limit.Tier, len(r.Actual))
	for i, t := range r.Actual {
		actual[i] = t.tier()
	}
	return reservation.Settle(ctx, actual...)
}

func done(err error) (any, error) { return Done{Done: true}, err }

func inForce(at time.Time, err error) (any, error) { return Change{InForceAt: at.UTC()}, err }

func (h *Handler) log() *slog.Logger {
	if h.Log == nil {
		return slog.Default()
	}
	return h.Log
}

// MetricErrors counts requests that failed by no fault of the caller, in the namespace
// "Sluice", by the dimension Code. The claim function has a metric of that name by TaskType.
const MetricErrors = "LimiterErrors"

// report logs what an operator may have to look into, as one line that carries its metric.
func (h *Handler) report(ctx context.Context, op Op, e *Error) {
	switch e.Code {
	case StoreBusy, StoreUnavailable, AccessDenied, Internal:
		attrs := []slog.Attr{slog.String("op", string(op)), slog.String("error", e.Message)}
		attrs = append(attrs, emf.Attrs(time.Now(), emf.Dimension{Name: "Code", Value: string(e.Code)}, emf.One(MetricErrors))...)
		h.log().LogAttrs(ctx, slog.LevelError, "request failed", attrs...)
	case InvalidRequest, InvalidPolicy, UnknownPolicy: // the caller knows
	}
}

// reportTraffic logs the decision of a request, if it asks for one, and how many requests it took.
func (h *Handler) reportTraffic(ctx context.Context, t *dynamolimit.Traffic, answer any) {
	if decision, ok := answer.(Decision); ok {
		t.Decided(decision.Admitted)
	}
	if metrics := t.Metrics(); len(metrics) > 0 {
		name := cmp.Or(h.FunctionName, "sluice-limiter")
		h.log().LogAttrs(ctx, slog.LevelInfo, "limiter", emf.Attrs(time.Now(), emf.Dimension{Name: "FunctionName", Value: name}, metrics...)...)
	}
}
