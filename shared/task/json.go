package task

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A record is read strictly, because what is silently dropped or coerced here
// is a user's lost work:
//
//   - it is one JSON object in valid UTF-8 and nothing behind it; a byte-order
//     mark in front is read over; strings inside input and other free JSON may
//     hold \u escapes of half a surrogate pair, as cut-off text does;
//   - field names match exactly, a top-level name given twice is refused;
//   - a missing field means its default; null is accepted only where a value
//     may be absent; a value of the wrong type is refused;
//   - top-level fields of other names are kept, and written again.
//
// The decoder is jsontext of github.com/go-json-experiment/json, the mirror of
// encoding/json/v2, which hands out exact text; encoding/json folds the case of names,
// lets the last of two values win and replaces broken UTF-8.

// member is one top-level field as it came.
type member struct {
	name       string
	quotedName []byte
	value      json.RawMessage
}

// FormatError says why a document is not a task.
type FormatError struct {
	// Field is the top-level field at fault, empty for the whole document.
	Field string
	// Problem says what is wrong and what would be right.
	Problem string
}

func (e *FormatError) Error() string {
	if e.Field == "" {
		return "not a task document: " + e.Problem
	}
	return fmt.Sprintf("not a task document: field %q %s", e.Field, e.Problem)
}

// Decode reads a record. An id and a task_type must be there, every other field
// has a default; a time that is missing defaults to created_at. Errors are
// [*FormatError].
func Decode(data []byte) (Task, error) {
	t, err := decode(data)
	if err != nil {
		return Task{}, err
	}
	if t.ID == "" {
		return Task{}, &FormatError{Field: "id", Problem: "is missing: a record names its task"}
	}
	if t.AvailableAt.IsZero() {
		t.AvailableAt = t.CreatedAt
	}
	if t.UpdatedAt.IsZero() {
		t.UpdatedAt = t.CreatedAt
	}
	if err := t.check(); err != nil {
		return Task{}, err
	}
	return t, nil
}

// decode reads each field by itself, [Task.check] looks at them together.
func decode(data []byte) (Task, error) {
	members, err := splitObject(data)
	if err != nil {
		return Task{}, err
	}
	t := Task{
		Schema:         SchemaVersion,
		Status:         Pending,
		MaxRetries:     DefaultMaxRetries,
		TimeoutSeconds: DefaultTimeoutSeconds,
	}
	for _, m := range members {
		f, known := fieldByName[m.name]
		if !known {
			t.unknown = append(t.unknown, m)
			continue
		}
		if err := f.read(&t, m.value); err != nil {
			return Task{}, &FormatError{Field: m.name, Problem: err.Error()}
		}
	}
	return t, nil
}

// DecodeSubmission reads what a producer wrote to the inbox: only the fields
// that a producer may set are taken, the others start as in [New]. The id is
// the one the object's key names, and created is when the object was written;
// they stand in where the document has no id or created_at. Errors are
// [*FormatError].
func DecodeSubmission(data []byte, id string, created time.Time) (Task, error) {
	if len(data) > MaxDocumentBytes {
		return Task{}, &FormatError{Problem: fmt.Sprintf("it has %d bytes, more than %d: keep a large input under payloads/ and name it in input_ref", len(data), MaxDocumentBytes)}
	}
	doc, err := decode(data)
	if err != nil {
		return Task{}, err
	}
	if doc.ID == "" {
		doc.ID = id
	}
	if doc.ID != id {
		return Task{}, &FormatError{Field: "id", Problem: fmt.Sprintf("is %s but the object's key names %s", quoteShort(doc.ID), quoteShort(id))}
	}
	t := New(id, doc.Type, created)
	for _, f := range fields {
		if f.submission {
			f.copy(&t, &doc)
		}
	}
	if t.CreatedAt.IsZero() {
		t.CreatedAt = instant(created)
	}
	if t.AvailableAt.IsZero() {
		t.AvailableAt = t.CreatedAt
	}
	t.UpdatedAt = t.CreatedAt
	t.unknown = doc.unknown
	if err := t.check(); err != nil {
		return Task{}, err
	}
	if err := t.checkDerivedID(); err != nil {
		return Task{}, err
	}
	return t, nil
}

// Encode writes the record as one JSON document.
func (t Task) Encode() []byte {
	return t.encode(func(f *field) bool { return f.name != "replay_revision" })
}

// EncodeSubmission writes only what a producer may set: the inbox object.
func (t Task) EncodeSubmission() []byte { return t.encode(func(f *field) bool { return f.submission }) }

