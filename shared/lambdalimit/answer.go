package lambdalimit

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

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
	Blocked []limit.Blocked `json:"blocked,omitzero"`
}

// Reading answers inspect.
type Reading struct {
	limit.Reading

	// Parked is how many throttled tasks wait for their turn on the key, under any policy
	// of the group; nil if the limiter does not know.
	Parked *int64
}

// MarshalJSON writes the reading with one more member.
func (r Reading) MarshalJSON() ([]byte, error) {
	doc, err := json.Marshal(r.Reading)
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		Reading jsontext.Value `json:",embed"`
		Parked  *int64         `json:"parked,omitzero"`
	}{doc, r.Parked})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Reading) UnmarshalJSON(data []byte) error {
	var w struct {
		Parked *int64 `json:"parked"`
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	r.Parked = w.Parked
	return json.Unmarshal(data, &r.Reading)
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

// Admitted returns the answer of an admitted request.
func Admitted(r *limit.Reservation) Decision {
	receipt := r.Receipt()
	d := Decision{Admitted: true, Reservation: encodeReceipt(receipt), Charged: make([]Tier, len(receipt.Charges))}
	for i, c := range receipt.Charges {
		d.Charged[i] = Tier{Policy: c.Policy, Key: c.Key, Cost: &c.Units}
	}
	return d
}

// Denied returns the answer of a denied request.
func Denied(d *limit.Denied) Decision {
	return Decision{Never: &d.Never, RetryAfterMS: d.RetryAfter.Milliseconds(), Blocked: d.Blocked}
}
