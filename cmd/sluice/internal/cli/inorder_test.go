package cli

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestInOrderKeepsTheOrderAndTheBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const items = 500
		numbers := func(yield func(int) bool) {
			for i := range items {
				if !yield(i) {
					return
				}
			}
		}
		var active, most atomic.Int64
		var got []int
		inOrder(numbers, func(i int) int {
			most.Store(max(most.Load(), active.Add(1)))
			time.Sleep(time.Duration(i*7919%13) * time.Second) // the later ones are often faster
			active.Add(-1)
			return i
		}, func(i int) { got = append(got, i) })
		if len(got) != items || !slices.IsSorted(got) {
			t.Errorf("results came as %v", got)
		}
		if n := most.Load(); n > atOnce || n < atOnce/2 {
			t.Errorf("%d at the same time, want nearly and at most %d", n, atOnce)
		}
	})
}
