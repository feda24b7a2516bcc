package limit

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// CacheFor is how long a caller may use a copy of the registry. A change made at
// T is in force everywhere by T plus CacheFor, and is judged from then on.
const CacheFor = 5 * time.Second

const (
	keepTerms   = 16 // past terms that states can still be repriced from
	keepChanges = 20
)

// ErrReleaseConflict says that the registry holds another definition of the policy under
// the same release, so that neither can be said to be the newer one.
var ErrReleaseConflict = errors.New("limit: the same release declares the policy differently")

// An Entry is what the registry holds of one policy. It alone is in force: what
// callers declare only enters it by [Register].
//
// An Entry is a value: its methods return the next one, which a registry stores
// on the condition that nothing has changed in between.
type Entry struct {
	Policy   Policy    // as declared by the highest release
	Release  int64     // that release; by convention the commit's Unix time
	Override *Override // an operator's, or nil

	// Generation counts the resets, the last of which began ResetEra: states of
	// earlier eras are fresh.
	Generation int64
	ResetEra   int64

	// Terms are the settings in force, preceded by earlier ones, oldest first. The
	// last may be planned: that to which an override's expiry will return.
	Terms []Terms

	// ResetAt is the last boundary of a manual policy's cron that was served.
	ResetAt time.Time

	// Changes are the last changes, oldest first.
	Changes []Change
}

// Terms are the settings of a policy in one era.
type Terms struct {
	Era   int64     // grows by one with every change of settings and every reset
	Since time.Time // since when they are in force; of the first, the epoch

	Planned bool // in force only from Since on
	Dropped bool // was planned, and never came into force
	Reset   bool // began by a reset

	Kind     Kind
	Max      int64         // the capacity, a bucket's burst included; 0 pauses
	Refill   int64         // of a bucket: tokens per Interval
	Interval time.Duration // of a bucket
	Window   Window        // of a window
}

// An Override replaces any subset of a policy's settings until it is cleared or
// expires. It survives deploys.
type Override struct {
	// Max replaces the whole capacity, Max and Burst together; 0 pauses.
	Max *int64
	// Refill and Interval replace the two halves of a bucket's Rate. Interval
	// also replaces the length of windows made by Every and FromFirstUse.
	Refill   *int64
	Interval *time.Duration

	Expires time.Time // zero if it does not expire
	By      string    // who set it
	At      time.Time // when; set by the registry
}

// A Change is one line of the change log.
type Change struct {
	At   time.Time
	By   string
	What string
}

// A Registration says what became of a declaration.
type Registration string

const (
	Created   Registration = "created"   // the policy is new
	Replaced  Registration = "replaced"  // a newer release replaces the declaration
	Unchanged Registration = "unchanged" // it says what is stored already
	Older     Registration = "older"     // a newer release is stored, and stays in force
)

// Register declares a policy at a release, against the stored entry or nil. A
// newer release replaces the declaration and keeps override and resets; an older
// one, of a deployment on its way out, changes nothing and works with what is
// stored. So two versions that run side by side never turn the policy back and
// forth, each change pricing anew.
//
// It returns an [*InvalidPolicyError] for a bad policy or a changed group, and
// [ErrReleaseConflict] for another definition at the stored release.
func Register(stored *Entry, p Policy, release int64, by string, at time.Time) (Entry, Registration, error) {
	if err := p.Validate(); err != nil {
		return Entry{}, "", err
	}
	p = p.normal()
	if stored == nil {
		e := Entry{Policy: p, Release: release, ResetAt: at}
		first := e.terms()
		first.Era, first.Since = 1, time.UnixMilli(0).UTC()
		e.Terms = []Terms{first}
		return e.log(at, by, "declared by release %d", release), Created, nil
	}
	e := *stored
	same := e.Policy == p
	switch {
	case release < e.Release:
		return e, Older, nil
	case release == e.Release && !same:
		return e, "", fmt.Errorf("%w: policy %q, release %d: deploy under a higher release", ErrReleaseConflict, p.Name, release)
	case release == e.Release:
		return e, Unchanged, nil
	case p.Group != e.Policy.Group:
		bad := &InvalidPolicyError{Policy: p.Name}
		bad.add("group", "%q: it is registered in group %q, where its state is kept; give it another name to move it", p.Group, e.Policy.Group)
		return e, "", bad
	}
	e.Release = release
	if same {
		return e, Replaced, nil // worth storing: older releases are told by it
	}
	if p.Manual != e.Policy.Manual {
		e.ResetAt = at
	}
	e.Policy = p
	e = e.change(at, false)
	return e.log(at, by, "declared by release %d", release), Replaced, nil
}

