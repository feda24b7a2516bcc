package cloud

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Operation names an operation of a service.
type Operation struct {
	Service Service
	Name    string // such as PutObject
}

func (o Operation) String() string { return string(o.Service) + "." + o.Name }

// Counts says how many requests there were of each operation.
type Counts map[Operation]int

// Of is the number of requests of these operations of a service; of all its
// operations when none is named.
func (c Counts) Of(service Service, operations ...string) int {
	n := 0
	for op, count := range c {
		if op.Service == service && (len(operations) == 0 || slices.Contains(operations, op.Name)) {
			n += count
		}
	}
	return n
}

// Total is the number of all requests.
func (c Counts) Total() int {
	n := 0
	for _, count := range c {
		n += count
	}
	return n
}

// Diff is what has been added since an earlier snapshot.
func (c Counts) Diff(earlier Counts) Counts {
	added := Counts{}
	for op, n := range c {
		if n -= earlier[op]; n != 0 {
			added[op] = n
		}
	}
	return added
}

// String lists the counts, sorted: "dynamodb.UpdateItem=1 s3.PutObject=3".
func (c Counts) String() string {
	operations := slices.SortedFunc(maps.Keys(c), func(a, b Operation) int {
		return cmp.Compare(a.String(), b.String())
	})
	parts := make([]string, len(operations))
	for i, op := range operations {
		parts[i] = fmt.Sprintf("%s=%d", op, c[op])
	}
	return strings.Join(parts, " ")
}

// Counters count requests as they arrive: every one, those that fail and those
// that a client sends again included.
type Counters struct {
	mu       sync.Mutex
	requests int
	byClient map[string]Counts
}

func newCounters() *Counters { return &Counters{byClient: map[string]Counts{}} }

// add counts a request and returns its number.
func (c *Counters) add(r *Request) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	counts := c.byClient[r.Client]
	if counts == nil {
		counts = Counts{}
		c.byClient[r.Client] = counts
	}
	counts[Operation{r.Service, r.Operation}]++
	return c.requests
}

// Snapshot returns the counts since the last Reset. With labels of clients,
// only their requests are counted.
func (c *Counters) Snapshot(clients ...string) Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := Counts{}
	for client, counts := range c.byClient {
		if len(clients) > 0 && !slices.Contains(clients, client) {
			continue
		}
		for op, n := range counts {
			sum[op] += n
		}
	}
	return sum
}

// Reset sets all counts to zero.
func (c *Counters) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byClient = map[string]Counts{}
}
