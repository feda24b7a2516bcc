package worker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/task"
)

// veryLate makes all wake-ups but the first come most of a minute late.
func veryLate() func() time.Duration {
	first := true
	return func() time.Duration {
		if first {
			first = false
			return 0
		}
		return 55 * time.Second
	}
}

// As long as one function is awake, others that wait are taken along: the limit is used
// although their wake-ups are late.
func TestAFunctionThatIsDoneTakesLateSleepersAlong(t *testing.T) {
	parkingLot(t, veryLate(), func(t *testing.T, l *lot) {
		const tasks = 40
		var ids []string
		for n := range tasks {
			ids = append(ids, l.Submit("llm", prompt{Org: "acme", Cost: int64(n)}).ID)
			synctest.Wait()
		}
		for _, id := range ids {
			if got := l.Wait(id); got.Status != task.Completed || got.Attempt != 1 || got.ThrottleCount > 1 {
				t.Errorf("task = %s", got.Encode())
			}
		}
		if took := l.spread(t, "acme", tasks); took > (tasks+12)*time.Second {
			t.Errorf("it took %v", took)
		}
		if crowds, err := l.limiter().Crowds(t.Context()); err != nil || len(crowds) > 0 {
			t.Errorf("left: %v, %v", crowds, err)
		}
	}, everySecond)
}

// Tasks of types that a function does not serve are left to the one that does.
func TestOnlyTasksThatTheFunctionServesAreTakenAlong(t *testing.T) {
	parkingLot(t, veryLate(), func(t *testing.T, l *lot) {
		l.Submit("llm", prompt{Org: "acme"})
		synctest.Wait()
		turn, err := l.limiter().Arrive(t.Context(), dynamolimit.Task{ID: "other", Type: "mail"},
			[]limit.Tier{everySecond.Key("acme")}, limit.Patience{})
		if err != nil || turn.Action != limit.ToPark {
			t.Fatalf("%+v, %v", turn, err)
		}
		for n := range 20 {
			l.Submit("llm", prompt{Org: "acme", Cost: int64(n)})
		}
		time.Sleep(10 * time.Minute)
		if n := l.count(); n != 21 {
			t.Errorf("%d ran, want 21", n)
		}
		s, err := l.limiter().Take(t.Context(), dynamolimit.Task{ID: "other"}, turn.Place)
		if err != nil || !s.Found {
			t.Fatalf("the other function's task is not in the index: %+v, %v", s, err)
		}
		if err := s.Leave(t.Context()); err != nil {
			t.Error(err)
		}
	}, everySecond)
}

// A task that was cancelled or has expired while its wake-up was late does not run, and
// its place is left.
func TestATaskThatHasEndedIsNotTakenAlong(t *testing.T) {
	parkingLot(t, veryLate(), func(t *testing.T, l *lot) {
		var ids []string
		for n := range 20 {
			var opts []queue.Option
			if n%5 == 4 {
				opts = append(opts, queue.ExpiresIn(time.Duration(n+12)*time.Second))
			}
			ids = append(ids, l.Submit("llm", prompt{Org: "acme", Cost: int64(n)}, opts...).ID)
			synctest.Wait()
		}
		if _, err := l.Queue.Cancel(t.Context(), ids[12]); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Queue.Cancel(t.Context(), ids[13]); err != nil {
			t.Fatal(err)
		}
		for n, id := range ids {
			got := l.Wait(id)
			if want := n != 12 && n != 13; want != (got.Status != task.Cancelled) {
				t.Errorf("task %d = %s", n, got.Encode())
			}
		}
		l.rounds(t, 4)
		if got := l.round(t); got.Waiting != 0 {
			t.Errorf("%+v", got)
		}
	}, everySecond)
}
