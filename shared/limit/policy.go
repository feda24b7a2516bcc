package limit

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// A Policy says how much is allowed. It is a plain, comparable value, meant to
// be a package variable; it holds no state. It is one of three kinds, told apart
// by which of Rate, Window and Manual is set:
//
//   - Rate makes it a token bucket, which starts full and drips;
//   - Window makes it a fixed window, which gives the whole of Max at once and
//     resets it in one step;
//   - Manual makes it an amount that only a reset or a grant refills.
//
// A Policy is checked when it is registered, or by [Policy.Validate].
type Policy struct {
	// Name identifies the policy wherever it is used: lower-case letters,
	// digits, dots, underscores and dashes, at most 63, the first a letter or a
	// digit.
	Name string

	// Group names the policies whose state is kept together: the tiers of one
	// group and key are one item of the store, and a request over them is one
	// write however many they are. Same grammar as Name. Defaults to Name. A
	// registered policy can't change its group, for its state would stay behind.
	Group string

	// Rate is how fast a token bucket refills.
	Rate Rate

	// Max is how many units a window or a manual policy allows before its
	// reset, and a bucket's size without Burst. From 1 to [MaxUnits]; 0 pauses a
	// manual policy. For a bucket it defaults to the tokens of one Rate interval.
	Max int64

	// Burst is what a bucket holds on top of Max, for short spikes. From 0, the
	// default, as long as Max and Burst together are at most [MaxUnits].
	Burst int64

	// Window is when a fixed window begins and ends: see [Every],
	// [FromFirstUse], [Days], [Weeks], [Months] and [Cron].
	Window Window

	// Manual is how a manual policy is reset: [ByOperator] or [ResetOn].
	Manual Manual

	// OverMax says what happens to a cost that is above the capacity and so can
	// never be admitted as it is. Defaults to [Reject].
	OverMax OverMax
}

// A Kind is what a policy does with time.
type Kind string

const (
	Bucket      Kind = "bucket" // drips
	FixedWindow Kind = "window" // steps
	ManualReset Kind = "manual" // waits for a reset
)

// OverMax says what a policy does with a cost above its capacity.
type OverMax string

const (
	// Reject answers that the cost can never be admitted: a mistake is found at
	// once instead of after a long wait. The default.
	Reject OverMax = "reject"
	// Clamp charges the whole capacity instead: the request runs when the
	// bucket is full.
	Clamp OverMax = "clamp"
)

// Manual says how a manual policy comes to be reset. The zero Manual is none.
type Manual struct {
	mode string // "" for none, or one of the two below
	cron string
	zone string
}

const (
	manualByOperator = "operator"
	manualOnCron     = "cron"
)

// ByOperator makes a policy manual: nothing refills it but an operator's reset
// or grant.
var ByOperator = Manual{mode: manualByOperator}

// ResetOn makes a policy manual and has it reset at the times of a five-field
// cron expression in a time zone (see [Cron] for both). The reset is an action
// of its own, performed once per boundary by whoever is in charge of it, where
// the [Cron] window is computed by every caller.
func ResetOn(spec, zone string) Manual {
	return Manual{mode: manualOnCron, cron: spec, zone: zone}
}

// Kind returns which kind the policy is. A policy that is none or several at
// once, which Validate refuses, counts as the first in the order bucket, window,
// manual, or as "".
func (p Policy) Kind() Kind {
	switch {
	case p.Rate != Rate{}:
		return Bucket
	case p.Window != Window{}:
		return FixedWindow
	case p.Manual != Manual{}:
		return ManualReset
	default:
		return ""
	}
}

// Capacity returns the most units that can be available at once: Max and Burst
// together.
func (p Policy) Capacity() int64 {
	p = p.normal()
	return p.Max + p.Burst
}

// normal returns p with the defaults filled in: two policies mean the same if
// their normal forms are equal.
func (p Policy) normal() Policy {
	if p.Group == "" {
		p.Group = p.Name
	}
	if p.OverMax == "" {
		p.OverMax = Reject
	}
	if p.Kind() == Bucket && p.Max == 0 {
		p.Max = p.Rate.Tokens
	}
	return p
}

