package cli

import "iter"

// atOnce is how many tasks a command works on at the same time.
const atOnce = 32

// inOrder does the work of every item, up to atOnce at a time, and hands the results over
// in the order of the items, one at a time.
func inOrder[T, R any](items iter.Seq[T], work func(T) R, each func(R)) {
	results := make(chan chan R, atOnce-1) // one more is being waited for
	go func() {
		defer close(results)
		for item := range items {
			result := make(chan R, 1)
			results <- result
			go func() { result <- work(item) }()
		}
	}()
	for result := range results {
		each(<-result)
	}
}
