package limit_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-dev/sluice/shared/limit"
)

// windowOracle counts by window: what is used belongs to the window it was used in
// and nothing leaves it.
type windowOracle struct {
	length, anchor int64
	firstUse       bool
	manual         bool
	start, used    int64
	open           bool
}

// roll brings the oracle to a time and returns when the window ends.
func (o *windowOracle) roll(now int64) {
	switch {
	case o.manual:
	case o.firstUse:
		if o.open && now >= o.start+o.length {
			o.open, o.used = false, 0
		}
	default:
		start := o.anchor
		for start+o.length <= now { // anchors are drawn close to the times
			start += o.length
		}
		for start > now {
			start -= o.length
		}
		if start != o.start {
			o.start, o.used = start, 0
		}
	}
}

func (o *windowOracle) use(now, n int64) {
	if o.firstUse && !o.open {
		o.open, o.start = true, now
	}
	o.used += n
}

func TestWindowsAreExact(t *testing.T) {
	t.Parallel()
	steps := 0
	rapid.Check(t, func(t *rapid.T) {
		maximum := magnitudes(limit.MaxUnits).Draw(t, "max")
		now := rapid.Int64Range(0, 1<<41).Draw(t, "start")
		o := &windowOracle{
			length: rapid.SampledFrom([]int64{1, 100, 1000, 3_600_000, 36525 * 86_400_000}).Draw(t, "length"),
			start:  -1,
		}
		d := time.Duration(o.length) * time.Millisecond
		p := limit.Policy{Name: "p", Max: maximum}
		switch rapid.SampledFrom([]string{"every", "first use", "manual"}).Draw(t, "kind") {
		case "every":
			o.anchor = max(now+rapid.Int64Range(-5, 5).Draw(t, "anchor")*o.length/3, 0)
			p.Window = limit.Every(d).From(time.UnixMilli(o.anchor))
		case "first use":
			o.firstUse = true
			p.Window = limit.FromFirstUse(d)
		default:
			o.manual = true
			p.Manual = limit.ByOperator
		}
		m := newMemory(t, p)
		var open []heldInWindow
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			steps++
			now += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, o.length/3+1)).Draw(t, "pause")
			o.roll(now)
			open = windowStep(t, m, p, o, now, maximum, open)
		}
	})
	t.Logf("figure property_steps of=windows = %d", steps)
}

type heldInWindow struct {
	*limit.Reservation
	start, units int64
}

func windowStep(t *rapid.T, m *limit.Memory, p limit.Policy, o *windowOracle, now, maximum int64, open []heldInWindow) []heldInWindow {
	at, tier := time.UnixMilli(now), p.Key("k")
	left := max(maximum-o.used, 0)
	r, err := m.InspectAt(at, tier)
	if err != nil || r.Available != left || r.Used != o.used {
		t.Fatalf("%+v (%v), the oracle has %d left and %d used", r, err, left, o.used)
	}
	n := magnitudes(maximum).Draw(t, "units")
	switch rapid.SampledFrom([]string{"acquire", "acquire", "settle", "grant", "drain", "reset"}).Draw(t, "verb") {
	case "acquire":
		r, err := m.AcquireAt(at, tier.Cost(n))
		denied := denial(t, err)
		if (denied == nil) != (n <= left) {
			t.Fatalf("cost %d with %d left: %v", n, left, err)
		}
		if denied == nil {
			o.use(now, n)
			return append(open, heldInWindow{r, o.start, n})
		}
		switch b := denied.Blocked[0]; {
		case o.manual && b.Verdict != limit.UntilChanged:
			t.Fatalf("%+v, want until changed", b)
		case !o.manual && b.Wait.Milliseconds() != o.start+o.length-now:
			t.Fatalf("wait %v, the window ends in %d ms", b.Wait, o.start+o.length-now)
		}
	case "settle":
		if len(open) == 0 {
			return open
		}
		h := open[0]
		actual := rapid.Int64Range(0, min(2*h.units, limit.MaxUnits)).Draw(t, "actual")
		if err := h.SettleAt(t.Context(), at, tier.Cost(actual)); err != nil {
			t.Fatal(err)
		}
		if actual > h.units {
			o.use(now, actual-h.units)
		} else if h.start == o.start && (o.open || !o.firstUse) {
			o.used = max(o.used-(h.units-actual), 0)
		}
		return open[1:]
	case "grant":
		if err := m.GrantAt(at, tier, n); err != nil {
			t.Fatal(err)
		}
		o.used = max(o.used-n, 0)
	case "drain":
		if err := m.GrantAt(at, tier, -n); err != nil {
			t.Fatal(err)
		}
		if taken := min(n, left); taken > 0 {
			o.use(now, taken)
		}
	case "reset":
		if _, err := m.ResetAt(at, p.Name, "op"); err != nil {
			t.Fatal(err)
		}
		o.used, o.open = 0, false
		return nil // what is open is of an earlier generation, see the tests of resets
	}
	return open
}
