package limit

import (
	"time"

	"github.com/go-json-experiment/json"
)

// Answers in JSON are what a limiter that is called as a function sends. Unlike
// declarations they are read leniently: an older client understands a newer limiter.

type blockedJSON struct {
	Policy    string  `json:"policy"`
	Key       string  `json:"key"`
	Cost      int64   `json:"cost"`
	Available int64   `json:"available"`
	Verdict   Verdict `json:"verdict"`
	WaitMS    int64   `json:"wait_ms,omitzero"`
	Held      bool    `json:"held,omitzero"`
}

// MarshalJSON writes the tier with its wait in milliseconds.
func (b Blocked) MarshalJSON() ([]byte, error) {
	return json.Marshal(blockedJSON{b.Policy, b.Key, b.Cost, b.Available, b.Verdict, b.Wait.Milliseconds(), b.Held})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (b *Blocked) UnmarshalJSON(data []byte) error {
	var w blockedJSON
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*b = Blocked{w.Policy, w.Key, w.Cost, w.Available, w.Verdict, milliseconds(w.WaitMS), w.Held}
	return nil
}

type deniedJSON struct {
	Blocked      []Blocked `json:"blocked"`
	RetryAfterMS int64     `json:"retry_after_ms,omitzero"`
	Never        bool      `json:"never,omitzero"`
}

// MarshalJSON writes the denial with RetryAfter in milliseconds.
func (d *Denied) MarshalJSON() ([]byte, error) {
	return json.Marshal(deniedJSON{d.Blocked, d.RetryAfter.Milliseconds(), d.Never})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (d *Denied) UnmarshalJSON(data []byte) error {
	var w deniedJSON
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*d = Denied{w.Blocked, milliseconds(w.RetryAfterMS), w.Never}
	return nil
}

type readingJSON struct {
	Policy    string    `json:"policy"`
	Key       string    `json:"key"`
	Kind      Kind      `json:"kind"`
	Limit     int64     `json:"limit"`
	Available int64     `json:"available"`
	Used      int64     `json:"used"`
	ResetsAt  time.Time `json:"resets_at,omitzero"`
	FullAt    time.Time `json:"full_at,omitzero"`
	HeldUntil time.Time `json:"held_until,omitzero"`
	Blocked   *Blocked  `json:"blocked,omitzero"`
}

// MarshalJSON writes the reading; times that do not apply are left out.
func (r Reading) MarshalJSON() ([]byte, error) { return json.Marshal(readingJSON(r)) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Reading) UnmarshalJSON(data []byte) error {
	var w readingJSON
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*r = Reading(w)
	return nil
}
