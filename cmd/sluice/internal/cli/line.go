package cli

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sluice-dev/sluice/shared/task"
)

// parseLine reads one line of submit-many, strictly: what is silently dropped or taken for
// something else would be a user's lost work.
func parseLine(text []byte, vars *variables) (*submission, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("it is not valid UTF-8")
	}
	if err := checkJSON(text); err != nil {
		return nil, oneLine(err)
	}
	members, err := splitObject(vars.replace(text))
	if err != nil {
		return nil, err
	}
	s := &submission{}
	for _, m := range members {
		read, known := lineFields[m.name]
		if !known {
			return nil, unknownField(m.name, slices.Sorted(maps.Keys(lineFields)))
		}
		if err := read(s, m.value); err != nil {
			return nil, fmt.Errorf("%s %w", m.name, err)
		}
	}
	return s, s.check(func(field string) string { return field })
}

// oneLine leaves "line 1" out of an error about a line that has a number already.
func oneLine(err error) error {
	return errors.New(strings.TrimPrefix(err.Error(), "line 1, "))
}

func unknownField(name string, known []string) error {
	const shortest = 3 // "at" is part of too many words
	for _, k := range known {
		partly := min(len(k), len(name)) >= shortest && (strings.Contains(name, k) || strings.Contains(k, name))
		if partly || strings.EqualFold(k, name) {
			return fmt.Errorf("%q is no field, did you mean %s?", name, k)
		}
	}
	return fmt.Errorf("%q is no field: there are %s", name, strings.Join(known, ", "))
}

// lineFields are the fields of a line and how each is read.
var lineFields = map[string]func(*submission, jsontext.Value) error{
	"task_type":       textField(func(s *submission) *string { return &s.taskType }),
	"id":              textField(func(s *submission) *string { return &s.id }),
	"idempotency_key": textField(func(s *submission) *string { return &s.key }),
	"scope":           textField(func(s *submission) *string { return &s.scope }),
	"delay":           durationField(func(s *submission) **time.Duration { return &s.delay }),
	"expires_in":      durationField(func(s *submission) **time.Duration { return &s.expiresIn }),
	"timeout":         durationField(func(s *submission) **time.Duration { return &s.timeout }),
	"at":              timeField(func(s *submission) **time.Time { return &s.at }),
	"expires_at":      timeField(func(s *submission) **time.Time { return &s.expiresAt }),
	"max_retries":     countField(func(s *submission) **int { return &s.maxRetries }),
	"max_reschedules": func(s *submission, raw jsontext.Value) error {
		if raw.Kind() == 'n' { // as in a record: no limit
			return nil
		}
		return countField(func(s *submission) **int { return &s.maxReschedules })(s, raw)
	},
	"input": func(s *submission, raw jsontext.Value) error {
		s.input = []byte(raw)
		return nil
	},
	"tags":   readTags,
	"limits": readLimits,
}

func textField(at func(*submission) *string) func(*submission, jsontext.Value) error {
	return func(s *submission, raw jsontext.Value) error {
		text, err := readText(raw)
		if err == nil && text == "" {
			err = errors.New("is empty: leave it out instead")
		}
		*at(s) = text
		return err
	}
}

func durationField(at func(*submission) **time.Duration) func(*submission, jsontext.Value) error {
	return func(s *submission, raw jsontext.Value) error {
		if raw.Kind() == '0' {
			return fmt.Errorf(`is the number %s: write a duration with its unit, such as "%[1]ss"`, raw)
		}
		text, err := readText(raw)
		if err != nil {
			return err
		}
		f := durationFlag{}
		if err := f.Set(text); err != nil {
			return fmt.Errorf("%q %w", text, err)
		}
		*at(s) = f.value
		return nil
	}
}

func timeField(at func(*submission) **time.Time) func(*submission, jsontext.Value) error {
	return func(s *submission, raw jsontext.Value) error {
		text, err := readText(raw)
		if err != nil {
			return err
		}
		t, err := parseTime(text)
		if err != nil {
			return fmt.Errorf("%q %w", text, err)
		}
		*at(s) = &t
		return nil
	}
}

func countField(at func(*submission) **int) func(*submission, jsontext.Value) error {
	return func(s *submission, raw jsontext.Value) error {
		n, err := readCount(raw)
		*at(s) = &n
		return err
	}
}

func readTags(s *submission, raw jsontext.Value) error {
	members, err := splitObject(raw)
	if err != nil {
		return fmt.Errorf(`must be an object such as {"team": "sales"}: %w`, err)
	}
	s.tags = make(map[string]string, len(members))
	for _, m := range members {
		if s.tags[m.name], err = readText(m.value); err != nil {
			return fmt.Errorf("%q %w", m.name, err)
		}
	}
	return nil
}

