package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"sync"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
)

// Limiter is what the engine asks of a limiter: package limit's Memory, or one
// that keeps its state in DynamoDB.
type Limiter interface {
	limit.Acquirer
	// Hold lets nothing pass on a tier before the time.
	Hold(ctx context.Context, t limit.Tier, until time.Time) error
}

// WithLimits makes tasks of the type wait until every tier that the selector
// chooses for their input admits them. T is the input type of the handler. The
// selector is the user's code: when it panics that is a failed attempt.
func WithLimits[T any](selector limit.Selector[T]) HandleOption {
	return func(h *handler) {
		policies, err := selector.Policies()
		if err != nil {
			panic("worker: " + err.Error())
		}
		h.limited = reflect.TypeFor[T]()
		h.policies = policies.Policies()
		h.tiers = func(input json.RawMessage) ([]limit.Tier, error) {
			payload, err := decodeInput[T](input)
			if err != nil {
				return nil, unfit(h.taskType, err)
			}
			return selector.Tiers(payload), nil
		}
	}
}

// Policies are those that the limits of all handlers can reach, each once. Two
// different policies of one name are an error that names it.
func (m *Mux) Policies() ([]limit.Policy, error) {
	var all []limit.Policy
	for _, taskType := range m.Types() {
		all = append(all, m.handlers[taskType].policies...)
	}
	set, err := limit.NewSet(all...)
	return set.Policies(), err
}

// prepare finds the handler of the task and the tiers that limit it: those the
// handler's selector chooses, and those named at submit. A selector that fails is
// remembered, to be a failed attempt.
func (e *Engine) prepare(ctx context.Context, w *work) error {
	if w.prepared {
		return nil
	}
	w.handler = e.Mux.handlers[w.rec.Task.Type]
	if w.handler != nil && w.handler.tiers != nil {
		if err := e.readInput(ctx, w); err != nil {
			return err
		}
		if w.broken == nil {
			w.tiers, w.broken = chooseTiers(w.handler, w.resolved().Input)
		}
	}
	for _, l := range w.rec.Task.Limits {
		w.tiers = append(w.tiers, limit.Policy{Name: l.Policy}.Key(l.Key).Cost(l.Cost))
	}
	w.prepared = true
	return nil
}

// chooseTiers calls the selector and turns a panic into an error.
func chooseTiers(h *handler, input json.RawMessage) (tiers []limit.Tier, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in the limits' selector: %v\n\n%s", p, debug.Stack())
		}
	}()
	return h.tiers(input)
}

// readInput reads an input that is an object of its own, once per visit and
// before the claim: trouble with S3 costs the task nothing. An input that is not there is a
// failed attempt.
func (e *Engine) readInput(ctx context.Context, w *work) error {
	t := w.rec.Task
	if t.InputRef == nil || w.input != nil || w.broken != nil {
		return nil //nolint:nilerr // what is broken becomes a failed attempt
	}
	input, err := e.Store.Payload(ctx, t.InputRef)
	if errors.Is(err, s3store.ErrNotFound) {
		w.broken = err
		return nil
	}
	w.input = input
	return err
}

// resolved is the task with its input in place of a reference.
func (w *work) resolved() task.Task {
	t := w.rec.Task
	if t.InputRef != nil {
		t.Input, t.InputRef = w.input, nil
	}
	return t
}

// acquire asks the limiter whether the task may run now. If not, it puts the
// task to sleep, or fails it if it can never run.
func (e *Engine) acquire(ctx context.Context, w *work) (admitted bool, err error) {
	if e.Limiter == nil {
		return false, e.change(ctx, w, e.deferral(w.rec.Task, errNoLimiter))
	}
	if parker, ok := e.Limiter.(Parker); ok {
		return e.takeTurn(ctx, w, parker)
	}
	asking, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	r, err := e.Limiter.Acquire(asking, w.tiers...)
	if err != nil {
		return false, e.denied(ctx, w, err)
	}
	w.traffic.Decided(true)
	w.reservation = r
	return true, nil
}

// denied puts a task to sleep that was not admitted, or fails it if it can never run.
func (e *Engine) denied(ctx context.Context, w *work, err error) error {
	var denied *limit.Denied
	var invalid *limit.InvalidRequestError
	if errors.As(err, &denied) {
		w.traffic.Decided(false)
	}
	switch {
	case denied != nil && denied.Never, errors.As(err, &invalid), errors.Is(err, limit.ErrUnknownPolicy):
		return e.change(ctx, w, task.Reject{Error: err.Error()})
	case denied != nil:
		blocked := longest(denied)
		return e.change(ctx, w, task.Throttle{
			Policy: blocked.Policy, Key: blocked.Key, Until: e.Now().Add(denied.RetryAfter),
		})
	}
	// Without an answer nothing runs: the limiter fails closed.
	e.reportLimiter(ctx, w, err)
	return e.change(ctx, w, e.deferral(w.rec.Task, err))
}

