package limit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Memory is a [Limiter] for one process, which it loses its state with. Every verb
// has a twin that takes the time, of which tests and simulations can be made
// without waiting.
//
//	m, err := limit.NewMemory(Requests, Tokens)
//	if m.Allow(Requests.Key("acme")) { … }
type Memory struct {
	clock func() time.Time

	mu      sync.Mutex
	meters  map[string]*registered // by policy name
	states  map[place]stored
	sweepAt int           // number of states at which the fresh ones are forgotten
	changed chan struct{} // closed at the next change that may let waiters in
}

// registered is a policy of a Memory.
type registered struct {
	entry   Entry
	meter   *Meter
	resetAt int64 // when its cron resets it next
}

type place struct{ policy, key string }

type stored struct {
	State
	written int64
}

var _ Limiter = (*Memory)(nil)

// NewMemory returns a limiter of the policies. The error is that of [NewSet].
func NewMemory(policies ...Policy) (*Memory, error) {
	set, err := NewSet(policies...)
	if err != nil {
		return nil, err
	}
	m := &Memory{
		clock:   time.Now,
		meters:  make(map[string]*registered, len(policies)),
		states:  make(map[place]stored),
		sweepAt: minSweep,
		changed: make(chan struct{}),
	}
	for _, p := range set.Policies() {
		e, _, err := Register(nil, p, 0, "", time.Time{})
		if err != nil {
			return nil, err
		}
		if err := m.put(e); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// WithClock has the limiter take the time from now instead of [time.Now]. It is to
// be called before the limiter is used.
func (m *Memory) WithClock(now func() time.Time) *Memory {
	m.clock = now
	return m
}

// Declare registers policies at a release, as a deployment does: see [Register].
// Those given to NewMemory have release 0.
func (m *Memory) Declare(release int64, policies ...Policy) error {
	return m.DeclareAt(m.clock(), release, policies...)
}

// DeclareAt is Declare at a time.
func (m *Memory) DeclareAt(at time.Time, release int64, policies ...Policy) error {
	set, err := NewSet(policies...)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var entries []Entry
	for _, p := range set.policies {
		var old *Entry
		if known, ok := m.meters[p.Name]; ok {
			old = &known.entry
		}
		e, _, err := Register(old, p, release, "", at)
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	for _, e := range entries {
		if err := m.put(e); err != nil {
			return err
		}
	}
	m.wake()
	return nil
}

// Allow reports whether all tiers admit a request, and charges them if so. Callers
// who want to know why not, or to settle, use Acquire.
func (m *Memory) Allow(tiers ...Tier) bool { return m.AllowAt(m.clock(), tiers...) }

// AllowAt is Allow at a time.
func (m *Memory) AllowAt(at time.Time, tiers ...Tier) bool {
	_, err := m.AcquireAt(at, tiers...)
	return err == nil
}

// Acquire implements [Acquirer].
func (m *Memory) Acquire(ctx context.Context, tiers ...Tier) (*Reservation, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return m.AcquireAt(m.clock(), tiers...)
}

// AcquireAt is Acquire at a time.
func (m *Memory) AcquireAt(at time.Time, tiers ...Tier) (*Reservation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	meters, tiers, err := m.resolve(tiers, at)
	if err != nil {
		return nil, err
	}
	decisions := make([]Decision, len(tiers))
	var blocked []Blocked
	for i, t := range tiers {
		decisions[i] = meters[i].Decide(m.state(t), t.Units, at)
		if d := &decisions[i]; !d.Admitted {
			d.Blocked.Key = t.Key
			blocked = append(blocked, d.Blocked)
		}
	}
	if len(blocked) > 0 {
		return nil, NewDenied(blocked...)
	}
	charges := make([]Charge, len(tiers))
	for i, t := range tiers {
		charges[i] = decisions[i].Charge
		charges[i].Key = t.Key
		if t.Units > 0 {
			m.store(t, decisions[i].Next, at)
		}
	}
	return NewReservation(Receipt{Charges: charges}, m), nil
}

// Settle implements [Settler].
func (m *Memory) Settle(_ context.Context, _ string, closings []Closing, at time.Time) error {
	if at.IsZero() {
		at = m.clock()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range closings {
		t := Policy{Name: c.Charge.Policy}.Key(c.Charge.Key)
		meter, err := m.meter(t.Policy.Name, at)
		if err != nil {
			return err
		}
		next, _ := meter.Settle(m.state(t), c.Charge, c.Actual, at)
		m.store(t, next, at)
	}
	m.wake()
	return nil
}

// Inspect implements [Limiter].
func (m *Memory) Inspect(_ context.Context, t Tier) (Reading, error) {
	return m.InspectAt(m.clock(), t)
}

// InspectAt is Inspect at a time.
func (m *Memory) InspectAt(at time.Time, t Tier) (Reading, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	meters, tiers, err := m.resolve([]Tier{t}, at)
	if err != nil {
		return Reading{}, err
	}
	r, _ := meters[0].Inspect(m.state(t), tiers[0].Units, at)
	r.Key = t.Key
	if r.Blocked != nil {
		r.Blocked.Key = t.Key
	}
	return r, nil
}

// Grant implements [Operator].
func (m *Memory) Grant(_ context.Context, t Tier, n int64) error {
	return m.GrantAt(m.clock(), t, n)
}

// GrantAt is Grant at a time.
func (m *Memory) GrantAt(at time.Time, t Tier, n int64) error {
	if n < -MaxUnits || n > MaxUnits {
		return invalid("a grant of %d on %v: want at most %d either way", n, t, MaxUnits)
	}
	return m.update(t, at, func(meter *Meter, s State) State {
		next, _ := meter.Grant(s, n, at)
		return next
	})
}

// Hold implements [Operator].
func (m *Memory) Hold(_ context.Context, t Tier, until time.Time) error {
	return m.HoldAt(m.clock(), t, until)
}

// HoldAt is Hold at a time.
func (m *Memory) HoldAt(at time.Time, t Tier, until time.Time) error {
	return m.update(t, at, func(_ *Meter, s State) State { return s.HoldUntil(until) })
}

// Release implements [Operator].
func (m *Memory) Release(_ context.Context, t Tier) error {
	return m.ReleaseAt(m.clock(), t)
}

// ReleaseAt is Release at a time.
func (m *Memory) ReleaseAt(at time.Time, t Tier) error {
	return m.update(t, at, func(_ *Meter, s State) State { return s.Released() })
}

// SetOverride implements [Operator].
func (m *Memory) SetOverride(_ context.Context, policy string, o Override) (time.Time, error) {
	return m.SetOverrideAt(m.clock(), policy, o)
}

// SetOverrideAt is SetOverride at a time.
func (m *Memory) SetOverrideAt(at time.Time, policy string, o Override) (time.Time, error) {
	return m.amend(policy, at, func(e Entry) (Entry, error) { return e.SetOverride(o, at) })
}

// ClearOverride implements [Operator].
func (m *Memory) ClearOverride(_ context.Context, policy, by string) (time.Time, error) {
	return m.ClearOverrideAt(m.clock(), policy, by)
}

// ClearOverrideAt is ClearOverride at a time.
func (m *Memory) ClearOverrideAt(at time.Time, policy, by string) (time.Time, error) {
	return m.amend(policy, at, func(e Entry) (Entry, error) { return e.ClearOverride(by, at), nil })
}

// Reset implements [Operator].
func (m *Memory) Reset(_ context.Context, policy, by string) (time.Time, error) {
	return m.ResetAt(m.clock(), policy, by)
}

// ResetAt is Reset at a time.
func (m *Memory) ResetAt(at time.Time, policy, by string) (time.Time, error) {
	return m.amend(policy, at, func(e Entry) (Entry, error) { return e.Reset(by, at), nil })
}

// Policies implements [Operator].
func (m *Memory) Policies(context.Context) ([]Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entries := make([]Entry, 0, len(m.meters))
	for _, name := range slices.Sorted(maps.Keys(m.meters)) {
		entries = append(entries, m.meters[name].entry)
	}
	return entries, nil
}

// Changed returns a channel that is closed when something else than the passing of
// time may have let a request in: a grant, a settled reservation, the end of a hold,
// a changed or reset policy. [Wait] wakes by it.
func (m *Memory) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// The rest runs under m.mu.

func (m *Memory) wake() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// put replaces the registry's entry of a policy.
func (m *Memory) put(e Entry) error {
	meter, err := NewMeter(e)
	if err != nil {
		return err
	}
	m.meters[e.Policy.Name] = &registered{entry: e, meter: meter}
	return nil
}

// meter returns a policy's meter after the resets that are due. There is no one
// else to perform them.
func (m *Memory) meter(name string, at time.Time) (*Meter, error) {
	r, ok := m.meters[name]
	if !ok {
		return nil, fmt.Errorf("%w %q: it was not given to this limiter", ErrUnknownPolicy, name)
	}
	if r.meter.resets == nil || millis(at) < r.resetAt {
		return r.meter, nil
	}
	current := r.meter.resets.at(millis(at))
	switch e, due := r.entry.ResetDue("cron", at); {
	case r.entry.ResetAt.IsZero(): // the policy's first use: nothing to reset yet
		e = r.entry
		e.ResetAt = timeOf(current.start)
		fallthrough
	case due:
		if err := m.put(e); err != nil {
			return nil, err
		}
	}
	r = m.meters[name]
	r.resetAt = current.end
	return r.meter, nil
}

// resolve checks the tiers of a request and finds their meters.
func (m *Memory) resolve(tiers []Tier, at time.Time) ([]*Meter, []Tier, error) {
	named := make([]Tier, len(tiers))
	for i, t := range tiers {
		meter, err := m.meter(t.Policy.Name, at)
		if err != nil {
			return nil, nil, err
		}
		named[i] = Tier{Policy: meter.policy, Key: t.Key, Units: t.Units}
	}
	merged, err := Merge(named)
	if err != nil {
		return nil, nil, err
	}
	meters := make([]*Meter, len(merged))
	for i, t := range merged {
		meters[i] = m.meters[t.Policy.Name].meter
	}
	return meters, merged, nil
}

func (m *Memory) state(t Tier) State { return m.states[place{t.Policy.Name, t.Key}].State }

func (m *Memory) store(t Tier, s State, at time.Time) {
	m.states[place{t.Policy.Name, t.Key}] = stored{State: s, written: millis(at)}
	if len(m.states) >= m.sweepAt {
		m.sweep(millis(at))
	}
}

// minSweep is the number of states below which none is forgotten.
const minSweep = 1024

// sweep forgets the states that equal a fresh one. It runs when their number has
// doubled, which spreads its cost over the writes.
func (m *Memory) sweep(now int64) {
	for p, s := range m.states {
		if fresh, ok := m.meters[p.policy].meter.freshAt(s.State, s.written); ok && fresh <= now {
			delete(m.states, p)
		}
	}
	m.sweepAt = max(minSweep, 2*len(m.states))
}

// update changes the state of one tier.
func (m *Memory) update(t Tier, at time.Time, next func(*Meter, State) State) error {
	if err := CheckKey(t.Key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	meter, err := m.meter(t.Policy.Name, at)
	if err != nil {
		return err
	}
	m.store(t, next(meter, m.state(t)), at)
	m.wake()
	return nil
}

// amend changes the registry's entry of one policy.
func (m *Memory) amend(policy string, at time.Time, next func(Entry) (Entry, error)) (time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.meter(policy, at); err != nil {
		return time.Time{}, err
	}
	e, err := next(m.meters[policy].entry)
	if err != nil {
		return time.Time{}, err
	}
	if err := m.put(e); err != nil {
		return time.Time{}, err
	}
	m.wake()
	return at, nil
}
