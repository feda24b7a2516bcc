package sortedmap_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-dev/sluice/localstack/cloud/internal/sortedmap"
)

// The map agrees with a built-in map and a sort, over any history of changes.
func TestAgreesWithABuiltInMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var m sortedmap.Map[int]
		model := map[string]int{}
		keys := rapid.SliceOfN(rapid.StringMatching(`[ab\xff]{0,4}`), 1, 200).Draw(t, "keys")
		for i, key := range keys {
			if i%3 == 2 {
				_, there := model[key]
				if m.Delete(key) != there {
					t.Fatalf("Delete(%q) reports %v", key, !there)
				}
				delete(model, key)
				continue
			}
			m.Set(key, i)
			model[key] = i
		}
		start := rapid.SampledFrom(keys).Draw(t, "start")
		var want, got []string
		for key, value := range model {
			if got, ok := m.Get(key); !ok || got != value {
				t.Fatalf("Get(%q) = %d, %v; want %d", key, got, ok, value)
			}
			if key >= start {
				want = append(want, key)
			}
		}
		slices.Sort(want)
		for key := range m.From(start) {
			got = append(got, key)
		}
		if !slices.Equal(got, want) || m.Len() != len(model) {
			t.Fatalf("From(%q) = %q, want %q; Len %d, want %d", start, got, want, m.Len(), len(model))
		}
	})
}

func TestManyKeysStayInOrder(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]int{"ascending": 1, "scattered": 7919, "descending": 19_999} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 20_000
			var m sortedmap.Map[int]
			for i := range n {
				k := i * step % n
				m.Set(fmt.Sprintf("%06d", k), k)
			}
			next := 0
			for key, value := range m.From("") {
				if value != next || key != fmt.Sprintf("%06d", next) {
					t.Fatalf("position %d holds %q = %d", next, key, value)
				}
				next++
			}
			if next != n {
				t.Fatalf("%d keys, want %d", next, n)
			}
			for i := range n {
				m.Delete(fmt.Sprintf("%06d", i*step%n))
			}
			if m.Len() != 0 {
				t.Fatalf("%d keys left", m.Len())
			}
		})
	}
}

func TestAfterPrefix(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		prefix, want string
		ok           bool
	}{
		{"a/", "a0", true},
		{"a\xff", "b", true},
		{"", "", false},
		{"\xff\xff", "", false},
	} {
		got, ok := sortedmap.AfterPrefix(c.prefix)
		if got != c.want || ok != c.ok {
			t.Errorf("AfterPrefix(%q) = %q, %v; want %q, %v", c.prefix, got, ok, c.want, c.ok)
		}
	}
}
