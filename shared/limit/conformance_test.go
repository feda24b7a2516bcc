package limit_test

import (
	"context"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/limit/limittest"
)

func TestMemoryConforms(t *testing.T) {
	t.Parallel()
	limittest.Suite{Start: func(t *testing.T, clock func() time.Time) limittest.Subject {
		t.Helper()
		m := newMemory(t).WithClock(clock)
		return limittest.Subject{Limiter: m, Declare: func(_ context.Context, release int64, policies ...limit.Policy) error {
			return m.Declare(release, policies...)
		}}
	}}.Run(t)
}
