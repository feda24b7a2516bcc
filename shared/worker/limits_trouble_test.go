package worker_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/sluicetest"
	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/worker"
)

// stored tests tasks of type "job" that a policy in the table limits.
func stored(t *testing.T, handle func(context.Context, json.RawMessage) (any, error), test func(*testing.T, *sluicetest.Stack)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mux := worker.NewMux()
		worker.Handle(mux, "job", handle, worker.WithLimits(limit.Global[json.RawMessage](perOrg)))
		s := sluicetest.Start(t, mux)
		test(t, s)
		assertNothingLeft(t, s)
	})
}

// hangs makes requests to DynamoDB hang.
func hangs(s *sluicetest.Stack) {
	s.Cloud.SetFault(func(r *cloud.Request) cloud.Fault {
		if r.Is(cloud.DynamoDB) {
			return cloud.Fault{Delay: time.Hour}
		}
		return cloud.Fault{}
	})
}

func TestATaskSleepsWhileTheLimitersStoreHangs(t *testing.T) {
	stored(t, script(nil), func(t *testing.T, s *sluicetest.Stack) {
		hangs(s)
		id := s.Submit("job", nil).ID
		time.Sleep(time.Minute)
		if got := s.Get(id); got.Status != task.Pending || got.Attempt != 0 || got.Throttled == nil || got.Throttled.Reason == "" {
			t.Errorf("task = %s", got.Encode())
		}
		s.Cloud.SetFault(nil)
		if got := s.Wait(id); got.Status != task.Completed || got.Attempt != 1 {
			t.Errorf("task = %s", got.Encode())
		}
	})
}

func TestAHoldThatHangsDoesNotCostTheOutcome(t *testing.T) {
	var s *sluicetest.Stack
	handle := func(ctx context.Context, _ json.RawMessage) (any, error) {
		if got, _ := worker.TaskFrom(ctx); got.RescheduleCount == 0 {
			hangs(s)
			return nil, worker.Reschedule(time.Hour, worker.HoldKey(perOrg))
		}
		return "fine", nil
	}
	stored(t, handle, func(t *testing.T, started *sluicetest.Stack) {
		s = started
		id := s.Submit("job", nil).ID
		time.Sleep(time.Minute)
		if got := s.Get(id); got.Status != task.Pending || got.RescheduleCount != 1 {
			t.Errorf("task = %s", got.Encode())
		}
		s.Cloud.SetFault(nil)
		if got := s.Wait(id); got.Status != task.Completed || got.RetryCount != 0 {
			t.Errorf("task = %s", got.Encode())
		}
	})
}
