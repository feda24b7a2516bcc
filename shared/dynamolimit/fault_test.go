package dynamolimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/dynamodbemu"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

// The policies of the fault tests hardly refill, so that what is used tells exactly
// what was charged.
var (
	credit = limit.Policy{Name: "credit", Group: "g", Manual: limit.ByOperator, Max: 1000}
	slow   = limit.Policy{Name: "slow.bucket", Group: "g", Rate: limit.Per(1000, limit.MaxPeriod)}
	apart  = limit.Policy{Name: "apart", Manual: limit.ByOperator, Max: 1000}
)

// A world is a limiter under test whose requests go wrong, and another caller whose
// don't.
type world struct {
	*testing.T

	cloud   *cloud.Cloud
	subject *dynamolimit.Limiter
	other   *dynamolimit.Limiter
	links   *link
	charged int64 // by the other, on credit and slow
}

// A trouble is what happens to one request of the subject.
type trouble struct {
	name string
	// fault is what the cloud does to it.
	fault cloud.Fault
	// emulated is what the emulator does to it.
	emulated dynamodbemu.FaultKind
	// times is how many requests in a row it happens to. Defaults to 1.
	times int
	// late carries the request out, or out once more, when everything is over.
	late late
	// ambiguous says that the subject can't tell whether the request was carried out.
	ambiguous bool
}

type late int

const (
	notLate late = iota
	onlyLate
	alsoLate
)

var troubles = []trouble{
	{name: "unreachable", fault: cloud.Unreachable, ambiguous: true},
	{name: "unreachable for long", fault: cloud.Unreachable, times: 5, ambiguous: true},
	{name: "lost answer", fault: cloud.LostAnswer, ambiguous: true},
	{name: "two lost answers", fault: cloud.LostAnswer, times: 2, ambiguous: true},
	{name: "carried out, answered by an error", emulated: dynamodbemu.LostAnswer, ambiguous: true},
	{name: "repeated", fault: cloud.Fault{Repeat: true}},
	{name: "repeated, answer lost", fault: cloud.Fault{Repeat: true, After: true}, ambiguous: true},
	{name: "carried out late", late: onlyLate, ambiguous: true},
	{name: "carried out again late", late: alsoLate},
	{name: "slow", fault: cloud.Fault{Delay: time.Second}},
	{name: "hangs", fault: cloud.Fault{Delay: time.Hour}, ambiguous: true},
	{name: "throttled", emulated: dynamodbemu.Throttled},
	{name: "throttled for long", emulated: dynamodbemu.ThroughputExceeded, times: 6},
	{name: "server error", emulated: dynamodbemu.ServerError, ambiguous: true},
	{name: "conflict", emulated: dynamodbemu.TransactionConflict, times: 3},
	{name: "transaction in progress", fault: cloud.Fault{Status: 400, Code: "TransactionInProgressException"}},
	{name: "skewed clock", fault: cloud.Fault{Status: 400, Code: "InvalidSignatureException"}},
	{name: "access denied", fault: cloud.Fault{Status: 400, Code: "AccessDeniedException"}, times: 1000},
	{name: "down", fault: cloud.Unreachable, times: 1000, ambiguous: true},
}

// A verb is what the subject does, and how to see what came of it.
type verb struct {
	name string
	// prepare is done before anything goes wrong.
	prepare func(*world)
	do      func(*world) error
	// used returns what is used on the tiers that the verb changes, and by how much it
	// changes that. Nil for a verb of which check tells.
	tiers []limit.Tier
	by    []int64
	// check is called at the end, with the verb's error.
	check func(*world, error)
}

