package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud/dynamodbemu"
	"github.com/sluice-dev/sluice/shared/limit"
)

// withOthers returns the policies of n tiers of one item: the one that is measured, and
// others that are never in the way, as an API has them beside its rate.
func withOthers(p limit.Policy, n int) []limit.Policy {
	p.Group = "api"
	return []limit.Policy{
		p,
		{Name: "hourly", Group: "api", Window: limit.Every(time.Hour), Max: 1_000_000},
		{Name: "daily", Group: "api", Window: limit.Days("Europe/Paris"), Max: 1_000_000},
		{Name: "weekly", Group: "api", Window: limit.Weeks("Europe/Paris"), Max: 1_000_000},
		{Name: "credit", Group: "api", Manual: limit.ByOperator, Max: 1_000_000},
	}[:n]
}

func keyed(policies []limit.Policy, key string) []limit.Tier {
	tiers := make([]limit.Tier, len(policies))
	for i, p := range policies {
		tiers[i] = p.Key(key)
	}
	return tiers
}

// together runs a function n times at once.
func together(n int, f func(i int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

func sum(crowd []*caller) tally {
	var t tally
	for _, c := range crowd {
		t.add(c.tally)
	}
	return t
}

// hardlyRefilling is a bucket of n tokens.
func hardlyRefilling(name string, n int64) limit.Policy {
	return limit.Policy{Name: name, Rate: limit.Per(n, limit.MaxPeriod)}
}

// fresh has all callers take the tokens of one new key after the other.
func fresh(ctx context.Context, callers, tiers int) (tally, error) {
	const keys = 6
	policies := withOthers(hardlyRefilling("slow", 100), tiers)
	b, err := newBench(ctx, dynamodbemu.Options{}, policies...)
	if err != nil {
		return tally{}, err
	}
	defer b.close()
	var t tally
	for k := range keys {
		crowd, err := b.crowd(ctx, callers)
		if err != nil {
			return t, err
		}
		errs := together(callers, func(i int) error {
			for {
				if ok, err := crowd[i].ask(ctx, keyed(policies, fmt.Sprint(k))...); err != nil || !ok {
					return err
				}
			}
		})
		if len(errs) > 0 {
			return t, errors.Join(errs...)
		}
		t.add(sum(crowd))
	}
	return t, nil
}

// refilling is the bucket of the loads over and half.
var refilling = limit.Policy{Name: "refilling", Rate: limit.PerSecond(100), Max: 20}

func over(ctx context.Context, callers, tiers int) (tally, error) {
	return paced(ctx, callers, tiers, 200, true)
}

func half(ctx context.Context, callers, tiers int) (tally, error) {
	return paced(ctx, callers, tiers, 50, false)
}

// paced has the callers ask so many times per second, all together, at random times. A
// bucket that is to be at its limit is emptied first.
func paced(ctx context.Context, callers, tiers int, perSecond float64, empty bool) (tally, error) {
	var total tally
	repeats := 1
	if *all {
		repeats = 5
	}
	for range repeats {
		t, err := pacedOnce(ctx, callers, tiers, perSecond, empty)
		if err != nil {
			return total, err
		}
		total.add(t)
	}
	return total, nil
}

func pacedOnce(ctx context.Context, callers, tiers int, perSecond float64, empty bool) (tally, error) {
	policies := withOthers(refilling, tiers)
	b, err := newBench(ctx, dynamodbemu.Options{}, policies...)
	if err != nil {
		return tally{}, err
	}
	defer b.close()
	crowd, err := b.crowd(ctx, callers)
	if err != nil {
		return tally{}, err
	}
	if empty {
		if err := crowd[0].Grant(ctx, policies[0].Key("k"), -20); err != nil {
			return tally{}, err
		}
	}
	round := func(d time.Duration) error {
		end := time.Now().Add(d)
		return errors.Join(together(callers, func(i int) error {
			return crowd[i].askAtRandom(ctx, end, perSecond/float64(callers), keyed(policies, "k"))
		})...)
	}
	// Together less than the registry's copy lasts.
	if err := round(time.Second); err != nil {
		return tally{}, err
	}
	for _, c := range crowd {
		c.tally = tally{}
	}
	err = round(3 * time.Second)
	return sum(crowd), err
}

// askAtRandom asks so many times per second on average, as often as if each decision
// took no time.
func (c *caller) askAtRandom(ctx context.Context, end time.Time, perSecond float64, tiers []limit.Tier) error {
	next := time.Now()
	for {
		next = next.Add(time.Duration(rand.ExpFloat64() / perSecond * float64(time.Second)))
		if next.After(end) {
			return nil
		}
		time.Sleep(time.Until(next))
		if _, err := c.ask(ctx, tiers...); err != nil {
			return err
		}
	}
}

// twoKeys has the callers take one token of their organisation, which all of them
// share, and one of their tenant, which pairs of them share: a transaction over two
// items each time.
func twoKeys(ctx context.Context, callers int, conflicts bool) (tally, error) {
	organisation, tenant := hardlyRefilling("organisation", 1_000_000), hardlyRefilling("tenant", 1_000_000)
	b, err := newBench(ctx, dynamodbemu.Options{Conflicts: conflicts}, organisation, tenant)
	if err != nil {
		return tally{}, err
	}
	defer b.close()
	crowd, err := b.crowd(ctx, callers)
	if err != nil {
		return tally{}, err
	}
	end := time.Now().Add(3 * time.Second)
	errs := together(callers, func(i int) error {
		for time.Now().Before(end) {
			time.Sleep(rand.N(100 * time.Millisecond))
			if _, err := crowd[i].ask(ctx, organisation.Key("acme"), tenant.Key(fmt.Sprint(i/2))); err != nil {
				return err
			}
		}
		return nil
	})
	return sum(crowd), errors.Join(errs...)
}

// registryReads returns how many requests callers that are in use all the time make
// for the registry in a minute.
func registryReads(ctx context.Context, callers int) (int, error) {
	p := hardlyRefilling("slow", 1_000_000)
	b, err := newBench(ctx, dynamodbemu.Options{}, p)
	if err != nil {
		return 0, err
	}
	defer b.close()
	before := b.cloud.Requests().Snapshot().Of("dynamodb", "Query")
	end := time.Now().Add(time.Minute)
	crowd, err := b.crowd(ctx, callers)
	if err != nil {
		return 0, err
	}
	errs := together(callers, func(i int) error {
		for time.Now().Before(end) {
			if _, err := crowd[i].ask(ctx, p.Key("k")); err != nil {
				return err
			}
			time.Sleep(50 * time.Millisecond)
		}
		return nil
	})
	return b.cloud.Requests().Snapshot().Of("dynamodb", "Query") - before, errors.Join(errs...)
}
