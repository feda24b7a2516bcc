package task

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Event is something that happens to a task. The events of this package are
// the only ones: Claim, Success, Failure, Reschedule, Throttle, Defer,
// Unhandled, Reject, LeaseOver, Expire, Cancel and Replay.
type Event interface {
	// apply changes the task in place and names what happened.
	apply(t *Task, now time.Time) (Outcome, error)
}

// Outcome names what a transition did, in one word for logs and metrics.
type Outcome string

// The outcomes of [Apply].
const (
	OutcomeClaimed         Outcome = "claimed"
	OutcomeCompleted       Outcome = "completed"
	OutcomeRetried         Outcome = "retried"
	OutcomeRescheduled     Outcome = "rescheduled"
	OutcomeThrottled       Outcome = "throttled"
	OutcomeKept            Outcome = "kept"
	OutcomeDeferred        Outcome = "deferred"
	OutcomeUnhandled       Outcome = "unhandled"
	OutcomeFailed          Outcome = "failed"
	OutcomeCancelled       Outcome = "cancelled"
	OutcomeCancelRequested Outcome = "cancel_requested"
	OutcomeExpired         Outcome = "expired"
	OutcomeReplayed        Outcome = "replayed"
	// OutcomeUnchanged means that the task is already as the event wants it,
	// there is nothing to write.
	OutcomeUnchanged Outcome = "unchanged"
)

// Effects is what the caller owes a task after a transition.
type Effects struct {
	// Outcome names what happened.
	Outcome Outcome
	// WakeAt is when somebody must look at the task again, zero when nobody
	// must. A wake-up for a pending task is armed before the record is written,
	// so that no crash leaves a sleeping task without one.
	WakeAt time.Time
	// Finished means that the task has ended: its inbox object goes.
	Finished bool
}

// TransitionError says that an event does not fit the task as it stands.
type TransitionError struct {
	ID     string
	Status Status
	// Event names what was tried, such as "cancel".
	Event string
	// Reason adds why, may be empty.
	Reason string
}

func (e *TransitionError) Error() string {
	msg := fmt.Sprintf("cannot %s task %s: it is %s", e.Event, e.ID, e.Status)
	if e.Reason != "" {
		msg += ", " + e.Reason
	}
	return msg
}

// Apply returns the task as the event leaves it at the time, with a revision
// one higher, and what the caller owes it. An event that does not fit the
// task's status is a [*TransitionError], the task is returned unchanged then.
func Apply(t Task, event Event, now time.Time) (Task, Effects, error) {
	next := t
	now = instant(now)
	outcome, err := event.apply(&next, now)
	if err != nil {
		return t, Effects{}, err
	}
	if outcome == OutcomeUnchanged {
		return t, Effects{Outcome: outcome, WakeAt: t.NextLook(), Finished: t.Status.Terminal()}, nil
	}
	count(&next.Revision)
	next.UpdatedAt = now
	return next, Effects{
		Outcome:  outcome,
		WakeAt:   next.NextLook(),
		Finished: next.Status.Terminal(),
	}, nil
}

// Claim gives a task to a worker that is due, or whose turn has come before it was due to
// wake up: running, one more attempt, a new lease.
type Claim struct {
	// LeaseID is fresh with every claim and not empty.
	LeaseID  string
	WorkerID string
	// LeaseExpiresAt lies after the time of the claim.
	LeaseExpiresAt time.Time
}

func (e Claim) apply(t *Task, now time.Time) (Outcome, error) {
	switch {
	case t.Status != Pending:
		return "", t.refuse("claim", "")
	case t.ExpiredAt(now):
		return "", t.refuse("claim", "expired since "+formatTime(*t.ExpiresAt))
	case !t.Due(now) && !t.Parked():
		return "", t.refuse("claim", "not due before "+formatTime(t.AvailableAt))
	}
	lease := instant(e.LeaseExpiresAt)
	if e.LeaseID == "" || !lease.After(now) {
		return "", t.refuse("claim", "and a claim needs a lease_id and a lease that ends later than now")
	}
	t.Status = Running
	count(&t.Attempt)
	t.LeaseID, t.WorkerID, t.LeaseExpiresAt = e.LeaseID, e.WorkerID, &lease
	t.Throttled, t.UnhandledSince = nil, nil
	return OutcomeClaimed, nil
}

