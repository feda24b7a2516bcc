// Package limittest is the conformance suite of limiters: what every [limit.Limiter]
// does, wherever it keeps its state. A test of an implementation is
//
//	func TestConformance(t *testing.T) {
//		limittest.Suite{Start: start}.Run(t)
//	}
package limittest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
)

// A Subject is a limiter under test.
type Subject struct {
	limit.Limiter

	// Declare registers policies at a release, as a deployment does.
	Declare func(ctx context.Context, release int64, policies ...limit.Policy) error

	// ResetDue performs the resets of manual policies that are due. Optional: nil
	// for a limiter that does so by itself.
	ResetDue func(ctx context.Context) error
}

// A Suite says how to get at subjects.
type Suite struct {
	// Start returns a limiter that takes its time from clock. It is called once per
	// test, so that tests share nothing but, where Prefix is set, the store.
	Start func(t *testing.T, clock func() time.Time) Subject

	// RealTime says that the limiter can't take its time from Start's clock, as one
	// in another process can't. The tests that move time are skipped then.
	RealTime bool

	// Prefix is put before the names of all policies; give a fresh one to each run
	// over a store that outlives it. Lower-case letters and digits, at most 20.
	Prefix string
}

// Run runs all tests of the suite, in parallel.
func (s Suite) Run(t *testing.T) {
	t.Helper()
	for _, group := range []map[string]func(*bundle){behaviors, operations, cases} {
		for name, test := range group {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(s.bundle(t))
			})
		}
	}
}

// start is the time at which tests begin: a Monday, far enough ahead for nothing to
// expire meanwhile.
var start = time.Date(2100, time.January, 4, 0, 0, 0, 0, time.UTC)

// A bundle is what one test works with.
type bundle struct {
	*testing.T
	Subject

	suite   Suite
	settler limit.Settler
	now     atomic.Int64 // Unix milliseconds, of a clock that can be moved
	named   string
}

// tests numbers the tests of this process, to name policies apart.
var tests atomic.Int64

func (s Suite) bundle(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{T: t, suite: s, named: fmt.Sprintf("%st%d-", s.Prefix, tests.Add(1))}
	b.now.Store(start.UnixMilli())
	b.Subject = s.Start(t, b.clock)
	settler, ok := b.Limiter.(limit.Settler)
	if !ok {
		t.Fatalf("%T is no limit.Settler: its reservations can't be closed by their receipts", b.Limiter)
	}
	b.settler = settler
	return b
}

func (b *bundle) clock() time.Time {
	if b.suite.RealTime {
		return time.Now()
	}
	return time.UnixMilli(b.now.Load()).UTC()
}

// at moves the clock to so many seconds after the start, or skips the rest of the
// test where it can't be moved.
func (b *bundle) at(seconds float64) {
	b.Helper()
	b.moveTo(after(seconds))
}

func (b *bundle) moveTo(t time.Time) {
	b.Helper()
	if b.suite.RealTime {
		b.Skip("not run: this limiter's time can't be moved")
	}
	b.now.Store(t.UnixMilli())
}

// after returns the time so many seconds after the start, to the millisecond.
func after(seconds float64) time.Time {
	return start.Add(time.Duration(seconds*1000) * time.Millisecond)
}

// declare registers policies under names of their own and returns them.
func (b *bundle) declare(policies ...limit.Policy) []limit.Policy {
	b.Helper()
	named := make([]limit.Policy, len(policies))
	for i, p := range policies {
		p.Name = b.named + p.Name
		if p.Group != "" {
			p.Group = b.named + p.Group
		}
		named[i] = p
	}
	b.deploy(0, named...)
	return named
}

func (b *bundle) one(p limit.Policy) limit.Policy {
	b.Helper()
	return b.declare(p)[0]
}

// deploy registers policies, which have their names already, at a release.
func (b *bundle) deploy(release int64, policies ...limit.Policy) {
	b.Helper()
	if err := b.Declare(b.Context(), release, policies...); err != nil {
		b.Fatal(err)
	}
}

