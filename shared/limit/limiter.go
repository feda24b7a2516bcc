package limit

import (
	"context"
	"time"
)

// An Acquirer admits requests. It is all that [Wait] and most callers need.
type Acquirer interface {
	// Acquire charges all tiers, or none of them and returns a [*Denied]. Tiers
	// of the same policy and key count as one with the summed cost; only the name
	// of a tier's policy matters, what is in force is what is registered under it.
	//
	// Other errors say nothing about the limit: [*InvalidRequestError] for what
	// [Merge] refuses, [ErrUnknownPolicy], and of limiters with a store
	// [ErrStoreBusy], [ErrStoreDown] and [ErrStoreDenied].
	Acquire(ctx context.Context, tiers ...Tier) (*Reservation, error)
}

// A Limiter decides about requests and lets operators intervene. [Memory] is one
// for a single process; others keep the state in a store or call a function that
// does. Limiters are safe for concurrent use.
type Limiter interface {
	Acquirer
	Operator

	// Inspect reads a policy and key, and how long until the tier's cost fits,
	// without changing anything.
	Inspect(ctx context.Context, t Tier) (Reading, error)
}

// An Operator intervenes: in what one key has left, or in a policy. The time that
// the verbs on a policy return is that by which the change is in force everywhere.
// An unregistered policy is an error that wraps [ErrUnknownPolicy].
type Operator interface {
	// Grant adds n units to a tier, up to full, or drains it by -n, down to
	// empty. The tier's own cost is of no account.
	Grant(ctx context.Context, t Tier, n int64) error

	// Hold lets nothing pass on a tier before a time, whatever it has: what an
	// answer 429 with Retry-After means. It only ever extends a hold, and leaves
	// the balance alone.
	Hold(ctx context.Context, t Tier, until time.Time) error

	// Release ends a hold.
	Release(ctx context.Context, t Tier) error

	// SetOverride replaces settings of a policy until cleared or expired. It
	// takes the place of an earlier override.
	SetOverride(ctx context.Context, policy string, o Override) (time.Time, error)

	// ClearOverride ends an override: back to what is declared.
	ClearOverride(ctx context.Context, policy, by string) (time.Time, error)

	// Reset makes every key of a policy fresh.
	Reset(ctx context.Context, policy, by string) (time.Time, error)

	// Policies returns the registry's entries, by name.
	Policies(ctx context.Context) ([]Entry, error)
}
