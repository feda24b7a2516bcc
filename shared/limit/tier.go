package limit

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of one request. They are those of a store that keeps a group and key in
// one item and can write several items at once.
const (
	MaxKeyBytes     = 1024 // bytes of a key
	MaxTiersPerItem = 16   // tiers of one group and key
	MaxItems        = 10   // different groups and keys
)

// A Tier is one policy applied to one key, and what a request costs there.
type Tier struct {
	Policy Policy
	Key    string // any UTF-8 of at most MaxKeyBytes, compared byte by byte; may be empty
	Units  int64  // the cost, 0 to MaxUnits; a cost of 0 is inert: it passes anything
}

// Key returns the tier of the policy and a key, at a cost of 1.
func (p Policy) Key(key string) Tier { return Tier{Policy: p, Key: key, Units: 1} }

// Global returns the tier of a policy that is not kept per key. It is that of
// the empty key.
func (p Policy) Global() Tier { return p.Key("") }

// Cost returns the tier at another cost.
func (t Tier) Cost(units int64) Tier {
	t.Units = units
	return t
}

// String returns the tier as vendor["acme"].
func (t Tier) String() string { return fmt.Sprintf("%s[%q]", t.Policy.Name, t.Key) }

// An InvalidRequestError says why a request can't be judged. Nothing was charged
// and trying again is of no use.
type InvalidRequestError struct{ Problem string }

func (e *InvalidRequestError) Error() string { return "limit: " + e.Problem }

func invalid(format string, args ...any) error {
	return &InvalidRequestError{Problem: fmt.Sprintf(format, args...)}
}

// CheckKey returns an [*InvalidRequestError] if key is not UTF-8 or longer than
// [MaxKeyBytes].
func CheckKey(key string) error {
	if len(key) > MaxKeyBytes {
		return invalid("a key of %d bytes (%.20q…): want at most %d; use a hash of it", len(key), key, MaxKeyBytes)
	}
	if !utf8.ValidString(key) {
		return invalid("key %q is not UTF-8", key)
	}
	return nil
}

// checkUnits refuses costs and amounts out of range.
func checkUnits(what string, t Tier, units int64) error {
	if units < 0 || units > MaxUnits {
		return invalid("%s %d on %v: want 0 to %d", what, units, t, MaxUnits)
	}
	return nil
}

// Merge checks the tiers of one request and joins those of the same policy and
// key into one with the summed cost. The order is that of first appearance. It
// returns an [*InvalidRequestError] for a cost or a sum of costs out of range, a
// bad key, or more tiers than fit a request.
func Merge(tiers []Tier) ([]Tier, error) {
	merged := make([]Tier, 0, len(tiers))
	for _, t := range tiers {
		if err := CheckKey(t.Key); err != nil {
			return nil, err
		}
		if err := checkUnits("a cost of", t, t.Units); err != nil {
			return nil, err
		}
		i := slices.IndexFunc(merged, func(m Tier) bool { return m.Policy.Name == t.Policy.Name && m.Key == t.Key })
		if i < 0 {
			merged = append(merged, t)
			continue
		}
		merged[i].Units += t.Units // at most 2^54
		if err := checkUnits("a summed cost of", t, merged[i].Units); err != nil {
			return nil, err
		}
	}
	return merged, checkShape(merged)
}

func checkShape(merged []Tier) error {
	if len(merged) <= 1 {
		return nil
	}
	type item struct{ group, key string }
	tiers := make(map[item]int)
	for _, t := range merged {
		i := item{t.Policy.normal().Group, t.Key}
		if tiers[i]++; tiers[i] > MaxTiersPerItem {
			return invalid("too many tiers on group %q and key %q: want at most %d", i.group, i.key, MaxTiersPerItem)
		}
	}
	if len(tiers) > MaxItems {
		return invalid("%d different groups and keys in one request: want at most %d", len(tiers), MaxItems)
	}
	return nil
}

// Only returns the tiers of the named policies, for a request that the others
// don't apply to. A name that no tier has is an error that wraps
// [ErrUnknownPolicy]: left out in silence, a misspelled limit would be lifted.
func Only(tiers []Tier, names ...string) ([]Tier, error) {
	for _, name := range names {
		if !slices.ContainsFunc(tiers, func(t Tier) bool { return t.Policy.Name == name }) {
			return nil, fmt.Errorf("%w %q among the tiers %s", ErrUnknownPolicy, name, strings.Join(tierNames(tiers), ", "))
		}
	}
	var chosen []Tier
	for _, t := range tiers {
		if slices.Contains(names, t.Policy.Name) {
			chosen = append(chosen, t)
		}
	}
	return chosen, nil
}

func tierNames(tiers []Tier) (names []string) {
	for _, t := range tiers {
		if !slices.Contains(names, t.Policy.Name) {
			names = append(names, t.Policy.Name)
		}
	}
	return names
}
