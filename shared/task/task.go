// Package task holds the record of a task and the rules by which it changes.
//
// Everything here is pure: no I/O, no clock, no randomness. A change is a
// call of [Apply] with the task, an [Event] and the time; what comes back is the
// next record and what the caller owes it (a wake-up, a clean-up). Whoever
// wants to know what Sluice does with a task can read it here alone.
//
// A record is one JSON document, see [Decode] for the rules by which it is read.
package task

import (
	"encoding/json"
	"time"
)

// SchemaVersion is the version of the document that this package writes and
// the only one it reads.
const SchemaVersion = 1

// Defaults of the fields that a producer may leave out.
const (
	DefaultMaxRetries     = 3
	DefaultTimeoutSeconds = 300
)

// Bounds of what a record may hold. What exceeds them is refused with an
// error that names the field and the bound.
const (
	// MaxTimeoutSeconds is the longest run a task may ask for: the 900 s of a
	// Lambda invocation less the 20 s that the claim engine keeps for
	// ending the handler and for recording its outcome.
	MaxTimeoutSeconds = 880
	// MaxCount bounds every counter and counted limit: the largest integer
	// that every JSON implementation reads exactly (2^53-1).
	MaxCount = 1<<53 - 1
	// MaxDocumentBytes bounds a submission. Larger inputs belong under payloads/.
	MaxDocumentBytes = 1 << 20
	// MaxErrorBytes bounds last_error, longer text is cut.
	MaxErrorBytes = 4096
	// MaxTags, MaxTagKeyBytes and MaxTagValueBytes bound tags.
	MaxTags          = 50
	MaxTagKeyBytes   = 128
	MaxTagValueBytes = 256
	// MaxLimits bounds the tiers named at submit.
	MaxLimits = 16
	// MaxLimitKeyBytes bounds the key of such a tier.
	MaxLimitKeyBytes = 1024
	// MaxIdempotencyKeyBytes bounds an idempotency key and its scope.
	MaxIdempotencyKeyBytes = 1024
)

// MaxTime is the last instant a record can hold: the end of the year 9999,
// where RFC 3339 ends.
var MaxTime = time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)

// Status is where a task is in its life.
type Status string

// The six statuses. Completed, failed, cancelled and expired are terminal.
const (
	Pending   Status = "pending"
	Running   Status = "running"
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
	Expired   Status = "expired"
)

// Statuses lists every status in the order of a task's life.
func Statuses() []Status {
	return []Status{Pending, Running, Completed, Failed, Cancelled, Expired}
}

// Terminal reports whether a task of this status has ended. Only a replay
// leads out of a terminal status.
func (s Status) Terminal() bool {
	return s == Completed || s == Failed || s == Cancelled || s == Expired
}

func (s Status) valid() bool { return s == Pending || s == Running || s.Terminal() }

// Task is the record of one task. The zero value is not a task: use [New] or
// [Decode].
//
// A Task is a value: [Apply] returns a changed copy and never writes through
// the slices, maps and pointers that both share. Treat these as read-only.
//
//nolint:recvcheck // only the transitions, which own their copy, and reading change a Task in place
type Task struct {
	// Schema is the version of the document, see [SchemaVersion].
	Schema int64
	// Revision grows by one with every write of the record. A task that has
	// only been submitted has revision 0 and no record yet.
	Revision int64
	// WriteID is fresh with every write: it tells a write of our own whose
	// response was lost from a write of somebody else.
	WriteID string

	// ID names the task, see [ValidateID].
	ID string
	// Type selects the handler.
	Type string
	// Status is where the task is in its life.
	Status Status

	// Input and Output are JSON text, kept as it came: numbers of any size,
	// order of fields and spelling of strings survive. Nil reads as null.
	Input, Output json.RawMessage
	// InputRef and OutputRef stand in for an input or output that is kept as
	// an object of its own because of its size.
	InputRef, OutputRef *PayloadRef

	// Attempt counts claims.
	Attempt int64
	// RetryCount counts failures that led to another attempt. A failure that
	// would bring it above MaxRetries ends the task. MaxRetries 0 means none,
	// defaults to [DefaultMaxRetries].
	RetryCount, MaxRetries int64
	// RescheduleCount counts the sleeps the handler asked for. One above
	// MaxReschedules ends the task. Nil (the default) means unlimited, 0 none.
	RescheduleCount int64
	MaxReschedules  *int64
	// ThrottleCount counts the sleeps the limiter imposed. Throttled tells why
	// the task sleeps now, and is nil when it does not sleep for a limit.
	ThrottleCount int64
	Throttled     *Throttled

	// TimeoutSeconds bounds one run of the handler. Defaults to
	// [DefaultTimeoutSeconds], at least 1, at most [MaxTimeoutSeconds].
	TimeoutSeconds int64

	// AvailableAt is when a pending task is due.
	AvailableAt time.Time
	CreatedAt   time.Time
	UpdatedAt   time.Time
	// CompletedAt is when the task ended, in whichever terminal status.
	CompletedAt *time.Time
	// ExpiresAt ends a task that is still pending then. A running task
	// finishes.
	ExpiresAt *time.Time

	// LeaseID, LeaseExpiresAt and WorkerID are set while running.
	LeaseID        string
	LeaseExpiresAt *time.Time
	WorkerID       string

	// LastError is the text of the last failure, cut to [MaxErrorBytes].
	LastError string
	// Checkpoint is what the handler saved when it last went to sleep.
	Checkpoint json.RawMessage
	// Limits are the tiers named at submit.
	Limits []Limit

	// IdempotencyKey and IdempotencyScope derive the ID, see [DeriveID].
	IdempotencyKey, IdempotencyScope string
	// CancelRequested asks the running handler to stop.
	CancelRequested bool
	// Tags are the producer's own labels.
	Tags map[string]string

	// UnhandledSince is when a claim function first had no handler for the
	// task's type, nil once a handler ran.
	UnhandledSince *time.Time
	// InboxVersion is the S3 version of the inbox object that this record was
	// made from: the one to delete when the task has ended.
	InboxVersion string
	// ReplayRevision is set in a submission that replays a finished record:
	// the revision of that record. It is 0 otherwise.
	ReplayRevision int64

	// unknown holds top-level fields that this version does not know, in the
	// order they came in. They survive every rewrite.
	unknown []member
}

