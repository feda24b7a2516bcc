package dynamolimit

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/sluice-dev/sluice/shared/awserr"
	"github.com/sluice-dev/sluice/shared/limit"
)

// patience says how long calls and requests may take.
type patience struct {
	deadline time.Duration  // of a call whose context has none
	attempt  time.Duration  // of one request
	random   func() float64 // from 0 to below 1
}

// limit gives a context a deadline if it has none.
func (p *patience) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, p.deadline)
}

// The waits between tries are random up to a bound that doubles with each, so that
// those who got into each other's way come back at different times.
const (
	firstPause   = 5 * time.Millisecond
	longestPause = time.Second
)

// pause waits before the next try; try counts those before from 0. When the context
// ends first, or would before the pause is over, it returns an error of that kind.
func (p *patience) pause(ctx context.Context, try int, kind error, doing string, cause error) error {
	bound := longestPause
	if try < 8 {
		bound = min(firstPause<<try, longestPause)
	}
	timer := time.NewTimer(time.Duration(p.random() * float64(bound)))
	defer timer.Stop()
	select {
	case <-timer.C:
		if ctx.Err() == nil {
			return nil
		}
	case <-ctx.Done():
	}
	if cause == nil {
		return storeError(kind, doing, ctx.Err())
	}
	return storeError(kind, doing, fmt.Errorf("%w: %w", ctx.Err(), cause))
}

// A fate is what became of a request that was not carried out as asked.
type fate int

const (
	lost   fate = iota // it may have been carried out
	busy               // it was not: try again
	fatal              // it was not, and will not be
	failed             // it was not: a condition does not hold
)

// fateOf classifies an error of the store.
func fateOf(err error) fate {
	if _, refused := awserr.FailedCondition(err); refused {
		return failed
	}
	if reasons, canceled := awserr.CanceledTransaction(err); canceled {
		worst := busy
		for _, r := range reasons {
			switch awserr.ReasonOf(r) {
			case awserr.ConditionFailed:
				return failed
			case awserr.Refused:
				worst = fatal
			case awserr.NoReason, awserr.Busy:
			}
		}
		return worst
	}
	switch {
	case awserr.IsThrottled(err), awserr.IsTransactionConflict(err):
		return busy
	case !awserr.IsNotCarriedOut(err):
		return lost
	case awserr.IsClockSkewed(err), awserr.Code(err) == "":
		return busy // the SDK has corrected its clock; or it could not connect
	default:
		return fatal
	}
}

// kindOf returns the error of package limit for a fatal one of the store.
func kindOf(err error) error {
	if awserr.IsAccessDenied(err) {
		return limit.ErrStoreDenied
	}
	return limit.ErrStoreDown
}

// mostSkewed is how often a request is sent again because of a wrong clock: often
// enough for the SDK to have corrected it, and not for ever if it is the key that is wrong.
const mostSkewed = 3

// again sends a request that does no harm when it is carried out more than once,
// until it is answered. A failed condition is returned as it is.
func again[T any](ctx context.Context, l *Limiter, doing string, send func(context.Context) (T, error)) (T, error) {
	var none T
	skewed := 0
	for try := 0; ; try++ {
		out, err := attempt(ctx, l, send)
		if err == nil {
			return out, nil
		}
		what := fateOf(err)
		if awserr.IsClockSkewed(err) {
			if skewed++; skewed == mostSkewed {
				return none, storeError(limit.ErrStoreDenied, doing, err)
			}
		}
		kind := limit.ErrStoreDown
		switch what {
		case failed:
			return none, err
		case fatal:
			return none, storeError(kindOf(err), doing, err)
		case busy:
			kind = busyKind(err)
		case lost:
		}
		if err := l.patient.pause(ctx, try, kind, doing, err); err != nil {
			return none, err
		}
	}
}

// busyKind tells a store that is busy from one that can't be connected to.
func busyKind(err error) error {
	if awserr.Code(err) == "" {
		return limit.ErrStoreDown
	}
	return limit.ErrStoreBusy
}

// attempt sends one request, and gives up on its answer in time for another.
func attempt[T any](ctx context.Context, l *Limiter, send func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, l.patient.attempt)
	defer cancel()
	return send(ctx)
}

// newID returns an id that no other write has.
func newID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}
