package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/dynamodbemu"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

// record notes admissions.
type record struct {
	mu  sync.Mutex
	all []admission
}

func (r *record) ask(ctx context.Context, c *caller, tiers ...limit.Tier) error {
	began := time.Now()
	ok, err := c.ask(ctx, tiers...)
	if ok {
		ended := time.Now()
		r.mu.Lock()
		r.all = append(r.all, admission{began, ended})
		r.mu.Unlock()
	}
	return err
}

// cold has 40 callers that have seen nothing yet, not even the registry, ask five times
// each for a new key of 100, which half of the trials find with its item there and
// idle.
func cold(ctx context.Context) (verdict, error) {
	var total verdict
	p := limit.Policy{Name: "daily", Window: limit.FromFirstUse(time.Hour), Max: 100}
	q := hardlyRefilling("slow", 100)
	b, err := newBench(ctx, dynamodbemu.Options{}, p, q)
	if err != nil {
		return total, err
	}
	defer b.close()
	for trial := range atLength(20) {
		policy, key := []limit.Policy{p, q}[trial%2], fmt.Sprint(trial)
		if trial%4 >= 2 { // the item is there
			if err := b.limiter("setup").Hold(ctx, policy.Key(key), time.Now()); err != nil {
				return total, err
			}
		}
		var admitted atomic.Int64
		errs := together(40, func(i int) error {
			c := &caller{bench: b, label: fmt.Sprintf("cold-%d-%d", trial, i)}
			c.Limiter = b.limiter(c.label)
			for range 5 {
				ok, err := c.ask(ctx, policy.Key(key))
				if err != nil {
					return err
				}
				if ok {
					admitted.Add(1)
				}
			}
			return nil
		})
		if len(errs) > 0 {
			return total, errors.Join(errs...)
		}
		total = total.and(judgeQuota(int(admitted.Load()), 100))
	}
	return total, nil
}

// contention has 32 callers ask for a refilling bucket as fast as they can.
func contention(ctx context.Context) (verdict, error) {
	b, err := newBench(ctx, dynamodbemu.Options{}, refilling)
	if err != nil {
		return verdict{}, err
	}
	defer b.close()
	crowd, err := b.crowd(ctx, 32)
	if err != nil {
		return verdict{}, err
	}
	var r record
	end := time.Now().Add(time.Duration(atLength(6)) * time.Second)
	errs := together(len(crowd), func(i int) error {
		for time.Now().Before(end) {
			if err := r.ask(ctx, crowd[i], refilling.Key("k")); err != nil {
				return err
			}
		}
		return nil
	})
	return judgeBucket(r.all, 20, 100), errors.Join(errs...)
}

// expiry has callers use a quick tier and one of a whole year on the same item, for
// four years in steps of 1 to 80 days, while DynamoDB deletes everything that has
// expired as soon as it may. Of the year's 100 none may be forgotten.
func expiry(ctx context.Context) (verdict, error) {
	var ahead atomic.Int64 // of the clocks of callers and service alike
	clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	quick := limit.Policy{Name: "quick", Group: "g", Rate: limit.PerSecond(1000)}
	yearly := limit.Policy{Name: "yearly", Group: "g", Window: limit.Every(366 * 24 * time.Hour).From(clock().Add(-time.Minute)), Max: 100}
	b, err := newBench(ctx, dynamodbemu.Options{Clock: clock}, quick, yearly)
	if err != nil {
		return verdict{}, err
	}
	defer b.close()
	client := dynamodb.NewFromConfig(b.cloud.Config(cloud.Label("setup")))
	if _, err := client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               aws.String(table),
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(dynamolimit.TTLAttribute), Enabled: aws.Bool(true)},
	}); err != nil {
		return verdict{}, err
	}
	crowd, err := b.crowd(ctx, 4, dynamolimit.WithClock(clock))
	if err != nil {
		return verdict{}, err
	}
	start := clock()
	admitted := map[int]int{}
	var mu sync.Mutex
	for clock().Sub(start) < 4*365*24*time.Hour {
		ahead.Add(int64(24*time.Hour + rand.N(79*24*time.Hour)))
		b.cloud.DynamoDB().ExpireNow()
		year := int(clock().Sub(start) / (366 * 24 * time.Hour))
		errs := together(len(crowd), func(i int) error {
			if _, err := crowd[i].ask(ctx, quick.Key("k")); err != nil {
				return err
			}
			for range 4 {
				ok, err := crowd[i].ask(ctx, quick.Key("k"), yearly.Key("k"))
				if err != nil {
					return err
				}
				if ok {
					mu.Lock()
					admitted[year]++
					mu.Unlock()
				}
			}
			return nil
		})
		if len(errs) > 0 {
			return verdict{}, errors.Join(errs...)
		}
	}
	var total verdict
	for _, n := range admitted {
		total = total.and(judgeQuota(n, 100))
	}
	return total, nil
}

