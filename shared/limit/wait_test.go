package limit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
)

// counting counts the tries that reach a limiter, and hides that it tells of changes.
type counting struct {
	limit.Acquirer
	mu    sync.Mutex
	tries int
}

func (c *counting) Acquire(ctx context.Context, tiers ...limit.Tier) (*limit.Reservation, error) {
	c.mu.Lock()
	c.tries++
	c.mu.Unlock()
	return c.Acquirer.Acquire(ctx, tiers...)
}

func TestWaitSleepsExactlyUntilTheNextTry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := limit.Policy{Name: "p", Rate: limit.PerSecond(3)}
		c := &counting{Acquirer: newMemory(t, p)}
		start := time.Now()
		for i, want := range []time.Duration{0, 0, 0, 334 * time.Millisecond, 667 * time.Millisecond, time.Second} {
			if _, err := limit.Wait(t.Context(), c, p.Key("a")); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(start); got != want {
				t.Errorf("the call %d passes after %v, want %v", i, got, want)
			}
		}
		if c.tries != 9 {
			t.Errorf("%d tries, want 9: one for those who pass at once, two for the others", c.tries)
		}
	})
}

func TestWaitersPassInOrderAndOnlyTheFirstTries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := limit.Policy{Name: "p", Rate: limit.PerSecond(1)}
		c := &counting{Acquirer: newMemory(t, p)}
		var mu sync.Mutex
		var order []string
		var wg sync.WaitGroup
		start := time.Now()
		for i := range 32 {
			wg.Go(func() {
				if _, err := limit.Wait(t.Context(), c, p.Key("a")); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, fmt.Sprintf("%02d at %v", i, time.Since(start)))
			})
			synctest.Wait()
		}
		wg.Wait()
		if !slices.IsSorted(order[:10]) || order[9] != "09 at 9s" || order[31] != "31 at 31s" {
			t.Errorf("passed as %v", order)
		}
		if c.tries > 2*32 {
			t.Errorf("%d tries for 32 waiters, want at most two each", c.tries)
		}
	})
}

func TestWaitersOfOtherKeysAreNotHeldUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := limit.Policy{Name: "p", Rate: limit.PerHour(1)}
		m := newMemory(t, p)
		m.Allow(p.Key("a"))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := limit.Wait(ctx, m, p.Key("a")); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want the context's", err)
			}
		})
		synctest.Wait()
		start := time.Now()
		if _, err := limit.Wait(t.Context(), m, p.Key("b")); err != nil || time.Since(start) != 0 {
			t.Errorf("another key waits %v (%v)", time.Since(start), err)
		}
		if _, err := limit.Wait(t.Context(), m, p.Key("a").Cost(0)); err != nil || time.Since(start) != 0 {
			t.Errorf("a cost of 0 waits %v (%v)", time.Since(start), err)
		}
		cancel()
		wg.Wait()
	})
}

func TestWaitersThatGiveUpLetTheOthersMoveUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := limit.Policy{Name: "a", Rate: limit.PerSecond(1)}
		b := limit.Policy{Name: "b", Rate: limit.PerSecond(1)}
		m := newMemory(t, a, b)
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wait := func(ctx context.Context, want error, after time.Duration, tiers ...limit.Tier) {
			wg.Go(func() {
				if _, err := limit.Wait(ctx, m, tiers...); !errors.Is(err, want) || time.Since(start) != after {
					t.Errorf("%v: after %v with error %v, want after %v and %v", tiers, time.Since(start), err, after, want)
				}
			})
			synctest.Wait()
		}
		m.Allow(a.Key("k"), b.Key("k"))
		wait(ctx, context.Canceled, 500*time.Millisecond, a.Key("k"))             // first on a
		wait(ctx, context.Canceled, 500*time.Millisecond, a.Key("k"), b.Key("k")) // second on a, first on b
		wait(t.Context(), nil, time.Second, b.Key("k"))                           // second on b
		wait(t.Context(), nil, 2*time.Second, a.Key("k"), b.Key("k"))             // last on both
		time.Sleep(500 * time.Millisecond)
		cancel()
		wg.Wait()
	})
}

