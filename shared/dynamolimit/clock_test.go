package dynamolimit_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

// A caller far off neither mints nor blocks the others: it is put right by the first
// answer, before it writes.
func TestAClockFarOffIsCorrectedByTheService(t *testing.T) {
	t.Parallel()
	for name, off := range map[string]time.Duration{"an hour ahead": time.Hour, "a day behind": -24 * time.Hour, "3 s ahead": 3 * time.Second, "3 s behind": -3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newTable(t, cloud.Options{Latency: map[cloud.Service]time.Duration{cloud.DynamoDB: 10 * time.Millisecond}})
				defer c.Close()
				p := limit.Policy{Name: "p", Rate: limit.PerMinute(60)}
				good := newLimiter(c, "good", dynamolimit.WithPolicies(1, p))
				wrong := newLimiter(c, "wrong", dynamolimit.WithClock(func() time.Time { return time.Now().Add(off) }))
				acquired(t, good, p.Key("k").Cost(60))
				denied(t, wrong, p.Key("k").Cost(3))
				time.Sleep(30 * time.Second)
				acquired(t, wrong, p.Key("k").Cost(25))
				denied(t, wrong, p.Key("k").Cost(10))
				d := denied(t, good, p.Key("k").Cost(20))
				if d.RetryAfter < 12*time.Second || d.RetryAfter > 17*time.Second {
					t.Errorf("retry after %v, want about 15s", d.RetryAfter)
				}
			})
		})
	}
}

func TestASmallDifferenceIsLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTable(t, cloud.Options{})
		defer c.Close()
		p := limit.Policy{Name: "p", Window: limit.FromFirstUse(time.Hour), Max: 10}
		for _, off := range []time.Duration{900 * time.Millisecond, -900 * time.Millisecond} {
			clock := func() time.Time { return time.Now().Add(off) }
			l := newLimiter(c, "limiter", dynamolimit.WithPolicies(1, p), dynamolimit.WithClock(clock))
			key := p.Key(off.String())
			acquired(t, l, key)
			r, err := l.Inspect(t.Context(), key)
			if err != nil || !r.ResetsAt.Equal(clock().Add(time.Hour).Truncate(time.Millisecond)) {
				t.Errorf("resets at %v (%v), want by the caller's own clock", r.ResetsAt, err)
			}
		}
	})
}

// An invocation that is frozen while a request is under way must not take the time in
// between for a difference of clocks; one whose clock jumps must.
func TestAClockThatJumpsIsCorrectedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTable(t, cloud.Options{})
		defer c.Close()
		var off atomic.Int64
		p := limit.Policy{Name: "p", Rate: limit.PerMinute(60)}
		l := newLimiter(c, "limiter", dynamolimit.WithPolicies(1, p), dynamolimit.WithClock(func() time.Time { return time.Now().Add(time.Duration(off.Load())) }))
		acquired(t, l, p.Key("k").Cost(60))
		off.Store(int64(time.Hour))
		denied(t, l, p.Key("k").Cost(30)) // its copy of the registry has expired: the service is asked first
		off.Store(0)
		denied(t, l, p.Key("k").Cost(30))
		time.Sleep(31 * time.Second)
		acquired(t, l, p.Key("k").Cost(30))
	})
}

// Two clocks a second apart, within what is not corrected: over any length of time the
// bucket admits no more than what refills in that second on top.
func TestSkewAddsNoMoreThanItsOwnLength(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTable(t, cloud.Options{})
		defer c.Close()
		p := limit.Policy{Name: "p", Rate: limit.PerSecond(10), Max: 5}
		var l [2]*dynamolimit.Limiter
		for i, off := range []time.Duration{-500 * time.Millisecond, 500 * time.Millisecond} {
			l[i] = newLimiter(c, "limiter", dynamolimit.WithPolicies(1, p), dynamolimit.WithClock(func() time.Time { return time.Now().Add(off) }))
		}
		admitted := 0
		start := time.Now()
		for time.Since(start) < 15*time.Second {
			for _, one := range l {
				if _, err := one.Acquire(t.Context(), p.Key("k")); err == nil {
					admitted++
				}
			}
			time.Sleep(33 * time.Millisecond)
		}
		if most := 5 + 10*16; admitted > most || admitted < 145 {
			t.Errorf("%d admitted in 15 s, want at most %d", admitted, most)
		}
	})
}
