package limiter

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/dynamodbemu"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

// all has all figures printed, from runs long enough for two decimals. Without it a few
// are checked, as one test among others.
var all = flag.Bool("figures", false, "print all figures")

// atLength returns n when all figures are printed, and else about a third of it.
func atLength(n int) int {
	if *all {
		return n
	}
	return (n + 2) / 3
}

// TestFigures prints the figures. Those that are promised are checked as well.
func TestFigures(t *testing.T) {
	tierCounts, callerCounts := []int{1, 5}, []int{1, 8, 32}
	if !*all {
		tierCounts, callerCounts = tierCounts[1:], callerCounts[1:2]
	}
	for _, tiers := range tierCounts {
		for _, callers := range callerCounts {
			for _, load := range []string{"fresh", "over", "half"} {
				c := measure(t, func(ctx context.Context) (tally, error) { return loads[load](ctx, callers, tiers) })
				figure(t, fmt.Sprintf("requests_per_admit impl=sluice load=%s callers=%d tiers=%d", load, callers, tiers), c.perAdmit(), load != "half")
				if load == "over" && tiers == 1 {
					figure(t, fmt.Sprintf("requests_per_deny impl=sluice callers=%d", callers), c.perDeny(), true)
				}
			}
		}
	}
	c := measure(t, func(ctx context.Context) (tally, error) { return twoKeys(ctx, 8, false) })
	figure(t, "requests_per_admit impl=sluice keys=2 callers=8", c.perAdmit(), false)
	c = measure(t, func(ctx context.Context) (tally, error) { return twoKeys(ctx, 8, true) })
	figure(t, "requests_per_admit impl=sluice keys=2 callers=8 conflicts=true", c.perAdmit(), false)
	figure(t, "registry_requests impl=sluice callers=8 seconds=60", measure(t, func(ctx context.Context) (int, error) { return registryReads(ctx, 8) }), false)
}

// TestOverAdmission prints how many were admitted beyond the policy, and fails if any was.
func TestOverAdmission(t *testing.T) {
	for _, c := range []struct {
		name  string
		judge func(context.Context) (verdict, error)
	}{{"cold", cold}, {"contention", contention}, {"ttl", expiry}, {"policy_change", policyChange}} {
		v := measure(t, c.judge)
		fmt.Printf("figure over_admitted impl=sluice case=%s = %d\n", c.name, v.over)
		fmt.Printf("figure admitted impl=sluice case=%s = %d of at most %d\n", c.name, v.admitted, v.most)
		if v.over > 0 || v.admitted < v.most/2 {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}

var loads = map[string]func(ctx context.Context, callers, tiers int) (tally, error){"fresh": fresh, "over": over, "half": half}

// measure runs something in virtual time.
func measure[T any](t *testing.T, f func(context.Context) (T, error)) (result T) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		if result, err = f(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	return result
}

// figure prints a figure. One that is promised is 1.00, give or take a few first guesses.
func figure(t *testing.T, name string, value any, promised bool) {
	t.Helper()
	fmt.Printf("figure %s = %v\n", name, value)
	if n, err := strconv.ParseFloat(fmt.Sprint(value), 64); promised && (err != nil || n > 1.02) {
		t.Errorf("%s = %v, want 1.00", name, value)
	}
}

// tally counts decisions and the requests that they took.
type tally struct {
	admitted, denied     int
	forAdmits, forDenies int
}

func (t *tally) add(o tally) {
	t.admitted += o.admitted
	t.denied += o.denied
	t.forAdmits += o.forAdmits
	t.forDenies += o.forDenies
}

func (t *tally) perAdmit() string { return ratio(t.forAdmits, t.admitted) }
func (t *tally) perDeny() string  { return ratio(t.forDenies, t.denied) }

func ratio(a, b int) string {
	if b == 0 {
		return "not run"
	}
	return fmt.Sprintf("%.2f", float64(a)/float64(b))
}

// Requests take 2 to 8 ms, half of it on the way there.
func latency(dynamodbemu.Call) (before, after time.Duration) {
	one := func() time.Duration { return time.Millisecond + rand.N(3*time.Millisecond) }
	return one(), one()
}

const table = "limits"

// A bench is a cloud with a table and a registry.
type bench struct {
	cloud    *cloud.Cloud
	policies []limit.Policy
	callers  int
}

func newBench(ctx context.Context, o dynamodbemu.Options, policies ...limit.Policy) (*bench, error) {
	if o.Latency == nil {
		o.Latency = latency
	}
	b := &bench{cloud: cloud.New(cloud.Options{DynamoDB: o}), policies: policies}
	client := dynamodb.NewFromConfig(b.cloud.Config(cloud.Label("setup")))
	if _, err := client.CreateTable(ctx, dynamolimit.Table(table)); err != nil {
		return nil, err
	}
	return b, b.limiter("setup").Declare(ctx, 1, policies...)
}

func (b *bench) close() { _ = b.cloud.Close() }

func (b *bench) limiter(label string, options ...dynamolimit.Option) *dynamolimit.Limiter {
	options = append(options, dynamolimit.WithLog(slog.New(slog.DiscardHandler)))
	return dynamolimit.New(dynamodb.NewFromConfig(b.cloud.Config(cloud.Label(label))), table, options...)
}

// A caller makes decisions with a limiter of its own.
type caller struct {
	*dynamolimit.Limiter

	bench *bench
	label string
	tally tally
}

// crowd returns new callers, which have read the registry.
func (b *bench) crowd(ctx context.Context, n int, options ...dynamolimit.Option) ([]*caller, error) {
	crowd := make([]*caller, n)
	for i := range crowd {
		b.callers++
		crowd[i] = &caller{bench: b, label: fmt.Sprintf("caller-%d", b.callers)}
		crowd[i].Limiter = b.limiter(crowd[i].label, options...)
	}
	errs := together(n, func(i int) error {
		_, err := crowd[i].Policies(ctx)
		return err
	})
	return crowd, errors.Join(errs...)
}

// ask makes one decision and counts its requests.
func (c *caller) ask(ctx context.Context, tiers ...limit.Tier) (bool, error) {
	before := c.bench.cloud.Requests().Snapshot(c.label).Total()
	_, err := c.Acquire(ctx, tiers...)
	n := c.bench.cloud.Requests().Snapshot(c.label).Total() - before
	var denied *limit.Denied
	switch {
	case err == nil:
		c.tally.admitted++
		c.tally.forAdmits += n
		return true, nil
	case errors.As(err, &denied):
		c.tally.denied++
		c.tally.forDenies += n
		return false, nil
	default:
		return false, err
	}
}
