package limit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

func TestMemoryForgetsKeysThatAreFreshAgain(t *testing.T) {
	t.Parallel()
	p := Policy{Name: "p", Rate: PerSecond(10)}
	slow := Policy{Name: "slow", Rate: PerHour(1)}
	credit := Policy{Name: "credit", Manual: ByOperator, Max: 10}
	m, err := NewMemory(p, slow, credit)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 100 * minSweep {
		at := start.Add(time.Duration(i) * time.Millisecond)
		if i < 10 {
			m.AllowAt(at, slow.Key(fmt.Sprint(i)), credit.Key(fmt.Sprint(i)))
		}
		m.AllowAt(at, p.Key(fmt.Sprint(i)))
	}
	if n := len(m.states); n > 4*minSweep {
		t.Errorf("%d states are kept of %d", n, 100*minSweep)
	}
	for i := range 10 {
		if m.AllowAt(start.Add(time.Hour/2), slow.Key(fmt.Sprint(i))) {
			t.Errorf("the use of key %d is forgotten", i)
		}
		if r, _ := m.InspectAt(start.Add(time.Hour/2), credit.Key(fmt.Sprint(i))); r.Used != 1 {
			t.Errorf("the credit used by key %d is forgotten", i)
		}
	}
}

func TestMemoryHonorsItsClockAndContext(t *testing.T) {
	t.Parallel()
	p := Policy{Name: "p", Rate: PerSecond(1)}
	now := time.Unix(1000, 0)
	m, err := NewMemory(p)
	if err != nil {
		t.Fatal(err)
	}
	m.WithClock(func() time.Time { return now })
	var l Limiter = m
	r, err := l.Acquire(t.Context(), p.Key("a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Acquire(t.Context(), p.Key("a")); err == nil {
		t.Error("admitted twice in one instant")
	}
	if err := r.Refund(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Grant(t.Context(), p.Key("a"), -1); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Second)
	if r, err := l.Inspect(t.Context(), p.Key("a")); err != nil || r.Available != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Acquire(ctx, p.Key("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
	}
}

func TestMemoryListsItsRegistry(t *testing.T) {
	t.Parallel()
	m, err := NewMemory(Policy{Name: "b", Rate: PerSecond(1)}, Policy{Name: "a", Rate: PerSecond(1)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.SetOverride(t.Context(), "b", Override{Max: new(int64(7)), By: "ann"}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Reset(t.Context(), "a", "bob"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.ClearOverride(t.Context(), "c", "bob"); !errors.Is(err, ErrUnknownPolicy) {
		t.Errorf("error %v, want ErrUnknownPolicy", err)
	}
	entries, err := m.Policies(t.Context())
	if err != nil || len(entries) != 2 || entries[0].Policy.Name != "a" || entries[0].Generation != 1 || *entries[1].Override.Max != 7 || entries[1].Override.By != "ann" {
		t.Errorf("%+v, %v", entries, err)
	}
}

// A manual policy on a cron is looked at when it is reset, not a day later.
func TestWaitingForAResetLooksWhenItIsDue(t *testing.T) {
	t.Parallel()
	p := Policy{Name: "p", Manual: ResetOn("0 0 * * *", "UTC"), Max: 1}
	m, err := NewMemory(p)
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	if !m.AllowAt(noon, p.Key("a")) {
		t.Fatal("denied")
	}
	var denied *Denied
	_, err = m.AcquireAt(noon.Add(time.Hour), p.Key("a"))
	if !errors.As(err, &denied) || denied.Blocked[0].Verdict != UntilChanged || denied.RetryAfter != 11*time.Hour {
		t.Errorf("%v, want until changed, and a look at midnight", err)
	}
	// Where the reset is someone else's, and late, it is looked for every minute.
	e, _, err := Register(nil, p, 1, "", noon)
	if err != nil {
		t.Fatal(err)
	}
	meter, err := NewMeter(e)
	if err != nil {
		t.Fatal(err)
	}
	used := meter.Decide(State{}, 1, noon).Next
	if d := meter.Decide(used, 1, noon.Add(13*time.Hour)); d.Blocked.Wait != time.Minute {
		t.Errorf("a look in %v, want in a minute", d.Blocked.Wait)
	}
}

// A deployment that is refused changes nothing, whatever else is in it.
func TestDeclareIsAllOrNothing(t *testing.T) {
	t.Parallel()
	p := Policy{Name: "p", Rate: PerSecond(1)}
	m, err := NewMemory(p)
	if err != nil {
		t.Fatal(err)
	}
	q := Policy{Name: "q", Rate: PerSecond(1)}
	p.Group = "elsewhere"
	if err := m.Declare(1, q, p); err == nil {
		t.Error("a changed group is accepted")
	}
	if m.Allow(q.Key("a")) {
		t.Error("half of a refused deployment is in force")
	}
	if err := m.Declare(1, q, Policy{Name: "bad"}); err == nil || m.Allow(q.Key("a")) {
		t.Error("half of a bad deployment is in force")
	}
	if err := m.Declare(1, q); err != nil || !m.Allow(q.Key("a")) {
		t.Errorf("error %v, want q in force", err)
	}
}

// A reservation can be continued from its receipt, sent as JSON.
func TestReceiptContinuesAReservation(t *testing.T) {
	t.Parallel()
	p := Policy{Name: "p", Rate: Per(MaxUnits, MaxPeriod)}
	m, err := NewMemory(p)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	r, err := m.AcquireAt(at, p.Key("é\"").Cost(MaxUnits))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r.Receipt())
	if err != nil {
		t.Fatal(err)
	}
	var receipt Receipt
	if err := json.Unmarshal(text, &receipt); err != nil {
		t.Fatal(err)
	}
	if err := NewReservation(receipt, m).SettleAt(t.Context(), at, p.Key("é\"").Cost(1)); err != nil {
		t.Fatal(err)
	}
	if r, _ := m.InspectAt(at, p.Key("é\"")); r.Used != 1 {
		t.Errorf("used %d, want 1", r.Used)
	}
}

// flaky is a store that fails a number of times.
type flaky struct {
	failures int
	settled  []Closing
}

func (f *flaky) Settle(_ context.Context, _ string, c []Closing, _ time.Time) error {
	if f.failures--; f.failures >= 0 {
		return ErrStoreDown
	}
	f.settled = append(f.settled, c...)
	return nil
}

func TestReservationStaysOpenUntilTheStoreAnswers(t *testing.T) {
	t.Parallel()
	store := &flaky{failures: 1}
	p := Policy{Name: "p"}
	r := NewReservation(Receipt{ID: "1", Charges: []Charge{{Policy: "p", Units: 5}, {Policy: "q", Units: 1}}}, store)
	if err := r.Settle(t.Context(), p.Key("").Cost(3)); !errors.Is(err, ErrStoreDown) {
		t.Errorf("error %v, want ErrStoreDown", err)
	}
	for range 2 {
		if err := r.Settle(t.Context(), p.Key("").Cost(3)); err != nil {
			t.Fatal(err)
		}
	}
	if len(store.settled) != 1 || store.settled[0].Actual != 3 || store.settled[0].Charge.Policy != "p" {
		t.Errorf("%+v, want one closing of p", store.settled)
	}
	for name, tiers := range map[string][]Tier{"twice": {p.Key(""), p.Key("")}, "too much": {p.Key("").Cost(MaxUnits + 1)}, "another key": {p.Key("k")}} {
		r := NewReservation(Receipt{Charges: []Charge{{Policy: "p", Units: 5}}}, &flaky{})
		var invalid *InvalidRequestError
		if err := r.Settle(t.Context(), tiers...); !errors.As(err, &invalid) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
