package task

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// The fields that are objects or lists themselves. They are as strict as the
// document: exact names, none twice, no null, and no unknown names either,
// because a misspelled "cost" would otherwise cost 1.

// part says how one field of a nested object is read into a T and written.
type part[T any] struct {
	name     string
	required bool
	read     func(v *T, raw json.RawMessage) error
	// write returns nil when the field is to be left out.
	write func(v *T) []byte
}

// shape is a nested object with its fields in the order they are written.
type shape[T any] []part[T]

var limitShape = shape[Limit]{
	textPart("policy", always, func(l *Limit) *string { return &l.Policy }),
	textPart("key", present, func(l *Limit) *string { return &l.Key }),
	numberPart("cost", present, func(l *Limit) *int64 { return &l.Cost }),
}

var payloadRefShape = shape[PayloadRef]{
	textPart("key", always, func(r *PayloadRef) *string { return &r.Key }),
	numberPart("size", always, func(r *PayloadRef) *int64 { return &r.Size }),
	textPart("sha256", always, func(r *PayloadRef) *string { return &r.SHA256 }),
}

var throttledShape = shape[Throttled]{
	textPart("policy", present, func(v *Throttled) *string { return &v.Policy }).omitEmpty(),
	textPart("key", present, func(v *Throttled) *string { return &v.Key }).omitEmpty(),
	momentPart("until", always, func(v *Throttled) *time.Time { return &v.Until }),
	valuePart("place", func(v *Throttled) *json.RawMessage { return &v.Place }),
	textPart("reason", present, func(v *Throttled) *string { return &v.Reason }).omitEmpty(),
}

func textPart[T any](name string, p presence, at func(*T) *string) part[T] {
	return part[T]{
		name:     name,
		required: p == always,
		read: func(v *T, raw json.RawMessage) (err error) {
			*at(v), err = readText(raw)
			return err
		},
		write: func(v *T) []byte { return quoteJSON(*at(v)) },
	}
}

func numberPart[T any](name string, p presence, at func(*T) *int64) part[T] {
	return part[T]{
		name:     name,
		required: p == always,
		read: func(v *T, raw json.RawMessage) (err error) {
			*at(v), err = readNumber(raw, 0, MaxCount)
			return err
		},
		write: func(v *T) []byte { return strconv.AppendInt(nil, *at(v), 10) },
	}
}

// valuePart is any JSON but null, left out when it is not there.
func valuePart[T any](name string, at func(*T) *json.RawMessage) part[T] {
	return part[T]{
		name: name,
		read: func(v *T, raw json.RawMessage) error {
			*at(v) = raw
			return nil
		},
		write: func(v *T) []byte { return *at(v) },
	}
}

func momentPart[T any](name string, p presence, at func(*T) *time.Time) part[T] {
	return part[T]{
		name:     name,
		required: p == always,
		read: func(v *T, raw json.RawMessage) (err error) {
			*at(v), err = readTime(raw)
			return err
		},
		write: func(v *T) []byte { return quoteJSON(formatTime(*at(v))) },
	}
}

// omitEmpty leaves a text out that is empty.
func (p part[T]) omitEmpty() part[T] {
	write := p.write
	p.write = func(v *T) []byte {
		if b := write(v); string(b) != `""` {
			return b
		}
		return nil
	}
	return p
}