func (b *bundle) acquire(tiers ...limit.Tier) *limit.Reservation {
	b.Helper()
	r, err := b.Acquire(b.Context(), tiers...)
	if err != nil {
		b.Fatalf("at %v: %v", b.clock(), err)
	}
	return r
}

// try reports whether a request is admitted.
func (b *bundle) try(tiers ...limit.Tier) bool {
	b.Helper()
	_, err := b.Acquire(b.Context(), tiers...)
	return b.denial(err) == nil
}

// refuse makes a request that is to be denied.
func (b *bundle) refuse(tiers ...limit.Tier) *limit.Denied {
	b.Helper()
	_, err := b.Acquire(b.Context(), tiers...)
	d := b.denial(err)
	if d == nil {
		b.Fatalf("at %v: %v admitted, want a denial", b.clock(), tiers)
	}
	return d
}

// denial returns the Denied of an error, nil if there was none, and fails the test on
// any other error.
func (b *bundle) denial(err error) *limit.Denied {
	b.Helper()
	var denied *limit.Denied
	if err != nil && !errors.As(err, &denied) {
		b.Fatalf("error %v, want a denial or none", err)
	}
	return denied
}

func (b *bundle) inspect(t limit.Tier) limit.Reading {
	b.Helper()
	r, err := b.Inspect(b.Context(), t)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func (b *bundle) wantAvailable(t limit.Tier, want int64) {
	b.Helper()
	if r := b.inspect(t); r.Available != want {
		b.Errorf("at %v: %d available on %v, want %d", b.clock(), r.Available, t, want)
	}
}

func (b *bundle) wantUsed(t limit.Tier, want int64) {
	b.Helper()
	if r := b.inspect(t); r.Used != want {
		b.Errorf("at %v: %d used on %v, want %d", b.clock(), r.Used, t, want)
	}
}

func (b *bundle) refund(r *limit.Reservation) {
	b.Helper()
	if err := r.Refund(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func (b *bundle) settle(r *limit.Reservation, actual ...limit.Tier) {
	b.Helper()
	if err := r.Settle(b.Context(), actual...); err != nil {
		b.Fatal(err)
	}
}

func (b *bundle) grant(t limit.Tier, n int64) {
	b.Helper()
	if err := b.Grant(b.Context(), t, n); err != nil {
		b.Fatal(err)
	}
}

func (b *bundle) override(p limit.Policy, o limit.Override) {
	b.Helper()
	inForce, err := b.SetOverride(b.Context(), p.Name, o)
	if err != nil {
		b.Fatal(err)
	}
	if inForce.Before(b.clock().Truncate(time.Millisecond)) || inForce.After(b.clock().Add(limit.CacheFor+time.Second)) {
		b.Errorf("the override is in force by %v, now it is %v", inForce, b.clock())
	}
}

func (b *bundle) clearOverride(p limit.Policy) {
	b.Helper()
	if _, err := b.ClearOverride(b.Context(), p.Name, "op"); err != nil {
		b.Fatal(err)
	}
}

func (b *bundle) reset(p limit.Policy) {
	b.Helper()
	if _, err := b.Reset(b.Context(), p.Name, "op"); err != nil {
		b.Fatal(err)
	}
}

// together runs a function in n goroutines at once and returns how many times it
// reported true.
func together(n int, f func(i int) bool) int {
	var wg sync.WaitGroup
	var count atomic.Int64
	for i := range n {
		wg.Go(func() {
			if f(i) {
				count.Add(1)
			}
		})
	}
	wg.Wait()
	return int(count.Load())
}

// every is a window of fixed length with a boundary at the start.
func every(d time.Duration) limit.Window { return limit.Every(d).From(start) }

func bucket(n int64, d time.Duration) limit.Policy {
	return limit.Policy{Name: "bucket", Rate: limit.Per(n, d)}
}
