package worker_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/shared/worker"
)

func TestRetryAfterReadsSecondsAndTheThreeDateForms(t *testing.T) {
	t.Parallel()
	now := time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name, header string
		want         time.Duration
		ok           bool
	}{
		{"seconds", "120", 2 * time.Minute, true},
		{"zero means one second", "0", time.Second, true},
		{"leading zeros are digits", "007", 7 * time.Second, true},
		{"IMF-fixdate", "Fri, 01 Jan 2027 12:01:00 GMT", time.Minute, true},
		{"RFC 850", "Friday, 01-Jan-27 12:01:00 GMT", time.Minute, true},
		{"asctime", "Fri Jan  1 12:01:00 2027", time.Minute, true},
		{"a date that has passed means one second", "Fri, 01 Jan 2027 11:00:00 GMT", time.Second, true},
		{"capped at a day", "86401", 24 * time.Hour, true},
		{"more digits than a number holds", "99999999999999999999999999", 24 * time.Hour, true},
		{"a far date is capped", "Fri, 01 Jan 2038 12:00:00 GMT", 24 * time.Hour, true},
		{"negative is absent", "-1", 0, false},
		{"plus sign is absent", "+1", 0, false},
		{"fraction is absent", "1.5", 0, false},
		{"empty is absent", "", 0, false},
		{"text is absent", "soon", 0, false},
		{"unit is absent", "10s", 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, ok := worker.RetryAfter(http.Header{"Retry-After": {tt.header}}, now)
			if got != tt.want || ok != tt.ok {
				t.Errorf("RetryAfter(%q) = %v, %v; want %v, %v", tt.header, got, ok, tt.want, tt.ok)
			}
		})
	}
}

func TestRetryAfterWithoutTheHeaderIsAbsent(t *testing.T) {
	t.Parallel()
	if got, ok := worker.RetryAfter(http.Header{}, time.Now()); ok {
		t.Errorf("RetryAfter = %v, true; want false", got)
	}
}
