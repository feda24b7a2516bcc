package task

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

var sha256Grammar = regexp.MustCompile(`^[0-9a-f]{64}$`)

const missingType = "is missing: name the handler that is to run"

func problem(field string, format string, args ...any) error {
	return &FormatError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// check holds the document against the grammars and bounds of its fields.
func (t *Task) check() error {
	if t.Schema != SchemaVersion {
		return problem("schema", "is %d: this version of Sluice reads schema %d", t.Schema, SchemaVersion)
	}
	if err := ValidateID(t.ID); err != nil {
		return problem("id", "is refused: %v", err)
	}
	if t.Type == "" {
		return problem("task_type", missingType)
	}
	if err := ValidateType(t.Type); err != nil {
		return problem("task_type", "is refused: %v", err)
	}
	if t.InputRef != nil && len(t.Input) > 0 {
		return problem("input_ref", "is given beside an input: give one of them")
	}
	if err := t.InputRef.check("input_ref", t.ID); err != nil {
		return err
	}
	if err := t.OutputRef.check("output_ref", t.ID); err != nil {
		return err
	}
	if t.Status == Running && (t.LeaseExpiresAt == nil || t.LeaseID == "") {
		return problem("lease_id", "or lease_expires_at is missing: a running task has both")
	}
	if len(t.IdempotencyKey) > MaxIdempotencyKeyBytes {
		return problem("idempotency_key", "has %d bytes: %d at most", len(t.IdempotencyKey), MaxIdempotencyKeyBytes)
	}
	if len(t.IdempotencyScope) > MaxIdempotencyKeyBytes {
		return problem("idempotency_scope", "has %d bytes: %d at most", len(t.IdempotencyScope), MaxIdempotencyKeyBytes)
	}
	if err := t.checkLimits(); err != nil {
		return err
	}
	return t.checkTags()
}

func (r *PayloadRef) check(field, id string) error {
	if r == nil {
		return nil
	}
	if prefix := PayloadPrefix(id); !strings.HasPrefix(r.Key, prefix) || r.Key == prefix {
		return problem(field, "points to %s: the payloads of a task are under %s", quoteShort(r.Key), prefix)
	}
	if !sha256Grammar.MatchString(r.SHA256) {
		return problem(field, "has the sha256 %s: it must be 64 lower-case hex digits", quoteShort(r.SHA256))
	}
	return nil
}

func (t *Task) checkLimits() error {
	if len(t.Limits) > MaxLimits {
		return problem("limits", "has %d tiers: %d at most", len(t.Limits), MaxLimits)
	}
	for i, l := range t.Limits {
		if l.Policy == "" {
			return problem("limits", "at %d names no policy", i)
		}
		if len(l.Key) > MaxLimitKeyBytes {
			return problem("limits", "at %d has a key of %d bytes: %d at most", i, len(l.Key), MaxLimitKeyBytes)
		}
	}
	return nil
}

func (t *Task) checkTags() error {
	if len(t.Tags) > MaxTags {
		return problem("tags", "has %d tags: %d at most", len(t.Tags), MaxTags)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Tags)) {
		if name == "" || len(name) > MaxTagKeyBytes || len(t.Tags[name]) > MaxTagValueBytes {
			return problem("tags", "has the tag %s: a tag's name has 1 to %d bytes, its value at most %d", quoteShort(name), MaxTagKeyBytes, MaxTagValueBytes)
		}
	}
	return nil
}

// checkText refuses what a JSON document cannot hold as it is. It looks at
// values set by Go code: a document that was read has passed already.
func (t *Task) checkText() error {
	if !validJSON(t.Input) {
		return problem("input", "is not valid JSON: it must be one JSON value in UTF-8")
	}
	if !utf8.ValidString(t.IdempotencyKey) {
		return problem("idempotency_key", "is not valid UTF-8")
	}
	if !utf8.ValidString(t.IdempotencyScope) {
		return problem("idempotency_scope", "is not valid UTF-8")
	}
	for i, l := range t.Limits {
		if !utf8.ValidString(l.Policy) || !utf8.ValidString(l.Key) {
			return problem("limits", "at %d has a policy or key that is not valid UTF-8", i)
		}
	}
	for name, value := range t.Tags {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return problem("tags", "has a tag that is not valid UTF-8")
		}
	}
	return nil
}

// checkDerivedID holds the id of a keyed submission against its key: else two
// tasks could claim one key.
func (t *Task) checkDerivedID() error {
	if t.IdempotencyKey == "" {
		return nil
	}
	if want := DeriveID(t.KeyScope(), t.IdempotencyKey); t.ID != want {
		return problem("idempotency_key", "derives the id %s, the task's id is %s", want, t.ID)
	}
	return nil
}

// KeyScope is within which the idempotency key is unique: the task's type
// unless the producer chose another.
func (t *Task) KeyScope() string {
	if t.IdempotencyScope != "" {
		return t.IdempotencyScope
	}
	return t.Type
}

// PayloadPrefix is where the payloads of a task are kept.
func PayloadPrefix(id string) string { return "payloads/" + id + "/" }
