package limit_test

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-dev/sluice/shared/limit"
)

// An oracle is another account of what a policy allows. It shares no code with the
// limiter and works the other way round: it keeps the history of one key and, for
// every question, goes through all of it again in exact fractions. A charge that was
// settled lower is rewritten where it happened, as if it had never been higher.
type oracle struct {
	events []event
}

type event struct {
	at    int64    // milliseconds
	units *big.Rat // charged; negative: granted; nil: none
	terms *terms
}

// terms are the settings from an event on.
type terms struct {
	refill, interval, max int64
}

func (o *oracle) add(e event) int {
	o.events = append(o.events, e)
	return len(o.events) - 1
}

// balance returns what a bucket has at a time.
func (o *oracle) balance(now int64) *big.Rat {
	var at int64
	var current terms
	balance, capacity := new(big.Rat), new(big.Rat)
	pass := func(to int64) {
		if current.interval == 0 || balance.Cmp(capacity) >= 0 {
			return
		}
		drip := new(big.Rat).SetFrac(big.NewInt(current.refill), big.NewInt(current.interval))
		balance.Add(balance, drip.Mul(drip, whole(to-at)))
		if balance.Cmp(capacity) > 0 {
			balance.Set(capacity)
		}
	}
	for _, e := range o.events {
		pass(e.at)
		at = e.at
		if e.terms != nil {
			full := balance.Cmp(capacity) == 0
			current = *e.terms
			capacity = whole(current.max)
			if full || balance.Cmp(capacity) > 0 {
				balance.Set(capacity)
			}
		}
		if e.units != nil {
			balance.Sub(balance, e.units)
		}
		if balance.Cmp(capacity) > 0 {
			balance.Set(capacity)
		}
	}
	pass(now)
	return balance
}

func whole(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func floorUnits(r *big.Rat) int64 {
	if r.Sign() <= 0 {
		return 0
	}
	return new(big.Int).Div(r.Num(), r.Denom()).Int64()
}

func atLeast(r *big.Rat, n int64) bool { return r.Cmp(whole(n)) >= 0 }

// magnitudes draws small numbers, where the edges are, and numbers of every size.
func magnitudes(high int64) *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64Range(1, min(13, high)), rapid.Int64Range(1, min(1000, high)), rapid.Int64Range(1, high))
}

func drawTerms(t *rapid.T) terms {
	if rapid.Bool().Draw(t, "small") {
		return terms{
			refill:   rapid.Int64Range(1, 3).Draw(t, "refill"),
			interval: 1000,
			max:      rapid.Int64Range(1, 12).Draw(t, "max"),
		}
	}
	return terms{
		refill:   magnitudes(1<<40).Draw(t, "refill"),
		interval: rapid.SampledFrom([]int64{1, 7, 100, 1000, 60_000, 86_400_000, 36525 * 86_400_000}).Draw(t, "interval"),
		max:      magnitudes(1<<40).Draw(t, "max"),
	}
}

// drawPause draws a time to pass: often none, often about the time of one token, sometimes long.
func drawPause(t *rapid.T, c terms) int64 {
	token := c.interval/c.refill + 1
	return rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 3), rapid.Int64Range(0, 4*min(token, 1<<40)), rapid.Int64Range(0, 1<<32)).Draw(t, "pause")
}

// Without refunds and changes a bucket is exact: what it has, whom it admits, and to
// the millisecond for how long it sends the others away.
func TestBucketIsExact(t *testing.T) {
	t.Parallel()
	steps := 0
	rapid.Check(t, func(t *rapid.T) {
		c := drawTerms(t)
		p := limit.Policy{Name: "p", Rate: limit.Per(c.refill, time.Duration(c.interval)*time.Millisecond), Max: c.max}
		m := newMemory(t, p)
		o := &oracle{}
		now := rapid.Int64Range(0, 1<<41).Draw(t, "start")
		o.add(event{at: 0, terms: &c})
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			steps++
			now += drawPause(t, c)
			exactStep(t, m, p, o, now, c)
		}
	})
	t.Logf("figure property_steps of=buckets = %d", steps)
}

