package worker

import (
	"net/http"
	"strconv"
	"time"
)

// MaxRetryAfter caps what a Retry-After header can ask for: a server that
// asks for more is taken to be wrong.
const MaxRetryAfter = 24 * time.Hour

// RetryAfter reads the Retry-After header: whole seconds, or a date in any of
// the three forms of HTTP. Zero and dates that have passed mean one second, more than
// [MaxRetryAfter] means that. Anything else (negative, fractional, empty, text) is
// as if it were absent: false.
func RetryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	value := h.Get("Retry-After")
	if isDigits(value) {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(MaxRetryAfter/time.Second) {
			return MaxRetryAfter, true // too many digits for a number is still a number
		}
		return max(time.Duration(seconds)*time.Second, time.Second), true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(now), time.Second), MaxRetryAfter), true
}

func isDigits(s string) bool {
	for _, r := range s {
		if r < '0' || r > '9' {
			return false
		}
	}
	return s != ""
}