// Throttled tells why a task sleeps that has not been admitted.
type Throttled struct {
	// Policy and Key are the tier that admits the task last. Empty when the
	// limiter itself could not be asked, Reason tells why.
	Policy string `json:"policy,omitempty"`
	Key    string `json:"key,omitempty"`
	// Until is when that tier is expected to admit the task.
	Until time.Time `json:"until"`
	// Place is what the limiter gave the task to come back with: its place among
	// those who wait, in the limiter's own JSON. Nil without one.
	Place json.RawMessage `json:"place,omitempty"`
	// Reason is set when the sleep is not a denial of a policy.
	Reason string `json:"reason,omitempty"`
}

// Limit is a tier that a producer named at submit: the task is admitted by
// the policy under the key at the cost.
type Limit struct {
	Policy string `json:"policy"`
	Key    string `json:"key"`
	// Cost in units of the policy, 0 to [MaxCount], defaults to 1.
	Cost int64 `json:"cost"`
}

// PayloadRef points to an input or output that is an object of its own.
type PayloadRef struct {
	// Key of the object, under payloads/{id}/.
	Key string `json:"key"`
	// Size in bytes.
	Size int64 `json:"size"`
	// SHA256 of the content in hex, checked when it is read.
	SHA256 string `json:"sha256"`
}

// New returns a pending task with the defaults of every field, due now.
func New(id, taskType string, now time.Time) Task {
	now = instant(now)
	return Task{
		Schema:         SchemaVersion,
		ID:             id,
		Type:           taskType,
		Status:         Pending,
		MaxRetries:     DefaultMaxRetries,
		TimeoutSeconds: DefaultTimeoutSeconds,
		AvailableAt:    now,
		CreatedAt:      now,
		UpdatedAt:      now,
	}
}

// Due reports whether the task is pending and may be claimed at the time.
func (t Task) Due(now time.Time) bool {
	return t.Status == Pending && !now.Before(t.AvailableAt)
}

// Parked reports whether the task sleeps under a place that the limiter gave it, which
// may come up before the task is due.
func (t Task) Parked() bool {
	return t.Status == Pending && t.Throttled != nil && t.Throttled.Place != nil
}

// LeaseOver reports whether the task is running and its lease has ended.
func (t Task) LeaseOver(now time.Time) bool {
	return t.Status == Running && t.LeaseExpiresAt != nil && !now.Before(*t.LeaseExpiresAt)
}

// ExpiredAt reports whether the task is pending and its expires_at has come.
func (t Task) ExpiredAt(now time.Time) bool {
	return t.Status == Pending && t.ExpiresAt != nil && !now.Before(*t.ExpiresAt)
}

// NextLook is when somebody must look at the task again: a pending task when
// it is due or expires, whichever is first, a running one when its lease ends.
// It is the zero time for a task that has ended.
func (t Task) NextLook() time.Time {
	switch t.Status {
	case Pending:
		if t.ExpiresAt != nil && t.ExpiresAt.Before(t.AvailableAt) {
			return *t.ExpiresAt
		}
		return t.AvailableAt
	case Running:
		if t.LeaseExpiresAt != nil {
			return *t.LeaseExpiresAt
		}
		return t.UpdatedAt
	default:
		return time.Time{}
	}
}

// instant drops what a stored time does not hold: zone, monotonic reading and
// years that RFC 3339 has no digits for.
func instant(t time.Time) time.Time {
	t = t.Round(0).UTC()
	switch {
	case t.After(MaxTime):
		return MaxTime
	case t.Year() < 1:
		return time.Time{}
	}
	return t
}