func exactStep(t *rapid.T, m *limit.Memory, p limit.Policy, o *oracle, now int64, c terms) {
	at, tier := time.UnixMilli(now), p.Key("k")
	balance := o.balance(now)
	if r, _ := m.InspectAt(at, tier); r.Available != floorUnits(balance) {
		t.Fatalf("available %d, the oracle says %v", r.Available, balance)
	}
	n := magnitudes(c.max).Draw(t, "units")
	switch rapid.SampledFrom([]string{"acquire", "acquire", "acquire", "overspend", "grant", "drain"}).Draw(t, "verb") {
	case "acquire":
		_, err := m.AcquireAt(at, tier.Cost(n))
		denied := denial(t, err)
		if admitted := denied == nil; admitted != atLeast(balance, n) {
			t.Fatalf("cost %d: admitted %v, the oracle has %v", n, admitted, balance)
		} else if admitted {
			o.add(event{at: now, units: whole(n)})
			return
		}
		checkWait(t, o, now, n, denied.RetryAfter)
	case "overspend":
		if r, err := m.AcquireAt(at, tier); err == nil {
			if err := r.SettleAt(t.Context(), at, tier.Cost(n)); err != nil {
				t.Fatal(err)
			}
			o.add(event{at: now, units: whole(n)})
		}
	case "grant":
		if err := m.GrantAt(at, tier, n); err != nil {
			t.Fatal(err)
		}
		o.add(event{at: now, units: whole(-n)})
	case "drain":
		if err := m.GrantAt(at, tier, -n); err != nil {
			t.Fatal(err)
		}
		o.add(event{at: now, units: drained(balance, n)})
	}
}

// drained returns what draining n takes from a balance.
func drained(balance *big.Rat, n int64) *big.Rat {
	switch {
	case balance.Sign() <= 0:
		return new(big.Rat)
	case atLeast(balance, n):
		return whole(n)
	default:
		return balance
	}
}

// checkWait checks that a cost refused now fits when the wait is over, and not a
// millisecond sooner.
func checkWait(t *rapid.T, o *oracle, now, cost int64, wait time.Duration) {
	if wait <= 0 || wait%time.Millisecond != 0 {
		t.Fatalf("a wait of %v", wait)
	}
	if wait > limit.MaxPeriod*2 { // the longest there is, not to the millisecond
		return
	}
	then := now + wait.Milliseconds()
	if b := o.balance(then); !atLeast(b, cost) {
		t.Fatalf("cost %d after %v: the oracle has only %v", cost, wait, b)
	}
	if b := o.balance(then - 1); atLeast(b, cost) {
		t.Fatalf("cost %d a millisecond before %v: the oracle has %v already", cost, wait, b)
	}
}

// Whatever is refunded, settled, drained and changed, in whatever order: nobody is
// admitted who would not have been, had every charge been right from the beginning.
// And what changes of settings may lose is a fraction of a token each.
func TestNothingMints(t *testing.T) {
	t.Parallel()
	steps := 0
	rapid.Check(t, func(t *rapid.T) {
		c := drawTerms(t)
		c.max = min(c.max, 1<<20)
		p := limit.Policy{Name: "p", Rate: limit.Per(c.refill, time.Duration(c.interval)*time.Millisecond), Max: c.max}
		h := &history{m: newMemory(t, p), p: p, c: c, now: rapid.Int64Range(0, 1<<41).Draw(t, "start"), steady: rapid.Bool().Draw(t, "steady")}
		h.o.add(event{at: 0, terms: &c})
		h.declared = c
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			steps++
			h.now += drawPause(t, h.c)
			h.expire()
			h.step(t)
		}
	})
	t.Logf("figure property_steps of=nothing_mints = %d", steps)
}

// history is one key's life in a limiter and in the oracle.
type history struct {
	m        *limit.Memory
	p        limit.Policy
	o        oracle
	c        terms
	now      int64
	changes  int64
	refunded bool
	declared terms
	expires  int64 // when an override ends, 0 if it does not
	steady   bool  // no drains and changes
	open     []held
}

type held struct {
	*limit.Reservation
	event int   // of the oracle
	units int64 // charged
}