func readLimits(s *submission, raw jsontext.Value) error {
	if raw.Kind() != '[' {
		return fmt.Errorf(`is %s: it must be a list such as [{"policy": "tpm", "key": "acme", "cost": 1500}]`, kindOf(raw))
	}
	dec := jsontext.NewDecoder(bytes.NewReader(raw), anyJSON)
	_, _ = dec.ReadToken() // the syntax was checked
	for i := 0; dec.PeekKind() != ']'; i++ {
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		limit, err := readLimit(value)
		if err != nil {
			return fmt.Errorf("at %d: %w", i, err)
		}
		s.limits = append(s.limits, limit)
	}
	return nil
}

func readLimit(raw jsontext.Value) (task.Limit, error) {
	limit := task.Limit{Cost: 1}
	members, err := splitObject(raw)
	for _, m := range members {
		if err != nil {
			break
		}
		switch m.name {
		case "policy":
			limit.Policy, err = readText(m.value)
		case "key":
			limit.Key, err = readText(m.value)
		case "cost":
			var n int
			n, err = readCount(m.value)
			limit.Cost = int64(n)
		default:
			return limit, unknownField(m.name, []string{"policy", "key", "cost"})
		}
		if err != nil {
			err = fmt.Errorf("%s %w", m.name, err)
		}
	}
	if err == nil && limit.Policy == "" {
		err = errors.New("policy is missing")
	}
	return limit, err
}

func readText(raw jsontext.Value) (string, error) {
	if raw.Kind() != '"' {
		return "", fmt.Errorf("is %s: it must be a string", kindOf(raw))
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return "", errors.New("holds a \\u escape that stands for no character")
	}
	return string(text), nil
}

func readCount(raw jsontext.Value) (int, error) {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if raw.Kind() != '0' || err != nil || n < 0 || n > task.MaxCount {
		return 0, fmt.Errorf("is %s: it must be a whole number from 0 to %d", cut(string(raw), 40), int64(task.MaxCount))
	}
	return int(n), nil
}

func kindOf(raw jsontext.Value) string {
	switch raw.Kind() {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '[':
		return "a list"
	default:
		return "an object"
	}
}

// member is one field of an object.
type member struct {
	name  string
	value jsontext.Value
}

// splitObject reads an object into its fields. A name given twice is refused. The syntax
// has been checked.
func splitObject(data []byte) ([]member, error) {
	if kind := jsontext.Value(data).Kind(); kind != '{' {
		return nil, fmt.Errorf("it is %s, an object is wanted", kindOf(data))
	}
	dec := jsontext.NewDecoder(bytes.NewReader(data), anyJSON)
	_, _ = dec.ReadToken()
	var members []member
	for dec.PeekKind() != '}' {
		quoted, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		name, err := jsontext.AppendUnquote(nil, quoted)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(members, func(m member) bool { return m.name == string(name) }) {
			return nil, fmt.Errorf("%q is given twice", name)
		}
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		members = append(members, member{string(name), value.Clone()})
	}
	return members, nil
}

// variables replace {{NAME}} inside strings.
type variables struct {
	values map[string]string
	// used holds the names that were met; lines are read at the same time.
	used sync.Map
}

var placeholder = regexp.MustCompile(`\{\{[A-Za-z_][A-Za-z0-9_]*\}\}`)

// replace puts the values into every string that is a value. All other text stays as it is,
// and names that have no value too. The JSON is valid.
func (v *variables) replace(text []byte) []byte {
	if len(v.values) == 0 {
		return text
	}
	var out []byte
	dec := jsontext.NewDecoder(bytes.NewReader(text), anyJSON)
	done := int64(0)
	for {
		kind := dec.PeekKind()
		parent, at := dec.StackIndex(dec.StackDepth())
		isName := parent == '{' && at%2 == 0
		if kind != '"' || isName {
			if _, err := dec.ReadToken(); err != nil { // the end: the syntax was checked
				return append(out, text[done:]...)
			}
			continue
		}
		quoted, err := dec.ReadValue()
		plain, unquoteErr := jsontext.AppendUnquote(nil, quoted)
		if err != nil || unquoteErr != nil {
			continue // half a surrogate pair: no value of ours is in there
		}
		if replaced := placeholder.ReplaceAllFunc(plain, v.value); !bytes.Equal(replaced, plain) {
			end := dec.InputOffset()
			out = append(out, text[done:end-int64(len(quoted))]...)
			out, _ = jsontext.AppendQuote(out, replaced)
			done = end
		}
	}
}

func (v *variables) value(placeholder []byte) []byte {
	name := string(placeholder[2 : len(placeholder)-2])
	value, ok := v.values[name]
	if !ok {
		return placeholder
	}
	v.used.Store(name, true)
	return []byte(value)
}

// unused lists the names that were met nowhere, in order.
func (v *variables) unused() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(v.values)) {
		if _, used := v.used.Load(name); !used {
			names = append(names, name)
		}
	}
	return names
}
