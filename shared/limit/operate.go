package limit

import "time"

// Grant adds n units to a State, up to full, or drains it by -n, down to empty.
// A debt is reduced by a grant and not changed by a drain. n is at most MaxUnits
// either way. stale is as in [Meter.Settle].
func (m *Meter) Grant(s State, n int64, at time.Time) (next State, stale bool) {
	v := m.view(s, millis(at))
	switch {
	case v.stale:
		return s, true
	case n > 0:
		if level := v.lowered(v.units(n)); level != v.level {
			return v.lower(level), false
		}
	case n < 0:
		level := smaller(v.level.add(v.units(-n)), v.line.ceiling)
		if v.level.less(level) {
			return v.at(level), false
		}
	}
	return s, false
}

// HoldUntil returns the State held until t: nothing passes before, whatever is
// available. An earlier t than that of a hold in place changes nothing.
func (s State) HoldUntil(t time.Time) State {
	s.Hold = max(s.Hold, millisUp(t))
	return s
}

// Released returns the State without a hold.
func (s State) Released() State {
	s.Hold = 0
	return s
}

// A Reading is what a policy and key have at a time.
type Reading struct {
	Policy string
	Key    string
	Kind   Kind

	Limit     int64 // the capacity in force, 0 while paused
	Available int64 // whole units, not below 0
	Used      int64 // above Limit in debt

	// ResetsAt is when the window ends or the manual policy's cron resets it.
	// Zero for buckets, for manual policies without a cron, and for windows from
	// first use before there is one.
	ResetsAt time.Time

	// FullAt is when a bucket is full again if nothing more is taken: the time of
	// the reading if it is. Zero for the other kinds.
	FullAt time.Time

	// HeldUntil is the end of a hold in place, else zero.
	HeldUntil time.Time

	// Blocked says what is in the way of the cost that was asked about, and for
	// how long. It is nil if the cost would be admitted.
	Blocked *Blocked
}

// Inspect reads a State at a time, and whether a cost would be admitted. stale
// is as in [Meter.Settle].
func (m *Meter) Inspect(s State, cost int64, at time.Time) (r Reading, stale bool) {
	now := millis(at)
	v := m.view(s, now)
	if v.stale {
		return Reading{}, true
	}
	r = Reading{
		Policy:    m.policy.Name,
		Kind:      v.seg.Kind,
		Limit:     v.force.Max,
		Available: v.available(),
		Used:      v.level.sub(v.line.floor).quotientUp(v.seg.unit),
	}
	if s.Hold > now {
		r.HeldUntil = time.UnixMilli(s.Hold).UTC()
	}
	switch v.seg.Kind {
	case Bucket:
		r.FullAt = timeOf(max(v.fullAt(), now))
	case FixedWindow:
		if v.seg.calendar != nil || v.level != v.line.floor || v.line.window.start < now {
			r.ResetsAt = timeOf(v.line.window.end)
		}
	case ManualReset:
		if m.resets != nil {
			r.ResetsAt = timeOf(m.resets.at(now).end)
		}
	}
	if d := m.Decide(s, cost, at); !d.Admitted {
		r.Blocked = &d.Blocked
	}
	return r, false
}

// timeOf returns the time of ms, at most the last of the year 9999.
func timeOf(ms int64) time.Time { return time.UnixMilli(min(ms, horizon)).UTC() }

// fullAt returns the first time at which the floor of a bucket has caught up.
func (v *view) fullAt() int64 { return v.level.quotientUp(v.seg.rate) }

// spareTTL is how long a State is kept beyond the time it equals a fresh one.
const spareTTL = 30 * 24 * time.Hour

// Expiry returns the time from which a store may forget a State written now, and
// false if it never may: the longest that the policy takes to be fresh again,
// rounded up to whole days, plus 30 days. So it is the same nearly all day long,
// and no clock that is off by less than a month forgets use. An item of several
// states keeps the latest of their expiries, and one it already has if that is
// later. (A policy slowed down by more than 30 days' refill while a key is in use
// is the one case in which expiring early could forget some of that use.)
func (m *Meter) Expiry(s State, at time.Time) (time.Time, bool) {
	fresh, ok := m.freshAt(s, millis(at))
	const dayMillis = day * 1000
	fresh += (dayMillis - fresh%dayMillis) % dayMillis
	if !ok || fresh > horizon {
		return time.Time{}, false
	}
	return time.UnixMilli(fresh).Add(spareTTL).UTC(), true
}

// freshAt returns the time from which a State written at now is as good as a
// fresh one, also to the charges that are yet to be settled, and false if there is
// no such time.
func (m *Meter) freshAt(s State, now int64) (int64, bool) {
	v := m.view(s, now)
	fresh := max(now, v.hold)
	switch v.seg.Kind {
	case Bucket:
		refill := v.units(v.seg.Max).quotientUp(v.seg.rate)
		return max(fresh, v.fullAt(), now+refill), true
	case FixedWindow:
		return max(fresh, v.line.window.end), true
	default:
		return fresh, s.Era == 0 || s.Era < m.reset
	}
}
