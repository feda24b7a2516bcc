package dynamolimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/sluice-dev/sluice/shared/limit"
)

// Limiter keeps its state in a table of DynamoDB. Use [New]. It makes no request
// before it is used, is safe for concurrent use, and is to be shared: what it
// remembers of the items it has seen saves requests.
type Limiter struct {
	api     API
	table   string
	clock   clock
	views   views
	doubts  doubts
	patient patience

	// concurrency is that of the function whose tasks wait for their turn, 0 for unknown.
	concurrency int

	registry registry
}

var _ limit.Limiter = (*Limiter)(nil)

// An Option adjusts a [Limiter].
type Option func(*Limiter)

// WithPolicies declares policies at a release (see [limit.Register]): they are
// registered when the limiter is first used. A policy that can't be registered
// makes requests for it fail, not others. Tiers of policies that others have
// registered need no declaration.
func WithPolicies(release int64, policies ...limit.Policy) Option {
	return func(l *Limiter) {
		for _, p := range policies {
			l.registry.declared = append(l.registry.declared, declaration{p, release})
		}
	}
}

// WithClock has the limiter take the time from now. Defaults to [time.Now].
func WithClock(now func() time.Time) Option {
	return func(l *Limiter) { l.clock.local = now }
}

// WithTrustedClock has the clock never be corrected by that of the service.
func WithTrustedClock() Option {
	return func(l *Limiter) { l.clock.trusted = true }
}

// WithCacheFor sets how long a copy of the registry is used: at most, and by default,
// [limit.CacheFor]. 0 or less reads it for every request.
func WithCacheFor(d time.Duration) Option {
	return func(l *Limiter) { l.registry.cacheFor = min(d, limit.CacheFor) }
}

// WithDeadline sets how long a call lasts at most whose context has no deadline.
// Defaults to [DefaultDeadline].
func WithDeadline(d time.Duration) Option {
	return func(l *Limiter) { l.patient.deadline = d }
}

// WithAttemptTimeout sets how long the answer to one request is waited for, before
// it counts as lost and is sent again. Defaults to [DefaultAttemptTimeout].
func WithAttemptTimeout(d time.Duration) Option {
	return func(l *Limiter) { l.patient.attempt = d }
}

// WithJitter sets where random waits between tries come from: a number from 0 to
// below 1. Defaults to [rand.Float64].
func WithJitter(random func() float64) Option {
	return func(l *Limiter) { l.patient.random = random }
}

// WithLog sets where trouble with the store is logged. Defaults to [slog.Default].
func WithLog(log *slog.Logger) Option {
	return func(l *Limiter) { l.clock.log = log }
}

// Defaults of the options.
const (
	DefaultDeadline       = 10 * time.Second
	DefaultAttemptTimeout = 2 * time.Second
)

// New returns the limiter of a table (see [Table]). Requests are sent again by the
// limiter, not by the SDK.
func New(api API, table string, options ...Option) *Limiter {
	l := &Limiter{
		api:     api,
		table:   table,
		clock:   clock{local: time.Now},
		patient: patience{deadline: DefaultDeadline, attempt: DefaultAttemptTimeout, random: rand.Float64},
	}
	l.registry.cacheFor = limit.CacheFor
	l.registry.turn = make(chan struct{}, 1)
	for _, option := range options {
		option(l)
	}
	if l.clock.log == nil {
		l.clock.log = slog.Default()
	}
	return l
}

// TableVariable is the environment variable that names the limiter's table.
const TableVariable = "SLUICE_TABLE"

// FromEnvironment returns the limiter of the table that the environment names in
// SLUICE_TABLE.
func FromEnvironment(config aws.Config, getenv func(string) string, options ...Option) (*Limiter, error) {
	table := getenv(TableVariable)
	if table == "" {
		return nil, fmt.Errorf("%s is not set: name the limiter's DynamoDB table in it", TableVariable)
	}
	return New(dynamodb.NewFromConfig(config), table, options...), nil
}

// Table returns the name of the limiter's table.
func (l *Limiter) Table() string { return l.table }

// A tier is one of a request, with the meter of its policy in force.
type tier struct {
	limit.Tier

	meter *limit.Meter
	place place
}

// resolve checks the tiers of a request and finds their meters.
func (l *Limiter) resolve(ctx context.Context, tiers []limit.Tier) ([]tier, error) {
	if len(tiers) == 0 {
		return nil, nil
	}
	names := make([]string, len(tiers))
	for i, t := range tiers {
		names[i] = t.Policy.Name
	}
	registry, err := l.policies(ctx, names...)
	if err != nil {
		return nil, err
	}
	meters := make(map[string]*limit.Meter, len(tiers))
	named := make([]limit.Tier, len(tiers))
	for i, t := range tiers {
		m, err := registry.meter(names[i])
		if err != nil {
			return nil, err
		}
		meters[names[i]] = m
		named[i] = limit.Tier{Policy: m.Policy(), Key: t.Key, Units: t.Units}
	}
	merged, err := limit.Merge(named)
	if err != nil {
		return nil, err
	}
	resolved := make([]tier, len(merged))
	for i, t := range merged {
		resolved[i] = tier{t, meters[t.Policy.Name], place{t.Policy.Group, t.Key}}
	}
	return resolved, nil
}

// placesOf returns the places of the tiers, each once, in their order.
func placesOf(tiers []tier) []place {
	var places []place
	seen := map[place]bool{}
	for _, t := range tiers {
		if !seen[t.place] {
			seen[t.place] = true
			places = append(places, t.place)
		}
	}
	return places
}

// storeError wraps an error of the store as the errors of package limit.
func storeError(kind error, doing string, cause error) error {
	if cause == nil || errors.Is(cause, kind) {
		return fmt.Errorf("%w: %s", kind, doing)
	}
	return fmt.Errorf("%w: %s: %w", kind, doing, cause)
}