func (h *history) step(t *rapid.T) {
	at, tier := time.UnixMilli(h.now), h.p.Key("k")
	balance := h.o.balance(h.now)
	r, err := h.m.InspectAt(at, tier)
	if err != nil {
		t.Fatal(err)
	}
	if have := floorUnits(balance); r.Available > have || !h.refunded && r.Available < have-h.changes {
		t.Fatalf("available %d after %d changes, the oracle says %v", r.Available, h.changes, balance)
	}
	verbs := []string{"acquire", "acquire", "acquire", "settle", "settle", "settle", "drain", "change"}
	if h.steady {
		verbs = verbs[:6]
	}
	switch rapid.SampledFrom(verbs).Draw(t, "verb") {
	case "acquire":
		n := magnitudes(h.c.max).Draw(t, "units")
		r, err := h.m.AcquireAt(at, tier.Cost(n))
		if denied := denial(t, err); denied != nil {
			h.checkWait(t, tier.Cost(n), denied)
			return
		}
		if !atLeast(balance, n) {
			t.Fatalf("a cost of %d is admitted, the oracle has %v", n, balance)
		}
		h.open = append(h.open, held{r, h.o.add(event{at: h.now, units: whole(n)}), n})
	case "settle":
		if len(h.open) > 0 {
			h.settle(t, at)
		}
	case "drain":
		n := magnitudes(h.c.max).Draw(t, "units")
		if err := h.m.GrantAt(at, tier, -n); err != nil {
			t.Fatal(err)
		}
		// What the limiter has is at most what the oracle has, and so is what is
		// drained of it.
		h.refunded = true
		h.o.add(event{at: h.now, units: drained(whole(r.Available), n)})
	case "change":
		h.change(t, at)
	}
}

// checkWait checks that a refused cost is admitted when its wait is over, planned
// changes and all, and not a millisecond sooner.
func (h *history) checkWait(t *rapid.T, tier limit.Tier, d *limit.Denied) {
	if d.Blocked[0].Verdict != limit.Later || d.RetryAfter > 2*limit.MaxPeriod {
		return
	}
	then := time.UnixMilli(h.now).Add(d.RetryAfter)
	after, err1 := h.m.InspectAt(then, tier)
	before, err2 := h.m.InspectAt(then.Add(-time.Millisecond), tier)
	if err1 != nil || err2 != nil || after.Blocked != nil || before.Blocked == nil {
		t.Fatalf("%v: before the wait is over %+v, then %+v (%v, %v)", d, before, after, err1, err2)
	}
}

func (h *history) settle(t *rapid.T, at time.Time) {
	i := rapid.IntRange(0, len(h.open)-1).Draw(t, "which")
	r := h.open[i]
	h.open = append(h.open[:i], h.open[i+1:]...)
	actual := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 2*r.units)).Draw(t, "actual")
	if err := r.SettleAt(t.Context(), at, h.p.Key("k").Cost(actual)); err != nil {
		t.Fatal(err)
	}
	if actual >= r.units {
		h.o.add(event{at: h.now, units: whole(actual - r.units)})
		return
	}
	h.refunded = true
	h.o.events[r.event].units = whole(actual)
}

func (h *history) change(t *rapid.T, at time.Time) {
	c := drawTerms(t)
	c.max = min(c.max, 1<<20)
	interval := time.Duration(c.interval) * time.Millisecond
	o := limit.Override{Max: &c.max, Refill: &c.refill, Interval: &interval}
	h.expires = 0
	if rapid.Bool().Draw(t, "expires") {
		h.expires = h.now + 1 + drawPause(t, c)
		o.Expires = time.UnixMilli(h.expires)
	}
	if _, err := h.m.SetOverrideAt(at, h.p.Name, o); err != nil {
		t.Fatal(err)
	}
	h.c = c
	h.changes++
	h.o.add(event{at: h.now, terms: &c})
}

// expire tells the oracle of an override that has come to its end.
func (h *history) expire() {
	if h.expires == 0 || h.now < h.expires {
		return
	}
	h.o.add(event{at: h.expires, terms: &h.declared})
	h.c, h.expires = h.declared, 0
	h.changes++
}
