package dynamolimit_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

// machine is the limiter on DynamoDB beside the pure model in memory. Two callers with
// memories of their own stand for any number of processes.
type machine struct {
	now      time.Time
	cloud    *cloud.Cloud
	callers  []*dynamolimit.Limiter
	model    *limit.Memory
	policies []limit.Policy
	release  int64
	open     []*limit.Reservation
	last     string // how a reservation was settled last
	changed  bool   // whether the registry was
	steps    *atomic.Int64
	expired  *atomic.Int64
}

// untimely is a testing.TB for the helpers, with the life of a rapid check.
type untimely struct {
	*testing.T

	rapid *rapid.T
}

func (u untimely) Cleanup(f func())         { u.rapid.Cleanup(f) }
func (u untimely) Context() context.Context { return context.Background() }

func newMachine(t *testing.T, r *rapid.T, steps, expired *atomic.Int64) *machine {
	m := &machine{now: time.Date(2027, 3, 27, 22, 0, 0, 0, time.UTC), steps: steps, expired: expired, release: 1}
	clock := func() time.Time { return m.now }
	o := at(clock)
	o.DynamoDB.NoItemOnFailure = rapid.Bool().Draw(r, "untold")
	m.cloud = newCloud(untimely{t, r}, o)
	m.policies = []limit.Policy{
		{Name: "rate", Group: "g", Rate: limit.PerSecond(rapid.Int64Range(1, 20).Draw(r, "rate")), Burst: 5},
		{Name: "per.minute", Group: "g", Window: limit.Every(time.Minute), Max: 12},
		{Name: "session", Group: "g", Window: limit.FromFirstUse(time.Hour), Max: 30},
		{Name: "day-in-paris", Window: limit.Days("Europe/Paris"), Max: 40, OverMax: limit.Clamp},
		{Name: "credit", Window: limit.Window{}, Manual: limit.ByOperator, Max: 50},
		{Name: "big", Rate: limit.Per(limit.MaxUnits, limit.MaxPeriod)},
	}
	for i := range 2 {
		m.callers = append(m.callers, newLimiter(m.cloud, fmt.Sprintf("caller-%d", i), unhurried(dynamolimit.WithClock(clock), dynamolimit.WithCacheFor(0))...))
	}
	var err error
	if m.model, err = limit.NewMemory(); err != nil {
		t.Fatal(err)
	}
	m.model.WithClock(clock)
	m.declare(r)
	return m
}

func (m *machine) caller(t *rapid.T) *dynamolimit.Limiter {
	return m.callers[rapid.IntRange(0, len(m.callers)-1).Draw(t, "caller")]
}

// same fails unless both errors say the same.
func same(t *rapid.T, what string, ours, theirs error) {
	t.Helper()
	var a, b *limit.Denied
	if errors.As(ours, &a) && errors.As(theirs, &b) {
		if !slices.Equal(a.Blocked, b.Blocked) || a.RetryAfter != b.RetryAfter || a.Never != b.Never {
			t.Fatalf("%s: denied\n%+v, the model\n%+v", what, a, b)
		}
		return
	}
	if (ours == nil) != (theirs == nil) || ours != nil && reflect.TypeOf(ours) != reflect.TypeOf(theirs) {
		t.Fatalf("%s: error %v, the model %v", what, ours, theirs)
	}
}

