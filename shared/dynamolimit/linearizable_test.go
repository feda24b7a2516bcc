package dynamolimit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/dynamodbemu"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

// The policies of the concurrent histories: three kinds in one item, one in another.
var concurrent = []limit.Policy{
	{Name: "rate", Group: "g", Rate: limit.PerSecond(50), Max: 5},
	{Name: "step", Group: "g", Window: limit.Every(200 * time.Millisecond), Max: 8},
	{Name: "credit", Group: "g", Manual: limit.ByOperator, Max: 40},
	{Name: "apart", Rate: limit.Per(30, 24*time.Hour)},
}

// states are those of the policies, all of one key.
type states [4]limit.State

// An asked is the input of an operation: one of the verbs, with the span of time and
// the versions of the registry by which it may have been decided.
type asked struct {
	acquire  []limit.Tier
	settle   []limit.Closing
	grant    int64 // on credit
	inspect  string
	from, to time.Time
	versions []*version
}

// An answered is its output.
type answered struct {
	admitted bool
	reading  int64
	err      error // of the store: nobody knows
}

// A version is the meters of the policies while an entry was in force.
type version struct {
	meters         [4]*limit.Meter
	since, expired time.Time // its writing began; its successor was written everywhere
}

func indexOf(policy string) int {
	return slices.IndexFunc(concurrent, func(p limit.Policy) bool { return p.Name == policy })
}

// step returns the states that an operation may lead to, with its answer given.
func step(state, input, output any) []any {
	s, in, out := state.(states), input.(asked), output.(answered)
	var next []any
	add := func(n states) {
		if !slices.Contains(next, any(n)) {
			next = append(next, n)
		}
	}
	if out.err != nil {
		add(s)
	}
	for _, v := range in.versions {
		for at := in.from.Truncate(tick); !at.After(in.to); at = at.Add(tick) {
			if n, got, ok := v.decide(s, in, at); ok && (out.err != nil || got == out) {
				add(n)
			}
		}
	}
	return next
}

// decide carries an operation out at a time.
func (v *version) decide(s states, in asked, at time.Time) (states, answered, bool) {
	next := s
	out := answered{admitted: true}
	for _, t := range in.acquire {
		i := indexOf(t.Policy.Name)
		d := v.meters[i].Decide(s[i], t.Units, at)
		if d.Stale {
			return s, answered{}, false
		}
		out.admitted = out.admitted && d.Admitted
		next[i] = d.Next
	}
	if !out.admitted {
		next = s
	}
	for _, c := range in.settle {
		i := indexOf(c.Charge.Policy)
		n, stale := v.meters[i].Settle(s[i], c.Charge, c.Actual, at)
		if stale {
			return s, answered{}, false
		}
		next[i] = n
	}
	if in.grant != 0 {
		n, stale := v.meters[2].Grant(s[2], in.grant, at)
		if stale {
			return s, answered{}, false
		}
		next[2] = n
	}
	if in.inspect != "" {
		i := indexOf(in.inspect)
		r, stale := v.meters[i].Inspect(s[i], 0, at)
		if stale {
			return s, answered{}, false
		}
		out.reading = r.Available
	}
	return next, out, true
}

// A history is what several callers did at once.
type history struct {
	*testing.T

	kind     string
	rand     *rand.Rand
	cloud    *cloud.Cloud
	mu       sync.Mutex
	done     []porcupine.Operation
	versions []*version
}

// tick is the resolution of the callers' clocks: coarse, so that few times come into
// question for each operation.
const tick = 10 * time.Millisecond

func coarse() time.Time { return time.Now().Truncate(tick) }

func (h *history) limiter(label string) *dynamolimit.Limiter {
	return newLimiter(h.cloud, label, dynamolimit.WithPolicies(1, concurrent...), dynamolimit.WithDeadline(5*time.Second), dynamolimit.WithClock(coarse), dynamolimit.WithTrustedClock())
}

// do carries out an operation and records it.
func (h *history) do(client int, in asked, verb func() answered) {
	in.from = time.Now()
	out := verb()
	in.to = time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	op := porcupine.Operation{ClientId: client, Input: in, Output: out, Call: in.from.UnixNano(), Return: in.to.UnixNano()}
	if out.err != nil {
		op.Return = math.MaxInt64 // it may still happen
	}
	h.done = append(h.done, op)
}

