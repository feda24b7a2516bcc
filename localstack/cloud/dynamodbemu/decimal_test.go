package dynamodbemu

import (
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseDecimal(t *testing.T) {
	t.Parallel()
	const digits38 = "12345678901234567890123456789012345678"
	tests := []struct{ in, want, err string }{
		{"0", "0", ""}, {"-0", "0", ""}, {"+0.0", "0", ""}, {"0e1000", "0", ""}, {"0e-1000", "0", ""},
		{"+5", "5", ""}, {"00042", "42", ""}, {".5", "0.5", ""}, {"+.5", "0.5", ""}, {"5.", "5", ""}, {"1.e5", "100000", ""},
		{"1e+2", "100", ""}, {"1.5E+3", "1500", ""}, {"+1e-2", "0.01", ""}, {"1.23E10", "12300000000", ""}, {"-7.1234", "-7.1234", ""},
		{"100", "100", ""}, {"1.10", "1.1", ""}, {"-0.001", "-0.001", ""},
		{digits38, digits38, ""},
		{digits38 + "000", digits38 + "000", ""},
		{digits38 + "9", "", msgNumberPrecision},
		{"-1." + digits38[1:] + "99", "", msgNumberPrecision},
		{"1e125", "1" + strings.Repeat("0", 125), ""},
		{"9.99e125", "999" + strings.Repeat("0", 123), ""},
		{"1e-130", "0." + strings.Repeat("0", 129) + "1", ""},
		{"1e126", "", msgNumberOverflow}, {"-11e125", "", msgNumberOverflow}, {"1.0e100000000000000000000", "", msgNumberOverflow},
		{"1e-131", "", msgNumberUnderflow}, {"0.9e-130", "", msgNumberUnderflow}, {"-1e-99999999999999999999", "", msgNumberUnderflow},
		{"", "", msgNotNumeric},
	}
	for _, malformed := range []string{
		"+e2", "e2", "+1+2", "1+2", "1.2.3", "++5", "+-5", "-+5", "+", "-", "1e", "1e+", ".", "1.2e3.4", "0x5", "NaN", "Infinity",
		"-Infinity", "1_000", " 5", "5 ", "1 5", "dog", "1,5", "٣",
	} {
		tests = append(tests, struct{ in, want, err string }{malformed, "", msgNotNumeric + ": " + malformed})
	}
	for _, tt := range tests {
		d, err := parseDecimal(tt.in)
		switch {
		case tt.err == "" && err != nil:
			t.Errorf("%q: %v", tt.in, err)
		case tt.err == "" && d.String() != tt.want:
			t.Errorf("%q: got %s, want %s", tt.in, d, tt.want)
		case tt.err != "" && (err == nil || messageOf(err) != tt.err):
			t.Errorf("%q: got error %v, want %s", tt.in, err, tt.err)
		}
	}
}

func TestAddRefusesWhatItCannotHoldExactly(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ a, b, want, err string }{
		{"1", "10000000000000000000000000000", "10000000000000000000000000001", ""},
		{"99999999999999999999999999999999999999", "1", "100000000000000000000000000000000000000", ""},
		{"0.1", "0.2", "0.3", ""},
		{"5", "-5", "0", ""},
		{"1e37", "0.1", "", msgNumberOverflow}, // 39 digits
		{"1e50", "-1", "", msgNumberOverflow},
		{"9e125", "9e125", "", msgNumberOverflow},
		{"1.5e-130", "-1.4e-130", "", msgNumberUnderflow},
	} {
		sum, err := mustParse(t, tt.a).add(mustParse(t, tt.b))
		switch {
		case tt.err == "" && (err != nil || sum != mustParse(t, tt.want)):
			t.Errorf("%s + %s: got %s, %v, want %s", tt.a, tt.b, sum, err, tt.want)
		case tt.err != "" && (err == nil || messageOf(err) != tt.err):
			t.Errorf("%s + %s: got %s, %v, want error %s", tt.a, tt.b, sum, err, tt.err)
		}
	}
}

func mustParse(t interface {
	Fatalf(format string, args ...any)
}, s string) decimal {
	d, err := parseDecimal(s)
	if err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return d
}

// drawNumber draws the text of a number that DynamoDB accepts.
func drawNumber(t *rapid.T, label string) string {
	return rapid.OneOf(
		rapid.StringMatching(`[-+]?[0-9]{1,3}`),
		rapid.StringMatching(`[-+]?[0-9]{1,25}(\.[0-9]{0,13})?`),
		rapid.StringMatching(`-?[1-9][0-9]{36}[1-9]`),
		rapid.StringMatching(`[-+]?[0-9]\.[0-9]{0,12}[eE][-+]?([0-9]|[1-9][0-9]|1[01][0-9])`),
	).Draw(t, label)
}

func rational(t *rapid.T, s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		t.Fatalf("the oracle cannot read %q", s)
	}
	return r
}

func TestDecimalsAgreeWithRationals(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ta, tb := drawNumber(t, "a"), drawNumber(t, "b")
		a, b := mustParse(t, ta), mustParse(t, tb)
		ra, rb := rational(t, ta), rational(t, tb)
		if got := rational(t, a.String()); got.Cmp(ra) != 0 {
			t.Fatalf("%s became %s", ta, a)
		}
		if a.compare(b) != ra.Cmp(rb) || (a == b) != (ra.Cmp(rb) == 0) {
			t.Fatalf("compare %s %s: %d", a, b, a.compare(b))
		}
		checkSum(t, a.add, b, new(big.Rat).Add(ra, rb))
		checkSum(t, a.subtract, b, new(big.Rat).Sub(ra, rb))
	})
}

// checkSum requires the exact result, or an error exactly where 38 digits or the
// range do not hold it.
func checkSum(t *rapid.T, operation func(decimal) (decimal, error), b decimal, want *big.Rat) {
	got, err := operation(b)
	storable := isStorable(want)
	switch {
	case err == nil && rational(t, got.String()).Cmp(want) != 0:
		t.Fatalf("got %s, want %s", got, want.FloatString(140))
	case (err == nil) != storable:
		t.Fatalf("error %v, but storable is %t: %s", err, storable, want.FloatString(140))
	}
}

// isStorable decides by trial: some power of ten makes the number an integer of
// at most 38 digits.
func isStorable(r *big.Rat) bool {
	if r.Sign() == 0 {
		return true
	}
	abs := new(big.Rat).Abs(r)
	limit := new(big.Rat).SetInt(pow10(126))
	smallest := new(big.Rat).SetFrac(big.NewInt(1), pow10(130))
	if abs.Cmp(limit) >= 0 || abs.Cmp(smallest) < 0 {
		return false
	}
	scaled := new(big.Rat).Mul(abs, new(big.Rat).SetInt(pow10(200)))
	if !scaled.IsInt() {
		return false
	}
	return len(strings.TrimRight(scaled.Num().String(), "0")) <= 38
}

func pow10(n int64) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil) }

func TestNumberSizes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   string
		want int
	}{{"0", 1}, {"1", 2}, {"10", 2}, {"12", 2}, {"123", 3}, {"-1", 3}, {"1234", 3}, {"12.5", 3}, {"1.5", 3}, {"0.1", 2}} {
		if got := mustParse(t, tt.in).storedSize(); got != tt.want {
			t.Errorf("%s: got %d bytes, want %d", tt.in, got, tt.want)
		}
	}
}
