package limit

import "slices"

// A Selector chooses the tiers of a payload of type T. It is declared once,
// beside the handler:
//
//	limit.All(
//		limit.By(Requests, Prompt.Org),
//		limit.By(Tokens, Prompt.Org).Cost(Prompt.MaxTokens),
//		limit.When(Prompt.IsBatch, limit.Global[Prompt](Daily)),
//	)
//
// Because it is a value and not just a function, all policies that it can ever
// choose are known beforehand (see [Selector.Policies]) and can be registered
// when the program starts. The zero Selector chooses none.
type Selector[T any] struct {
	tiers    func(T) []Tier
	policies []Policy // reachable, with repetitions
}

// None chooses no tiers: the payload is not limited.
func None[T any]() Selector[T] { return Selector[T]{} }

// By chooses a policy and the key that it is kept by, at a cost of 1.
func By[T any](p Policy, key func(T) string) Selector[T] {
	return Selector[T]{
		tiers:    func(payload T) []Tier { return []Tier{p.Key(key(payload))} },
		policies: []Policy{p},
	}
}

// Global chooses a policy for all payloads together, at a cost of 1.
func Global[T any](p Policy) Selector[T] {
	return By(p, func(T) string { return "" })
}

// Cost returns the selector with another cost: that of the payload, for every
// tier it chooses.
func (s Selector[T]) Cost(cost func(T) int64) Selector[T] {
	if s.tiers == nil {
		return s
	}
	chosen := s.tiers
	s.tiers = func(payload T) []Tier {
		tiers := chosen(payload)
		if len(tiers) == 0 {
			return nil
		}
		units := cost(payload)
		for i := range tiers {
			tiers[i].Units = units
		}
		return tiers
	}
	return s
}

// When chooses as s does for the payloads of which pred is true, and none for
// the others.
func When[T any](pred func(T) bool, s Selector[T]) Selector[T] {
	return Switch(pred, map[bool]Selector[T]{true: s}, None[T]())
}

// Switch chooses by a tag of the payload: as the case of that tag does, or as
// otherwise does if there is no such case. (It has to be said what an unforeseen
// tag means: [None] lets it pass unlimited.)
func Switch[T any, K comparable](tag func(T) K, cases map[K]Selector[T], otherwise Selector[T]) Selector[T] {
	// The map is copied, and its policies put into an order that does not change
	// from run to run.
	arms := make(map[K]Selector[T], len(cases))
	var policies []Policy
	for k, s := range cases {
		arms[k] = s
		policies = append(policies, s.policies...)
	}
	sortByName(policies)
	return Selector[T]{
		tiers: func(payload T) []Tier {
			if s, ok := arms[tag(payload)]; ok {
				return s.Tiers(payload)
			}
			return otherwise.Tiers(payload)
		},
		policies: append(policies, otherwise.policies...),
	}
}

// All chooses the tiers of every selector: a payload must have room in all of
// them.
func All[T any](selectors ...Selector[T]) Selector[T] {
	selectors = slices.Clone(selectors)
	var policies []Policy
	for _, s := range selectors {
		policies = append(policies, s.policies...)
	}
	return Selector[T]{
		tiers: func(payload T) []Tier {
			var tiers []Tier
			for _, s := range selectors {
				tiers = append(tiers, s.Tiers(payload)...)
			}
			return tiers
		},
		policies: policies,
	}
}

// Tiers returns the tiers of a payload. The functions that the selector is made
// of are called here: one that panics does so here.
func (s Selector[T]) Tiers(payload T) []Tier {
	if s.tiers == nil {
		return nil
	}
	return s.tiers(payload)
}

// Policies returns all policies that the selector can choose, each once. The
// error is that of [NewSet]: a bad policy, or two of one name.
func (s Selector[T]) Policies() (Set, error) { return NewSet(s.policies...) }