func verbs() []verb {
	var held *limit.Reservation
	reserve := func(tiers ...limit.Tier) func(*world) {
		return func(w *world) {
			var err error
			if held, err = w.subject.Acquire(w.Context(), tiers...); err != nil {
				w.Fatal(err)
			}
		}
	}
	warm := func(w *world) { reserve(credit.Key("a"), slow.Key("a"))(w) }
	acquire := func(tiers ...limit.Tier) func(*world) error {
		return func(w *world) error {
			_, err := w.subject.Acquire(w.Context(), tiers...)
			return err
		}
	}
	settle := func(tiers ...limit.Tier) func(*world) error {
		return func(w *world) error { return held.Settle(w.Context(), tiers...) }
	}
	one := []limit.Tier{credit.Key("a"), slow.Key("a")}
	two := []limit.Tier{credit.Key("a"), apart.Key("a")}
	generation := func(w *world) int64 { return w.entry(credit.Name).Generation }
	return []verb{
		{name: "acquire, never seen", do: acquire(one[0].Cost(7), one[1].Cost(5)), tiers: one, by: []int64{7, 5}},
		{name: "acquire, seen", prepare: warm, do: acquire(one[0].Cost(7), one[1].Cost(5)), tiers: one, by: []int64{7, 5}},
		{name: "acquire on two items", do: acquire(two[0].Cost(7), two[1].Cost(5)), tiers: two, by: []int64{7, 5}},
		{name: "acquire on two items, seen", prepare: reserve(two...), do: acquire(two[0].Cost(7), two[1].Cost(5)), tiers: two, by: []int64{7, 5}},
		{name: "denied acquire", prepare: reserve(one[0].Cost(500)), do: wantDenied(acquire(one[0].Cost(501))), tiers: one, by: []int64{0, 0}},
		{name: "denied acquire, never seen", prepare: func(w *world) { w.drain(credit.Key("a"), 900) }, do: wantDenied(acquire(one[0].Cost(501))), tiers: one, by: []int64{0, 0}},
		{name: "denied acquire on two items", prepare: func(w *world) { w.drain(apart.Key("a"), 900) }, do: wantDenied(acquire(two[0], two[1].Cost(501))), tiers: two, by: []int64{0, 0}},
		{name: "refund", prepare: reserve(one[0].Cost(7), one[1].Cost(5)), do: func(w *world) error { return held.Refund(w.Context()) }, tiers: one, by: []int64{-7, -5}},
		{name: "refund on two items", prepare: reserve(two[0].Cost(7), two[1].Cost(5)), do: func(w *world) error { return held.Refund(w.Context()) }, tiers: two, by: []int64{-7, -5}},
		{name: "refund by receipt", prepare: reserve(one[0].Cost(7), one[1].Cost(5)), do: func(w *world) error {
			elsewhere := newLimiter(w.cloud, "subject")
			return limit.NewReservation(held.Receipt(), elsewhere).Refund(w.Context())
		}, tiers: one, by: []int64{-7, -5}},
		{name: "settle up", prepare: reserve(one[0].Cost(7), one[1].Cost(5)), do: settle(one[0].Cost(9), one[1].Cost(6)), tiers: one, by: []int64{2, 1}},
		{name: "settle both ways", prepare: reserve(one[0].Cost(7), one[1].Cost(5)), do: settle(one[0].Cost(9), one[1].Cost(1)), tiers: one, by: []int64{2, -4}},
		{name: "refund after a change", prepare: func(w *world) {
			reserve(one[0].Cost(7), one[1].Cost(5))(w)
			w.override(credit, 900)
			w.override(slow, 900)
		}, do: func(w *world) error { return held.Refund(w.Context()) }},
		{name: "grant", prepare: reserve(one[0].Cost(100)), do: func(w *world) error { return w.subject.Grant(w.Context(), one[0], 5) }, tiers: one[:1], by: []int64{-5}},
		{name: "drain", do: func(w *world) error { return w.subject.Grant(w.Context(), one[0], -5) }, tiers: one[:1], by: []int64{5}},
		{name: "hold", do: func(w *world) error { return w.subject.Hold(w.Context(), one[0], time.Now().Add(time.Hour)) }, tiers: one, by: []int64{0, 0}, check: func(w *world, err error) {
			if r := w.inspect(one[0]); err == nil && r.HeldUntil.IsZero() {
				w.Error("not held")
			}
		}},
		{name: "release", prepare: func(w *world) {
			if err := w.other.Hold(w.Context(), one[0], time.Now().Add(time.Hour)); err != nil {
				w.Fatal(err)
			}
		}, do: func(w *world) error { return w.subject.Release(w.Context(), one[0]) }, check: func(w *world, err error) {
			if r := w.inspect(one[0]); err == nil && !r.HeldUntil.IsZero() {
				w.Error("still held")
			}
		}},
		{name: "reset", do: func(w *world) error { _, err := w.subject.Reset(w.Context(), credit.Name, "op"); return err }, check: func(w *world, err error) {
			if n := generation(w); n > 1 || err == nil && n != 1 {
				w.Errorf("%d resets", n)
			}
		}},
		{name: "override", do: func(w *world) error {
			_, err := w.subject.SetOverride(w.Context(), credit.Name, limit.Override{Max: new(int64(5))})
			return err
		}, check: func(w *world, err error) {
			if e := w.entry(credit.Name); err == nil && (e.Override == nil || len(e.Terms) != 2) {
				w.Errorf("%+v", e)
			}
		}},
		{name: "declare", do: func(w *world) error { return w.subject.Declare(w.Context(), 9, bucket(3, time.Hour)) }, check: func(w *world, err error) {
			if err == nil && w.entry("bucket").Release != 9 {
				w.Error("not declared")
			}
		}},
		{name: "inspect", prepare: reserve(one[0].Cost(7)), do: func(w *world) error {
			r, err := w.subject.Inspect(w.Context(), apart.Key("a"))
			if err == nil && r.Available != 1000 {
				w.Errorf("read %+v", r)
			}
			return err
		}},
		{name: "policies", do: func(w *world) error {
			e, err := w.subject.Policies(w.Context())
			if err == nil && len(e) != 3 {
				w.Errorf("read %+v", e)
			}
			return err
		}},
	}
}

