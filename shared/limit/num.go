package limit

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"
)

// A Num is a whole number of up to 38 decimal digits: what a position on a
// policy's line can reach. It is exact where int64 and float64 are not (a limit
// of 2^53-1 over a century needs 95 bits), costs no allocation, and fits a
// DynamoDB number. Nums compare with ==; sums beyond the range stay at its end,
// on the side that admits less.
type Num struct {
	hi int64
	lo uint64
}

var (
	maxNum   = mustParseNum("99999999999999999999999999999999999999") // 38 nines
	minNum   = maxNum.neg()
	errDigit = errors.New("want a whole number of at most 38 digits")
)

// NumOf returns n as a Num.
func NumOf(n int64) Num {
	return Num{hi: n >> 63, lo: uint64(n)}
}

// ParseNum reads a decimal number as String writes it.
func ParseNum(s string) (Num, error) {
	digits, negative := s, false
	if len(s) > 0 && s[0] == '-' {
		digits, negative = s[1:], true
	}
	if len(digits) == 0 || len(digits) > 38 {
		return Num{}, fmt.Errorf("limit: number %q: %w", s, errDigit)
	}
	var n Num
	for _, d := range []byte(digits) {
		if d < '0' || d > '9' {
			return Num{}, fmt.Errorf("limit: number %q: %w", s, errDigit)
		}
		n = n.times10().plus(NumOf(int64(d - '0')))
	}
	if negative {
		n = n.neg()
	}
	return n, nil
}

func mustParseNum(s string) Num {
	n, err := ParseNum(s)
	if err != nil {
		panic(err)
	}
	return n
}

// String returns n in decimal.
func (n Num) String() string {
	text, _ := n.AppendText(nil)
	return string(text)
}

// AppendText appends n in decimal to b. It implements [encoding.TextAppender].
func (n Num) AppendText(b []byte) ([]byte, error) {
	if n.hi < 0 {
		b, n = append(b, '-'), n.neg()
	}
	const chunk = 10_000_000_000_000_000_000 // 10^19, the largest power of ten in 64 bits
	high, low := bits.Div64(uint64(n.hi), n.lo, chunk)
	if high == 0 {
		return fmt.Appendf(b, "%d", low), nil
	}
	return fmt.Appendf(b, "%d%019d", high, low), nil
}

// MarshalText writes n in decimal: in JSON a Num is a string, since most JSON
// readers round large numbers.
func (n Num) MarshalText() ([]byte, error) { return n.AppendText(nil) }

// UnmarshalText reads what MarshalText wrote.
func (n *Num) UnmarshalText(text []byte) (err error) {
	*n, err = ParseNum(string(text))
	return err
}

// Cmp returns -1, 0 or +1 as n is below, equal to or above m.
func (n Num) Cmp(m Num) int {
	switch {
	case n == m:
		return 0
	case n.hi < m.hi || n.hi == m.hi && n.lo < m.lo:
		return -1
	default:
		return +1
	}
}

func (n Num) less(m Num) bool { return n.Cmp(m) < 0 }

// plus is the wrapping sum: two Nums within the range never wrap 128 bits, the
// callers that could leave the range use add.
func (n Num) plus(m Num) Num {
	lo, carry := bits.Add64(n.lo, m.lo, 0)
	return Num{hi: n.hi + m.hi + int64(carry), lo: lo}
}

func (n Num) neg() Num {
	lo, borrow := bits.Sub64(0, n.lo, 0)
	return Num{hi: -n.hi - int64(borrow), lo: lo}
}

// add returns n+m, held within the range of a Num. (38 digits are 127 bits less
// a little: the sum of two in range wraps only if its sign does.)
func (n Num) add(m Num) Num {
	sum := n.plus(m)
	switch {
	case n.hi >= 0 && m.hi >= 0 && (sum.hi < 0 || maxNum.less(sum)):
		return maxNum
	case n.hi < 0 && m.hi < 0 && (sum.hi >= 0 || sum.less(minNum)):
		return minNum
	}
	return sum
}

func (n Num) sub(m Num) Num { return n.add(m.neg()) }

// product returns a*b, both at least 0, exactly: a product of two int64 has at
// most 126 bits.
func product(a, b int64) Num {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return Num{hi: int64(hi), lo: lo}
}

func (n Num) times10() Num {
	hi, lo := bits.Mul64(n.lo, 10)
	return Num{hi: n.hi*10 + int64(hi), lo: lo}
}

// quotient returns n/d rounded down, for n at least 0 and d above 0; a quotient
// above the largest int64 becomes that.
func (n Num) quotient(d int64) int64 {
	if uint64(n.hi) >= uint64(d) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(uint64(n.hi), n.lo, uint64(d))
	return int64(min(q, math.MaxInt64))
}

// quotientUp is quotient rounded up.
func (n Num) quotientUp(d int64) int64 {
	q := n.quotient(d)
	if q < math.MaxInt64 && product(q, d).less(n) {
		q++
	}
	return q
}

func (n Num) big() *big.Int {
	b := new(big.Int).Lsh(big.NewInt(n.hi), 64)
	return b.Add(b, new(big.Int).SetUint64(n.lo))
}

// numFromBig returns b, held within the range of a Num.
func numFromBig(b *big.Int) Num {
	switch {
	case b.Cmp(maxNum.big()) > 0:
		return maxNum
	case b.Cmp(minNum.big()) < 0:
		return minNum
	}
	lo := new(big.Int).And(b, new(big.Int).SetUint64(math.MaxUint64))
	hi := new(big.Int).Rsh(b, 64)
	return Num{hi: hi.Int64(), lo: lo.Uint64()}
}

func larger(a, b Num) Num {
	if a.less(b) {
		return b
	}
	return a
}

func smaller(a, b Num) Num {
	if b.less(a) {
		return b
	}
	return a
}