func TestWaitGivesUpWhenItIsInVain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := limit.Policy{Name: "p", Rate: limit.PerMinute(1)}
		m := newMemory(t, p)
		var denied *limit.Denied
		if _, err := limit.Wait(t.Context(), m, p.Key("a").Cost(2)); !errors.As(err, &denied) || !denied.Never {
			t.Errorf("error %v, want never", err)
		}
		m.Allow(p.Key("a"))
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute-time.Nanosecond)
		defer cancel()
		_, err := limit.Wait(ctx, m, p.Key("a"))
		if !errors.As(err, &denied) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 0 {
			t.Errorf("after %v error %v, want it at once: the deadline is too close", time.Since(start), err)
		}
		unknown := limit.Policy{Name: "unknown"}
		if _, err := limit.Wait(t.Context(), m, unknown.Key("a")); !errors.Is(err, limit.ErrUnknownPolicy) {
			t.Errorf("error %v, want ErrUnknownPolicy", err)
		}
	})
}

func TestOperatorsWakeWaiters(t *testing.T) {
	t.Parallel()
	p := limit.Policy{Name: "p", Manual: limit.ByOperator, Max: 1}
	for name, wake := range map[string]func(*testing.T, *limit.Memory, *limit.Reservation) error{
		"grant": func(t *testing.T, m *limit.Memory, _ *limit.Reservation) error {
			return m.Grant(t.Context(), p.Key("a"), 1)
		},
		"reset": func(t *testing.T, m *limit.Memory, _ *limit.Reservation) error {
			_, err := m.Reset(t.Context(), p.Name, "op")
			return err
		},
		"override": func(t *testing.T, m *limit.Memory, _ *limit.Reservation) error {
			_, err := m.SetOverride(t.Context(), p.Name, limit.Override{Max: new(int64(2))})
			return err
		},
		"refund": func(t *testing.T, _ *limit.Memory, r *limit.Reservation) error {
			return r.Refund(t.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(t, p)
				r, err := m.Acquire(t.Context(), p.Key("a"))
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				done := make(chan error)
				go func() {
					_, err := limit.Wait(t.Context(), m, p.Key("a"))
					done <- err
				}()
				time.Sleep(time.Second)
				if err := wake(t, m, r); err != nil {
					t.Fatal(err)
				}
				if err := <-done; err != nil || time.Since(start) != time.Second {
					t.Errorf("passes after %v (%v), want at once", time.Since(start), err)
				}
			})
		})
	}
}

func TestReleaseWakesWaiters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := bucket(1, time.Second)
		m := newMemory(t, p)
		start := time.Now()
		if err := m.Hold(t.Context(), p.Key("a"), start.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, func() {
			if err := m.Release(context.Background(), p.Key("a")); err != nil {
				t.Error(err)
			}
		})
		if _, err := limit.Wait(t.Context(), m, p.Key("a")); err != nil || time.Since(start) != time.Minute {
			t.Errorf("passes after %v (%v), want a minute", time.Since(start), err)
		}
	})
}

func TestWhoGivesUpBehindOthersLetsNobodyPast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := limit.Policy{Name: "a", Rate: limit.PerHour(1)}
		b := limit.Policy{Name: "b", Rate: limit.PerHour(1)}
		m := newMemory(t, a, b)
		m.Allow(a.Key("k"), b.Key("k"))
		c := &counting{Acquirer: m}
		ctx, cancel := context.WithCancel(t.Context())
		last, giveUp := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wait := func(ctx context.Context, tiers ...limit.Tier) {
			wg.Go(func() {
				if _, err := limit.Wait(ctx, c, tiers...); !errors.Is(err, context.Canceled) {
					t.Errorf("error %v, want the context's", err)
				}
			})
			synctest.Wait()
		}
		wait(ctx, a.Key("k"))             // the only one to try
		wait(ctx, a.Key("k"), b.Key("k")) // first on b, but second on a
		wait(last, b.Key("k"))            // second on b
		giveUp()
		synctest.Wait()
		if c.tries != 1 {
			t.Errorf("%d tries, want 1", c.tries)
		}
		cancel()
		wg.Wait()
	})
}