var errNoLimiter = errors.New("the task has limits, and this function has no limiter: deploy it with one")

// longest is the tier that admits the task last.
func longest(d *limit.Denied) limit.Blocked {
	last := d.Blocked[0]
	for _, b := range d.Blocked[1:] {
		if last.Verdict == limit.Later && (b.Verdict != limit.Later || b.Wait > last.Wait) {
			last = b
		}
	}
	return last
}

// Bounds of the sleep of a task about which the limiter could not be asked.
const (
	firstDeferral = 5 * time.Second
	mostDeferral  = 5 * time.Minute
)

// deferral is a sleep twice as long as the last one of its kind, from five
// seconds up to five minutes, moved by up to a quarter either way.
func (e *Engine) deferral(t task.Task, reason error) task.Event {
	wait := firstDeferral
	if t.Throttled != nil && t.Throttled.Reason != "" {
		wait = min(max(2*t.AvailableAt.Sub(t.UpdatedAt), firstDeferral), mostDeferral)
	}
	wait = time.Duration(float64(wait) * (0.75 + e.jitter()/2))
	deferral := task.Defer{Until: e.Now().Add(wait), Reason: reason.Error()}
	if t.Parked() {
		deferral.Place = t.Throttled.Place
	}
	return deferral
}

// giveBack refunds a task that was admitted and surely not claimed. When it is
// not known whether it was claimed, the tokens stay spent.
func (e *Engine) giveBack(ctx context.Context, w *work, claimed bool, err error) {
	var lost *s3store.ConflictError
	sure := err == nil || errors.As(err, &lost) || errors.Is(err, s3store.ErrGone)
	if r := w.reservation; r != nil && !claimed && sure {
		ctx, cancel := context.WithTimeout(ctx, leaving)
		defer cancel()
		if err := r.Refund(ctx); err != nil {
			e.Log.WarnContext(ctx, "refund failed, the tokens stay spent", "task_id", w.id, "error", err.Error())
		}
	}
	if !claimed {
		w.reservation = nil
	}
}

// usage is what a handler says it used, while it runs.
type usage struct {
	mu     sync.Mutex
	actual map[string]int64 // by the policy's name
}

type usageKey struct{}

func withUsage(ctx context.Context, u *usage) context.Context {
	return context.WithValue(ctx, usageKey{}, u)
}

// Settle says what the run really cost under a policy, in the policy's units: the
// tokens that an answer used, when the task was admitted at an estimate. What was
// charged too much is given back and what was charged too little is charged, with the
// run's outcome. A policy that the task is not limited by is ignored. The last call counts.
// A negative cost counts as 0.
func Settle(ctx context.Context, p limit.Policy, actual int64) {
	u, ok := ctx.Value(usageKey{}).(*usage)
	if !ok {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.actual[p.Name] = min(max(actual, 0), limit.MaxUnits)
}

// settle closes the reservation at what the handler said it used. It comes
// after the outcome: should this process die before, what was charged stands.
func (e *Engine) settle(ctx context.Context, w *work, u *usage) {
	r := w.reservation
	w.reservation = nil
	if r == nil || u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	var actual []limit.Tier
	for _, c := range r.Receipt().Charges {
		if units, ok := u.actual[c.Policy]; ok {
			actual = append(actual, limit.Policy{Name: c.Policy}.Key(c.Key).Cost(units))
		}
	}
	if len(actual) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaving)
	defer cancel()
	if err := r.Settle(ctx, actual...); err != nil {
		e.Log.WarnContext(ctx, "settle failed, what was charged stands", "task_id", w.id, "error", err.Error())
	}
}

// hold keeps every task of the keys from running before this one wakes, when
// its handler met the limit of what it calls. It must not take the time that is kept for
// recording the outcome.
func (e *Engine) hold(ctx context.Context, w *work, sleep *RescheduleError) {
	ctx, cancel := context.WithTimeout(ctx, leaving)
	defer cancel()
	until := sleep.At
	if until.IsZero() {
		until = e.Now().Add(sleep.Delay)
	}
	for _, t := range w.tiers {
		if e.Limiter == nil || !sleep.holds(t.Policy.Name, w.tiers) {
			continue
		}
		if err := e.Limiter.Hold(ctx, t, until); err != nil {
			e.Log.WarnContext(ctx, "hold failed, other tasks of the key go on", "task_id", w.id, "policy", t.Policy.Name, "error", err.Error())
		}
	}
}

// limitsOf are the tiers as a handler sees them in its task.
func limitsOf(tiers []limit.Tier) []task.Limit {
	limits := make([]task.Limit, 0, len(tiers))
	for _, t := range tiers {
		limits = append(limits, task.Limit{Policy: t.Policy.Name, Key: t.Key, Cost: t.Units})
	}
	return limits
}
