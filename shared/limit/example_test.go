package limit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
)

// noon is the time at which the examples happen. Programs leave the time to the
// limiter and use the verbs without "At".
var noon = time.Date(2027, 6, 1, 12, 0, 0, 0, time.UTC)

func Example() {
	search := limit.Policy{Name: "search", Rate: limit.PerSecond(2)}
	limiter, err := limit.NewMemory(search)
	if err != nil {
		panic(err)
	}
	for i := range 4 {
		at := noon.Add(time.Duration(i) * 200 * time.Millisecond)
		_, err := limiter.AcquireAt(at, search.Key("acme"))
		if denied, ok := errors.AsType[*limit.Denied](err); ok {
			fmt.Println("wait", denied.RetryAfter)
			continue
		}
		fmt.Println("go")
	}
	// Output:
	// go
	// go
	// wait 100ms
	// go
}

// Several limits at once: all tiers are charged or none, and the denial says which
// one is in the way.
func Example_severalTiers() {
	var (
		fiveHours = limit.Policy{Name: "5h", Window: limit.FromFirstUse(5 * time.Hour), Max: 500}
		weekly    = limit.Policy{Name: "weekly", Window: limit.Weeks("UTC"), Max: 5000}
		opus      = limit.Policy{Name: "opus-weekly", Window: limit.Weeks("UTC"), Max: 1}
	)
	limiter, err := limit.NewMemory(fiveHours, weekly, opus)
	if err != nil {
		panic(err)
	}
	tiers := []limit.Tier{fiveHours.Key("ann"), weekly.Key("ann"), opus.Key("ann")}
	_, err = limiter.AcquireAt(noon, tiers...)
	fmt.Println(err)
	_, err = limiter.AcquireAt(noon, tiers...)
	fmt.Println(err)

	// A request for another model skips that model's tier.
	others, _ := limit.Only(tiers, "5h", "weekly")
	_, err = limiter.AcquireAt(noon, others...)
	fmt.Println(err)
	// Output:
	// <nil>
	// limit: denied: opus-weekly["ann"]: cost 1, available 0, retry after 132h0m0s
	// <nil>
}

// The true cost of a call is often known only afterwards: reserve what it may cost
// at most, and settle at what it did.
func ExampleReservation_Settle() {
	tokens := limit.Policy{Name: "tpm", Rate: limit.Per(100_000, time.Minute)}
	limiter, err := limit.NewMemory(tokens)
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	r, err := limiter.AcquireAt(noon, tokens.Key("acme").Cost(8000))
	if err != nil {
		panic(err)
	}
	// … call the model, which used 1,250 tokens …
	if err := r.SettleAt(ctx, noon, tokens.Key("acme").Cost(1250)); err != nil {
		panic(err)
	}
	reading, _ := limiter.InspectAt(noon, tokens.Key("acme"))
	fmt.Println(reading.Available, "left")
	// Output: 98750 left
}

func ExampleWait() {
	ctx := context.Background()
	api := limit.Policy{Name: "api", Rate: limit.Per(100, time.Second), Max: 1}
	limiter, err := limit.NewMemory(api)
	if err != nil {
		panic(err)
	}
	for range 3 {
		if _, err := limit.Wait(ctx, limiter, api.Global()); err != nil {
			panic(err)
		}
		fmt.Println("call") // every 10 ms
	}
	// Output:
	// call
	// call
	// call
}

type Prompt struct {
	Tenant string
	Tokens int64
	Batch  bool
}

func (p Prompt) Org() string      { return p.Tenant }
func (p Prompt) MaxTokens() int64 { return p.Tokens }
func (p Prompt) IsBatch() bool    { return p.Batch }

func ExampleSelector() {
	var (
		requests = limit.Policy{Name: "vendor", Group: "llm", Rate: limit.PerSecond(10), Burst: 20}
		tokens   = limit.Policy{Name: "tpm", Group: "llm", Rate: limit.Per(1_000_000, time.Minute)}
		daily    = limit.Policy{Name: "daily", Window: limit.Days("Europe/Paris"), Max: 1000}
	)
	limits := limit.All(
		limit.By(requests, Prompt.Org),
		limit.By(tokens, Prompt.Org).Cost(Prompt.MaxTokens),
		limit.When(Prompt.IsBatch, limit.Global[Prompt](daily)),
	)
	for _, tier := range limits.Tiers(Prompt{Tenant: "acme", Tokens: 1500, Batch: true}) {
		fmt.Println(tier, "costs", tier.Units)
	}
	// Output:
	// vendor["acme"] costs 1
	// tpm["acme"] costs 1500
	// daily[""] costs 1
}

// A calendar window follows the clock on the wall, daylight saving included.
func ExampleDays() {
	daily := limit.Policy{Name: "daily", Window: limit.Days("Europe/Paris"), Max: 1000}
	limiter, err := limit.NewMemory(daily)
	if err != nil {
		panic(err)
	}
	reading, _ := limiter.InspectAt(time.Date(2027, 3, 27, 23, 0, 0, 0, time.UTC), daily.Global())
	fmt.Println("resets at", reading.ResetsAt) // the day of 23 hours
	// Output: resets at 2027-03-28 22:00:00 +0000 UTC
}

// When the vendor is slow, halve its rate until further notice: capacity and interval
// stay as they are declared, and the override survives deploys.
func ExampleMemory_SetOverride() {
	vendor := limit.Policy{Name: "vendor", Rate: limit.PerSecond(10)}
	limiter, err := limit.NewMemory(vendor)
	if err != nil {
		panic(err)
	}
	limiter.AllowAt(noon, vendor.Key("acme").Cost(10))
	_, err = limiter.SetOverrideAt(noon, "vendor", limit.Override{Refill: new(vendor.Rate.Tokens / 2), By: "ann"})
	if err != nil {
		panic(err)
	}
	reading, _ := limiter.InspectAt(noon.Add(time.Second), vendor.Key("acme"))
	fmt.Println(reading.Available, "of", reading.Limit)
	// Output: 5 of 10
}

// A downstream 429 holds its key: nothing passes before the time it names.
func ExampleMemory_Hold() {
	vendor := limit.Policy{Name: "vendor", Rate: limit.PerSecond(10)}
	limiter, err := limit.NewMemory(vendor)
	if err != nil {
		panic(err)
	}
	if err := limiter.HoldAt(noon, vendor.Key("acme"), noon.Add(30*time.Second)); err != nil {
		panic(err)
	}
	_, err = limiter.AcquireAt(noon, vendor.Key("acme"))
	fmt.Println(err)
	// Output: limit: denied: vendor["acme"]: cost 1, available 10, held, retry after 30s
}
