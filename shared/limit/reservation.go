package limit

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A Reservation is an admitted request: what it was charged, until the actual
// cost is known. It is closed once, by Settle or Refund; one that is never closed
// stands as charged. A Reservation is safe for concurrent use.
type Reservation struct {
	id      string
	charges []Charge
	settler Settler

	mu     sync.Mutex
	closed bool
}

// A Settler closes charges in the store that took them: the part of a limiter that
// its reservations call back.
type Settler interface {
	// Settle settles the charges of the reservation id, all in one step. A
	// repeated call with the same id must not settle twice. The time is zero for
	// the settler's own clock.
	Settle(ctx context.Context, id string, closings []Closing, at time.Time) error
}

// A Closing is a charge and its actual cost.
type Closing struct {
	Charge Charge `json:"charge"`
	Actual int64  `json:"actual"`
}

// NewReservation returns an open reservation of charges taken by a limiter. Limiters
// call it, and programs that continue one from a stored [Receipt].
func NewReservation(r Receipt, s Settler) *Reservation {
	return &Reservation{id: r.ID, charges: r.Charges, settler: s}
}

// A Receipt is a reservation as plain data, for handing it to another process.
type Receipt struct {
	ID      string   `json:"id,omitzero"`
	Charges []Charge `json:"charges"`
}

// Receipt returns the reservation as plain data.
func (r *Reservation) Receipt() Receipt {
	return Receipt{ID: r.id, Charges: slices.Clone(r.charges)}
}

// Settle closes the reservation at the actual costs of the tiers given; tiers not
// given stay as charged. An actual cost is the Units of its tier, 0 to MaxUnits:
//
//	r.Settle(ctx, Tokens.Key("acme").Cost(answer.TokensUsed))
//
// What was charged too much is given back as far as it has not refilled in the
// meantime, and not at all once its window or generation is over, since it would
// be minted. (When a bucket is nearly full and others settle at the same time, a
// little less may come back; never more.) What was charged too little is charged
// now and may put the key into debt, so that those who come next wait longer.
//
// Settling a closed reservation does nothing. A tier that is not part of the
// reservation is an [*InvalidRequestError], and leaves it open, as does an error of
// the store.
func (r *Reservation) Settle(ctx context.Context, actual ...Tier) error {
	return r.SettleAt(ctx, time.Time{}, actual...)
}

// SettleAt is Settle at a time.
func (r *Reservation) SettleAt(ctx context.Context, at time.Time, actual ...Tier) error {
	closings := make([]Closing, 0, len(actual))
	for _, t := range actual {
		i := slices.IndexFunc(r.charges, func(c Charge) bool { return c.Policy == t.Policy.Name && c.Key == t.Key })
		if i < 0 {
			return invalid("settle: %v is not part of the reservation", t)
		}
		if err := checkUnits("an actual cost of", t, t.Units); err != nil {
			return err
		}
		if slices.ContainsFunc(closings, func(c Closing) bool { return c.Charge == r.charges[i] }) {
			return invalid("settle: %v is given twice", t)
		}
		closings = append(closings, Closing{Charge: r.charges[i], Actual: t.Units})
	}
	return r.close(ctx, closings, at)
}

// Refund closes the reservation at no cost at all: Settle with every tier at 0.
func (r *Reservation) Refund(ctx context.Context) error {
	return r.RefundAt(ctx, time.Time{})
}

// RefundAt is Refund at a time.
func (r *Reservation) RefundAt(ctx context.Context, at time.Time) error {
	closings := make([]Closing, len(r.charges))
	for i, c := range r.charges {
		closings[i] = Closing{Charge: c}
	}
	return r.close(ctx, closings, at)
}

func (r *Reservation) close(ctx context.Context, closings []Closing, at time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	closings = slices.DeleteFunc(closings, func(c Closing) bool { return c.Actual == c.Charge.Units })
	if len(closings) > 0 {
		if err := r.settler.Settle(ctx, r.id, closings, at); err != nil {
			return err
		}
	}
	r.closed = true
	return nil
}
