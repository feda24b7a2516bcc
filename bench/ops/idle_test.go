package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-dev/sluice/localstack/sluicetest"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/worker"
)

// Finished tasks and sleeping ones cost no request, however long it lasts.
func TestAnIdleHourCostsNoRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mux := worker.NewMux()
		worker.Handle(mux, "greet", func(context.Context, string) (string, error) { return "hello", nil })
		s := sluicetest.Start(t, mux, sluicetest.NoSweep())
		finished := s.Submit("greet", "Ada")
		sleeping := s.Submit("greet", "Grace", queue.In(2*time.Hour))
		s.Wait(finished.ID)
		time.Sleep(time.Minute) // what there is to do for both is done

		before := s.Cloud.Requests().Snapshot()
		time.Sleep(time.Hour)
		if got := s.Cloud.Requests().Snapshot().Diff(before); got.Total() > 0 {
			t.Errorf("requests in an idle hour: %s", got)
		}
		if got := s.Wait(sleeping.ID); got.Status != task.Completed || got.Attempt != 1 {
			t.Errorf("the task that slept: %s", got.Encode())
		}
	})
}
