package dynamolimit_test

import (
	"testing"
	"time"

	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit/limittest"
)

func TestConforms(t *testing.T) {
	t.Parallel()
	limittest.Suite{Start: func(t *testing.T, clock func() time.Time) limittest.Subject {
		t.Helper()
		return subject(newLimiter(newCloud(t, at(clock)), "limiter", unhurried(dynamolimit.WithClock(clock))...))
	}}.Run(t)
}

// A store that does not tell the item of a failed condition is read instead.
func TestConformsWithoutTheItemOfAFailedCondition(t *testing.T) {
	t.Parallel()
	limittest.Suite{Start: func(t *testing.T, clock func() time.Time) limittest.Subject {
		t.Helper()
		o := at(clock)
		o.DynamoDB.NoItemOnFailure = true
		return subject(newLimiter(newCloud(t, o), "limiter", unhurried(dynamolimit.WithClock(clock))...))
	}}.Run(t)
}
