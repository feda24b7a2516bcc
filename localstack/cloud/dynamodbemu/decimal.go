package dynamodbemu

import (
	"cmp"
	"math/big"
	"strings"
)

// The range and precision of a DynamoDB number: up to 38 significant digits, a
// magnitude from 1E-130 to 9.99…E+125, and zero.
const (
	maxSignificantDigits = 38
	maxScientificExp     = 125
	minScientificExp     = -130
)

const (
	msgNotNumeric      = "The parameter cannot be converted to a numeric value"
	msgNumberOverflow  = "Number overflow. Attempting to store a number with magnitude larger than supported range"
	msgNumberUnderflow = "Number underflow. Attempting to store a number with magnitude smaller than supported range"
	msgNumberPrecision = "Attempting to store more than 38 significant digits in a Number"
)

// A decimal is an exact number, ±0.digits × 10^exp. Digits have neither leading
// nor trailing zeros, so that equal numbers are equal structs: decimals are
// compared with == and used as map keys. The zero value is 0.
type decimal struct {
	negative bool
	digits   string // most significant digit first; "" means 0
	exp      int    // 0 when digits is ""
}

// parseDecimal reads a number as DynamoDB does: an optional sign, digits with at
// most one point, an optional exponent, and no spaces. Errors carry AWS's texts.
func parseDecimal(s string) (decimal, error) {
	if s == "" {
		return decimal{}, validationError(msgNotNumeric)
	}
	malformed := validationError(msgNotNumeric + ": " + s)
	negative, rest := cutSign(s)
	mantissa, exponent, hasExponent := cutExponent(rest)
	whole, fraction, _ := strings.Cut(mantissa, ".")
	if whole+fraction == "" || !allDigits(whole) || !allDigits(fraction) {
		return decimal{}, malformed
	}
	exp := len(whole)
	if hasExponent {
		e, ok := parseExponent(exponent)
		if !ok {
			return decimal{}, malformed
		}
		exp += e
	}
	d := normalized(negative, whole+fraction, exp)
	return d, d.checkStorable()
}

func cutSign(s string) (negative bool, rest string) {
	switch {
	case strings.HasPrefix(s, "-"):
		return true, s[1:]
	case strings.HasPrefix(s, "+"):
		return false, s[1:]
	}
	return false, s
}

func cutExponent(s string) (mantissa, exponent string, found bool) {
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// parseExponent reads a signed integer. One that is absurdly long saturates: it
// is out of range all the same, and must not overflow an int on its way there.
func parseExponent(s string) (int, bool) {
	const saturated = 1_000_000_000
	negative, rest := cutSign(s)
	if rest == "" || !allDigits(rest) {
		return 0, false
	}
	e := 0
	for _, c := range []byte(rest) {
		if e = e*10 + int(c-'0'); e > saturated {
			e = saturated
		}
	}
	if negative {
		e = -e
	}
	return e, true
}

func allDigits(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// normalized builds the decimal ±0.digits × 10^exp from digits that may have
// zeros on either side.
func normalized(negative bool, digits string, exp int) decimal {
	trimmed := strings.TrimLeft(digits, "0")
	exp -= len(digits) - len(trimmed)
	trimmed = strings.TrimRight(trimmed, "0")
	if trimmed == "" {
		return decimal{}
	}
	return decimal{negative: negative, digits: trimmed, exp: exp}
}

func (d decimal) isZero() bool { return d.digits == "" }

// scientificExp is the exponent of d written with one digit before the point.
func (d decimal) scientificExp() int { return d.exp - 1 }

// checkStorable refuses what a DynamoDB number cannot hold.
func (d decimal) checkStorable() error {
	switch {
	case d.isZero():
		return nil
	case d.scientificExp() > maxScientificExp:
		return validationError(msgNumberOverflow)
	case d.scientificExp() < minScientificExp:
		return validationError(msgNumberUnderflow)
	case len(d.digits) > maxSignificantDigits:
		return validationError(msgNumberPrecision)
	}
	return nil
}

// String writes d without an exponent, as DynamoDB returns numbers.
func (d decimal) String() string {
	if d.isZero() {
		return "0"
	}
	sign := ""
	if d.negative {
		sign = "-"
	}
	switch {
	case d.exp <= 0:
		return sign + "0." + strings.Repeat("0", -d.exp) + d.digits
	case d.exp >= len(d.digits):
		return sign + d.digits + strings.Repeat("0", d.exp-len(d.digits))
	}
	return sign + d.digits[:d.exp] + "." + d.digits[d.exp:]
}

// compare returns -1, 0 or +1.
func (d decimal) compare(o decimal) int {
	if c := cmp.Compare(d.sign(), o.sign()); c != 0 || d.isZero() {
		return c
	}
	c := cmp.Compare(d.exp, o.exp)
	if c == 0 {
		c = strings.Compare(d.digits, o.digits)
	}
	if d.negative {
		return -c
	}
	return c
}

func (d decimal) sign() int {
	switch {
	case d.isZero():
		return 0
	case d.negative:
		return -1
	}
	return 1
}

func (d decimal) negated() decimal {
	if !d.isZero() {
		d.negative = !d.negative
	}
	return d
}

// add returns the exact sum. A sum that needs more than 38 digits is an error,
// never a rounded number; DynamoDB words that error as an overflow.
func (d decimal) add(o decimal) (decimal, error) {
	scale := min(d.scale(), o.scale())
	sum := new(big.Int).Add(d.unscaled(scale), o.unscaled(scale))
	digits := new(big.Int).Abs(sum).String()
	result := normalized(sum.Sign() < 0, digits, len(digits)+scale)
	if len(result.digits) > maxSignificantDigits {
		return decimal{}, validationError(msgNumberOverflow)
	}
	return result, result.checkStorable()
}

func (d decimal) subtract(o decimal) (decimal, error) { return d.add(o.negated()) }

// scale is the power of ten of d's last digit.
func (d decimal) scale() int { return d.exp - len(d.digits) }

// unscaled returns d / 10^scale, for a scale not above d's own.
func (d decimal) unscaled(scale int) *big.Int {
	n := new(big.Int)
	if d.isZero() {
		return n
	}
	n.SetString(d.digits+strings.Repeat("0", d.scale()-scale), 10)
	if d.negative {
		n.Neg(n)
	}
	return n
}

// storedSize is the number of bytes that count towards an item's size: a byte
// for sign and exponent, a byte per two digits (aligned to pairs around the
// point), and one more for a negative number.
func (d decimal) storedSize() int {
	if d.isZero() {
		return 1
	}
	pairs := (len(d.digits) + 1) / 2
	if len(d.digits)%2 == 0 && d.scientificExp()%2 == 0 {
		pairs++
	}
	if d.negative {
		pairs++
	}
	return 1 + pairs
}