// SetOverride returns the entry with an override in place of the one it may have.
// It returns an [*InvalidPolicyError] that names every setting that can't be.
func (e Entry) SetOverride(o Override, at time.Time) (Entry, error) {
	if err := e.checkOverride(o, at); err != nil {
		return e, err
	}
	o.At = at
	e.Override = &o
	e = e.change(at, false)
	return e.log(at, o.By, "override set: %v", &o), nil
}

func (e Entry) checkOverride(o Override, at time.Time) error {
	bad := &InvalidPolicyError{Policy: e.Policy.Name}
	if o.Max == nil && o.Refill == nil && o.Interval == nil {
		bad.add("override", "set at least one of max, refill and interval_ms")
	}
	if o.Max != nil && (*o.Max < 0 || *o.Max > MaxUnits) {
		bad.add("max", "%d: want 0 to %d", *o.Max, MaxUnits)
	}
	o.checkRate(bad, e.Policy)
	if !o.Expires.IsZero() && !o.Expires.After(at) {
		bad.add("expires_at", "%s is not after now", o.Expires.UTC().Format(time.RFC3339))
	}
	return bad.orNil()
}

func (o *Override) checkRate(bad *InvalidPolicyError, p Policy) {
	switch {
	case o.Refill == nil:
	case p.Kind() != Bucket:
		bad.add("refill", "a %s policy has none", p.Kind())
	case *o.Refill < 1 || *o.Refill > MaxUnits:
		bad.add("refill", "%d: want 1 to %d; to pause the policy, set max to 0", *o.Refill, MaxUnits)
	}
	switch {
	case o.Interval == nil:
	case p.Kind() != Bucket && p.Window.period == 0:
		bad.add("interval_ms", "the policy has no interval to override")
	default:
		validatePeriod(bad, "interval_ms", *o.Interval)
	}
}

// String lists what the override sets.
func (o *Override) String() string {
	var s []string
	if o.Max != nil {
		s = append(s, fmt.Sprintf("max %d", *o.Max))
	}
	if o.Refill != nil {
		s = append(s, fmt.Sprintf("refill %d", *o.Refill))
	}
	if o.Interval != nil {
		s = append(s, fmt.Sprintf("interval %v", *o.Interval))
	}
	text := fmt.Sprint(s)
	if !o.Expires.IsZero() {
		text += " until " + o.Expires.UTC().Format(time.RFC3339)
	}
	return text
}

// ClearOverride returns the entry without its override.
func (e Entry) ClearOverride(by string, at time.Time) Entry {
	if e.Override == nil {
		return e
	}
	e.Override = nil
	return e.change(at, false).log(at, by, "override cleared")
}

// Reset returns the entry with every key of the policy fresh, however many there
// are, since states of earlier eras count for nothing.
func (e Entry) Reset(by string, at time.Time) Entry {
	e.Generation++
	return e.change(at, true).log(at, by, "reset")
}

// ResetDue returns the entry reset if its policy is manual with a cron of which a
// boundary has come since the last one served, however many have; so it may be
// called as often as one likes and as late.
func (e Entry) ResetDue(by string, at time.Time) (Entry, bool) {
	resets, err := e.Policy.Manual.calendar()
	if err != nil || resets == nil {
		return e, false
	}
	boundary := timeOf(resets.at(millis(at)).start)
	if !boundary.After(e.ResetAt) {
		return e, false
	}
	e.ResetAt = boundary
	return e.Reset(by, at), true
}

// OverrideAt returns the override in force at a time, or nil. (An expired one stays
// in Override until the next change.)
func (e Entry) OverrideAt(at time.Time) *Override {
	if o := e.Override; o != nil && (o.Expires.IsZero() || at.Before(o.Expires)) {
		return o
	}
	return nil
}