func (m *machine) tier(t *rapid.T) limit.Tier {
	p := rapid.SampledFrom(m.policies).Draw(t, "policy")
	most := int64(8)
	if p.Name == "big" {
		most = limit.MaxUnits
	}
	return p.Key(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")).Cost(rapid.OneOf(rapid.Int64Range(0, 8), rapid.Int64Range(0, most), rapid.Int64Range(0, 60)).Draw(t, "cost"))
}

func (m *machine) acquire(t *rapid.T) {
	tiers := make([]limit.Tier, rapid.IntRange(1, 5).Draw(t, "tiers"))
	for i := range tiers {
		tiers[i] = m.tier(t)
	}
	r, err := m.caller(t).Acquire(context.Background(), tiers...)
	_, want := m.model.AcquireAt(m.now, tiers...)
	same(t, fmt.Sprintf("acquire %v", tiers), err, want)
	if err == nil {
		m.open = append(m.open, r)
	}
}

// settle closes a reservation; the model settles by the same receipt, which after a
// transaction knows less than one of its own would.
func (m *machine) settle(t *rapid.T) {
	if len(m.open) == 0 {
		t.Skip("nothing is open")
	}
	i := rapid.IntRange(0, len(m.open)-1).Draw(t, "reservation")
	receipt := m.open[i].Receipt()
	m.open = slices.Delete(m.open, i, i+1)
	var actual []limit.Tier
	var closings []limit.Closing
	for _, c := range receipt.Charges {
		n := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 10)).Draw(t, "actual")
		actual = append(actual, limit.Policy{Name: c.Policy}.Key(c.Key).Cost(n))
		if n != c.Units {
			closings = append(closings, limit.Closing{Charge: c, Actual: n})
		}
	}
	m.last = fmt.Sprintf("settled %+v as %v", receipt, actual)
	who := m.caller(t)
	for range rapid.IntRange(1, 2).Draw(t, "times") {
		err := limit.NewReservation(receipt, who).Settle(context.Background(), actual...)
		same(t, "settle", err, nil)
	}
	if len(closings) > 0 {
		same(t, "settle", nil, m.model.Settle(context.Background(), receipt.ID, closings, m.now))
	}
}

func (m *machine) grant(t *rapid.T) {
	tier, n := m.tier(t), rapid.Int64Range(-20, 20).Draw(t, "n")
	same(t, "grant", m.caller(t).Grant(context.Background(), tier, n), m.model.GrantAt(m.now, tier, n))
}

func (m *machine) hold(t *rapid.T) {
	tier, until := m.tier(t), m.now.Add(time.Duration(rapid.Int64Range(-1000, 100_000).Draw(t, "hold"))*time.Millisecond)
	same(t, "hold", m.caller(t).Hold(context.Background(), tier, until), m.model.Hold(context.Background(), tier, until))
}

func (m *machine) release_(t *rapid.T) {
	tier := m.tier(t)
	same(t, "release", m.caller(t).Release(context.Background(), tier), m.model.Release(context.Background(), tier))
}

func (m *machine) override(t *rapid.T) {
	m.changed = true
	p := rapid.SampledFrom(m.policies).Draw(t, "policy")
	o := limit.Override{Max: new(rapid.SampledFrom([]int64{0, 3, 10, 25, 100}).Draw(t, "max"))}
	if rapid.Bool().Draw(t, "rated") && p.Kind() == limit.Bucket {
		o.Refill = new(rapid.Int64Range(1, 30).Draw(t, "refill"))
	}
	if rapid.Bool().Draw(t, "expires") {
		o.Expires = m.now.Add(time.Duration(rapid.IntRange(1, 120).Draw(t, "seconds")) * time.Second)
	}
	_, ours := m.caller(t).SetOverride(context.Background(), p.Name, o)
	_, theirs := m.model.SetOverrideAt(m.now, p.Name, o)
	same(t, "override", ours, theirs)
}

func (m *machine) clear(t *rapid.T) {
	m.changed = true
	p := rapid.SampledFrom(m.policies).Draw(t, "policy")
	_, ours := m.caller(t).ClearOverride(context.Background(), p.Name, "op")
	_, theirs := m.model.ClearOverrideAt(m.now, p.Name, "op")
	same(t, "clear", ours, theirs)
}

func (m *machine) reset(t *rapid.T) {
	m.changed = true
	p := rapid.SampledFrom(m.policies).Draw(t, "policy")
	_, ours := m.caller(t).Reset(context.Background(), p.Name, "op")
	_, theirs := m.model.ResetAt(m.now, p.Name, "op")
	same(t, "reset", ours, theirs)
}

