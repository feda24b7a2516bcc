package dynamolimit_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

// A refund whose every answer is lost fails, and is tried again later. However much has
// been written meanwhile, it is not carried out a second time.
func TestARefundTriedAgainGivesBackOnce(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]int{"nobody else": 0, "few others": 2, "many others": 20} {
		for _, fault := range []cloud.Fault{cloud.LostAnswer, cloud.Unreachable} {
			synctest.Test(t, func(t *testing.T) {
				c := newTable(t, cloud.Options{})
				defer c.Close()
				l := newLimiter(c, "limiter", dynamolimit.WithPolicies(1, credit))
				other := newLimiter(c, "other")
				r := acquired(t, l, credit.Key("k").Cost(10))
				acquired(t, other, credit.Key("k").Cost(100))
				c.SetFault(func(r *cloud.Request) cloud.Fault {
					if r.Client == "limiter" {
						return fault
					}
					return cloud.Fault{}
				})
				if err := r.Refund(t.Context()); !errors.Is(err, limit.ErrStoreDown) {
					t.Fatalf("error %v, want ErrStoreDown", err)
				}
				for range others {
					held := acquired(t, other, credit.Key("k").Cost(2))
					if err := held.Settle(t.Context(), credit.Key("k").Cost(1)); err != nil {
						t.Fatal(err)
					}
				}
				c.SetFault(nil)
				acquired(t, l, credit.Key("k")) // sees all that has happened
				if err := r.Refund(t.Context()); err != nil {
					t.Fatal(err)
				}
				reading, err := l.Inspect(t.Context(), credit.Key("k"))
				if err != nil {
					t.Fatal(err)
				}
				given := 100 + 10 + int64(others) + 1 - reading.Used
				if given != 10 && (others < 8 || given != 0) {
					t.Errorf("%s, %+v: %d given back, want 10", name, fault, given)
				}
			})
		}
	}
}

// A charge that arrives twice at once leaves a reservation that can be refunded.
func TestARepeatedChargeCanBeRefunded(t *testing.T) {
	t.Parallel()
	for _, fault := range []cloud.Fault{{Repeat: true}, cloud.LostAnswer} {
		c := newCloud(t, cloud.Options{})
		l := newLimiter(c, "limiter", dynamolimit.WithPolicies(1, credit, apart))
		for _, tiers := range [][]limit.Tier{{credit.Key("k").Cost(10)}, {credit.Key("k").Cost(10), apart.Key("k").Cost(10)}} {
			acquired(t, l, tiers[0])
			c.FailNext(1, fault, nil)
			r := acquired(t, l, tiers...)
			if err := r.Refund(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if reading, err := l.Inspect(t.Context(), credit.Key("k")); err != nil || reading.Used != 20 {
			t.Errorf("%+v: %d used (%v), want 20", fault, reading.Used, err)
		}
	}
}