// caller makes operations, one after the other.
func (h *history) caller(client, n int, seed uint64) {
	r := rand.New(rand.NewPCG(seed, uint64(client)))
	l := h.limiter(fmt.Sprint(client))
	var open []limit.Receipt
	pause := 30 * time.Millisecond
	if h.kind == "policy change" {
		pause = 2 * time.Second
	}
	for range n {
		time.Sleep(time.Duration(r.Int64N(int64(pause))))
		if h.kind == "cold" && r.IntN(2) == 0 {
			l = h.limiter(fmt.Sprint(client))
		}
		switch verb := r.IntN(10); {
		case verb < 6:
			in := asked{acquire: h.tiers(r)}
			h.do(client, in, func() answered {
				res, err := l.Acquire(context.Background(), in.acquire...)
				if err == nil {
					open = append(open, res.Receipt())
				}
				return h.answer(err)
			})
		case verb < 8 && len(open) > 0:
			i := r.IntN(len(open))
			receipt := open[i]
			open = slices.Delete(open, i, i+1)
			in := asked{}
			for _, c := range receipt.Charges {
				in.settle = append(in.settle, limit.Closing{Charge: c, Actual: r.Int64N(c.Units)})
			}
			h.do(client, in, func() answered { return h.answer(l.Settle(context.Background(), receipt.ID, in.settle, time.Time{})) })
		case verb == 8:
			in := asked{grant: r.Int64N(9) - 6}
			if in.grant == 0 {
				continue
			}
			h.do(client, in, func() answered { return h.answer(l.Grant(context.Background(), concurrent[2].Key("k"), in.grant)) })
		}
	}
}

func (h *history) tiers(r *rand.Rand) []limit.Tier {
	chosen := concurrent[:3]
	switch r.IntN(4) {
	case 0:
		chosen = concurrent
	case 1:
		i := r.IntN(len(concurrent))
		chosen = concurrent[i : i+1]
	}
	tiers := make([]limit.Tier, len(chosen))
	for i, p := range chosen {
		tiers[i] = p.Key("k").Cost(1 + r.Int64N(3))
	}
	return tiers
}

func (h *history) answer(err error) answered {
	var denied *limit.Denied
	switch {
	case err == nil:
		return answered{admitted: true}
	case errors.As(err, &denied):
		return answered{}
	case errors.Is(err, limit.ErrStoreDown):
		return answered{err: err}
	}
	h.Error(err)
	return answered{}
}

// look reads everything, so that the end of a history is checked to the last token.
func (h *history) look(client int) {
	l := h.limiter("look")
	if _, err := l.Policies(context.Background()); err != nil {
		h.Error(err)
	}
	for _, p := range concurrent {
		h.do(client, asked{inspect: p.Name}, func() answered {
			r, err := l.Inspect(context.Background(), p.Key("k"))
			if err != nil {
				h.Error(err)
			}
			return answered{admitted: true, reading: r.Available}
		})
	}
}

// remember adds a version of the registry.
func (h *history) remember(since time.Time, entries []limit.Entry) {
	v := &version{since: since}
	for _, e := range entries {
		m, err := limit.NewMeter(e)
		if err != nil {
			h.Error(err)
			continue
		}
		v.meters[indexOf(e.Policy.Name)] = m
	}
	if n := len(h.versions); n > 0 {
		h.versions[n-1].expired = time.Now().Add(limit.CacheFor)
	}
	h.versions = append(h.versions, v)
}

// operator changes the policies while they are in use.
func (h *history) operator() {
	l := h.limiter("operator")
	for i := range 3 {
		time.Sleep(time.Duration(h.rand.Int64N(int64(4 * time.Second))))
		since := time.Now()
		var err error
		switch i {
		case 0:
			_, err = l.SetOverride(context.Background(), "rate", limit.Override{Max: new(int64(2)), Refill: new(int64(5))})
		case 1:
			_, err = l.Reset(context.Background(), "credit", "op")
		case 2:
			_, err = l.ClearOverride(context.Background(), "rate", "op")
		}
		if err != nil {
			h.Error(err)
		}
		entries, err := l.Policies(context.Background())
		if err != nil {
			h.Error(err)
		}
		h.remember(since, entries)
	}
}

