package dynamolimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/dynamodbemu"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

// requests returns what a client has sent since the last time, such as
// "dynamodb.Query=1 dynamodb.UpdateItem=1".
func requests(c *cloud.Cloud) func() string {
	last := c.Requests().Snapshot("limiter")
	return func() string {
		now := c.Requests().Snapshot("limiter")
		defer func() { last = now }()
		return now.Diff(last).String()
	}
}

func wantRequests(t *testing.T, what string, sent func() string, want string) {
	t.Helper()
	if got := sent(); got != want {
		t.Errorf("%s: sent %q, want %q", what, got, want)
	}
}

func acquired(t *testing.T, l *dynamolimit.Limiter, tiers ...limit.Tier) *limit.Reservation {
	t.Helper()
	r, err := l.Acquire(t.Context(), tiers...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func denied(t *testing.T, l *dynamolimit.Limiter, tiers ...limit.Tier) *limit.Denied {
	t.Helper()
	_, err := l.Acquire(t.Context(), tiers...)
	var d *limit.Denied
	if !errors.As(err, &d) {
		t.Fatalf("error %v, want a denial", err)
	}
	return d
}

func TestEachVerbSendsWhatItMust(t *testing.T) {
	t.Parallel()
	c := newCloud(t, cloud.Options{})
	sent := requests(c)
	p := []limit.Policy{
		{Name: "a", Group: "g", Rate: limit.Per(10, limit.MaxPeriod)}, {Name: "b", Group: "g", Window: limit.Days("UTC"), Max: 10},
		{Name: "c", Manual: limit.ByOperator, Max: 10},
	}
	l := newLimiter(c, "limiter", dynamolimit.WithPolicies(1, p...))
	wantRequests(t, "a limiter never used", sent, "")
	acquired(t, l)
	wantRequests(t, "no tiers", sent, "")
	first := acquired(t, l, p[0].Key("k"), p[1].Key("k").Cost(3))
	wantRequests(t, "the first use of three policies", sent, "dynamodb.PutItem=3 dynamodb.Query=1 dynamodb.UpdateItem=1")
	acquired(t, l, p[0].Key("k"), p[1].Key("k"))
	wantRequests(t, "another", sent, "dynamodb.UpdateItem=1")
	denied(t, l, p[0].Key("k"), p[1].Key("k").Cost(9))
	wantRequests(t, "a predicted denial", sent, "dynamodb.GetItem=1")
	acquired(t, l, p[0].Key("k").Cost(0))
	wantRequests(t, "a cost of 0", sent, "")
	if err := first.Refund(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantRequests(t, "a refund", sent, "dynamodb.UpdateItem=1")
	if err := first.Refund(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantRequests(t, "a second refund", sent, "")
	two := acquired(t, l, p[0].Key("k"), p[2].Key("k"))
	wantRequests(t, "two items", sent, "dynamodb.TransactWriteItems=1")
	denied(t, l, p[0].Key("k"), p[2].Key("k").Cost(10))
	wantRequests(t, "a predicted denial on two items", sent, "dynamodb.BatchGetItem=1")
	if err := two.Refund(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantRequests(t, "a refund on two items", sent, "dynamodb.TransactWriteItems=1")
	if err := l.Hold(t.Context(), p[2].Key("k"), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	wantRequests(t, "a hold", sent, "dynamodb.UpdateItem=1")
	if _, err := l.Inspect(t.Context(), p[2].Key("k")); err != nil {
		t.Fatal(err)
	}
	wantRequests(t, "inspect", sent, "dynamodb.GetItem=1")
	if _, err := l.Reset(t.Context(), "a", "op"); err != nil {
		t.Fatal(err)
	}
	wantRequests(t, "a reset", sent, "dynamodb.PutItem=1 dynamodb.Query=1")
	// A limiter that has seen nothing learns from the failed condition.
	other := newLimiter(c, "limiter")
	denied(t, other, p[1].Key("k").Cost(10))
	wantRequests(t, "a denial that nothing predicts", sent, "dynamodb.Query=1 dynamodb.UpdateItem=1")
}

func TestRegistryIsReadOncePerFiveSecondsOfUse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTable(t, cloud.Options{Latency: map[cloud.Service]time.Duration{cloud.DynamoDB: 4 * time.Millisecond}})
		defer c.Close()
		p := bucket(1_000_000, time.Hour)
		l := newLimiter(c, "limiter", dynamolimit.WithPolicies(1, p))
		acquired(t, l, p.Key("k"))
		sent := c.Requests().Snapshot("limiter")
		for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(time.Second) { // in crowds of five
			done := make(chan error)
			for range 5 {
				go func() {
					_, err := l.Acquire(t.Context(), p.Key("k"))
					done <- err
				}()
			}
			for range 5 {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}
		if n := c.Requests().Snapshot("limiter").Diff(sent).Of(cloud.DynamoDB, "Query"); n < 11 || n > 13 {
			t.Errorf("the registry was read %d times in a minute, want 12", n)
		}
		time.Sleep(time.Hour)
		before := c.Requests().Snapshot("limiter")
		time.Sleep(time.Hour)
		if n := c.Requests().Snapshot("limiter").Diff(before).Total(); n != 0 {
			t.Errorf("%d requests in an idle hour", n)
		}
	})
}

func TestAChangeIsInForceEverywhereInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTable(t, cloud.Options{})
		defer c.Close()
		p := limit.Policy{Name: "p", Window: limit.FromFirstUse(24 * time.Hour), Max: 100}
		l := newLimiter(c, "limiter", dynamolimit.WithPolicies(1, p))
		operator := newLimiter(c, "operator")
		acquired(t, l, p.Key("k"))
		inForce, err := operator.SetOverride(t.Context(), "p", limit.Override{Max: aws.Int64(2)})
		if err != nil || time.Until(inForce) > limit.CacheFor {
			t.Fatalf("in force by %v, error %v", inForce, err)
		}
		acquired(t, l, p.Key("k").Cost(50)) // still by its copy
		time.Sleep(time.Until(inForce))
		denied(t, l, p.Key("k"))
	})
}

// A limiter with an old copy of the registry that meets a state of newer settings
// reads the registry at once.
func TestAStateOfNewerSettingsRenewsTheCopy(t *testing.T) {
	t.Parallel()
	c := newCloud(t, cloud.Options{})
	p := limit.Policy{Name: "p", Manual: limit.ByOperator, Max: 10}
	l := newLimiter(c, "limiter", dynamolimit.WithPolicies(1, p))
	acquired(t, l, p.Key("k").Cost(10))
	operator := newLimiter(c, "operator")
	if _, err := operator.SetOverride(t.Context(), "p", limit.Override{Max: aws.Int64(15)}); err != nil {
		t.Fatal(err)
	}
	acquired(t, operator, p.Key("k")) // reprices
	sent := requests(c)
	if r, err := l.Inspect(t.Context(), p.Key("k")); err != nil || r.Available != 4 {
		t.Errorf("%+v, %v, want 4 left", r, err)
	}
	wantRequests(t, "inspect", sent, "dynamodb.GetItem=2 dynamodb.Query=1")
	stale := newLimiter(c, "limiter")
	acquired(t, stale, p.Key("k"))
	if _, err := operator.Reset(t.Context(), "p", "op"); err != nil {
		t.Fatal(err)
	}
	acquired(t, operator, p.Key("k").Cost(15))
	if d := denied(t, stale, p.Key("k")); d.Blocked[0].Available != 0 {
		t.Errorf("%+v", d)
	}
}

func TestSettingsArePricedAnewOncePerKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTable(t, cloud.Options{})
		defer c.Close()
		p := bucket(100, 24*365*time.Hour)
		l := newLimiter(c, "limiter", dynamolimit.WithPolicies(1, p))
		acquired(t, l, p.Key("k").Cost(90))
		if _, err := l.SetOverride(t.Context(), p.Name, limit.Override{Max: aws.Int64(50)}); err != nil {
			t.Fatal(err)
		}
		sent := requests(c)
		for range 5 {
			acquired(t, l, p.Key("k"))
		}
		wantRequests(t, "five after a change", sent, "dynamodb.UpdateItem=5")
		if r, err := l.Inspect(t.Context(), p.Key("k")); err != nil || r.Available != 5 || r.Limit != 50 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestTwoReleasesSideBySideNeverTurnAPolicyBackAndForth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTable(t, cloud.Options{})
		defer c.Close()
		older := limit.Policy{Name: "p", Rate: limit.Per(1000, 24*365*time.Hour)}
		newer := limit.Policy{Name: "p", Rate: limit.Per(460, 24*365*time.Hour)}
		newLimiter(c, "setup", dynamolimit.WithPolicies(1, older)).Policies(t.Context())
		admitted := 0
		for i := range 40 {
			l := newLimiter(c, "limiter", dynamolimit.WithPolicies(int64(1+i%2), []limit.Policy{older, newer}[i%2]))
			if i == 0 {
				continue // the older version alone; from here on both start by turns
			}
			for range 30 {
				if _, err := l.Acquire(t.Context(), older.Key("k")); err == nil {
					admitted++
				}
			}
			time.Sleep(time.Second)
		}
		if admitted != 460 {
			t.Errorf("%d admitted, want 460", admitted)
		}
		entries, err := newLimiter(c, "x").Policies(t.Context())
		if err != nil || len(entries) != 1 || len(entries[0].Terms) != 2 {
			t.Errorf("%+v, %v, want one change of terms", entries, err)
		}
	})
}

