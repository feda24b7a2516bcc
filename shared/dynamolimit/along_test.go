package dynamolimit_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

var lingers = limit.Patience{Wait: 5 * time.Second, Linger: 2 * time.Second}

// asleep has tasks of a type come to a key that allows one a second, and returns the
// turns of those who are parked: the first place is due after a second, and so on.
func asleep(t *testing.T, l *dynamolimit.Limiter, tasks int, taskType string) (turns []*dynamolimit.Turn) {
	t.Helper()
	for n := range tasks {
		turn, err := l.Arrive(t.Context(), dynamolimit.Task{ID: fmt.Sprint(taskType, n), Type: taskType}, []limit.Tier{perSecond.Key("k")}, limit.Patience{})
		if err != nil {
			t.Fatal(err)
		}
		if turn.Action == limit.ToPark {
			turns = append(turns, turn)
		}
	}
	return turns
}

func every(string) bool { return true }

// inTown runs a test with some limiters of one table, in virtual time.
func inTown(t *testing.T, test func(t *testing.T, c *cloud.Cloud, limiters ...*dynamolimit.Limiter)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, cloud.Options{})
		var limiters []*dynamolimit.Limiter
		for n := range 2 {
			limiters = append(limiters, newLimiter(c, fmt.Sprint("caller", n), dynamolimit.WithPolicies(1, perSecond), dynamolimit.WithJitter(func() float64 { return 0.5 })))
		}
		test(t, c, limiters...)
	})
}

func TestOnlyOneTakesALateSleeperAlong(t *testing.T) {
	inTown(t, func(t *testing.T, _ *cloud.Cloud, l ...*dynamolimit.Limiter) {
		turns := asleep(t, l[0], 3, "job") // two run at once, one is parked
		crowd := turns[0].Crowd
		if crowd.Waiting != 1 {
			t.Fatalf("%+v", crowd)
		}
		if s, again, err := l[0].TakeAlong(t.Context(), crowd, every, lingers); s != nil || !again.IsZero() && time.Until(again) > 5*time.Second || err != nil {
			t.Errorf("taken along in time: %+v, %v, %v", s, again, err)
		}
		time.Sleep(10 * time.Second)
		if s, again, err := l[1].TakeAlong(t.Context(), crowd, func(string) bool { return false }, lingers); s != nil || !again.IsZero() || err != nil {
			t.Errorf("taken along by a function that does not serve it: %+v, %v, %v", s, again, err)
		}
		s, _, err := l[1].TakeAlong(t.Context(), crowd, every, lingers)
		if err != nil || s == nil || s.Task != (dynamolimit.Task{ID: "job2", Type: "job"}) || s.Place != turns[0].Place {
			t.Fatalf("%+v, %v", s, err)
		}
		if other, _, err := l[0].TakeAlong(t.Context(), crowd, every, lingers); other != nil || err != nil {
			t.Errorf("taken along twice: %+v, %v", other, err)
		}
		if own, err := l[0].Take(t.Context(), s.Task, s.Place); err != nil || own.Found {
			t.Errorf("its own wake-up finds it in the index: %+v, %v", own, err)
		}
		turn, err := s.Wake(t.Context(), []limit.Tier{perSecond.Key("k")}, lingers)
		if err != nil || turn.Action != limit.ToRun || turn.Crowd.Waiting != 0 {
			t.Errorf("%+v, %v", turn, err)
		}
	})
}

