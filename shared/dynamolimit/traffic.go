package dynamolimit

import (
	"context"
	"sync/atomic"

	"github.com/sluice-dev/sluice/shared/emf"
)

// Metrics of the limiter, in the namespace "Sluice", by the dimension FunctionName: those of
// claim functions and that of the limiter function.
const (
	// MetricAdmitted and MetricDenied count decisions.
	MetricAdmitted = "LimiterAdmitted"
	MetricDenied   = "LimiterDenied"
	// MetricRequests counts requests to DynamoDB, those that are sent again included.
	MetricRequests = "LimiterRequests"
)

// Traffic is what an invocation of a function asks of the limiter.
type Traffic struct {
	admitted, denied int
	requests         atomic.Int64
}

type trafficKey struct{}

// Context has the requests be counted that calls with it send.
func (t *Traffic) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, trafficKey{}, t)
}

// Decided counts a decision.
func (t *Traffic) Decided(admitted bool) {
	if admitted {
		t.admitted++
	} else {
		t.denied++
	}
}

// count counts a request of a call with the context.
func count(ctx context.Context) {
	if t, ok := ctx.Value(trafficKey{}).(*Traffic); ok {
		t.requests.Add(1)
	}
}

// Metrics are those of the traffic so far, none if there was none.
func (t *Traffic) Metrics() (metrics []emf.Metric) {
	for _, m := range []emf.Metric{
		{Name: MetricAdmitted, Value: float64(t.admitted)},
		{Name: MetricDenied, Value: float64(t.denied)},
		{Name: MetricRequests, Value: float64(t.requests.Load())},
	} {
		if m.Value > 0 {
			m.Unit = emf.Count
			metrics = append(metrics, m)
		}
	}
	return metrics
}