func TestAPolicyThatCannotBeRegisteredFailsAlone(t *testing.T) {
	t.Parallel()
	c := newCloud(t, cloud.Options{})
	good, bad, other := limit.Policy{Name: "good", Rate: limit.PerSecond(1)}, limit.Policy{Name: "bad"}, limit.Policy{Name: "other", Rate: limit.PerSecond(1)}
	if err := newLimiter(c, "setup").Declare(t.Context(), 7, other); err != nil {
		t.Fatal(err)
	}
	other.Burst = 5
	l := newLimiter(c, "limiter", dynamolimit.WithPolicies(7, good, bad, other))
	acquired(t, l, good.Key("k"))
	var invalid *limit.InvalidPolicyError
	if _, err := l.Acquire(t.Context(), bad.Key("k")); !errors.As(err, &invalid) {
		t.Errorf("error %v, want an InvalidPolicyError", err)
	}
	if _, err := l.Acquire(t.Context(), other.Key("k")); !errors.Is(err, limit.ErrReleaseConflict) {
		t.Errorf("error %v, want ErrReleaseConflict", err)
	}
}

func TestManyStartingAtOnceRegisterTheirPoliciesOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTable(t, cloud.Options{Latency: map[cloud.Service]time.Duration{cloud.DynamoDB: 4 * time.Millisecond}})
		defer c.Close()
		policies := []limit.Policy{{Name: "p", Rate: limit.Per(100, limit.MaxPeriod)}, {Name: "q", Rate: limit.Per(100, limit.MaxPeriod)}}
		done := make(chan error)
		for i := range 30 {
			go func() {
				_, err := newLimiter(c, fmt.Sprint(i), dynamolimit.WithPolicies(1, policies...)).Acquire(t.Context(), policies[0].Key("k"))
				done <- err
			}()
		}
		for range 30 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		entries, err := newLimiter(c, "x").Policies(t.Context())
		if err != nil || len(entries) != 2 || len(entries[0].Changes) != 1 {
			t.Errorf("%+v, %v, want each declared once", entries, err)
		}
	})
}