// Whose turn has passed to others sleeps on as it did.
func TestASleeperThatIsTakenAlongInVainSleepsOn(t *testing.T) {
	inTown(t, func(t *testing.T, _ *cloud.Cloud, l ...*dynamolimit.Limiter) {
		turns := asleep(t, l[0], 3, "job")
		time.Sleep(10 * time.Second)
		s, _, err := l[0].TakeAlong(t.Context(), turns[0].Crowd, every, lingers)
		if err != nil || s == nil {
			t.Fatalf("%+v, %v", s, err)
		}
		tier := perSecond.Key("k")
		if err := l[1].Hold(t.Context(), tier, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		turn, err := s.Wake(t.Context(), []limit.Tier{tier}, lingers)
		if err != nil || turn.Action != limit.ToKeep || !turn.Unchanged || turn.Crowd.Waiting != 1 {
			t.Fatalf("%+v, %v", turn, err)
		}
		own, err := l[1].Take(t.Context(), s.Task, s.Place)
		if err != nil || !own.Found {
			t.Fatalf("it is not in the index any more: %+v, %v", own, err)
		}
		if err := own.PutBack(t.Context()); err != nil {
			t.Error(err)
		}
		if err := l[1].Leave(t.Context(), s.Task.ID, s.Place); err != nil {
			t.Error(err)
		}
		if crowds, err := l[1].Crowds(t.Context()); err != nil || len(crowds) > 0 {
			t.Errorf("left: %+v, %v", crowds, err)
		}
	})
}

// Who dies with a sleeper in hand may have counted it out: it is not counted out again.
func TestASleeperThatIsNotInTheIndexIsNotCountedOut(t *testing.T) {
	inTown(t, func(t *testing.T, _ *cloud.Cloud, l ...*dynamolimit.Limiter) {
		turns := asleep(t, l[0], 4, "job")
		time.Sleep(10 * time.Second)
		for range 2 { // the first one dies before it runs
			if turn, err := wake(t.Context(), l[0], "job2", turns[0].Place, []limit.Tier{perSecond.Key("k")}, lingers); err != nil || turn.Action != limit.ToRun {
				t.Fatalf("%+v, %v", turn, err)
			}
		}
		crowds, err := l[1].Crowds(t.Context())
		if err != nil || len(crowds) != 1 || crowds[0].Waiting != 1 {
			t.Errorf("%+v, %v", crowds, err)
		}
	})
}

// Looking for somebody to take along costs one request, and where somebody is late a read
// of the key and a delete.
func TestTakingAlongCostsThreeRequests(t *testing.T) {
	inTown(t, func(t *testing.T, c *cloud.Cloud, l ...*dynamolimit.Limiter) {
		turns := asleep(t, l[0], 30, "job")
		before := c.Requests().Snapshot("caller0")
		if _, _, err := l[0].TakeAlong(t.Context(), turns[0].Crowd, every, limit.Patience{}); err != nil {
			t.Fatal(err)
		}
		if n := c.Requests().Snapshot("caller0").Diff(before).Total(); n != 1 {
			t.Errorf("%d requests where nobody is late", n)
		}
		time.Sleep(4 * time.Second)
		before = c.Requests().Snapshot("caller0")
		if s, _, err := l[0].TakeAlong(t.Context(), turns[0].Crowd, every, lingers); err != nil || s == nil {
			t.Fatalf("%+v, %v", s, err)
		}
		if n := c.Requests().Snapshot("caller0").Diff(before).Total(); n != 3 {
			t.Errorf("%d requests where somebody is", n)
		}
	})
}

// A task whose charge got lost, and which was parked then without an answer, does not run
// by the charge: another one has.
func TestATaskThatWasParkedWithoutAnAnswerIsNotTakenForOneThatWasCharged(t *testing.T) {
	tier := limit.Policy{Name: "slow", Rate: limit.Per(1, 20*time.Second), Max: 1}
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, cloud.Options{})
		first := newLimiter(c, "first", dynamolimit.WithPolicies(1, tier))
		other := newLimiter(c, "other", dynamolimit.WithPolicies(1, tier))
		if _, err := first.Policies(t.Context()); err != nil {
			t.Fatal(err)
		}
		updates := 0
		c.SetFault(func(r *cloud.Request) cloud.Fault {
			if r.Client != "first" || r.Operation != "UpdateItem" {
				return cloud.Fault{}
			}
			switch updates++; updates {
			case 1: // the charge
				return cloud.Fault{Delay: time.Hour}
			case 3: // the place, after the charge was refused
				return cloud.LostAnswer
			}
			return cloud.Fault{}
		})
		time.AfterFunc(time.Second, func() {
			turn, err := other.Arrive(context.Background(), dynamolimit.Task{ID: "other"}, []limit.Tier{tier.Key("k")}, limit.Patience{})
			if err != nil || turn.Action != limit.ToRun {
				t.Errorf("%+v, %v", turn, err)
			}
		})
		turn, err := first.Arrive(t.Context(), dynamolimit.Task{ID: "first"}, []limit.Tier{tier.Key("k")}, limit.Patience{})
		if err != nil || turn.Action != limit.ToPark || updates < 4 {
			t.Errorf("%+v, %v after %d updates", turn, err, updates)
		}
	})
}