// Success ends a running task with its output. When a cancel was requested
// meanwhile the task ends cancelled, with the output kept.
//
// The output is one JSON value, kept as it is spelled; none stands for null.
type Success struct {
	Output    json.RawMessage
	OutputRef *PayloadRef
}

func (e Success) apply(t *Task, now time.Time) (Outcome, error) {
	if t.Status != Running {
		return "", t.refuse("complete", "")
	}
	if !validJSON(e.Output) {
		return "", t.refuse("complete", "and the output is not one JSON value in valid UTF-8")
	}
	t.Output, t.OutputRef = e.Output, e.OutputRef
	if t.CancelRequested {
		return t.finish(Cancelled, now), nil
	}
	return t.finish(Completed, now), nil
}

// Failure ends an attempt with an error: another attempt follows after the
// [Backoff], unless the error is permanent or the retries are used up.
type Failure struct {
	Error     string
	Permanent bool
	// Jitter in [0,1) moves the backoff, 0.5 leaves it as it is.
	Jitter float64
}

func (e Failure) apply(t *Task, now time.Time) (Outcome, error) {
	if t.Status != Running {
		return "", t.refuse("fail", "")
	}
	t.LastError = CapError(e.Error)
	switch {
	case t.CancelRequested:
		return t.finish(Cancelled, now), nil
	case e.Permanent, t.RetryCount >= t.MaxRetries:
		return t.finish(Failed, now), nil
	}
	return t.retry(now, e.Jitter), nil
}

// Reschedule puts a running task to sleep because its handler asked for it.
// It is not a failure: retry_count and last_error stay.
type Reschedule struct {
	// Delay from now. A negative one counts as 0, which means: end this
	// invocation, let others run, then run again.
	Delay time.Duration
	// At, when set, is the time to wake instead of a delay.
	At time.Time
	// Checkpoint, when not nil, replaces the one the task holds: one JSON value.
	Checkpoint json.RawMessage
}

func (e Reschedule) apply(t *Task, now time.Time) (Outcome, error) {
	if t.Status != Running {
		return "", t.refuse("reschedule", "")
	}
	if !validJSON(e.Checkpoint) {
		return "", t.refuse("reschedule", "and the checkpoint is not one JSON value in valid UTF-8")
	}
	if e.Checkpoint != nil {
		t.Checkpoint = e.Checkpoint
	}
	if t.CancelRequested {
		return t.finish(Cancelled, now), nil
	}
	if t.MaxReschedules != nil && t.RescheduleCount >= *t.MaxReschedules {
		t.LastError = fmt.Sprintf("Max reschedules (%d) exceeded", *t.MaxReschedules)
		return t.finish(Failed, now), nil
	}
	at := e.At
	if at.IsZero() {
		at = now.Add(max(e.Delay, 0))
	}
	t.sleepUntil(later(at, now))
	count(&t.RescheduleCount)
	return OutcomeRescheduled, nil
}

// Throttle puts a due task to sleep because a policy denied it. No attempt,
// retry or reschedule is spent.
type Throttle struct {
	Policy, Key string
	// Until is when the tier is expected to admit the task.
	Until time.Time
	// WakeAt is when to look again, defaults to Until.
	WakeAt time.Time
	// Place is what the limiter gave the task to come back with, nil for nothing.
	Place json.RawMessage
	// Kept tells that the task was woken and sleeps on under the place it has: that
	// is no new throttle and not counted.
	Kept bool
}

