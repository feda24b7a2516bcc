package limit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The JSON form of policies and registry entries is kept apart from the Go types,
// since it outlives them: registries hold it, and programs in other languages
// write it. Names are snake_case, periods whole milliseconds, times RFC 3339.
// Decoding is strict: an unknown, misspelled or repeated name, null, a value of
// the wrong type or anything after the document is an error.

type policyJSON struct {
	Name       string      `json:"name"`
	Group      string      `json:"group,omitzero"`
	Kind       Kind        `json:"kind"`
	Max        int64       `json:"max,omitzero"`
	Burst      int64       `json:"burst,omitzero"`
	Refill     int64       `json:"refill,omitzero"`
	IntervalMS int64       `json:"interval_ms,omitzero"`
	Window     *windowJSON `json:"window,omitzero"`
	Reset      *resetJSON  `json:"reset,omitzero"`
	OverMax    OverMax     `json:"over_max,omitzero"`
}

type windowJSON struct {
	Kind       windowKind `json:"kind"`
	IntervalMS int64      `json:"interval_ms,omitzero"`
	Anchor     *time.Time `json:"anchor,omitzero"`
	Zone       string     `json:"zone,omitzero"`
	Cron       string     `json:"cron,omitzero"`
}

type resetJSON struct {
	Cron string `json:"cron"`
	Zone string `json:"zone"`
}

