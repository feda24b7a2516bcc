package limit

import (
	"fmt"
	"time"
)

// MaxUnits is the largest limit, cost or refill: 2^53-1, the largest whole
// number that every JSON reader keeps.
const MaxUnits = 1<<53 - 1

// MaxPeriod is the longest refill interval and the longest window: a hundred
// years of 365.25 days.
const MaxPeriod = 36525 * 24 * time.Hour

// A Rate is a number of tokens per interval. They do not arrive at the end of
// the interval but drip in evenly all through it.
//
// The interval is a whole number of milliseconds, from 1 ms to [MaxPeriod], the
// number of tokens 1 to [MaxUnits]; [Policy.Validate] refuses other rates.
type Rate struct {
	Tokens   int64
	Interval time.Duration
}

// Per returns the rate of n tokens per interval d.
func Per(n int64, d time.Duration) Rate { return Rate{Tokens: n, Interval: d} }

// PerSecond returns the rate of n tokens per second.
func PerSecond(n int64) Rate { return Per(n, time.Second) }

// PerMinute returns the rate of n tokens per minute.
func PerMinute(n int64) Rate { return Per(n, time.Minute) }

// PerHour returns the rate of n tokens per hour.
func PerHour(n int64) Rate { return Per(n, time.Hour) }

// PerDay returns the rate of n tokens per 24 hours.
func PerDay(n int64) Rate { return Per(n, 24*time.Hour) }

// Scale returns the rate times num/den, exactly, by stretching tokens and
// interval rather than rounding: PerSecond(1).Scale(5, 2) is two and a half
// tokens a second, PerSecond(10).Scale(1, 3) a third of ten a second. Where num
// or den is not positive, or the result is beyond the bounds of a Rate, the
// zero Rate is returned, which no policy accepts.
func (r Rate) Scale(num, den int64) Rate {
	if num <= 0 || den <= 0 || r.Tokens <= 0 || r.Interval <= 0 {
		return Rate{}
	}
	// Cancel crosswise first, so that only a result out of bounds overflows.
	g := gcd(num, den)
	num, den = num/g, den/g
	g = gcd(r.Tokens, den)
	tokens, den := r.Tokens/g, den/g
	g = gcd(int64(r.Interval), num)
	interval, num := int64(r.Interval)/g, num/g
	if num > MaxUnits/tokens || den > int64(MaxPeriod)/interval {
		return Rate{}
	}
	tokens, interval = tokens*num, interval*den
	// An interval that fell below whole milliseconds is stretched back to them.
	stretch := int64(time.Millisecond) / gcd(interval, int64(time.Millisecond))
	if stretch > MaxUnits/tokens || stretch > int64(MaxPeriod)/interval {
		return Rate{}
	}
	return Rate{Tokens: tokens * stretch, Interval: time.Duration(interval * stretch)}
}

// String returns the rate as "10 per 1s".
func (r Rate) String() string { return fmt.Sprintf("%d per %v", r.Tokens, r.Interval) }

// lowest returns the rate as tokens per milliseconds in lowest terms.
func (r Rate) lowest() (tokens, millis int64) {
	ms := r.Interval.Milliseconds()
	g := gcd(r.Tokens, ms)
	return r.Tokens / g, ms / g
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
