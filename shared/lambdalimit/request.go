package lambdalimit

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-dev/sluice/shared/limit"
)

// An Op is what a request asks for.
type Op string

// The operations, each named for the verb of [limit.Limiter] that it is.
const (
	OpAcquire       Op = "acquire"        // tiers, only, id
	OpSettle        Op = "settle"         // reservation, actual
	OpRefund        Op = "refund"         // reservation
	OpInspect       Op = "inspect"        // policy, key, cost
	OpGrant         Op = "grant"          // policy, key, amount
	OpHold          Op = "hold"           // policy, key, until or for_ms
	OpRelease       Op = "release"        // policy, key
	OpReset         Op = "reset"          // policy, by
	OpSetOverride   Op = "set_override"   // policy, max, refill, interval_ms, expires_at, by
	OpClearOverride Op = "clear_override" // policy, by
	OpPolicies      Op = "policies"
)

// Bounds of a request, besides those of package limit.
const (
	MaxIDBytes = 36  // of an id: a UUID fits
	MaxByRunes = 256 // of by, in characters
	MaxTiers   = limit.MaxItems * limit.MaxTiersPerItem
)

// A Request is one request to the function. Which members go with which Op is said
// there; a member that does not is refused.
type Request struct {
	Op Op `json:"op"`

	// ID names the operation, so that sending the request again does not charge
	// again. Letters, digits, '-' and '_', at most 36; a UUID is a good
	// one. Optional: without it a repeated request is a second request.
	ID string `json:"id,omitzero"`

	// Tiers are what the request falls under, 1 to MaxTiers.
	Tiers []Tier `json:"tiers,omitzero"`

	// Only restricts the request to the tiers of these policies.
	Only []string `json:"only,omitzero"`

	// Reservation is that of an earlier answer.
	Reservation string `json:"reservation,omitzero"`

	// Actual are the true costs of tiers of the reservation; the cost has to be
	// given. Tiers that are not listed stay as charged.
	Actual []Tier `json:"actual,omitzero"`

	Policy string `json:"policy,omitzero"`
	Key    string `json:"key,omitzero"`

	// Cost is what Inspect asks about. Defaults to 1.
	Cost *int64 `json:"cost,omitzero"`

	// Amount is what to grant, or if negative what to drain.
	Amount *int64 `json:"amount,omitzero"`

	// Until and ForMS say when a hold ends, one of the two: at a time, or so many
	// milliseconds from when the function reads it, at least 1.
	Until *time.Time `json:"until,omitzero"`
	ForMS *int64     `json:"for_ms,omitzero"`

	// Max, Refill and IntervalMS are the settings that an override replaces, at
	// least one of them, until ExpiresAt if that is given.
	Max        *int64     `json:"max,omitzero"`
	Refill     *int64     `json:"refill,omitzero"`
	IntervalMS *int64     `json:"interval_ms,omitzero"`
	ExpiresAt  *time.Time `json:"expires_at,omitzero"`

	// By says who it is, for the log of changes. At most 256 characters.
	By string `json:"by,omitzero"`
}

// A Tier is one policy and key, and a cost there.
type Tier struct {
	Policy string `json:"policy"`
	Key    string `json:"key,omitzero"`  // of a policy that is kept per key
	Cost   *int64 `json:"cost,omitzero"` // defaults to 1
}

// tier returns the tier by its policy's name, which is all that matters of it.
func (t Tier) tier() limit.Tier { return tierOf(t.Policy, t.Key, t.Cost) }

func tierOf(policy, key string, cost *int64) limit.Tier {
	t := limit.Policy{Name: policy}.Key(key)
	if cost != nil {
		t.Units = *cost
	}
	return t
}

// wireTiers is the reverse of Tier.tier, with every cost spelled out.
func wireTiers(tiers []limit.Tier) []Tier {
	wire := make([]Tier, len(tiers))
	for i, t := range tiers {
		wire[i] = Tier{Policy: t.Policy.Name, Key: t.Key, Cost: &t.Units}
	}
	return wire
}

// shape lists the members of an operation's request besides op.
type shape struct{ required, optional []string }

func (s shape) takes(member string) bool {
	return member == "op" || slices.Contains(s.required, member) || slices.Contains(s.optional, member)
}

var shapes = map[Op]shape{
	OpAcquire:       {required: []string{"tiers"}, optional: []string{"only", "id"}},
	OpSettle:        {required: []string{"reservation", "actual"}},
	OpRefund:        {required: []string{"reservation"}},
	OpInspect:       {required: []string{"policy"}, optional: []string{"key", "cost"}},
	OpGrant:         {required: []string{"policy", "amount"}, optional: []string{"key"}},
	OpHold:          {required: []string{"policy"}, optional: []string{"key", "until", "for_ms"}},
	OpRelease:       {required: []string{"policy"}, optional: []string{"key"}},
	OpReset:         {required: []string{"policy"}, optional: []string{"by"}},
	OpSetOverride:   {required: []string{"policy"}, optional: []string{"max", "refill", "interval_ms", "expires_at", "by"}},
	OpClearOverride: {required: []string{"policy"}, optional: []string{"by"}},
	OpPolicies:      {},
}