// terms returns the settings that declaration and override make.
func (e *Entry) terms() Terms {
	p := e.Policy
	t := Terms{Kind: p.Kind(), Max: p.Capacity(), Refill: p.Rate.Tokens, Interval: p.Rate.Interval, Window: p.Window}
	if o := e.Override; o != nil {
		if o.Max != nil {
			t.Max = *o.Max
		}
		if o.Refill != nil && t.Kind == Bucket {
			t.Refill = *o.Refill
		}
		if o.Interval != nil && t.Kind == Bucket {
			t.Interval = *o.Interval
		}
		if o.Interval != nil && t.Window.period != 0 {
			t.Window.period = *o.Interval
		}
	}
	return t
}

// change brings the entry's terms up to its declaration and override, from a
// time on, in a new era if they differ or all keys are reset.
func (e Entry) change(at time.Time, reset bool) Entry {
	e.Terms = slices.Clone(e.Terms)
	e.settlePlan(at)
	now := e.latest()
	next := e.terms()
	next.Era, next.Since, next.Reset = e.nextEra(), at, reset
	if next.Since.Before(now.Since) {
		next.Since = now.Since // the operator's clock is behind
	}
	if last := e.Terms[len(e.Terms)-1]; reset || last.Dropped || !next.sameSettings(now) {
		e.Terms = append(e.Terms, next)
	}
	if reset {
		e.ResetEra = next.Era
	}
	if o := e.Override; o != nil && !o.Expires.IsZero() {
		planned := (&Entry{Policy: e.Policy}).terms()
		planned.Era, planned.Since, planned.Planned = e.nextEra(), o.Expires, true
		if planned.Since.Before(e.latest().Since) {
			planned.Since = e.latest().Since
		}
		e.Terms = append(e.Terms, planned)
	}
	e.forget()
	return e
}

// forget keeps the list of terms at its length. States of eras that are gone from
// its beginning count as used up when the oldest known era began, which is right
// once they would have refilled; so those go first of which nothing is lost, as
// their positions read the same in the era before.
func (e *Entry) forget() {
	for i := 1; i < len(e.Terms)-1 && len(e.Terms) > keepTerms; {
		if e.Terms[i].readsAs(e.Terms[i-1]) {
			e.Terms = slices.Delete(e.Terms, i, i+1)
		} else {
			i++
		}
	}
	if n := len(e.Terms) - keepTerms; n > 0 {
		e.Terms = slices.Delete(e.Terms, 0, n)
	}
}

// readsAs reports whether a position means the same in the era of t as in that of
// u before it: windows and manual policies of which only the maximum changes.
func (t Terms) readsAs(u Terms) bool {
	return t.Kind == u.Kind && t.Kind != Bucket && t.Window == u.Window && t.scale() == u.scale() &&
		!t.Reset && !t.Dropped && !u.Dropped
}

// settlePlan decides what becomes of planned terms when something else changes:
// they have come into force and the override is over, or they never will. (They
// stay on the list, for a caller whose clock is ahead may have used them.)
func (e *Entry) settlePlan(at time.Time) {
	planned := &e.Terms[len(e.Terms)-1]
	if !planned.Planned {
		return
	}
	planned.Planned = false
	if planned.Dropped = at.Before(planned.Since); planned.Dropped {
		return
	}
	if o := e.Override; o != nil && !o.Expires.IsZero() && !at.Before(o.Expires) {
		e.Override = nil
	}
}

func (e *Entry) nextEra() int64 { return e.Terms[len(e.Terms)-1].Era + 1 }

// latest returns the newest terms that came into force.
func (e *Entry) latest() Terms {
	for _, t := range slices.Backward(e.Terms) {
		if !t.Dropped {
			return t
		}
	}
	return e.Terms[0]
}

func (t Terms) sameSettings(u Terms) bool {
	return t.Kind == u.Kind && t.Max == u.Max && t.Refill == u.Refill && t.Interval == u.Interval && t.Window == u.Window
}

func (e Entry) log(at time.Time, by, format string, args ...any) Entry {
	e.Changes = append(slices.Clone(e.Changes), Change{At: at, By: by, What: fmt.Sprintf(format, args...)})
	if n := len(e.Changes) - keepChanges; n > 0 {
		e.Changes = e.Changes[n:]
	}
	return e
}