// names lists the fields for an error: policy, key and cost.
func (s shape[T]) names() string {
	names := make([]string, len(s))
	for i, p := range s {
		names[i] = p.name
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// read reads the object into v, whose defaults are set.
func (s shape[T]) read(v *T, raw json.RawMessage) error {
	members, err := splitNested(raw, "with "+s.names())
	if err != nil {
		return err
	}
	given := make(map[string]bool, len(members))
	for _, m := range members {
		i := slices.IndexFunc(s, func(p part[T]) bool { return p.name == m.name })
		if i < 0 {
			return fmt.Errorf("has an unknown field %s: it may have %s", quoteShort(m.name), s.names())
		}
		if err := s[i].read(v, m.value); err != nil {
			return fmt.Errorf("has a field %q that %w", m.name, err)
		}
		given[m.name] = true
	}
	for _, p := range s {
		if p.required && !given[p.name] {
			return fmt.Errorf("has no field %q: it must have one", p.name)
		}
	}
	return nil
}

func (s shape[T]) write(v *T) []byte {
	var b bytes.Buffer
	sep := byte('{')
	for _, p := range s {
		if value := p.write(v); value != nil {
			b.WriteByte(sep)
			sep = ','
			b.Write(quoteJSON(p.name))
			b.WriteByte(':')
			b.Write(value)
		}
	}
	b.WriteByte('}')
	return b.Bytes()
}

// splitNested reads the fields of an object within the document.
func splitNested(raw json.RawMessage, with string) ([]member, error) {
	if jsontext.Value(raw).Kind() != '{' {
		return nil, fmt.Errorf("is %s: it must be an object %s", kindOf(raw), with)
	}
	members, err := splitObject(raw)
	if format, ok := errors.AsType[*FormatError](err); ok {
		return nil, fmt.Errorf("has a field %q that %s", format.Field, format.Problem)
	}
	return members, err
}

// object is a nested object that may be absent.
func object[T any](name string, s shape[T], at func(*Task) **T) field {
	return field{
		name: name,
		read: func(t *Task, raw json.RawMessage) error {
			if isNull(raw) {
				return nil
			}
			v := new(T)
			if err := s.read(v, raw); err != nil {
				return err
			}
			*at(t) = v
			return nil
		},
		write: func(t *Task) []byte {
			if v := *at(t); v != nil {
				return s.write(v)
			}
			return nil
		},
		copy: copier(at),
	}
}

func payloadRef(name string, at func(*Task) **PayloadRef) field {
	return object(name, payloadRefShape, at)
}

func throttled() field {
	return object("throttled", throttledShape, func(t *Task) **Throttled { return &t.Throttled })
}

func limits() field {
	return field{
		name: "limits",
		read: func(t *Task, raw json.RawMessage) error {
			if jsontext.Value(raw).Kind() != '[' {
				return fmt.Errorf(`is %s: it must be a list such as [{"policy":"vendor","key":"acme","cost":1}], leave it out for no limits`, kindOf(raw))
			}
			items, err := splitArray(raw)
			if err != nil {
				return err
			}
			for i, item := range items {
				l := Limit{Cost: 1}
				if err := limitShape.read(&l, item); err != nil {
					return fmt.Errorf("at %d %w", i, err)
				}
				t.Limits = append(t.Limits, l)
			}
			return nil
		},
		write: func(t *Task) []byte {
			if len(t.Limits) == 0 {
				return nil
			}
			items := make([][]byte, len(t.Limits))
			for i := range t.Limits {
				items[i] = limitShape.write(&t.Limits[i])
			}
			return slices.Concat([]byte("["), bytes.Join(items, []byte(",")), []byte("]"))
		},
		copy: copier(func(t *Task) *[]Limit { return &t.Limits }),
	}
}

func splitArray(raw json.RawMessage) ([]json.RawMessage, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(raw), readAnyJSON)
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	var items []json.RawMessage
	for dec.PeekKind() != ']' {
		item, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		items = append(items, json.RawMessage(bytes.Clone(item)))
	}
	return items, nil
}

func tags() field {
	return field{
		name: "tags",
		read: func(t *Task, raw json.RawMessage) error {
			members, err := splitNested(raw, `of strings such as {"team":"billing"}, leave it out for no tags`)
			if err != nil {
				return err
			}
			for _, m := range members {
				value, err := readText(m.value)
				if err != nil {
					return fmt.Errorf("has a field %s that %w", quoteShort(m.name), err)
				}
				if t.Tags == nil {
					t.Tags = make(map[string]string, len(members))
				}
				t.Tags[m.name] = value
			}
			return nil
		},
		write: func(t *Task) []byte {
			if len(t.Tags) == 0 {
				return nil
			}
			var b bytes.Buffer
			sep := byte('{')
			for _, name := range slices.Sorted(maps.Keys(t.Tags)) {
				b.WriteByte(sep)
				sep = ','
				b.Write(quoteJSON(name))
				b.WriteByte(':')
				b.Write(quoteJSON(t.Tags[name]))
			}
			b.WriteByte('}')
			return b.Bytes()
		},
		copy: copier(func(t *Task) *map[string]string { return &t.Tags }),
	}
}