func (h *history) run(seed uint64) {
	h.rand = rand.New(rand.NewPCG(seed, 0))
	o := cloud.Options{}
	o.DynamoDB.Latency = func(dynamodbemu.Call) (before, after time.Duration) {
		return time.Duration(rand.Int64N(int64(4 * time.Millisecond))), time.Duration(rand.Int64N(int64(4 * time.Millisecond)))
	}
	o.DynamoDB.Conflicts = seed%2 == 0
	if h.kind == "lost answers" {
		o.DynamoDB.Fault = func(c dynamodbemu.Call) dynamodbemu.Fault {
			if rand.IntN(12) == 0 && (c.Operation == "UpdateItem" || c.Operation == "TransactWriteItems") {
				return dynamodbemu.Fault{Kind: dynamodbemu.LostAnswer}
			}
			return dynamodbemu.Fault{}
		}
	}
	h.cloud = newTable(h, o)
	setup := h.limiter("setup")
	entries, err := setup.Policies(context.Background())
	if err != nil {
		h.Fatal(err)
	}
	h.remember(time.Time{}, entries)
	var wg sync.WaitGroup
	const callers = 4
	for c := range callers {
		wg.Go(func() { h.caller(c, 7, seed) })
	}
	if h.kind == "policy change" {
		wg.Go(h.operator)
	}
	wg.Wait()
	if h.kind == "expiry" {
		// All that may be forgotten is; and the callers come back, some remembering
		// what they saw.
		time.Sleep(time.Duration(30+h.rand.IntN(60)) * 24 * time.Hour)
		h.cloud.DynamoDB().ExpireNow()
		for c := range callers {
			wg.Go(func() { h.caller(c, 5, seed+1) })
		}
		wg.Wait()
	}
	h.look(callers)
}

// TestConcurrentHistoriesAreLinearizable has several callers use the same items at once
// and looks for an order of all operations that explains every answer.
func TestConcurrentHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	var histories, operations atomic.Int64
	for _, kind := range []string{"cold", "warm", "policy change", "expiry", "lost answers"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			seeds := uint64(60)
			if !thorough {
				seeds = 15
			}
			for seed := range seeds {
				h := &history{kind: kind}
				synctest.Test(t, func(t *testing.T) {
					h.T = t
					h.run(seed)
					if err := h.cloud.Close(); err != nil {
						t.Error(err)
					}
				})
				h.check(t, seed)
				histories.Add(1)
				operations.Add(int64(len(h.done)))
			}
		})
	}
	t.Cleanup(func() {
		if !t.Failed() {
			t.Logf("figure linearizability_checks operations=%d = %d", operations.Load(), histories.Load())
		}
	})
}

func (h *history) check(t *testing.T, seed uint64) {
	t.Helper()
	for i, op := range h.done {
		in := op.Input.(asked)
		for _, v := range h.versions {
			if !v.since.After(in.to) && (v.expired.IsZero() || !v.expired.Before(in.from)) {
				in.versions = append(in.versions, v)
			}
		}
		h.done[i].Input = in
	}
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{states{}} },
		Step: step,
	}
	if result := porcupine.CheckOperationsTimeout(model.ToModel(), h.done, time.Minute); result != porcupine.Ok {
		t.Errorf("seed %d: the history is not linearizable (%v):", seed, result)
		for _, op := range h.done {
			t.Logf("%d %s–%s %s", op.ClientId, time.Unix(0, op.Call).Format("15:04:05.000"), time.Unix(0, op.Return).Format("15:04:05.000"), describe(op))
		}
	}
}

func describe(op porcupine.Operation) string {
	in, out := op.Input.(asked), op.Output.(answered)
	switch {
	case in.acquire != nil:
		return fmt.Sprintf("acquire %v: %v", in.acquire, out)
	case in.settle != nil:
		return fmt.Sprintf("settle %v: %v", in.settle, out)
	case in.grant != 0:
		return fmt.Sprintf("grant %d: %v", in.grant, out)
	default:
		return fmt.Sprintf("inspect %s: %v", in.inspect, out)
	}
}