func (t Task) encode(wanted func(*field) bool) []byte {
	var b bytes.Buffer
	sep := byte('{')
	put := func(quotedName, value []byte) {
		b.WriteByte(sep)
		sep = ','
		b.Write(quotedName)
		b.WriteByte(':')
		b.Write(value)
	}
	for i := range fields {
		if f := &fields[i]; wanted(f) {
			if value := f.write(&t); value != nil {
				put(quoteJSON(f.name), value)
			}
		}
	}
	for _, m := range t.unknown {
		put(m.quotedName, m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// MarshalJSON writes the record, see [Task.Encode]. The packages encoding/json
// and json/v2 re-spell what a MarshalJSON method returns (escapes, white space)
// and the latter refuses names given twice inside input: where exact text
// counts, call Encode.
func (t Task) MarshalJSON() ([]byte, error) { return t.Encode(), nil }

// UnmarshalJSON reads a record, see [Decode].
func (t *Task) UnmarshalJSON(data []byte) error {
	decoded, err := Decode(data)
	if err != nil {
		return err
	}
	*t = decoded
	return nil
}

// Validate tells whether the task can be submitted: what a producer set fits
// its grammar and bounds. Errors are [*FormatError].
func (t Task) Validate() error {
	if t.Type == "" {
		return problem("task_type", missingType)
	}
	if err := t.checkText(); err != nil {
		return err
	}
	_, err := DecodeSubmission(t.EncodeSubmission(), t.ID, t.CreatedAt)
	return err
}

// readAnyJSON are the options that read every JSON text: names given twice and
// halves of surrogate pairs are a matter between producer and handler.
var readAnyJSON = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// validJSON tells whether the text is one JSON value in valid UTF-8. No text
// at all is one too: it stands for null.
func validJSON(raw json.RawMessage) bool {
	return len(raw) == 0 || utf8.Valid(raw) && jsontext.Value(raw).IsValid(readAnyJSON)
}

// splitObject reads one JSON object into its top-level fields, in order.
func splitObject(data []byte) ([]member, error) {
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	if !utf8.Valid(data) {
		return nil, &FormatError{Problem: position(data, validPrefix(data)) + "it is not valid UTF-8"}
	}
	dec := jsontext.NewDecoder(bytes.NewReader(data), readAnyJSON)
	if dec.PeekKind() != '{' {
		if _, err := dec.ReadToken(); err != nil {
			return nil, syntaxProblem(data, err)
		}
		return nil, &FormatError{Problem: "it is JSON but not an object"}
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, syntaxProblem(data, err)
	}
	members, err := readMembers(dec, data)
	if err != nil {
		return nil, err
	}
	end := int(dec.InputOffset())
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, &FormatError{Problem: position(data, end) + "something follows the object, which must be all there is"}
	}
	return members, nil
}

// readMembers reads up to the end of an object whose brace has been read.
func readMembers(dec *jsontext.Decoder, data []byte) ([]member, error) {
	var members []member
	seen := make(map[string]bool)
	for dec.PeekKind() != '}' {
		quoted, err := dec.ReadValue()
		if err != nil {
			return nil, syntaxProblem(data, err)
		}
		// Half a surrogate pair in a name is read as U+FFFD and written as it came.
		name, _ := jsontext.AppendUnquote(nil, quoted)
		m := member{name: string(name), quotedName: bytes.Clone(quoted)}
		if seen[m.name] {
			return nil, &FormatError{Field: m.name, Problem: "is given twice"}
		}
		seen[m.name] = true
		value, err := dec.ReadValue()
		if err != nil {
			return nil, syntaxProblem(data, err)
		}
		m.value = json.RawMessage(bytes.Clone(value))
		members = append(members, m)
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, syntaxProblem(data, err)
	}
	return members, nil
}

// syntaxProblem names the place where reading stopped.
func syntaxProblem(data []byte, err error) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return &FormatError{Problem: "it is empty"}
	}
	at := len(data)
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at = min(int(syntactic.ByteOffset), len(data))
		err = syntactic.Err
	}
	problem := "it is not valid JSON: " + strings.TrimPrefix(err.Error(), "jsontext: ")
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		problem = "the JSON ends too early"
	}
	return &FormatError{Problem: position(data, at) + problem}
}

// validPrefix is how many bytes of valid UTF-8 the data starts with.
func validPrefix(data []byte) int {
	n := 0
	for n < len(data) {
		r, size := utf8.DecodeRune(data[n:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		n += size
	}
	return n
}

// position words the place of a byte for a person with an editor.
func position(data []byte, at int) string {
	before := data[:min(at, len(data))]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	return fmt.Sprintf("line %d, column %d: ", line, column)
}

func quoteJSON(s string) []byte {
	quoted, err := jsontext.AppendQuote(nil, s)
	if err != nil { // broken UTF-8: it is replaced, what remains is valid
		quoted, _ = jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\uFFFD"))
	}
	return quoted
}
