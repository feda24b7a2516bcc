package queue

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
)

// Option sets a field of a task at submit. What is out of range is an error of
// Submit that names the field and the range.
type Option func(*submission)

type submission struct {
	task.Task
	// named tells that the caller chose the id, or a key that derives it.
	named bool
	// keyed and scoped tell that a key and its scope were given, be they empty.
	keyed, scoped bool
}

// MaxRetries limits the failures that lead to another attempt. 0 means none.
// Defaults to [task.DefaultMaxRetries].
func MaxRetries(n int) Option { return func(s *submission) { s.MaxRetries = int64(n) } }

// MaxReschedules limits how often the handler may put the task to sleep. 0
// means never. Defaults to no limit.
func MaxReschedules(n int) Option {
	limit := int64(n)
	return func(s *submission) { s.MaxReschedules = &limit }
}

// Timeout bounds one run of the handler, in whole seconds rounded up. Defaults
// to 300 s, at most [task.MaxTimeoutSeconds].
func Timeout(d time.Duration) Option {
	return func(s *submission) { s.TimeoutSeconds = int64((d + time.Second - 1) / time.Second) }
}

// In delays the first run by d.
func In(d time.Duration) Option {
	return func(s *submission) { s.AvailableAt = s.CreatedAt.Add(max(d, 0)) }
}

// At delays the first run until the time, at most until the end of the year
// 9999. A time that has passed means now.
func At(at time.Time) Option {
	at = at.Round(0).UTC()
	return func(s *submission) { s.AvailableAt = at }
}

// ExpiresIn ends the task as expired if it is still pending after d.
func ExpiresIn(d time.Duration) Option {
	return func(s *submission) {
		at := s.CreatedAt.Add(d)
		s.ExpiresAt = &at
	}
}

// ExpiresAt ends the task as expired if it is still pending at the time.
func ExpiresAt(at time.Time) Option {
	at = at.Round(0).UTC()
	return func(s *submission) { s.ExpiresAt = &at }
}

// Tag labels the task.
func Tag(name, value string) Option {
	return func(s *submission) {
		tags := maps.Clone(s.Tags)
		if tags == nil {
			tags = make(map[string]string)
		}
		tags[name] = value
		s.Tags = tags
	}
}

// Limit makes the task wait until the policy admits it under the key at the
// cost, beside the limits that its handler declares. It can be given for several policies.
func Limit(policy, key string, cost int64) Option {
	return func(s *submission) {
		s.Limits = append(s.Limits, task.Limit{Policy: policy, Key: key, Cost: cost})
	}
}

// ID chooses the task's id, see [task.ValidateID]. Defaults to a new UUIDv7.
// An id that is taken is [ErrExists].
func ID(id string) Option {
	return func(s *submission) { s.ID, s.named = id, true }
}

// IdempotencyKey makes repeated submits of the key one task, for as long as its
// record is retained: the first one's task is returned. The same key with another input is
// [ErrKeyReused]. A key counts within its task type, unless [Scope] says otherwise. It has 1 to
// [task.MaxIdempotencyKeyBytes] bytes.
//
// Inputs are compared as JSON: the order of fields and white space make no difference, unless
// they are too large to be kept in the record, then every byte counts.
func IdempotencyKey(key string) Option {
	return func(s *submission) { s.IdempotencyKey, s.keyed = key, true }
}

// Scope is within which an idempotency key counts. Defaults to the task type;
// "queue" or any other text shares keys between types.
func Scope(scope string) Option {
	return func(s *submission) { s.IdempotencyScope, s.scoped = scope, true }
}

// Submit accepts a task: its handler will run at least once. The input is
// encoded by encoding/json; a json.RawMessage is kept as it is, to the letter.
func (q *Queue) Submit(ctx context.Context, taskType string, input any, opts ...Option) (task.Task, error) {
	s, data, err := q.prepare(taskType, input, opts)
	if err != nil {
		return task.Task{}, fmt.Errorf("submit a task of type %q: %w", taskType, err)
	}
	if s.InputRef != nil { // too large for the record: it goes ahead
		if err := q.store.PutPayload(ctx, s.InputRef, data); err != nil {
			return task.Task{}, err
		}
	}
	version, err := q.store.Submit(ctx, s.Task)
	s.InboxVersion = version
	switch {
	case errors.Is(err, ErrExists):
		return q.existing(ctx, s, err)
	case err != nil:
		return task.Task{}, err
	case s.named:
		return q.standsAlone(ctx, s, data)
	}
	return s.accepted(data), nil
}

// accepted is the task as a reader sees it.
func (s submission) accepted(input json.RawMessage) task.Task {
	t := s.Task
	t.Input, t.InputRef = input, nil
	return t
}

// prepare makes the submission and holds it against the bounds.
func (q *Queue) prepare(taskType string, input any, opts []Option) (submission, json.RawMessage, error) {
	data, err := encodeInput(input)
	if err != nil {
		return submission{}, nil, err
	}
	s := submission{Task: task.New("", taskType, q.now())}
	for _, opt := range opts {
		opt(&s)
	}
	if err := s.nameIt(); err != nil {
		return submission{}, nil, err
	}
	if s.Input = data; len(data) > s3store.InlineBytes {
		s.Input, s.InputRef = nil, s3store.NewPayloadRef(s.ID, "input", data)
	}
	if err := checkTimes(s.Task); err != nil {
		return submission{}, nil, err
	}
	return s, data, s.Validate()
}

