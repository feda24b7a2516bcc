package lambdalimit

import (
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
)

// answer is what a Client asks for.
type answer interface {
	// complete tells the answer from one that only lacks an error.
	complete() bool
}

func (d *Decision) complete() bool { return d.Admitted || len(d.Blocked) > 0 }
func (r *Reading) complete() bool  { return r.Policy != "" && r.Kind != "" }
func (d *Done) complete() bool     { return d.Done }
func (c *Change) complete() bool   { return !c.InForceAt.IsZero() }
func (l *Listing) complete() bool  { return l.Policies != nil }

// Decision answers acquire.
type Decision struct {
	Admitted bool `json:"admitted"`

	// Reservation stands for what was charged. Give it back with settle or refund
	// once the true cost is known; it may be kept and passed on like any text.
	Reservation string `json:"reservation,omitzero"`
	// Charged are the tiers with what they were charged: less than the cost where
	// a policy clamps.
	Charged []Tier `json:"charged,omitzero"`

	// Never, if denied, says that a tier can never admit its cost; if it is false
	// RetryAfterMS is how long to wait, at least 1.
	Never        *bool `json:"never,omitzero"`
	RetryAfterMS int64 `json:"retry_after_ms,omitzero"`
	// Blocked are the tiers in the way.
	Blocked []Blocked `json:"blocked,omitzero"`
}

// Blocked is a [limit.Blocked].
type Blocked struct {
	Policy    string        `json:"policy"`
	Key       string        `json:"key"`
	Cost      int64         `json:"cost"`
	Available int64         `json:"available"`
	Verdict   limit.Verdict `json:"verdict"`
	WaitMS    int64         `json:"wait_ms,omitzero"` // if the verdict is "later", at least 1
	Held      bool          `json:"held,omitzero"`
}

// Reading answers inspect: a [limit.Reading]. Times that do not apply are left out.
type Reading struct {
	Policy    string     `json:"policy"`
	Key       string     `json:"key"`
	Kind      limit.Kind `json:"kind"`
	Limit     int64      `json:"limit"`
	Available int64      `json:"available"`
	Used      int64      `json:"used"`
	ResetsAt  time.Time  `json:"resets_at,omitzero"`
	FullAt    time.Time  `json:"full_at,omitzero"`
	HeldUntil time.Time  `json:"held_until,omitzero"`
	Blocked   *Blocked   `json:"blocked,omitzero"`
}

// Done answers settle, refund, grant, hold and release.
type Done struct {
	Done bool `json:"done"` // true
}

// Change answers reset, set_override and clear_override.
type Change struct {
	InForceAt time.Time `json:"in_force_at"` // everywhere by then
}

// Listing answers policies.
type Listing struct {
	Policies []limit.Entry `json:"policies"` // by name
}

// Failure answers what could not be done.
type Failure struct {
	Error *Error `json:"error"`
}

func admitted(r *limit.Reservation) Decision {
	receipt := r.Receipt()
	d := Decision{Admitted: true, Reservation: encodeReceipt(receipt), Charged: make([]Tier, len(receipt.Charges))}
	for i, c := range receipt.Charges {
		d.Charged[i] = Tier{Policy: c.Policy, Key: c.Key, Cost: &c.Units}
	}
	return d
}

func denied(d *limit.Denied) Decision {
	answer := Decision{Never: &d.Never, RetryAfterMS: d.RetryAfter.Milliseconds(), Blocked: make([]Blocked, len(d.Blocked))}
	for i, b := range d.Blocked {
		answer.Blocked[i] = blockedOf(b)
	}
	return answer
}

func blockedOf(b limit.Blocked) Blocked {
	return Blocked{
		Policy: b.Policy, Key: b.Key, Cost: b.Cost, Available: b.Available,
		Verdict: b.Verdict, WaitMS: b.Wait.Milliseconds(), Held: b.Held,
	}
}

func (b Blocked) blocked() limit.Blocked {
	return limit.Blocked{
		Policy: b.Policy, Key: b.Key, Cost: b.Cost, Available: b.Available,
		Verdict: b.Verdict, Wait: time.Duration(b.WaitMS) * time.Millisecond, Held: b.Held,
	}
}

// denied is the reverse of the function denied.
func (d *Decision) denied() *limit.Denied {
	blocked := make([]limit.Blocked, len(d.Blocked))
	for i, b := range d.Blocked {
		blocked[i] = b.blocked()
	}
	return limit.NewDenied(blocked...)
}

func readingOf(r limit.Reading) Reading {
	answer := Reading{
		Policy: r.Policy, Key: r.Key, Kind: r.Kind, Limit: r.Limit, Available: r.Available, Used: r.Used,
		ResetsAt: r.ResetsAt, FullAt: r.FullAt, HeldUntil: r.HeldUntil,
	}
	if r.Blocked != nil {
		answer.Blocked = new(blockedOf(*r.Blocked))
	}
	return answer
}

func (r Reading) reading() limit.Reading {
	reading := limit.Reading{
		Policy: r.Policy, Key: r.Key, Kind: r.Kind, Limit: r.Limit, Available: r.Available, Used: r.Used,
		ResetsAt: r.ResetsAt, FullAt: r.FullAt, HeldUntil: r.HeldUntil,
	}
	if r.Blocked != nil {
		reading.Blocked = new(r.Blocked.blocked())
	}
	return reading
}