// policyChange lowers a quota from 1,000 to 300 while 16 callers use it, raises it, and
// has two releases that declare it differently start callers by turns. What is admitted
// is judged from when a change is in force everywhere.
func policyChange(ctx context.Context) (verdict, error) {
	p := limit.Policy{Name: "quota", Window: limit.FromFirstUse(24 * time.Hour), Max: 1000}
	newer := p
	newer.Max = 400
	b, err := newBench(ctx, dynamodbemu.Options{}, p)
	if err != nil {
		return verdict{}, err
	}
	defer b.close()
	crowd, err := b.crowd(ctx, 16)
	if err != nil {
		return verdict{}, err
	}
	operator := b.limiter("operator")
	var total atomic.Int64
	ask := func(until time.Time, pause time.Duration) error {
		return errors.Join(together(len(crowd), func(i int) error {
			for time.Now().Before(until) {
				ok, err := crowd[i].ask(ctx, p.Key("k"))
				if err != nil {
					return err
				}
				if ok {
					total.Add(1)
				}
				time.Sleep(pause)
			}
			return nil
		})...)
	}
	// At most 1,000 until it is lowered; what is above 300 by the time that this is in
	// force stays used, and nothing more comes.
	if err := ask(time.Now().Add(time.Second), 100*time.Millisecond); err != nil {
		return verdict{}, err
	}
	inForce, err := operator.SetOverride(ctx, p.Name, limit.Override{Max: aws.Int64(300)})
	if err != nil {
		return verdict{}, err
	}
	if err := ask(inForce, 100*time.Millisecond); err != nil {
		return verdict{}, err
	}
	atLowered := int(total.Load())
	if err := ask(time.Now().Add(2*time.Second), 20*time.Millisecond); err != nil {
		return verdict{}, err
	}
	judged := judgeQuota(int(total.Load()), max(atLowered, 300))
	// Two releases: the newer one's 400 is in force, whoever starts.
	if _, err := operator.ClearOverride(ctx, p.Name, "bench"); err != nil {
		return verdict{}, err
	}
	if err := operator.Declare(ctx, 2, newer); err != nil {
		return verdict{}, err
	}
	if err := ask(time.Now().Add(limit.CacheFor), 100*time.Millisecond); err != nil {
		return verdict{}, err
	}
	total.Store(0)
	errs := together(40, func(i int) error {
		release, declared := int64(1), p
		if i%2 == 1 {
			release, declared = 2, newer
		}
		c := &caller{bench: b, label: fmt.Sprintf("version-%d", i)}
		c.Limiter = b.limiter(c.label, dynamolimit.WithPolicies(release, declared))
		for range 30 {
			ok, err := c.ask(ctx, p.Key("new"))
			if err != nil {
				return err
			}
			if ok {
				total.Add(1)
			}
		}
		return nil
	})
	return judged.and(judgeQuota(int(total.Load()), 400)), errors.Join(errs...)
}