// nameIt gives the task its id: the chosen one, the one that the key derives, or a new one.
func (s *submission) nameIt() error {
	switch {
	case s.keyed && s.IdempotencyKey == "":
		return errors.New("the idempotency key is empty: give a key, or none")
	case s.keyed && s.named:
		return errors.New("an id and an idempotency key are given: the key derives the id, give one of them")
	case s.scoped && !s.keyed:
		return errors.New("a scope is given and no idempotency key: give both, or none")
	case s.scoped && s.IdempotencyScope == "":
		return errors.New("the scope of the idempotency key is empty: give a scope, or none for the task type")
	case s.keyed:
		s.ID, s.named = task.DeriveID(s.KeyScope(), s.IdempotencyKey), true
	case !s.named:
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("make an id: %w", err)
		}
		s.ID = id.String()
	}
	return task.ValidateID(s.ID)
}

// checkTimes refuses times that a record has no digits for.
func checkTimes(t task.Task) error {
	times := map[string]time.Time{"available_at": t.AvailableAt}
	if t.ExpiresAt != nil {
		times["expires_at"] = *t.ExpiresAt
	}
	for field, at := range times {
		if at.After(task.MaxTime) {
			return &task.FormatError{Field: field, Problem: fmt.Sprintf("is %s: it must not be after the year 9999", at.Format(time.DateOnly))}
		}
	}
	return nil
}

// standsAlone makes sure that a submit under a chosen id did not come after a
// task of that id which has left the inbox: if it did, it is withdrawn.
func (q *Queue) standsAlone(ctx context.Context, s submission, input json.RawMessage) (task.Task, error) {
	rec, err := q.store.Record(ctx, s.ID)
	switch {
	case errors.Is(err, ErrNotFound):
		return s.accepted(input), nil
	case err != nil:
		return task.Task{}, fmt.Errorf("submit task %s: it was accepted unless an older task of that id exists, which could not be found out: %w", s.ID, err)
	case rec.Task.InboxVersion == s.InboxVersion:
		return s.accepted(input), nil // claimed already
	}
	if err := q.store.Remove(ctx, s.ID, s.InboxVersion); err != nil {
		return task.Task{}, err
	}
	return q.first(ctx, s, rec.Task, fmt.Errorf("submit task %s: %w", s.ID, ErrExists))
}

// existing tells what a submit means whose id is taken.
func (q *Queue) existing(ctx context.Context, s submission, taken error) (task.Task, error) {
	rec, err := q.store.Find(ctx, s.ID)
	if errors.Is(err, ErrNotFound) {
		return task.Task{}, fmt.Errorf("%w, and was deleted just now: submit again", taken)
	}
	if err != nil {
		return task.Task{}, err
	}
	return q.first(ctx, s, rec.Task, taken)
}

// first is the task that stands, if it is the one that was submitted: by this
// very call, whose response was lost, or under the same idempotency key.
func (q *Queue) first(ctx context.Context, s submission, stands task.Task, taken error) (task.Task, error) {
	same := sameInput(s.Task, stands) && s.Type == stands.Type
	switch {
	case same && s.CreatedAt.Equal(stands.CreatedAt):
		return q.store.Resolve(ctx, stands)
	case s.IdempotencyKey == "":
		return task.Task{}, taken
	case !same:
		return task.Task{}, fmt.Errorf("idempotency key %q belongs to task %s: %w", s.IdempotencyKey, stands.ID, ErrKeyReused)
	}
	return q.store.Resolve(ctx, stands)
}

// sameInput compares inputs as JSON: white space and the order of fields make
// no difference, the spelling of numbers does.
func sameInput(a, b task.Task) bool {
	if a.InputRef != nil || b.InputRef != nil {
		return inputHash(a) == inputHash(b)
	}
	return bytes.Equal(canonical(a.Input), canonical(b.Input))
}

func inputHash(t task.Task) string {
	if t.InputRef != nil {
		return t.InputRef.SHA256
	}
	sum := sha256.Sum256(t.Input)
	return hex.EncodeToString(sum[:])
}

func canonical(raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return []byte("null")
	}
	v := jsontext.Value(raw).Clone()
	if err := v.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		return raw
	}
	return v
}

// Request is one task of [Queue.SubmitMany].
type Request struct {
	Type    string
	Input   any
	Options []Option
}

// Result is what became of one [Request].
type Result struct {
	// Index is the request's position.
	Index int
	Task  task.Task
	Err   error
}

// SubmitMany submits the requests, up to 32 at a time, and hands over every
// result as it comes, not in the order of the requests. Each is accepted or
// refused on its own. It returns when all results were handed over; each is called from one
// goroutine at a time.
func (q *Queue) SubmitMany(ctx context.Context, requests []Request, each func(Result)) {
	const atOnce = 32
	results := make(chan Result)
	var group errgroup.Group
	group.SetLimit(atOnce)
	go func() {
		defer close(results)
		for i, r := range requests {
			group.Go(func() error {
				t, err := q.Submit(ctx, r.Type, r.Input, r.Options...)
				results <- Result{Index: i, Task: t, Err: err}
				return nil
			})
		}
		_ = group.Wait() // the functions return no errors
	}()
	for r := range results {
		each(r)
	}
}