func (e Throttle) apply(t *Task, now time.Time) (Outcome, error) {
	if t.Status != Pending {
		return "", t.refuse("throttle", "")
	}
	wake := e.WakeAt
	if wake.IsZero() {
		wake = e.Until
	}
	if !validJSON(e.Place) {
		return "", t.refuse("throttle", "its place is not valid JSON")
	}
	t.AvailableAt = instant(later(wake, now))
	t.Throttled = &Throttled{Policy: e.Policy, Key: e.Key, Until: instant(e.Until), Place: e.Place}
	if e.Kept {
		return OutcomeKept, nil
	}
	count(&t.ThrottleCount)
	return OutcomeThrottled, nil
}

// Defer puts a due task to sleep because it can't be decided now whether it
// may run, for example while the limiter's store is down. Nothing is spent.
type Defer struct {
	Until  time.Time
	Reason string
	// Place is what the limiter gave the task before, which it keeps, nil for nothing.
	Place json.RawMessage
}

func (e Defer) apply(t *Task, now time.Time) (Outcome, error) {
	if t.Status != Pending {
		return "", t.refuse("defer", "")
	}
	if !validJSON(e.Place) {
		return "", t.refuse("defer", "its place is not valid JSON")
	}
	t.AvailableAt = instant(later(e.Until, now))
	t.Throttled = &Throttled{Until: t.AvailableAt, Place: e.Place, Reason: CapError(e.Reason)}
	return OutcomeDeferred, nil
}

// UnhandledDelay is how long a task sleeps whose type no handler knows: a
// deploy or a rollback may be in flight.
const UnhandledDelay = time.Minute

// DefaultUnhandledGrace is how long such a task is put back before it fails.
const DefaultUnhandledGrace = time.Hour

// Unhandled puts back a due task for whose type the function has no handler,
// uncharged. After the grace period, counted from the first time, it fails.
type Unhandled struct {
	// Grace defaults to [DefaultUnhandledGrace] when 0.
	Grace time.Duration
}

func (e Unhandled) apply(t *Task, now time.Time) (Outcome, error) {
	if t.Status != Pending {
		return "", t.refuse("put back", "")
	}
	grace := e.Grace
	if grace == 0 {
		grace = DefaultUnhandledGrace
	}
	if t.UnhandledSince == nil {
		since := now
		t.UnhandledSince = &since
	}
	if now.Sub(*t.UnhandledSince) >= grace {
		t.LastError = fmt.Sprintf("no handler is registered for task_type %q (waited %s for one)", t.Type, grace)
		return t.finish(Failed, now), nil
	}
	t.sleepUntil(now.Add(UnhandledDelay))
	return OutcomeUnhandled, nil
}

// Reject ends a task that is still pending and can never run as it is, for
// example when it costs more than its policy ever admits.
type Reject struct{ Error string }

func (e Reject) apply(t *Task, now time.Time) (Outcome, error) {
	if t.Status != Pending {
		return "", t.refuse("reject", "")
	}
	t.LastError = CapError(e.Error)
	return t.finish(Failed, now), nil
}

// LeaseOver counts an attempt whose worker died, ran out of memory or out of
// time: whoever finds the lease over reports it.
type LeaseOver struct {
	// Jitter in [0,1) moves the backoff, 0.5 leaves it as it is.
	Jitter float64
}

func (e LeaseOver) apply(t *Task, now time.Time) (Outcome, error) {
	if t.Status != Running {
		return "", t.refuse("time out", "")
	}
	if !t.LeaseOver(now) {
		return "", t.refuse("time out", "its lease ends at "+formatTime(t.NextLook()))
	}
	switch {
	case t.CancelRequested:
		return t.finish(Cancelled, now), nil
	case t.RetryCount >= t.MaxRetries:
		t.LastError = fmt.Sprintf("Timeout after max retries (%d attempts)", t.Attempt)
		return t.finish(Failed, now), nil
	}
	t.LastError = "Timeout - task exceeded lease duration"
	return t.retry(now, e.Jitter), nil
}

// Expire ends a pending task whose expires_at has come.
type Expire struct{}