func wantDenied(do func(*world) error) func(*world) error {
	return func(w *world) error {
		err := do(w)
		if _, denied := errors.AsType[*limit.Denied](err); denied {
			return nil
		}
		if err == nil {
			w.Error("admitted beyond the limit")
		}
		return err
	}
}

func (w *world) entry(policy string) limit.Entry {
	entries, err := w.other.Policies(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	for _, e := range entries {
		if e.Policy.Name == policy {
			return e
		}
	}
	return limit.Entry{}
}

func (w *world) inspect(t limit.Tier) limit.Reading {
	r, err := w.other.Inspect(w.Context(), t)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

func (w *world) drain(t limit.Tier, n int64) {
	if err := w.other.Grant(w.Context(), t, -n); err != nil {
		w.Fatal(err)
	}
}

func (w *world) override(p limit.Policy, most int64) {
	if _, err := w.other.SetOverride(w.Context(), p.Name, limit.Override{Max: &most}); err != nil {
		w.Fatal(err)
	}
}

// interfere has the other caller charge the items of all verbs, more often than they
// remember.
func (w *world) interfere() {
	for range 9 {
		r, err := w.other.Acquire(w.Context(), credit.Key("a").Cost(3), slow.Key("a").Cost(3))
		if err != nil {
			return // held, paused or reset: that is for the verb's own check
		}
		if err := r.Settle(w.Context(), credit.Key("a").Cost(1), slow.Key("a").Cost(1)); err != nil {
			w.Error(err)
		}
		w.charged++
		if _, err := w.other.Acquire(w.Context(), apart.Key("a").Cost(0)); err != nil {
			w.Error(err)
		}
	}
}

// link is the subject's connection. It can hold requests back and deliver them later.
type link struct {
	http.RoundTripper

	mu       sync.Mutex
	requests int
	at       int // the request that is late, from 1; 0 for none
	late     late
	waiting  []func()
}

var errLate = errors.New("the connection broke")

func (l *link) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	l.requests++
	mine := l.requests == l.at && l.late != notLate
	l.mu.Unlock()
	if !mine {
		return l.RoundTripper.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	again := func() *http.Request {
		c := r.Clone(context.WithoutCancel(r.Context()))
		c.Body = io.NopCloser(bytes.NewReader(body))
		return c
	}
	l.mu.Lock()
	l.waiting = append(l.waiting, func() {
		if answer, err := l.RoundTripper.RoundTrip(again()); err == nil {
			_ = answer.Body.Close()
		}
	})
	l.mu.Unlock()
	if l.late == onlyLate {
		return nil, errLate
	}
	return l.RoundTripper.RoundTrip(again())
}

func (l *link) deliver() {
	for _, f := range l.waiting {
		f()
	}
}

// TestEveryRequestOfEveryVerbMayFail lets one request of a verb go wrong, in every
// way, with and without others writing in between: a verb that reports success has
// been carried out exactly once, one that fails at most once, and nothing is minted.
func TestEveryRequestOfEveryVerbMayFail(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	t.Cleanup(func() {
		if !t.Failed() {
			t.Logf("figure limiter_fault_runs verbs=%d = %d", len(verbs()), runs.Load())
		}
	})
	for i, v := range verbs() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			v := verbs()[i] // with a reservation of its own
			for _, untold := range []bool{false, true} {
				requests := runVerb(t, v, trouble{}, 0, false, untold)
				for n := 1; n <= requests; n++ {
					for i, what := range troubles {
						if !thorough && (i+n)%3 != 0 {
							continue
						}
						for _, interfered := range []bool{false, true} {
							if interfered && untold {
								continue
							}
							runVerb(t, v, what, n, interfered, untold)
							runs.Add(1)
						}
					}
				}
			}
		})
	}
}

