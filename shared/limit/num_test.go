package limit

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func drawNum(t *rapid.T, label string) *big.Int {
	if rapid.Bool().Draw(t, label+" edge") {
		return rapid.SampledFrom([]Num{{}, NumOf(1), NumOf(-1), NumOf(math.MaxInt64), {lo: math.MaxUint64}, {hi: 1}, maxNum, minNum}).Draw(t, label).big()
	}
	b := new(big.Int)
	for range rapid.IntRange(0, 5).Draw(t, label+" parts") {
		b.Lsh(b, 31).Add(b, big.NewInt(rapid.Int64Range(0, 1<<31-1).Draw(t, label)))
	}
	b.Mod(b, new(big.Int).Add(maxNum.big(), big.NewInt(1)))
	if rapid.Bool().Draw(t, label+" negative") {
		b.Neg(b)
	}
	return b
}

func clampBig(b *big.Int) *big.Int {
	switch {
	case b.Cmp(maxNum.big()) > 0:
		return maxNum.big()
	case b.Cmp(minNum.big()) < 0:
		return minNum.big()
	}
	return b
}

// A Num does what a big.Int does, up to its bounds.
func TestNumAgreesWithBigInt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawNum(t, "a"), drawNum(t, "b")
		n, m := numFromBig(a), numFromBig(b)
		if n.String() != a.String() || n.big().Cmp(a) != 0 {
			t.Fatalf("%v became %v", a, n)
		}
		if back, err := ParseNum(a.String()); err != nil || back != n {
			t.Fatalf("%v is read as %v (%v)", a, back, err)
		}
		if got, want := n.add(m).String(), clampBig(new(big.Int).Add(a, b)).String(); got != want {
			t.Fatalf("%v + %v = %s, want %s", a, b, got, want)
		}
		if got, want := n.sub(m).String(), clampBig(new(big.Int).Sub(a, b)).String(); got != want {
			t.Fatalf("%v - %v = %s, want %s", a, b, got, want)
		}
		if n.Cmp(m) != a.Cmp(b) || n.less(m) != (a.Cmp(b) < 0) || larger(n, m).big().Cmp(a) < 0 || smaller(n, m).big().Cmp(b) > 0 {
			t.Fatalf("%v against %v", n, m)
		}
		x, y := rapid.Int64Range(0, math.MaxInt64).Draw(t, "x"), rapid.Int64Range(1, math.MaxInt64).Draw(t, "y")
		if got, want := product(x, y).String(), new(big.Int).Mul(big.NewInt(x), big.NewInt(y)); numFromBig(want).String() != got {
			t.Fatalf("%d * %d = %s, want %v", x, y, got, want)
		}
		if a.Sign() >= 0 {
			q, r := new(big.Int).QuoRem(a, big.NewInt(y), new(big.Int))
			checkQuotient(t, n.quotient(y), q)
			if r.Sign() > 0 {
				q.Add(q, big.NewInt(1))
			}
			checkQuotient(t, n.quotientUp(y), q)
		}
		if got, want := convert(n, x, y), clampBig(new(big.Int).Div(new(big.Int).Mul(a, big.NewInt(x)), big.NewInt(y))); got.String() != want.String() {
			t.Fatalf("%v * %d / %d = %v, want %v", a, x, y, got, want)
		}
	})
}

func checkQuotient(t *rapid.T, got int64, want *big.Int) {
	if !want.IsInt64() {
		want = big.NewInt(math.MaxInt64)
	}
	if got != want.Int64() {
		t.Fatalf("quotient %d, want %v", got, want)
	}
}

func TestParseNumRefuses(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "-", "+1", "1.0", "1e3", " 1", "0x1", "--1", "999999999999999999999999999999999999999", "NaN"} {
		if n, err := ParseNum(s); err == nil {
			t.Errorf("%q is read as %v", s, n)
		}
	}
	for _, s := range []string{"0", "-1", "99999999999999999999999999999999999999", "-99999999999999999999999999999999999999"} {
		if n, err := ParseNum(s); err != nil || n.String() != s {
			t.Errorf("%q is read as %v (%v)", s, n, err)
		}
	}
}

// Nothing overflows at the ends of what is allowed: the largest limits and costs, the
// longest and shortest periods, the first and last times.
func TestExtremesStayInRange(t *testing.T) {
	t.Parallel()
	policies := []Policy{
		{Name: "p", Rate: Per(MaxUnits, MaxPeriod)},
		{Name: "p", Rate: Per(MaxUnits-1, MaxPeriod), Max: MaxUnits},
		{Name: "p", Rate: Per(1, MaxPeriod), Max: MaxUnits},
		{Name: "p", Rate: Per(MaxUnits, 1_000_000), Max: MaxUnits},
		{Name: "p", Rate: Per(MaxUnits, 1_000_000), Max: 1},
		{Name: "p", Window: Every(MaxPeriod), Max: MaxUnits},
		{Name: "p", Window: Every(1_000_000), Max: MaxUnits},
		{Name: "p", Window: FromFirstUse(MaxPeriod), Max: MaxUnits},
		{Name: "p", Manual: ByOperator, Max: MaxUnits},
	}
	for _, p := range policies {
		for _, ms := range []int64{0, 1, 1 << 41, horizon - 1, horizon, math.MaxInt64 / 1_000_000} {
			at := timeOf(ms)
			e, _, err := Register(nil, p, 1, "", at)
			if err != nil {
				t.Fatal(err)
			}
			m, err := NewMeter(e)
			if err != nil {
				t.Fatal(err)
			}
			most := p.Capacity()
			d := m.Decide(State{}, most, at)
			if !d.Admitted {
				t.Fatalf("%v at %v: a full policy does not admit its capacity", p, at)
			}
			if d.Next.Position.big().BitLen() > 125 {
				t.Errorf("%v at %v: position %v", p, at, d.Next.Position)
			}
			if again := m.Decide(d.Next, 1, at); again.Admitted || again.Blocked.Verdict != UntilChanged && again.Blocked.Wait <= 0 {
				t.Errorf("%v at %v: %+v", p, at, again)
			}
			s := d.Next
			for range 100 { // debts on debts
				s, _ = m.Settle(s, Charge{Era: 1}, MaxUnits, at)
			}
			if s.Position.less(d.Next.Position) {
				t.Errorf("%v at %v: a debt made %v of %v", p, at, s.Position, d.Next.Position)
			}
			if r, _ := m.Inspect(s, MaxUnits, at); r.Available != 0 || r.Used <= 0 {
				t.Errorf("%v at %v: %+v", p, at, r)
			}
			s, _ = m.Settle(d.Next, d.Charge, 0, at)
			if r, _ := m.Inspect(s, 1, at); r.Available != most {
				t.Errorf("%v at %v: available %d after a refund, want %d", p, at, r.Available, most)
			}
		}
	}
}
