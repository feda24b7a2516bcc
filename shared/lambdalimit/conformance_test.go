package lambdalimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/sluice-dev/sluice/shared/lambdalimit"
	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/limit/limittest"
)

// A client of the function over a limiter in memory conforms as the limiter itself does.
func TestTheClientConforms(t *testing.T) {
	t.Parallel()
	limittest.Suite{Start: func(t *testing.T, clock func() time.Time) limittest.Subject {
		t.Helper()
		m, err := limit.NewMemory()
		if err != nil {
			t.Fatal(err)
		}
		m.WithClock(clock)
		return limittest.Subject{
			Limiter: lambdalimit.NewClient(function(&lambdalimit.Handler{Limiter: m}), "limiter"),
			Declare: func(_ context.Context, release int64, policies ...limit.Policy) error {
				return m.Declare(release, policies...)
			},
		}
	}}.Run(t)
}

// function invokes a handler of this process.
func function(h *lambdalimit.Handler) invoker {
	return func(ctx context.Context, in *lambda.InvokeInput, _ ...func(*lambda.Options)) (*lambda.InvokeOutput, error) {
		answer, err := h.Invoke(ctx, in.Payload)
		return &lambda.InvokeOutput{Payload: answer}, err
	}
}