// runVerb runs a verb with trouble at its nth request and returns how many requests
// it made.
func runVerb(t *testing.T, v verb, what trouble, n int, interfered, untold bool) (requests int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		failedBefore := t.Failed()
		w := newWorld(t, untold)
		defer func() {
			if t.Failed() && !failedBefore {
				t.Logf("^ %s at request %d, interfered %v, untold %v", what.name, n, interfered, untold)
			}
			if err := w.cloud.Close(); err != nil {
				t.Error(err)
			}
		}()
		if v.prepare != nil {
			v.prepare(w)
		}
		before := w.used(v.tiers)
		w.charged = 0
		w.arm(what, n, interfered)
		start := w.links.requests
		err := v.do(w)
		requests = w.links.requests - start
		w.cloud.SetFault(nil)
		if interfered && what.late != notLate {
			w.interfere()
		}
		w.links.deliver()
		w.check(v, what, before, err, interfered)
	})
	return requests
}

func newWorld(t *testing.T, untold bool) *world {
	t.Helper()
	o := cloud.Options{}
	o.DynamoDB.NoItemOnFailure = untold
	c := cloud.New(o)
	client := dynamodb.NewFromConfig(c.Config(cloud.Label("setup")))
	if _, err := client.CreateTable(t.Context(), dynamolimit.Table(table)); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, cloud: c, links: &link{RoundTripper: c.Transport("subject")}}
	config := c.Config(cloud.Label("subject"))
	config.HTTPClient = &http.Client{Transport: w.links}
	w.subject = dynamolimit.New(dynamodb.NewFromConfig(config), table, dynamolimit.WithLog(quiet), dynamolimit.WithJitter(func() float64 { return 0.5 }))
	w.other = newLimiter(c, "other", dynamolimit.WithCacheFor(0), dynamolimit.WithPolicies(1, credit, slow, apart))
	if _, err := w.other.Policies(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// arm has trouble happen to the nth request of the subject from now on.
func (w *world) arm(what trouble, n int, interfered bool) {
	times := max(what.times, 1)
	w.links.at, w.links.late = w.links.requests+n, what.late
	seen := 0
	w.cloud.SetFault(func(r *cloud.Request) cloud.Fault {
		if r.Client != "subject" || n == 0 {
			return cloud.Fault{}
		}
		if seen++; seen < n || seen >= n+times {
			return cloud.Fault{}
		}
		if interfered && seen == n && !what.fault.After {
			w.interfere()
		}
		if what.emulated != dynamodbemu.NoFault {
			w.cloud.DynamoDB().FailNext(1, dynamodbemu.Fault{Kind: what.emulated}, nil)
		}
		f := what.fault
		if interfered && seen == n && f.After {
			f.Then = w.interfere
		}
		return f
	})
}

func (w *world) used(tiers []limit.Tier) []int64 {
	used := make([]int64, len(tiers))
	for i, t := range tiers {
		used[i] = w.inspect(t).Used
	}
	return used
}

func (w *world) check(v verb, what trouble, before []int64, err error, interfered bool) {
	w.Helper()
	var denied *limit.Denied
	switch {
	case errors.As(err, &denied):
		w.Errorf("denied: %v", err)
	case err != nil && !errors.Is(err, limit.ErrStoreDown) && !errors.Is(err, limit.ErrStoreBusy) && !errors.Is(err, limit.ErrStoreDenied):
		w.Errorf("error %v, want one of the store", err)
	case errors.Is(err, limit.ErrStoreDenied) != (what.name == "access denied") && what.times < 1000:
		w.Errorf("error %v", err)
	case err != nil && !what.ambiguous && what.times < 1000:
		w.Errorf("failed though nothing was lost: %v", err)
	}
	for i, t := range v.tiers {
		others := int64(0)
		if t.Policy.Name != apart.Name {
			others = w.charged
		}
		change, by := w.inspect(t).Used-before[i]-others, v.by[i]
		ok := change == by
		if err != nil || by < 0 && what.ambiguous && interfered {
			ok = ok || change == 0 // not made, or given up on giving back
		}
		if by > 0 && interfered && (what.late != notLate || what.ambiguous && strings.HasPrefix(v.name, "settle")) {
			ok = ok || change == 2*by // charged twice at worst: better than not at all
		}
		if !ok {
			w.Errorf("%v: used changes by %d, want %d (error %v)", t, change, by, err)
		}
	}
	if v.check != nil {
		v.check(w, err)
	}
}

// String is for messages.
func (t trouble) String() string { return fmt.Sprintf("%s ×%d", t.name, max(t.times, 1)) }