func opNames() string {
	return `"acquire", "settle", "refund", "inspect", "grant", "hold", "release", "reset", "set_override", "clear_override" or "policies"`
}

// check refuses what has its form but is out of range. Everything that the limiter
// itself checks is left to it, unless it would not name the member.
func (r *Request) check() error {
	if err := r.checkTiers(); err != nil {
		return err
	}
	switch {
	case !validID(r.ID):
		return badMember("id", "%.50q: want letters, digits, '-' and '_', at most %d", r.ID, MaxIDBytes)
	case utf8.RuneCountInString(r.By) > MaxByRunes:
		return badMember("by", "want at most %d characters", MaxByRunes)
	case r.Op == OpHold && (r.Until == nil) == (r.ForMS == nil):
		return badRequest("hold: give until, a time, or for_ms, milliseconds from now, one of the two")
	}
	for _, n := range []number{
		{"cost", r.Cost, 0, limit.MaxUnits},
		{"amount", r.Amount, -limit.MaxUnits, limit.MaxUnits},
		{"for_ms", r.ForMS, 1, limit.MaxPeriod.Milliseconds()},
	} {
		if problem := n.problem(); problem != "" {
			return badMember(n.member, "%s", problem)
		}
	}
	if r.Op == OpSetOverride {
		return r.checkOverride()
	}
	return checkKey("key", r.Key)
}

// checkOverride refuses what no policy can be set to. Like the limiter, which
// refuses what the policy at hand can't, it names every bad setting.
func (r *Request) checkOverride() error {
	bad := &limit.InvalidPolicyError{Policy: r.Policy}
	if r.Max == nil && r.Refill == nil && r.IntervalMS == nil {
		bad.Fields = append(bad.Fields, limit.FieldError{Field: "override", Problem: "set at least one of max, refill and interval_ms"})
	}
	for _, n := range []number{
		{"max", r.Max, 0, limit.MaxUnits},
		{"refill", r.Refill, 1, limit.MaxUnits},
		{"interval_ms", r.IntervalMS, 1, limit.MaxPeriod.Milliseconds()},
	} {
		if problem := n.problem(); problem != "" {
			bad.Fields = append(bad.Fields, limit.FieldError{Field: n.member, Problem: problem})
		}
	}
	if len(bad.Fields) == 0 {
		return nil
	}
	return errorOf(bad)
}

// number is a member that is a number, and its range.
type number struct {
	member      string
	value       *int64
	least, most int64
}

func (n number) problem() string {
	if n.value == nil || *n.value >= n.least && *n.value <= n.most {
		return ""
	}
	return fmt.Sprintf("%d: want %d to %d", *n.value, n.least, n.most)
}

func (r *Request) checkTiers() error {
	switch {
	case r.Op == OpAcquire && len(r.Tiers) == 0:
		return badMember("tiers", "want at least one")
	case len(r.Tiers) > MaxTiers:
		return badMember("tiers", "%d of them: want at most %d", len(r.Tiers), MaxTiers)
	case len(r.Actual) > MaxTiers:
		return badMember("actual", "%d of them: want at most %d", len(r.Actual), MaxTiers)
	case r.Only != nil && len(r.Only) == 0:
		return badMember("only", "name at least one policy, or leave it out for all tiers")
	}
	for i, t := range r.Tiers {
		if err := t.check(fmt.Sprintf("tiers[%d]", i)); err != nil {
			return err
		}
	}
	for i, t := range r.Actual {
		at := fmt.Sprintf("actual[%d]", i)
		if t.Cost == nil {
			return badMember(at+".cost", "is missing")
		}
		if err := t.check(at); err != nil {
			return err
		}
	}
	return nil
}

func (t Tier) check(at string) error {
	cost := number{at + ".cost", t.Cost, 0, limit.MaxUnits}
	switch problem := cost.problem(); {
	case t.Policy == "":
		return badMember(at+".policy", "is missing or empty")
	case problem != "":
		return badMember(cost.member, "%s", problem)
	}
	return checkKey(at+".key", t.Key)
}

func checkKey(member, key string) error {
	if len(key) > limit.MaxKeyBytes {
		return badMember(member, "has %d bytes: want at most %d, use a hash of it", len(key), limit.MaxKeyBytes)
	}
	return nil
}

func validID(id string) bool {
	return len(id) <= MaxIDBytes && strings.IndexFunc(id, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r != '-' && r != '_'
	}) < 0
}

// override returns the request's override.
func (r *Request) override() limit.Override {
	o := limit.Override{Max: r.Max, Refill: r.Refill, By: r.By}
	if r.IntervalMS != nil {
		o.Interval = new(time.Duration(*r.IntervalMS) * time.Millisecond)
	}
	if r.ExpiresAt != nil {
		o.Expires = *r.ExpiresAt
	}
	return o
}
