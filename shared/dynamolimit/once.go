package dynamolimit

import (
	"context"
	"slices"

	"github.com/sluice-dev/sluice/shared/limit"
)

// AcquireOnce is Acquire for a request that may come a second time, to this process or
// another: one that was admitted under the id before is admitted again and charged
// nothing, whatever its tiers have left, as long as one of its items remembers the id. An
// item remembers its last eight writes; a request that comes after more is charged again.
//
// When the first one was charged is not known, and with it how much of that has
// refilled. So the reservation of a repeated request can be settled at more, and gives
// nothing back.
//
// The id is any text that does not come twice by accident, such as a UUID; every write
// pays for its length.
func (l *Limiter) AcquireOnce(ctx context.Context, id string, tiers ...limit.Tier) (*limit.Reservation, error) {
	return l.acquire(ctx, id, true, tiers)
}

// remembered reports whether an item tells that the request was carried out.
func (a *acquisition) remembered(known []view) bool {
	return slices.ContainsFunc(known, func(v view) bool { return v.item.remembers(a.id) })
}

// repeated returns the reservation of a request that was carried out before. Its charges
// are of no era, of which nothing can be given back.
func (a *acquisition) repeated() *limit.Reservation {
	charges := make([]limit.Charge, len(a.tiers))
	for i, t := range a.tiers {
		charges[i] = limit.Charge{Policy: t.Policy.Name, Key: t.Key, Units: t.Units}
		if d := t.meter.Decide(limit.State{}, t.Units, a.l.clock.now()); d.Admitted {
			charges[i].Units = d.Charge.Units // less, if clamped
		}
	}
	return limit.NewReservation(limit.Receipt{ID: a.id, Charges: charges}, a.l)
}
