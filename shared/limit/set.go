package limit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Set is a checked collection of policies, each under its own name. It is
// immutable; the zero Set is empty.
type Set struct {
	policies []Policy // in order of appearance
}

// NewSet returns the set of the policies. A policy may be given several times
// over, but only with one definition. The error names every bad field of every
// policy and every conflict.
func NewSet(policies ...Policy) (Set, error) {
	var s Set
	var errs []error
	for _, p := range policies {
		switch known, ok := s.Policy(p.Name); {
		case !ok:
			s.policies = append(s.policies, p)
			if err := p.Validate(); err != nil {
				errs = append(errs, err)
			}
		case !known.Equal(p):
			bad := &InvalidPolicyError{Policy: p.Name}
			bad.add("name", "two different policies have it: give one of them another")
			errs = append(errs, bad)
		}
	}
	if len(errs) > 0 {
		return Set{}, errors.Join(errs...)
	}
	return s, nil
}

// Policies returns the policies, in the order in which they were first given.
func (s Set) Policies() []Policy { return slices.Clone(s.policies) }

// Policy returns the policy of a name.
func (s Set) Policy(name string) (Policy, bool) {
	i := slices.IndexFunc(s.policies, func(p Policy) bool { return p.Name == name })
	if i < 0 {
		return Policy{}, false
	}
	return s.policies[i], true
}

// Tier returns the tier of a policy given by its name, as tasks and requests in
// JSON give it. An unknown name is an error that wraps [ErrUnknownPolicy].
func (s Set) Tier(policy, key string, units int64) (Tier, error) {
	p, ok := s.Policy(policy)
	if !ok {
		return Tier{}, fmt.Errorf("%w %q: it is not among those registered here", ErrUnknownPolicy, policy)
	}
	return p.Key(key).Cost(units), nil
}

func sortByName(policies []Policy) {
	slices.SortStableFunc(policies, func(p, q Policy) int { return strings.Compare(p.Name, q.Name) })
}
