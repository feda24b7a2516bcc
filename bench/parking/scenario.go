package main

import (
	"math/rand/v2"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
)

// A scenario is a crowd of tasks that is submitted at once under one key.
type scenario struct {
	name     string
	tasks    int
	policies []limit.Policy
	rules    []rule // the same policies, as the oracle sees them
}

// A rule allows tokens per interval, and at most so many at once.
type rule struct {
	tokens   int64
	interval int64 // milliseconds
	burst    int64
}

func bucket(name string, tokens int64, interval time.Duration, burst int64) (limit.Policy, rule) {
	return limit.Policy{Name: name, Group: "bench", Rate: limit.Per(tokens, interval), Max: burst},
		rule{tokens: tokens, interval: interval.Milliseconds(), burst: burst}
}

func scenarios() []scenario {
	return []scenario{
		newScenario("10ps", 10_000, []int64{10, 1000, 10}),
		newScenario("1ps", 1_000, []int64{1, 1000, 1}),
		newScenario("100pm", 5_000, []int64{100, 60_000, 100}),
		newScenario("1000pd", 5_000, []int64{1000, 86_400_000, 1000}),
		newScenario("two", 1_000, []int64{1, 1000, 1}, []int64{30, 60_000, 30}),
		newScenario("200ps", 50_000, []int64{200, 1000, 200}),
	}
}

func newScenario(name string, tasks int, tiers ...[]int64) scenario {
	s := scenario{name: name, tasks: tasks}
	for i, t := range tiers {
		p, r := bucket(string(rune('a'+i)), t[0], time.Duration(t[1])*time.Millisecond, t[2])
		s.policies = append(s.policies, p)
		s.rules = append(s.rules, r)
	}
	return s
}

// ideal returns the least time, in milliseconds, in which the rules allow all tasks.
func (s scenario) ideal() int64 {
	var most int64
	for _, r := range s.rules {
		missing := int64(s.tasks) - r.burst
		most = max(most, (missing*r.interval+r.tokens-1)/r.tokens)
	}
	return most
}

// A lateness says how late the scheduler delivers what was asked for a second.
type lateness struct {
	name string
	draw func(r *rand.Rand, seed uint64, asked int64) int64
}

func latenesses() []lateness {
	return []lateness{
		{"uniform60", func(r *rand.Rand, _ uint64, _ int64) int64 { return r.Int64N(60_000) }},
		{"punctual", func(r *rand.Rand, _ uint64, _ int64) int64 { return r.Int64N(2_000) }},
		{"correlated", correlated},
	}
}

// correlated delivers all of a minute late by the same time and up to two seconds; one
// minute of a hundred is five minutes late.
func correlated(r *rand.Rand, seed uint64, asked int64) int64 {
	minute := rand.New(rand.NewPCG(seed, uint64(asked/60_000))) //nolint:gosec // a simulation is to be repeatable
	late := minute.Int64N(60_000)
	if minute.IntN(100) == 0 {
		late = 300_000
	}
	return late + r.Int64N(2_000)
}
