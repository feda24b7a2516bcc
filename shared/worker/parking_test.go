package worker_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/localstack/sluicetest"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/worker"
)

var (
	everySecond = limit.Policy{Name: "every-second", Rate: limit.PerSecond(1)}
	perOrgHour  = limit.Policy{Name: "org-hour", Rate: limit.Per(600, time.Hour), Max: 60}
)

// lot is a stack whose tasks are limited by policies in the table, and what they did.
type lot struct {
	*sluicetest.Stack

	mu   sync.Mutex
	runs []ran
}

type ran struct {
	org string
	n   int64
	at  time.Time
}

// parkingLot tests tasks of type "llm" under policies by organization.
func parkingLot(t *testing.T, lateness func() time.Duration, test func(*testing.T, *lot), policies ...limit.Policy) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &lot{}
		mux := worker.NewMux()
		var selectors []limit.Selector[prompt]
		for _, p := range policies {
			selectors = append(selectors, limit.By(p, prompt.org))
		}
		worker.Handle(mux, "llm", func(_ context.Context, p prompt) (any, error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.runs = append(l.runs, ran{p.Org, p.Cost, time.Now()})
			return nil, nil
		}, worker.WithLimits(limit.All(selectors...)))
		var o cloud.Options
		o.Scheduler.Lateness = lateness
		l.Stack = sluicetest.Start(t, mux, sluicetest.Cloud(o), sluicetest.NoSweep())
		test(t, l)
		time.Sleep(30 * time.Hour) // a task that was pulled forward still has its own wake-up
		assertNothingLeft(t, l.Stack)
	})
}

// late is a lateness from 0 to a minute.
func late(seed uint64) func() time.Duration {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 7))
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(r.Int64N(int64(time.Minute)))
	}
}

// limiter is one of the stack's table.
func (l *lot) limiter() *dynamolimit.Limiter {
	return dynamolimit.New(dynamodb.NewFromConfig(l.Config("test")), l.Table)
}

// spread returns how long the runs of an organization took, checked against a rate of one
// a second.
func (l *lot) spread(t *testing.T, org string, want int) time.Duration {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var at []time.Time
	for _, r := range l.runs {
		if r.org == org {
			at = append(at, r.at)
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	if len(at) != want {
		t.Fatalf("%d tasks of %s ran, want %d", len(at), org, want)
	}
	for i := range at {
		for j := i + 1; j < len(at); j++ {
			if d := at[j].Sub(at[i]); float64(j-i) > d.Seconds()+1.001 {
				t.Fatalf("%d runs within %v", j-i+1, d)
			}
		}
	}
	return at[len(at)-1].Sub(at[0])
}

// Wake-ups that come twice, or are left from an earlier sleep, do not take a task's turn from the visit
// that waits for it: it is parked once, and runs when it is its turn.
func TestAWakeUpThatComesTwiceIsOne(t *testing.T) {
	everyTen := limit.Policy{Name: "every-ten", Rate: limit.Per(1, 10*time.Second)}
	parkingLot(t, nil, func(t *testing.T, l *lot) {
		l.Cloud.SetDelivery(cloud.Wakeups, cloud.Delivery{Duplicate: 1})
		l.Wait(l.Submit("llm", prompt{Org: "acme"}).ID)
		submitted := time.Now()
		id := l.Submit("llm", prompt{Org: "acme", Cost: 1}).ID
		for range 6 {
			time.Sleep(1500 * time.Millisecond)
			old := fmt.Appendf(nil, `{"task_id":%q,"second":1}`, id)
			if _, err := l.Cloud.Lambda().InvokeAsync(l.Function, old, lambdaemu.InvokeOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		got := l.Wait(id)
		if got.Status != task.Completed || got.Attempt != 1 || got.ThrottleCount != 1 || got.Revision != 3 {
			t.Errorf("task = %s", got.Encode())
		}
		if took := got.CompletedAt.Sub(submitted); took > 11*time.Second {
			t.Errorf("it took %v until it was its turn", took)
		}
	}, everyTen)
}

// A hundred tasks under a limit of one a second take about a hundred seconds, and are
// woken about once each, although wake-ups come up to a minute late.
func TestACrowdIsWokenOnceAndDrainsAtTheLimit(t *testing.T) {
	parkingLot(t, late(1), func(t *testing.T, l *lot) {
		const tasks = 100
		var ids []string
		for n := range tasks {
			ids = append(ids, l.Submit("llm", prompt{Org: "acme", Cost: int64(n)}).ID)
		}
		other := l.Submit("llm", prompt{Org: "other"}).ID
		if got := l.Wait(other); got.ThrottleCount != 0 {
			t.Errorf("a task of another key was throttled: %s", got.Encode())
		}
		throttles := int64(0)
		for _, id := range ids {
			got := l.Wait(id)
			if got.Status != task.Completed {
				t.Errorf("task = %s", got.Encode())
			}
			throttles += got.ThrottleCount
		}
		took := l.spread(t, "acme", tasks)
		t.Logf("took %v, %d throttles", took, throttles)
		if took > tasks*105/100*time.Second {
			t.Errorf("it took %v", took)
		}
		if throttles > tasks*115/100 {
			t.Errorf("%d tasks were throttled %d times", tasks, throttles)
		}
		crowds, err := l.limiter().Crowds(t.Context())
		if err != nil || len(crowds) > 0 {
			t.Errorf("left: %v, %v", crowds, err)
		}
	}, everySecond)
}

// A throttled task says what it waits for, under which place.
func TestAParkedTaskHasAPlace(t *testing.T) {
	parkingLot(t, nil, func(t *testing.T, l *lot) {
		var last string
		for n := range 20 {
			last = l.Submit("llm", prompt{Org: "acme", Cost: int64(n)}).ID
			synctest.Wait()
		}
		got := l.Get(last)
		if got.Status != task.Pending || got.ThrottleCount != 1 || !got.Parked() || got.Throttled.Policy != "every-second" || got.Throttled.Key != "acme" {
			t.Fatalf("task = %s", got.Encode())
		}
		if early := got.Throttled.Until.Sub(got.AvailableAt); early < 3*time.Second || early > worker.TurnWait {
			t.Errorf("it wakes up %v before its place is due", early)
		}
		l.Wait(last)
		l.spread(t, "acme", 20)
		l.mu.Lock()
		defer l.mu.Unlock()
		for place, r := range l.runs {
			// Those whose places are due within the wait are woken at the same time.
			if ahead := time.Duration(r.n-int64(place)) * time.Second; ahead > worker.TurnWait {
				t.Errorf("task %d ran as number %d", r.n, place)
			}
		}
	}, everySecond)
}

// A cancelled task does not run, and one that expires leaves its place.
func TestAParkedTaskThatEndsLeavesItsPlace(t *testing.T) {
	parkingLot(t, nil, func(t *testing.T, l *lot) {
		var ids []string
		for n := range 30 {
			ids = append(ids, l.Submit("llm", prompt{Org: "acme", Cost: int64(n)}).ID)
			synctest.Wait()
		}
		if _, err := l.Queue.Cancel(t.Context(), ids[20]); err != nil {
			t.Fatal(err)
		}
		for n, id := range ids {
			if got := l.Wait(id); n != 20 && got.Status != task.Completed {
				t.Errorf("task %d = %s", n, got.Encode())
			}
		}
		l.spread(t, "acme", 29)
	}, everySecond, perOrgHour)
}