// Down for a minute: nothing runs, and what fails says that it was the store.
func TestStoreDownAdmitsNothing(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]cloud.Fault{"unreachable": cloud.Unreachable, "hangs": {Delay: time.Hour}, "throttles": {Status: 400, Code: "ThrottlingException"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newTable(t, cloud.Options{})
				defer c.Close()
				p := limit.Policy{Name: "p", Manual: limit.ByOperator, Max: 1000}
				warm, cold := newLimiter(c, "warm", dynamolimit.WithPolicies(1, p)), newLimiter(c, "cold")
				acquired(t, warm, p.Key("k"))
				c.SetFault(func(*cloud.Request) cloud.Fault { return fault })
				start := time.Now()
				want := limit.ErrStoreDown
				if name == "throttles" {
					want = limit.ErrStoreBusy
				}
				for time.Since(start) < time.Minute {
					for _, l := range []*dynamolimit.Limiter{warm, cold} {
						began := time.Now()
						_, err := l.Acquire(t.Context(), p.Key("k"))
						if !errors.Is(err, want) {
							t.Fatalf("error %v, want %v", err, want)
						}
						if took := time.Since(began); took > dynamolimit.DefaultDeadline+time.Millisecond {
							t.Errorf("gave up after %v", took)
						}
					}
				}
				c.SetFault(nil)
				acquired(t, warm, p.Key("k"))
				if r, err := cold.Inspect(t.Context(), p.Key("k")); err != nil || r.Used != 2 {
					t.Errorf("%d used (%v), want 2", r.Used, err)
				}
			})
		})
	}
}

func TestTheDeadlineOfTheContextIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTable(t, cloud.Options{})
		defer c.Close()
		p := bucket(10, time.Hour)
		l := newLimiter(c, "limiter", dynamolimit.WithPolicies(1, p))
		acquired(t, l, p.Key("k"))
		c.SetFault(func(*cloud.Request) cloud.Fault {
			return cloud.Fault{Status: 400, Code: "TransactionConflictException"}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := l.Acquire(ctx, p.Key("k"))
		if !errors.Is(err, limit.ErrStoreBusy) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 300*time.Millisecond {
			t.Errorf("error %v after %v, want busy at the deadline", err, time.Since(began))
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.Acquire(ended, p.Key("k")); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want Canceled", err)
		}
	})
}

func TestAccessDeniedIsAnErrorOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"AccessDeniedException", "UnrecognizedClientException"} {
		c := newCloud(t, cloud.Options{})
		p := bucket(10, time.Hour)
		l := newLimiter(c, "limiter", dynamolimit.WithPolicies(1, p))
		acquired(t, l, p.Key("k"))
		c.SetFault(func(*cloud.Request) cloud.Fault { return cloud.Fault{Status: 400, Code: code} })
		sent := requests(c)
		_, err := l.Acquire(t.Context(), p.Key("k"))
		if !errors.Is(err, limit.ErrStoreDenied) || errors.Is(err, limit.ErrStoreDown) {
			t.Errorf("%s: error %v, want ErrStoreDenied", code, err)
		}
		wantRequests(t, code, sent, "dynamodb.UpdateItem=1")
	}
}

func TestAMissingTableSaysSo(t *testing.T) {
	t.Parallel()
	c := newCloud(t, cloud.Options{})
	l := dynamolimit.New(dynamodb.NewFromConfig(c.Config()), "elsewhere", dynamolimit.WithLog(quiet))
	_, err := l.Acquire(t.Context(), bucket(1, time.Second).Key("k"))
	if !errors.Is(err, limit.ErrStoreDown) || !strings.Contains(err.Error(), "ResourceNotFoundException") {
		t.Errorf("error %v", err)
	}
}

// 32 callers, each with a memory of its own: all get in, in few requests.
func TestContentionIsRetriedUntilAllAreServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := cloud.Options{}
		o.DynamoDB.Conflicts = true
		o.DynamoDB.Latency = func(dynamodbemu.Call) (before, after time.Duration) {
			return 2 * time.Millisecond, 2 * time.Millisecond
		}
		c := newTable(t, o)
		defer c.Close()
		p, q := limit.Policy{Name: "p", Rate: limit.Per(1000, 24*365*time.Hour)}, limit.Policy{Name: "q", Manual: limit.ByOperator, Max: 1000}
		var admitted atomic.Int64
		done := make(chan struct{})
		for i := range 32 {
			go func() {
				l := newLimiter(c, fmt.Sprint(i), dynamolimit.WithPolicies(1, p, q))
				for n := range 4 {
					tiers := []limit.Tier{p.Key("k"), q.Key("k")}
					if _, err := l.Acquire(t.Context(), tiers[:1+n%2]...); err != nil {
						t.Error(err)
					} else {
						admitted.Add(1)
					}
				}
				done <- struct{}{}
			}()
		}
		for range 32 {
			<-done
		}
		r, err := newLimiter(c, "x").Inspect(t.Context(), p.Key("k"))
		if err != nil || r.Used != 128 || admitted.Load() != 128 {
			t.Errorf("%d admitted, %d used (%v), want 128", admitted.Load(), r.Used, err)
		}
	})
}

func TestFromEnvironmentNamesTheVariable(t *testing.T) {
	t.Parallel()
	c := newCloud(t, cloud.Options{})
	if _, err := dynamolimit.FromEnvironment(c.Config(), func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), "SLUICE_TABLE") {
		t.Errorf("error %v, want one that names SLUICE_TABLE", err)
	}
	p := bucket(1, time.Hour)
	l, err := dynamolimit.FromEnvironment(c.Config(), func(name string) string { return map[string]string{"SLUICE_TABLE": table}[name] }, dynamolimit.WithPolicies(1, p))
	if err != nil || l.Table() != table {
		t.Fatal(err)
	}
	acquired(t, l, p.Key("k"))
}

// items returns what is stored about keys.
func items(t *testing.T, c *cloud.Cloud) []map[string]types.AttributeValue {
	t.Helper()
	out, err := dynamodb.NewFromConfig(c.Config(cloud.Label("setup"))).Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String(table), FilterExpression: aws.String("sk = :s"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":s": &types.AttributeValueMemberS{Value: "state"}}})
	if err != nil {
		t.Fatal(err)
	}
	return out.Items
}
