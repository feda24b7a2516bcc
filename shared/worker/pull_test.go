package worker_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/scheduler"

	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/reset"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/wakeup"
)

var (
	byOperator = limit.Policy{Name: "quota", Manual: limit.ByOperator, Max: 2}
	everyHour  = limit.Policy{Name: "hourly", Rate: limit.Per(2, time.Hour)}
)

// round is one minute of the reset function.
func (l *lot) round(t *testing.T) reset.Report {
	t.Helper()
	limiter := l.limiter()
	r := reset.New(reset.Config{
		Registry: limiter, Sleepers: limiter, Log: slog.New(slog.DiscardHandler),
		Wakeups: wakeup.New(scheduler.NewFromConfig(l.Config("reset")), wakeup.Config{
			Group: l.ScheduleGroup, RoleARN: "arn:aws:iam::000000000000:role/scheduler", TargetARN: l.Cloud.Lambda().ARN(l.Function),
		}),
	})
	report, err := r.Handle(t.Context())
	if err != nil {
		t.Error(err)
	}
	return report
}

// rounds runs the reset function for some minutes.
func (l *lot) rounds(t *testing.T, minutes int) (pulled int) {
	for range minutes {
		time.Sleep(time.Minute)
		pulled += l.round(t).Pulled
	}
	synctest.Wait()
	return pulled
}

func (l *lot) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.runs)
}

func (l *lot) submit(t *testing.T, n int) []string {
	t.Helper()
	var ids []string
	for i := range n {
		ids = append(ids, l.Submit("llm", prompt{Org: "acme", Cost: int64(i)}).ID)
		synctest.Wait()
	}
	time.Sleep(10 * time.Second)
	return ids
}

// What an operator grants wakes as many as can run by it, and no more.
func TestAGrantWakesAsManyAsCanRun(t *testing.T) {
	parkingLot(t, nil, func(t *testing.T, l *lot) {
		ids := l.submit(t, 8)
		if got := l.round(t); l.count() != 2 || got.Waiting != 6 || got.Pulled != 0 {
			t.Fatalf("%d ran, %+v", l.count(), got)
		}
		if err := l.limiter().Grant(t.Context(), byOperator.Key("acme"), 2); err != nil {
			t.Fatal(err)
		}
		pulled := l.rounds(t, 3)
		if l.count() != 4 || pulled != 2 {
			t.Errorf("%d ran, %d were woken", l.count(), pulled)
		}
		for range 2 {
			if _, err := l.limiter().Reset(t.Context(), "quota", "test"); err != nil {
				t.Fatal(err)
			}
			l.rounds(t, 3)
		}
		if l.count() != 8 {
			t.Errorf("%d ran after two resets, want all 8", l.count())
		}
		for _, id := range ids {
			if got := l.Get(id); got.Status != task.Completed {
				t.Errorf("task = %s", got.Encode())
			}
		}
		l.rounds(t, 3)
		if got := l.round(t); got.Waiting != 0 {
			t.Errorf("%+v", got)
		}
	}, byOperator)
}

// A raised override wakes those who wait.
func TestARaisedOverrideWakesThoseWhoWait(t *testing.T) {
	parkingLot(t, nil, func(t *testing.T, l *lot) {
		l.submit(t, 12)
		if n := l.count(); n != 2 {
			t.Fatalf("%d ran", n)
		}
		refill := int64(7200)
		if _, err := l.limiter().SetOverride(t.Context(), "hourly", limit.Override{Refill: &refill}); err != nil {
			t.Fatal(err)
		}
		l.rounds(t, 4)
		if n := l.count(); n != 12 {
			t.Errorf("%d ran after the override, want 12", n)
		}
	}, everyHour)
}

// A hold keeps everybody of its key asleep, and its release wakes them.
func TestAReleasedHoldWakesThoseWhoWait(t *testing.T) {
	parkingLot(t, nil, func(t *testing.T, l *lot) {
		if got := l.round(t); got.Waiting != 0 {
			t.Errorf("%+v", got)
		}
		l.submit(t, 1)
		if err := l.limiter().Hold(t.Context(), everySecond.Key("acme"), time.Now().Add(6*time.Hour)); err != nil {
			t.Fatal(err)
		}
		l.submit(t, 10)
		if n := l.count(); n != 1 {
			t.Fatalf("%d ran during the hold", n)
		}
		if err := l.limiter().Release(t.Context(), everySecond.Key("acme")); err != nil {
			t.Fatal(err)
		}
		l.rounds(t, 3)
		if n := l.count(); n != 11 {
			t.Errorf("%d ran after the release, want 11", n)
		}
	}, everySecond)
}

// The places of cancelled tasks close up.
func TestCancelledTasksMakeRoom(t *testing.T) {
	parkingLot(t, nil, func(t *testing.T, l *lot) {
		ids := l.submit(t, 8) // the last is due after three hours
		for _, id := range ids[2:7] {
			if _, err := l.Queue.Cancel(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		last := l.Get(ids[7]).AvailableAt
		l.rounds(t, 60)
		got := l.Wait(ids[7])
		if got.Status != task.Completed {
			t.Errorf("task = %s", got.Encode())
		}
		if early := last.Sub(*got.CompletedAt); early < time.Hour {
			t.Errorf("the last of them ran only %v earlier than it would have", early)
		}
		l.rounds(t, 10)
		if got := l.round(t); got.Waiting != 0 {
			t.Errorf("%+v", got)
		}
	}, everyHour)
}

// Who is behind cancelled tasks does not wait for a minute's round per task: the first of them
// that is woken passes the turn on.
func TestATurnIsPassedOnOverCancelledTasks(t *testing.T) {
	parkingLot(t, nil, func(t *testing.T, l *lot) {
		ids := l.submit(t, 8)
		for _, id := range ids[2:7] {
			if _, err := l.Queue.Cancel(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.limiter().Grant(t.Context(), byOperator.Key("acme"), 1); err != nil {
			t.Fatal(err)
		}
		l.rounds(t, 2)
		if got := l.Get(ids[7]); got.Status != task.Completed {
			t.Errorf("after two minutes the task behind them is %s", got.Status)
		}
		l.rounds(t, 2)
		if got := l.round(t); got.Waiting != 0 {
			t.Errorf("%+v", got)
		}
	}, byOperator)
}

// The places of tasks that expire while they are parked close up: who is behind them runs
// earlier.
func TestThePlaceOfAnExpiredTaskClosesUp(t *testing.T) {
	parkingLot(t, nil, func(t *testing.T, l *lot) {
		l.submit(t, 2)
		var expiring []string
		for n := range 5 {
			expiring = append(expiring, l.Submit("llm", prompt{Org: "acme", Cost: int64(n)}, queue.ExpiresIn(20*time.Minute)).ID)
			synctest.Wait()
		}
		last := l.submit(t, 1)[0] // it is due after three hours
		due := l.Get(last).AvailableAt
		if got := l.round(t); got.Waiting != 6 {
			t.Errorf("%+v", got)
		}
		l.rounds(t, 25)
		for _, id := range expiring {
			if got := l.Get(id); got.Status != task.Expired {
				t.Errorf("task = %s", got.Encode())
			}
		}
		l.rounds(t, 20)
		got := l.Wait(last)
		if got.Status != task.Completed || due.Sub(*got.CompletedAt) < 2*time.Hour {
			t.Errorf("it ran %v earlier than it would have: %s", due.Sub(*got.CompletedAt), got.Encode())
		}
		l.rounds(t, 3)
		if got := l.round(t); got.Waiting != 0 {
			t.Errorf("%+v", got)
		}
	}, everyHour)
}