func (Expire) apply(t *Task, now time.Time) (Outcome, error) {
	if !t.ExpiredAt(now) {
		return "", t.refuse("expire", "")
	}
	return t.finish(Expired, now), nil
}

// Cancel ends a pending task, and asks a running one to stop. Cancelling
// twice changes nothing and is no error.
type Cancel struct{}

func (Cancel) apply(t *Task, now time.Time) (Outcome, error) {
	switch {
	case t.Status == Pending:
		return t.finish(Cancelled, now), nil
	case t.Status == Running && !t.CancelRequested:
		t.CancelRequested = true
		return OutcomeCancelRequested, nil
	case t.Status == Running, t.Status == Cancelled:
		return OutcomeUnchanged, nil
	default:
		return "", t.refuse("cancel", "")
	}
}

// Replay starts a failed, cancelled or expired task anew: every counter, the
// output, checkpoint and last error are reset, it is due at once. An
// expires_at that has passed is dropped.
type Replay struct {
	// InboxVersion is the version of the inbox object that asks for it.
	InboxVersion string
}

func (e Replay) apply(t *Task, now time.Time) (Outcome, error) {
	if t.Status != Failed && t.Status != Cancelled && t.Status != Expired {
		return "", t.refuse("replay", "only failed, cancelled and expired tasks can be replayed")
	}
	t.Attempt, t.RetryCount, t.RescheduleCount, t.ThrottleCount = 0, 0, 0, 0
	t.LastError, t.Output, t.OutputRef, t.Checkpoint = "", nil, nil, nil
	t.CancelRequested, t.UnhandledSince, t.CompletedAt = false, nil, nil
	if t.ExpiresAt != nil && !now.Before(*t.ExpiresAt) {
		t.ExpiresAt = nil
	}
	t.InboxVersion = e.InboxVersion
	t.sleepUntil(now)
	return OutcomeReplayed, nil
}

// retry sends the task back for another attempt after the backoff.
func (t *Task) retry(now time.Time, jitter float64) Outcome {
	count(&t.RetryCount)
	t.sleepUntil(now.Add(Backoff(t.RetryCount, jitter)))
	return OutcomeRetried
}

// sleepUntil makes the task pending and due at the time, owned by nobody.
func (t *Task) sleepUntil(at time.Time) {
	t.Status = Pending
	t.AvailableAt = instant(at)
	t.Throttled = nil
	t.clearLease()
}

// finish ends the task in a terminal status.
func (t *Task) finish(s Status, now time.Time) Outcome {
	t.Status = s
	done := now
	t.CompletedAt = &done
	t.Throttled = nil
	t.clearLease()
	return Outcome(s)
}

// count adds one and stops at [MaxCount], beyond which a record could not be
// read again.
func count(n *int64) { *n = min(*n+1, MaxCount) }

func (t *Task) clearLease() { t.LeaseID, t.WorkerID, t.LeaseExpiresAt = "", "", nil }

func (t *Task) refuse(event, reason string) error {
	return &TransitionError{ID: t.ID, Status: t.Status, Event: event, Reason: reason}
}

// Limits of the backoff.
const (
	backoffFirst = time.Second
	backoffCap   = 60 * time.Second
)

// Backoff is the wait before the n-th retry (n from 1): one second, doubled
// per retry, moved by up to 25 % either way by jitter in [0,1), then capped at
// 60 s. It does not overflow at any n.
func Backoff(n int64, jitter float64) time.Duration {
	// From 128 s on even the smallest jitter leaves more than the cap.
	const beyondCap = 7
	doublings := max(n, 1) - 1
	if doublings >= beyondCap {
		return backoffCap
	}
	base := float64(backoffFirst << doublings)
	factor := 0.75 + min(max(jitter, 0), 1)/2
	return min(time.Duration(base*factor), backoffCap)
}

// CapError makes an error text fit last_error: valid UTF-8, at most
// [MaxErrorBytes].
func CapError(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= MaxErrorBytes {
		return s
	}
	const mark = "… (cut)"
	end := MaxErrorBytes - len(mark)
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