func (m *machine) declare(t *rapid.T) {
	same(t, "declare", m.caller(t).Declare(context.Background(), m.release, m.policies...), m.model.DeclareAt(m.now, m.release, m.policies...))
}

// deploy declares a policy differently, and for some of the time as another kind.
func (m *machine) deploy(t *rapid.T) {
	m.changed = true
	i := rapid.IntRange(0, 4).Draw(t, "which")
	p := &m.policies[i]
	switch change := rapid.SampledFrom([]string{"max", "kind", "again", "older"}).Draw(t, "change"); change {
	case "max":
		p.Max = rapid.Int64Range(1, 60).Draw(t, "max")
	case "kind":
		*p = limit.Policy{Name: p.Name, Group: p.Group, Window: limit.Every(10 * time.Second), Max: 9}
	case "older":
		other := *p
		other.Max++
		same(t, "deploy an older release", m.caller(t).Declare(context.Background(), m.release-1, other), m.model.DeclareAt(m.now, m.release-1, other))
		return
	}
	m.release++
	m.declare(t)
}

func (m *machine) pass(t *rapid.T) {
	ms := rapid.OneOf(
		rapid.Int64Range(-500, 3000), rapid.Int64Range(0, 120_000), rapid.Int64Range(0, 30*3600_000), rapid.Int64Range(0, 200*24*3600_000),
	).Draw(t, "pause")
	m.now = m.now.Add(time.Duration(ms) * time.Millisecond)
	// DynamoDB deletes what has expired, at once.
	m.expired.Add(int64(m.cloud.DynamoDB().ExpireNow()))
}

func (m *machine) check(t *rapid.T) {
	m.steps.Add(1)
	for i, p := range m.policies {
		if i%3 != int(m.steps.Load()%3) {
			continue // each one every third time
		}
		tier := p.Key("a").Cost(rapid.Int64Range(0, 9).Draw(t, "asked"))
		ours, err := m.caller(t).Inspect(context.Background(), tier)
		theirs, want := m.model.InspectAt(m.now, tier)
		if err != nil || want != nil || !reflect.DeepEqual(ours, theirs) {
			t.Fatalf("%s\ninspect %v: %+v (%v, %v),\nthe model %+v (%v, %v)", m.last, tier, ours, ours.Blocked, err, theirs, theirs.Blocked, want)
		}
	}
	if !m.changed {
		return
	}
	m.changed = false
	if got, want := m.entries(t), m.modelEntries(t); got != want {
		t.Fatalf("the registry holds\n%s\nthe model\n%s", got, want)
	}
}

func (m *machine) entries(t *rapid.T) string {
	entries, err := m.caller(t).Policies(context.Background())
	return showEntries(t, entries, err)
}

func (m *machine) modelEntries(t *rapid.T) string {
	entries, err := m.model.Policies(context.Background())
	return showEntries(t, entries, err)
}

func showEntries(t *rapid.T, entries []limit.Entry, err error) string {
	if err != nil {
		t.Fatal(err)
	}
	var s strings.Builder
	for _, e := range entries {
		document, err := e.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		s.Write(document)
		s.WriteByte('\n')
	}
	return s.String()
}

func TestAgreesWithTheModel(t *testing.T) {
	t.Parallel()
	var histories, steps, expired atomic.Int64
	rapid.Check(t, func(r *rapid.T) {
		histories.Add(1)
		m := newMachine(t, r, &steps, &expired)
		r.Repeat(map[string]func(*rapid.T){
			"acquire": m.acquire, "acquire again": m.acquire, "acquire once more": m.acquire, "settle": m.settle, "settle another": m.settle,
			"grant": m.grant, "hold": m.hold, "release": m.release_, "override": m.override, "clear": m.clear, "reset": m.reset,
			"deploy": m.deploy, "pass": m.pass, "pass again": m.pass, "": m.check,
		})
	})
	t.Logf("figure rapid_steps against=model histories=%d expired_items=%d = %d", histories.Load(), expired.Load(), steps.Load())
}