// MarshalJSON writes the policy as it was declared, defaults left out.
func (p Policy) MarshalJSON() ([]byte, error) {
	w := policyJSON{
		Name: p.Name, Group: p.Group, Kind: p.Kind(), Max: p.Max, Burst: p.Burst, OverMax: p.OverMax,
		Refill: p.Rate.Tokens, IntervalMS: p.Rate.Interval.Milliseconds(),
		Window: p.Window.wire(),
	}
	if p.Manual.mode == manualOnCron {
		w.Reset = &resetJSON{Cron: p.Manual.cron, Zone: p.Manual.zone}
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads a policy. Only its form is checked, use Validate for the
// rest.
func (p *Policy) UnmarshalJSON(data []byte) error {
	var w policyJSON
	if err := decodeStrict(data, &w, "policy"); err != nil {
		return err
	}
	q := Policy{
		Name: w.Name, Group: w.Group, Max: w.Max, Burst: w.Burst, OverMax: w.OverMax,
		Rate:   Rate{Tokens: w.Refill, Interval: milliseconds(w.IntervalMS)},
		Window: w.Window.window(),
	}
	if w.Kind == ManualReset {
		q.Manual = ByOperator
	}
	if w.Reset != nil {
		q.Manual = ResetOn(w.Reset.Cron, w.Reset.Zone)
	}
	if bad := w.kindProblems(); len(bad) > 0 {
		return q.invalidBesides(bad)
	}
	*p = q
	return nil
}

// kindProblems says which members do not go with the kind, and which are missing for it.
func (w policyJSON) kindProblems() []FieldError {
	bad := &InvalidPolicyError{}
	if w.Kind != Bucket && w.Kind != FixedWindow && w.Kind != ManualReset {
		bad.add("kind", "%q: want %q with refill and interval_ms, %q with a window, or %q, which may have a reset",
			string(w.Kind), Bucket, FixedWindow, ManualReset)
		return bad.Fields
	}
	for _, m := range []struct {
		name   string
		given  bool
		kind   Kind
		needed bool
	}{
		{"refill", w.Refill != 0, Bucket, true},
		{"interval_ms", w.IntervalMS != 0, Bucket, true},
		{"window", w.Window != nil, FixedWindow, true},
		{"reset", w.Reset != nil, ManualReset, false},
	} {
		switch {
		case m.given && m.kind != w.Kind:
			bad.add(m.name, "goes with the kind %q, not %q", m.kind, w.Kind)
		case m.needed && m.kind == w.Kind && !m.given:
			bad.add(m.name, "missing or 0: the kind %q needs it", m.kind)
		}
	}
	return bad.Fields
}

// invalidBesides returns an error that names what is known to be bad, and every other bad field.
func (p Policy) invalidBesides(known []FieldError) error {
	bad := &InvalidPolicyError{Policy: p.Name, Fields: known}
	named := map[string]bool{"kind": true}
	for _, f := range known {
		named[f.Field] = true
	}
	if others, ok := errors.AsType[*InvalidPolicyError](p.Validate()); ok {
		for _, f := range others.Fields {
			if !named[f.Field] {
				bad.Fields = append(bad.Fields, f)
			}
		}
	}
	return bad
}

func (w Window) wire() *windowJSON {
	if w == (Window{}) {
		return nil
	}
	j := &windowJSON{Kind: w.kind, IntervalMS: w.period.Milliseconds(), Zone: w.zone, Cron: w.spec}
	if w.set {
		anchor := time.UnixMilli(w.anchor).UTC()
		j.Anchor = &anchor
	}
	return j
}

func (j *windowJSON) window() Window {
	if j == nil {
		return Window{}
	}
	w := Window{kind: j.Kind, period: milliseconds(j.IntervalMS), zone: j.Zone, spec: j.Cron}
	if j.Anchor != nil {
		w = w.From(*j.Anchor)
	}
	return w
}

type entryJSON struct {
	Policy     Policy        `json:"policy"`
	Release    int64         `json:"release"`
	Override   *overrideJSON `json:"override,omitzero"`
	Generation int64         `json:"generation,omitzero"`
	ResetEra   int64         `json:"reset_era,omitzero"`
	Terms      []termsJSON   `json:"terms"`
	ResetAt    time.Time     `json:"reset_at,omitzero"`
	Changes    []changeJSON  `json:"changes,omitzero"`
}

type termsJSON struct {
	Era        int64       `json:"era"`
	Since      time.Time   `json:"since"`
	Planned    bool        `json:"planned,omitzero"`
	Dropped    bool        `json:"dropped,omitzero"`
	Reset      bool        `json:"reset,omitzero"`
	Kind       Kind        `json:"kind"`
	Max        int64       `json:"max"`
	Refill     int64       `json:"refill,omitzero"`
	IntervalMS int64       `json:"interval_ms,omitzero"`
	Window     *windowJSON `json:"window,omitzero"`
}

type overrideJSON struct {
	Max        *int64    `json:"max,omitzero"`
	Refill     *int64    `json:"refill,omitzero"`
	IntervalMS *int64    `json:"interval_ms,omitzero"`
	Expires    time.Time `json:"expires_at,omitzero"`
	By         string    `json:"by,omitzero"`
	At         time.Time `json:"at,omitzero"`
}

type changeJSON struct {
	At   time.Time `json:"at"`
	By   string    `json:"by,omitzero"`
	What string    `json:"what"`
}

// MarshalJSON writes the entry as a registry keeps it.
func (e Entry) MarshalJSON() ([]byte, error) {
	w := entryJSON{
		Policy: e.Policy, Release: e.Release, Override: e.Override.wire(),
		Generation: e.Generation, ResetEra: e.ResetEra, ResetAt: e.ResetAt.UTC(),
	}
	for _, t := range e.Terms {
		w.Terms = append(w.Terms, termsJSON{
			Era: t.Era, Since: t.Since.UTC(), Planned: t.Planned, Dropped: t.Dropped, Reset: t.Reset, Kind: t.Kind,
			Max: t.Max, Refill: t.Refill, IntervalMS: t.Interval.Milliseconds(), Window: t.Window.wire(),
		})
	}
	for _, c := range e.Changes {
		w.Changes = append(w.Changes, changeJSON{At: c.At.UTC(), By: c.By, What: c.What})
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (e *Entry) UnmarshalJSON(data []byte) error {
	var w entryJSON
	if err := decodeStrict(data, &w, "registry entry"); err != nil {
		return err
	}
	*e = Entry{
		Policy: w.Policy, Release: w.Release, Override: w.Override.override(),
		Generation: w.Generation, ResetEra: w.ResetEra, ResetAt: w.ResetAt,
	}
	for _, t := range w.Terms {
		e.Terms = append(e.Terms, Terms{
			Era: t.Era, Since: t.Since, Planned: t.Planned, Dropped: t.Dropped, Reset: t.Reset, Kind: t.Kind,
			Max: t.Max, Refill: t.Refill, Interval: milliseconds(t.IntervalMS), Window: t.Window.window(),
		})
	}
	for _, c := range w.Changes {
		e.Changes = append(e.Changes, Change(c))
	}
	return nil
}

// MarshalJSON writes the override; settings that it leaves alone are left out.
func (o Override) MarshalJSON() ([]byte, error) { return json.Marshal(o.wire()) }

// UnmarshalJSON reads an override, as an operator may send it.
func (o *Override) UnmarshalJSON(data []byte) error {
	var w overrideJSON
	if err := decodeStrict(data, &w, "override"); err != nil {
		return err
	}
	*o = *w.override()
	return nil
}

func (o *Override) wire() *overrideJSON {
	if o == nil {
		return nil
	}
	w := &overrideJSON{Max: o.Max, Refill: o.Refill, Expires: o.Expires.UTC(), By: o.By, At: o.At.UTC()}
	if o.Interval != nil {
		w.IntervalMS = new(o.Interval.Milliseconds())
	}
	return w
}

func (w *overrideJSON) override() *Override {
	if w == nil {
		return nil
	}
	o := &Override{Max: w.Max, Refill: w.Refill, Expires: w.Expires, By: w.By, At: w.At}
	if w.IntervalMS != nil {
		o.Interval = new(milliseconds(*w.IntervalMS))
	}
	return o
}

// milliseconds returns ms as a duration; what is out of a duration's range becomes
// the end of it, which no validation lets pass.
func milliseconds(ms int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(max(ms, -most), most)) * time.Millisecond
}

func decodeStrict(data []byte, into any, what string) error {
	err := json.Unmarshal(data, into, json.RejectUnknownMembers(true))
	if err == nil {
		err = refuseNull(data)
	}
	if err != nil {
		return fmt.Errorf("limit: %s in JSON: %w", what, inWords(err))
	}
	return nil
}

// inWords says what is wrong with a JSON document to somebody who has not seen our types.
func inWords(err error) error {
	s, ok := errors.AsType[*json.SemanticError](err)
	if !ok || s.GoType == nil {
		return err
	}
	at := strings.ReplaceAll(strings.TrimPrefix(string(s.JSONPointer), "/"), "/", ".")
	if errors.Is(err, json.ErrUnknownName) {
		return fmt.Errorf("%q is no member of it: names are exact, in lower case", at)
	}
	want := "an object"
	switch s.GoType.Kind() {
	case reflect.String:
		want = "text"
	case reflect.Int64:
		want = "a whole number"
	case reflect.Bool:
		want = "true or false"
	case reflect.Slice:
		want = "an array"
	default:
		if s.GoType == reflect.TypeFor[time.Time]() {
			want = "a time in RFC 3339"
		}
	}
	if at == "" {
		return fmt.Errorf("want %s", want)
	}
	return fmt.Errorf("%s: want %s", at, want)
}

func refuseNull(data []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(data))
	for {
		token, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if token.Kind() == 'n' {
			at := strings.ReplaceAll(strings.TrimPrefix(string(d.StackPointer()), "/"), "/", ".")
			if at == "" {
				return errors.New("null where an object is wanted")
			}
			return fmt.Errorf("%s is null: leave the member out instead", at)
		}
	}
}