// Equal reports whether p and q say the same once their defaults are filled in.
func (p Policy) Equal(q Policy) bool { return p.normal() == q.normal() }

var nameGrammar = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

const nameRule = "want lower-case letters, digits, '.', '_' and '-', at most 63, the first a letter or digit"

// An InvalidPolicyError says everything that is wrong with a policy.
type InvalidPolicyError struct {
	Policy string       // its name, as given
	Fields []FieldError // at least one, in the order of the fields of Policy
}

// A FieldError says what is wrong with one field.
type FieldError struct {
	Field   string // as in the JSON form: name, group, refill, interval_ms, …
	Problem string // what was found and what is wanted
}

func (e *InvalidPolicyError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "limit: policy %q", e.Policy)
	for i, f := range e.Fields {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&b, "%s%s: %s", sep, f.Field, f.Problem)
	}
	return b.String()
}

func (e *InvalidPolicyError) add(field, format string, args ...any) {
	e.Fields = append(e.Fields, FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
}

func (e *InvalidPolicyError) orNil() error {
	if len(e.Fields) == 0 {
		return nil
	}
	return e
}

// Validate returns nil, or an [*InvalidPolicyError] that names every bad field.
func (p Policy) Validate() error {
	bad := &InvalidPolicyError{Policy: p.Name}
	if !nameGrammar.MatchString(p.Name) {
		bad.add("name", "%q: %s", p.Name, nameRule)
	}
	if p.Group != "" && !nameGrammar.MatchString(p.Group) {
		bad.add("group", "%q: %s", p.Group, nameRule)
	}
	p.validateKind(bad)
	p.validateAmounts(bad)
	if p.OverMax != "" && p.OverMax != Reject && p.OverMax != Clamp {
		bad.add("over_max", "%q: want %q or %q", string(p.OverMax), Reject, Clamp)
	}
	return bad.orNil()
}

func (p Policy) validateKind(bad *InvalidPolicyError) {
	kinds := 0
	if p.Rate != (Rate{}) {
		kinds++
		p.Rate.validate(bad)
	}
	if p.Window != (Window{}) {
		kinds++
		p.Window.validate(bad)
	}
	if p.Manual != (Manual{}) {
		kinds++
		if p.Manual.mode == manualOnCron {
			validateCron(bad, "manual", p.Manual.cron, p.Manual.zone)
		}
	}
	switch {
	case kinds == 0:
		bad.add("kind", "set one of rate (a token bucket), window or manual; a rate is above zero")
	case kinds > 1:
		bad.add("kind", "set only one of rate, window and manual")
	}
}

func (r Rate) validate(bad *InvalidPolicyError) {
	if r.Tokens < 1 || r.Tokens > MaxUnits {
		bad.add("refill", "%d: want 1 to %d", r.Tokens, MaxUnits)
	}
	validatePeriod(bad, "interval_ms", r.Interval)
}

func validatePeriod(bad *InvalidPolicyError, field string, d time.Duration) {
	if d < time.Millisecond || d > MaxPeriod || d%time.Millisecond != 0 {
		bad.add(field, "%v: want whole milliseconds, from 1 ms to 100 years", d)
	}
}

func (p Policy) validateAmounts(bad *InvalidPolicyError) {
	kind := p.Kind()
	switch {
	case p.Max < 0 || p.Max > MaxUnits:
		bad.add("max", "%d: want 1 to %d", p.Max, MaxUnits)
	case p.Max == 0 && kind == FixedWindow:
		bad.add("max", "0: want 1 to %d; to pause a policy, override its max with 0", MaxUnits)
	}
	switch {
	case p.Burst != 0 && kind != Bucket && kind != "":
		bad.add("burst", "%d: only a token bucket has a burst", p.Burst)
	case p.Burst < 0 || p.Burst > MaxUnits:
		bad.add("burst", "%d: want 0 to %d", p.Burst, MaxUnits)
	case p.Max >= 0 && p.normal().Max <= MaxUnits && p.normal().Max+p.Burst > MaxUnits:
		bad.add("burst", "%d: max and burst together are above %d", p.Burst, MaxUnits)
	}
}
