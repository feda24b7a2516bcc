package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// field says how one top-level field is read from a document and written to
// it.
type field struct {
	name string
	// submission fields are the producer's to set.
	submission bool
	read       func(t *Task, raw json.RawMessage) error
	// write returns nil when the field is to be left out.
	write func(t *Task) []byte
	copy  func(dst, src *Task)
}

// fields is the whole document, in the order it is written.
var fields = []field{
	number("schema", 1, MaxCount, func(t *Task) *int64 { return &t.Schema }).set(),
	number("revision", 0, MaxCount, func(t *Task) *int64 { return &t.Revision }),
	text("write_id", func(t *Task) *string { return &t.WriteID }),
	text("id", func(t *Task) *string { return &t.ID }).matching(ValidateID).set(),
	text("task_type", func(t *Task) *string { return &t.Type }).matching(ValidateType).set(),
	status(),
	value("input", always, func(t *Task) *json.RawMessage { return &t.Input }).set(),
	payloadRef("input_ref", func(t *Task) **PayloadRef { return &t.InputRef }).set(),
	value("output", present, func(t *Task) *json.RawMessage { return &t.Output }),
	payloadRef("output_ref", func(t *Task) **PayloadRef { return &t.OutputRef }),
	number("attempt", 0, MaxCount, func(t *Task) *int64 { return &t.Attempt }),
	number("retry_count", 0, MaxCount, func(t *Task) *int64 { return &t.RetryCount }),
	number("max_retries", 0, MaxCount, func(t *Task) *int64 { return &t.MaxRetries }).set(),
	number("reschedule_count", 0, MaxCount, func(t *Task) *int64 { return &t.RescheduleCount }),
	nullableNumber("max_reschedules", func(t *Task) **int64 { return &t.MaxReschedules }).set(),
	number("throttle_count", 0, MaxCount, func(t *Task) *int64 { return &t.ThrottleCount }),
	throttled(),
	number("timeout_seconds", 1, MaxTimeoutSeconds, func(t *Task) *int64 { return &t.TimeoutSeconds }).set(),
	moment("available_at", func(t *Task) *time.Time { return &t.AvailableAt }).set(),
	moment("created_at", func(t *Task) *time.Time { return &t.CreatedAt }).set(),
	moment("updated_at", func(t *Task) *time.Time { return &t.UpdatedAt }),
	nullableMoment("completed_at", func(t *Task) **time.Time { return &t.CompletedAt }),
	nullableMoment("expires_at", func(t *Task) **time.Time { return &t.ExpiresAt }).set(),
	nullableText("lease_id", func(t *Task) *string { return &t.LeaseID }),
	nullableMoment("lease_expires_at", func(t *Task) **time.Time { return &t.LeaseExpiresAt }),
	nullableText("worker_id", func(t *Task) *string { return &t.WorkerID }),
	nullableText("last_error", func(t *Task) *string { return &t.LastError }),
	value("checkpoint", present, func(t *Task) *json.RawMessage { return &t.Checkpoint }),
	limits().set(),
	nullableText("idempotency_key", func(t *Task) *string { return &t.IdempotencyKey }).set(),
	nullableText("idempotency_scope", func(t *Task) *string { return &t.IdempotencyScope }).set(),
	flag("cancel_requested", func(t *Task) *bool { return &t.CancelRequested }),
	tags().set(),
	nullableMoment("unhandled_since", func(t *Task) **time.Time { return &t.UnhandledSince }),
	nullableText("inbox_version", func(t *Task) *string { return &t.InboxVersion }),
	number("replay_revision", 0, MaxCount, func(t *Task) *int64 { return &t.ReplayRevision }).set().omitZero(),
}

var fieldByName = func() map[string]*field {
	byName := make(map[string]*field, len(fields))
	for i := range fields {
		byName[fields[i].name] = &fields[i]
	}
	return byName
}()

// set marks a field that a producer may set.
func (f field) set() field {
	f.submission = true
	return f
}

// matching refuses a text that does not fit a grammar.
func (f field) matching(validate func(string) error) field {
	read := f.read
	f.read = func(t *Task, raw json.RawMessage) error {
		if err := read(t, raw); err != nil {
			return err
		}
		s, err := readText(raw)
		if err == nil {
			err = validate(s)
		}
		if err != nil {
			return fmt.Errorf("is refused: %w", err)
		}
		return nil
	}
	return f
}

// omitZero leaves a number out that is 0.
func (f field) omitZero() field {
	write := f.write
	f.write = func(t *Task) []byte {
		if b := write(t); string(b) != "0" {
			return b
		}
		return nil
	}
	return f
}

func copier[T any](at func(*Task) *T) func(dst, src *Task) {
	return func(dst, src *Task) { *at(dst) = *at(src) }
}

func number(name string, least, most int64, at func(*Task) *int64) field {
	return field{
		name: name,
		read: func(t *Task, raw json.RawMessage) (err error) {
			*at(t), err = readNumber(raw, least, most)
			return err
		},
		write: func(t *Task) []byte { return strconv.AppendInt(nil, *at(t), 10) },
		copy:  copier(at),
	}
}

func nullableNumber(name string, at func(*Task) **int64) field {
	return field{
		name: name,
		read: func(t *Task, raw json.RawMessage) error {
			if isNull(raw) {
				return nil
			}
			n, err := readNumber(raw, 0, MaxCount)
			*at(t) = &n
			return err
		},
		write: func(t *Task) []byte {
			if n := *at(t); n != nil {
				return strconv.AppendInt(nil, *n, 10)
			}
			return []byte("null")
		},
		copy: copier(at),
	}
}

