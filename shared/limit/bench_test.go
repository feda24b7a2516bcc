package limit

import (
	"fmt"
	"testing"
	"time"
)

func benchMeter(b *testing.B, p Policy) *Meter {
	b.Helper()
	e, _, err := Register(nil, p, 1, "", time.Now())
	if err != nil {
		b.Fatal(err)
	}
	m, err := NewMeter(e)
	if err != nil {
		b.Fatal(err)
	}
	return m
}

// BenchmarkDecide is the pure decision: of a request that is admitted, and of one
// that is refused with the time to wait.
func BenchmarkDecide(b *testing.B) {
	at := time.Date(2027, 6, 1, 12, 0, 0, 0, time.UTC)
	for _, p := range []Policy{
		{Name: "bucket", Rate: PerSecond(1000)},
		{Name: "window", Window: Every(time.Hour), Max: 1000},
		{Name: "first-use", Window: FromFirstUse(time.Hour), Max: 1000},
		{Name: "days", Window: Days("Europe/Paris"), Max: 1000},
		{Name: "manual", Manual: ByOperator, Max: 1000},
	} {
		m := benchMeter(b, p)
		used := m.Decide(State{}, 500, at)
		for name, cost := range map[string]int64{"admitted": 500, "denied": 501} {
			b.Run(p.Name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if d := m.Decide(used.Next, cost, at); d.Admitted != (cost == 500) {
						b.Fatal(d)
					}
				}
			})
		}
	}
}

func BenchmarkPlan(b *testing.B) {
	at := time.Date(2027, 6, 1, 12, 0, 0, 0, time.UTC)
	m := benchMeter(b, Policy{Name: "bucket", Rate: PerSecond(1000)})
	used := m.Decide(State{}, 500, at)
	b.ReportAllocs()
	for b.Loop() {
		if p, _ := m.Plan(used.Next, 1, at); p.Branch != Active {
			b.Fatal(p)
		}
	}
}

func BenchmarkMemory(b *testing.B) {
	for _, tiers := range []int{1, 5} {
		b.Run(fmt.Sprintf("tiers=%d", tiers), func(b *testing.B) {
			var policies []Policy
			var request []Tier
			for i := range tiers {
				p := Policy{Name: fmt.Sprintf("p%d", i), Rate: Per(MaxUnits, time.Hour)}
				policies, request = append(policies, p), append(request, p.Key("k"))
			}
			m, err := NewMemory(policies...)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if !m.Allow(request...) {
						b.Fatal("denied")
					}
				}
			})
		})
	}
}

// The decision allocates nothing, admitted or not.
func TestDecideDoesNotAllocate(t *testing.T) {
	at := time.Date(2027, 6, 1, 12, 0, 0, 0, time.UTC)
	for _, p := range []Policy{
		{Name: "bucket", Rate: PerSecond(1000)},
		{Name: "days", Window: Days("Europe/Paris"), Max: 1000},
		{Name: "first-use", Window: FromFirstUse(time.Hour), Max: 1000},
	} {
		e, _, err := Register(nil, p, 1, "", at)
		if err != nil {
			t.Fatal(err)
		}
		m, err := NewMeter(e)
		if err != nil {
			t.Fatal(err)
		}
		used := m.Decide(State{}, 500, at)
		if n := testing.AllocsPerRun(100, func() {
			m.Decide(used.Next, 500, at)
			m.Decide(used.Next, 501, at)
			m.Plan(used.Next, 1, at)
			m.Settle(used.Next, used.Charge, 3, at)
		}); n != 0 {
			t.Errorf("%s: %v allocations", p.Name, n)
		}
	}
}