func readNumber(raw json.RawMessage, least, most int64) (int64, error) {
	if jsontext.Value(raw).Kind() != '0' {
		return 0, fmt.Errorf("is %s: it must be a whole number", kindOf(raw))
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		return 0, fmt.Errorf("is %s: it must be a whole number, written without point and exponent", short(string(raw)))
	case err != nil, n > most, n < least:
		return 0, fmt.Errorf("is %s: it must be between %d and %d", short(string(raw)), least, most)
	}
	return n, nil
}

func text(name string, at func(*Task) *string) field {
	return field{
		name: name,
		read: func(t *Task, raw json.RawMessage) (err error) {
			*at(t), err = readText(raw)
			return err
		},
		write: func(t *Task) []byte { return quoteJSON(*at(t)) },
		copy:  copier(at),
	}
}

func nullableText(name string, at func(*Task) *string) field {
	f := text(name, at)
	read := f.read
	f.read = func(t *Task, raw json.RawMessage) error {
		if isNull(raw) {
			return nil
		}
		return read(t, raw)
	}
	f.write = func(t *Task) []byte {
		if *at(t) == "" {
			return nil
		}
		return quoteJSON(*at(t))
	}
	return f
}

func readText(raw json.RawMessage) (string, error) {
	if jsontext.Value(raw).Kind() != '"' {
		return "", fmt.Errorf("is %s: it must be a string", kindOf(raw))
	}
	s, err := jsontext.AppendUnquote(nil, raw)
	if err != nil { // the syntax was checked, what remains is half a surrogate pair
		return "", fmt.Errorf("is %s: it holds a \\u escape that stands for no character", short(string(raw)))
	}
	return string(s), nil
}

func status() field {
	at := func(t *Task) *Status { return &t.Status }
	return field{
		name: "status",
		read: func(t *Task, raw json.RawMessage) error {
			s, err := readText(raw)
			if err != nil {
				return err
			}
			if !Status(s).valid() {
				return fmt.Errorf("is %s: it must be one of %v", quoteShort(s), Statuses())
			}
			t.Status = Status(s)
			return nil
		},
		write: func(t *Task) []byte { return quoteJSON(string(t.Status)) },
		copy:  copier(at),
	}
}

func flag(name string, at func(*Task) *bool) field {
	return field{
		name: name,
		read: func(t *Task, raw json.RawMessage) error {
			switch string(raw) {
			case "true":
				*at(t) = true
			case "false":
				*at(t) = false
			default:
				return fmt.Errorf("is %s: it must be true or false", kindOf(raw))
			}
			return nil
		},
		write: func(t *Task) []byte {
			if *at(t) {
				return []byte("true")
			}
			return nil
		},
		copy: copier(at),
	}
}

func moment(name string, at func(*Task) *time.Time) field {
	return field{
		name: name,
		read: func(t *Task, raw json.RawMessage) (err error) {
			*at(t), err = readTime(raw)
			return err
		},
		write: func(t *Task) []byte { return quoteJSON(formatTime(*at(t))) },
		copy:  copier(at),
	}
}

func nullableMoment(name string, at func(*Task) **time.Time) field {
	return field{
		name: name,
		read: func(t *Task, raw json.RawMessage) error {
			if isNull(raw) {
				return nil
			}
			v, err := readTime(raw)
			*at(t) = &v
			return err
		},
		write: func(t *Task) []byte {
			if v := *at(t); v != nil {
				return quoteJSON(formatTime(*v))
			}
			return nil
		},
		copy: copier(at),
	}
}

func readTime(raw json.RawMessage) (time.Time, error) {
	s, err := readText(raw)
	if err != nil {
		return time.Time{}, err
	}
	return ParseTime(s)
}

// ParseTime reads a time of RFC 3339 with its zone, such as
// 2027-01-01T09:30:00.5Z or 2027-01-01T10:30:00+01:00. Digits of the second
// beyond the ninth are dropped. Instants before the year 1 and after the year
// 9999 are refused.
func ParseTime(s string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, s)
	// time.Parse also takes 9:30 for 09:30, a comma for the point and an offset
	// of a day.
	const afterHour = len("2027-01-01T09")
	if err != nil || s[afterHour] != ':' || strings.Contains(s, ",") || strings.Contains(s, "+24:") || strings.Contains(s, "-24:") {
		return time.Time{}, fmt.Errorf("is %s: it must be a time with its zone, such as 2027-01-01T09:30:00Z", quoteShort(s))
	}
	at = at.UTC()
	if at.After(MaxTime) || at.Year() < 1 {
		return time.Time{}, fmt.Errorf("is %s: it must be between the years 1 and 9999 in UTC", quoteShort(s))
	}
	return at, nil
}

func formatTime(t time.Time) string { return instant(t).Format(time.RFC3339Nano) }

// presence says whether an absent value is written as null or left out.
type presence bool

const (
	always  presence = true
	present presence = false
)

func value(name string, p presence, at func(*Task) *json.RawMessage) field {
	return field{
		name: name,
		read: func(t *Task, raw json.RawMessage) error {
			if !isNull(raw) {
				*at(t) = raw
			}
			return nil
		},
		write: func(t *Task) []byte {
			if v := *at(t); len(v) > 0 {
				return v
			}
			if p == always {
				return []byte("null")
			}
			return nil
		},
		copy: copier(at),
	}
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

func kindOf(raw json.RawMessage) string {
	switch jsontext.Value(raw).Kind() {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '[':
		return "an array"
	default:
		return "an object"
	}
}

// FieldNames lists the document's fields, the producer's own when submission
// is true.
func FieldNames(submission bool) []string {
	var names []string
	for _, f := range fields {
		if f.submission || !submission {
			names = append(names, f.name)
		}
	}
	return slices.Clip(names)
}
