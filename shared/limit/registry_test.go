package limit_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/sluice-dev/sluice/shared/limit"
)

func register(t testing.TB, stored *limit.Entry, p limit.Policy, release int64, at time.Time) (limit.Entry, limit.Registration) {
	t.Helper()
	e, outcome, err := limit.Register(stored, p, release, "deploy", at)
	if err != nil {
		t.Fatal(err)
	}
	return e, outcome
}

func TestNewerReleaseReplacesOlderUsesTheStored(t *testing.T) {
	t.Parallel()
	old, next := bucket(10, time.Second), bucket(20, time.Second)
	e, outcome := register(t, nil, old, 100, at(1))
	if outcome != limit.Created || len(e.Terms) != 1 {
		t.Errorf("%s, %d terms, want it created", outcome, len(e.Terms))
	}
	if _, outcome := register(t, &e, old, 100, at(2)); outcome != limit.Unchanged {
		t.Errorf("the same again: %s", outcome)
	}
	e, outcome = register(t, &e, next, 200, at(3))
	if outcome != limit.Replaced || !e.Policy.Equal(next) || e.Release != 200 || len(e.Terms) != 2 {
		t.Errorf("%s, %+v, want the newer release in force", outcome, e)
	}
	for i := range 10 { // two versions run side by side
		var got limit.Entry
		got, outcome = register(t, &e, old, 100, at(float64(4+i)))
		if outcome != limit.Older || len(got.Terms) != 2 || !got.Policy.Equal(next) {
			t.Errorf("%s, %+v, want the stored one to stay", outcome, got)
		}
	}
	if _, _, err := limit.Register(&e, old, 200, "deploy", at(20)); !errors.Is(err, limit.ErrReleaseConflict) {
		t.Errorf("error %v, want a conflict of releases", err)
	}
}

func TestNewerReleaseWithTheSameDefinitionIsRemembered(t *testing.T) {
	t.Parallel()
	p := bucket(10, time.Second)
	e, _ := register(t, nil, p, 1, at(1))
	e, outcome := register(t, &e, p, 3, at(2))
	if outcome != limit.Replaced || len(e.Terms) != 1 {
		t.Errorf("%s with %d terms, want the release replaced and the terms as they were", outcome, len(e.Terms))
	}
	if _, outcome := register(t, &e, bucket(20, time.Second), 2, at(3)); outcome != limit.Older {
		t.Errorf("release 2 after 3: %s", outcome)
	}
}

func TestGroupCannotChange(t *testing.T) {
	t.Parallel()
	p := bucket(10, time.Second)
	e, _ := register(t, nil, p, 1, at(1))
	p.Group = "other"
	var bad *limit.InvalidPolicyError
	if _, _, err := limit.Register(&e, p, 2, "deploy", at(2)); !errors.As(err, &bad) || bad.Fields[0].Field != "group" {
		t.Errorf("error %v, want one about the group", err)
	}
}

func TestOverrideIsChecked(t *testing.T) {
	t.Parallel()
	drip, _ := register(t, nil, bucket(10, time.Second), 1, at(1))
	days, _ := register(t, nil, limit.Policy{Name: "w", Window: limit.Days("UTC"), Max: 5}, 1, at(1))
	for _, c := range []struct {
		entry  limit.Entry
		o      limit.Override
		fields int
	}{
		{drip, limit.Override{}, 1},
		{drip, limit.Override{Max: new(int64(-1)), Refill: new(int64(0)), Interval: new(time.Microsecond), Expires: at(0)}, 4},
		{drip, limit.Override{Max: new(int64(limit.MaxUnits + 1))}, 1},
		{days, limit.Override{Refill: new(int64(1)), Interval: new(time.Hour)}, 2},
	} {
		_, err := c.entry.SetOverride(c.o, at(1))
		var bad *limit.InvalidPolicyError
		if !errors.As(err, &bad) || len(bad.Fields) != c.fields {
			t.Errorf("%+v: error %v, want %d fields", c.o, err, c.fields)
		}
	}
}

func TestChangesSayWhoAndWhen(t *testing.T) {
	t.Parallel()
	e, _ := register(t, nil, bucket(10, time.Second), 7, at(1))
	e, err := e.SetOverride(limit.Override{Max: new(int64(5)), By: "ann", Expires: at(100)}, at(2))
	if err != nil {
		t.Fatal(err)
	}
	e = e.ClearOverride("bob", at(3)).Reset("cid", at(4))
	var log []string
	for _, c := range e.Changes {
		log = append(log, fmt.Sprintf("%d %s %s", c.At.Unix(), c.By, c.What))
	}
	want := []string{"1 deploy declared by release 7", "2 ann override set: [max 5] until 1970-01-01T00:01:40Z", "3 bob override cleared", "4 cid reset"}
	if fmt.Sprint(log) != fmt.Sprint(want) {
		t.Errorf("log %q, want %q", log, want)
	}
	for i := range 100 {
		e = e.Reset("cid", at(float64(i)))
	}
	if len(e.Changes) > 50 || len(e.Terms) > 50 || e.Generation != 101 {
		t.Errorf("%d changes, %d terms, generation %d, want the lists bounded", len(e.Changes), len(e.Terms), e.Generation)
	}
}

func TestEntrySurvivesJSON(t *testing.T) {
	t.Parallel()
	for _, p := range somePolicies() {
		e, _ := register(t, nil, p, 1, at(1))
		e, err := e.SetOverride(limit.Override{Max: new(int64(5)), By: "ann", Expires: at(100)}, at(2))
		if err != nil {
			t.Fatal(err)
		}
		e = e.Reset("bob", at(3))
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var back limit.Entry
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		again, err := json.Marshal(back)
		if err != nil || string(again) != string(text) || !back.Policy.Equal(p) {
			t.Errorf("%s became %s (%v)", text, again, err)
		}
	}
}

// Seventeen changes later a key's settings are forgotten. It counts as used up when
// the oldest that are known came into force, and as full when it has refilled since.
func TestForgottenSettingsMintNothing(t *testing.T) {
	t.Parallel()
	p := bucket(100, 100*time.Second)
	m := newMemory(t, p)
	acquire(t, m, at(0), p.Key("a").Cost(90))
	for i := range 40 {
		if _, err := m.SetOverrideAt(at(1), p.Name, limit.Override{Max: new(int64(100 + i%2))}); err != nil {
			t.Fatal(err)
		}
	}
	wantAvailable(t, m, at(1), p.Key("a"), 0)
	wantAvailable(t, m, at(51), p.Key("a"), 50)
	wantAvailable(t, m, at(500), p.Key("a"), 101)
}

// Of windows and manual policies nothing is forgotten, however often the maximum
// changes.
func TestUseIsRememberedThroughAnyNumberOfChanges(t *testing.T) {
	t.Parallel()
	for _, p := range []limit.Policy{
		{Name: "m", Manual: limit.ByOperator, Max: 100},
		{Name: "w", Window: limit.Every(time.Hour), Max: 100},
	} {
		m := newMemory(t, p)
		acquire(t, m, at(0), p.Key("a").Cost(30))
		for i := range 200 {
			if _, err := m.SetOverrideAt(at(1), p.Name, limit.Override{Max: new(int64(i % 3 * 50))}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := m.ClearOverrideAt(at(1), p.Name, "op"); err != nil {
			t.Fatal(err)
		}
		wantAvailable(t, m, at(1), p.Key("a"), 70)
	}
}

func TestResetsBeyondTheListOfTermsStillCount(t *testing.T) {
	t.Parallel()
	p := bucket(100, time.Hour)
	m := newMemory(t, p)
	acquire(t, m, at(0), p.Key("a").Cost(100))
	if _, err := m.ResetAt(at(1), p.Name, "op"); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		if _, err := m.SetOverrideAt(at(1), p.Name, limit.Override{Max: new(int64(100 + i%2))}); err != nil {
			t.Fatal(err)
		}
	}
	wantAvailable(t, m, at(1), p.Key("a"), 101)
}

// A State of an era that a caller has not heard of makes it look at the registry.
func TestStateOfALaterEraIsStale(t *testing.T) {
	t.Parallel()
	p := bucket(10, time.Second)
	old, _ := register(t, nil, p, 1, at(1))
	cached, err := limit.NewMeter(old)
	if err != nil {
		t.Fatal(err)
	}
	current, err := limit.NewMeter(old.Reset("op", at(2)))
	if err != nil {
		t.Fatal(err)
	}
	d := current.Decide(limit.State{}, 1, at(3))
	if got := cached.Decide(d.Next, 1, at(3)); !got.Stale || got.Admitted {
		t.Errorf("%+v, want stale", got)
	}
	if _, stale := cached.Settle(d.Next, d.Charge, 0, at(3)); !stale {
		t.Error("settle: want stale")
	}
	if _, stale := cached.Grant(d.Next, 1, at(3)); !stale {
		t.Error("grant: want stale")
	}
	if _, stale := cached.Inspect(d.Next, 1, at(3)); !stale {
		t.Error("inspect: want stale")
	}
}

// A caller whose clock is behind joins a change that the registry has recorded; a
// planned one waits for its time, except for States that have seen it.
func TestCallersWithSlowClocksJoinChanges(t *testing.T) {
	t.Parallel()
	p := bucket(10, 10*time.Second)
	e, _ := register(t, nil, p, 1, at(0))
	e, err := e.SetOverride(limit.Override{Max: new(int64(2)), Expires: at(100)}, at(50))
	if err != nil {
		t.Fatal(err)
	}
	m, err := limit.NewMeter(e)
	if err != nil {
		t.Fatal(err)
	}
	for s, want := range map[float64]int64{40: 2, 50: 2, 99: 2, 100: 10} {
		if got := m.Terms(at(s)).Max; got != want {
			t.Errorf("at %v s the maximum is %d, want %d", s, got, want)
		}
	}
	full := m.Decide(limit.State{}, 1, at(100)) // by a fast clock
	if r, _ := m.Inspect(full.Next, 1, at(99)); r.Available != 9 {
		t.Errorf("available %d, want 9: the state has seen the override end", r.Available)
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	start := time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)
	day := 24 * time.Hour
	for _, c := range []struct {
		policy limit.Policy
		least  time.Duration // after start
		never  bool
	}{
		{policy: bucket(10, time.Second), least: 30 * day},
		{policy: bucket(1, 7*day), least: 37 * day},
		{policy: limit.Policy{Name: "w", Window: limit.Every(90 * day), Max: 1}, least: 30 * day},
		{policy: limit.Policy{Name: "f", Window: limit.FromFirstUse(90 * day), Max: 1}, least: 120 * day},
		{policy: limit.Policy{Name: "m", Manual: limit.ByOperator, Max: 1}, never: true},
	} {
		e, _ := register(t, nil, c.policy, 1, start)
		m, err := limit.NewMeter(e)
		if err != nil {
			t.Fatal(err)
		}
		d := m.Decide(limit.State{}, 1, start)
		expiry, ok := m.Expiry(d.Next, start)
		if ok == c.never {
			t.Errorf("%s: expires %v, want never %v", c.policy.Name, ok, c.never)
			continue
		}
		if !ok {
			continue
		}
		if expiry.Sub(start) < c.least || expiry.Sub(start) > c.least+92*day || expiry.Truncate(day) != expiry {
			t.Errorf("%s: expires %v, want a whole day at least %v on", c.policy.Name, expiry, c.least)
		}
		if r, _ := m.Inspect(d.Next, 1, expiry); r.Used != 0 {
			t.Errorf("%s: %d still used at its expiry", c.policy.Name, r.Used)
		}
		held := d.Next.HoldUntil(start.Add(400 * day))
		if expiry, ok := m.Expiry(held, start); !ok || expiry.Before(start.Add(430*day)) {
			t.Errorf("%s: expires %v, before the hold is long over", c.policy.Name, expiry)
		}
	}
}

func TestOverrideInJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]limit.Override{
		`{"max":0}`: {Max: new(int64(0))},
		`{"refill":5,"interval_ms":2000,"expires_at":"1970-01-01T00:01:00Z","by":"ann"}`: {Refill: new(int64(5)), Interval: new(2 * time.Second), Expires: at(60), By: "ann"},
	} {
		var o limit.Override
		if err := json.Unmarshal([]byte(text), &o); err != nil || o.String() != want.String() || o.By != want.By {
			t.Errorf("%s reads as %v (%v), want %v", text, &o, err, &want)
		}
		if got, err := json.Marshal(o); err != nil || string(got) != text {
			t.Errorf("%s is written as %s (%v)", text, got, err)
		}
	}
	for _, text := range []string{`{"max":null}`, `{"maximum":1}`, `{"max":1.5}`, `{"MAX":1}`, `null`, `[]`} {
		var o limit.Override
		if err := json.Unmarshal([]byte(text), &o); err == nil {
			t.Errorf("%s is read as %v", text, &o)
		}
	}
}

func TestExpiredOverrideIsOver(t *testing.T) {
	t.Parallel()
	e, _ := register(t, nil, bucket(10, time.Second), 1, at(0))
	e, err := e.SetOverride(limit.Override{Max: new(int64(5)), Expires: at(60)}, at(1))
	if err != nil {
		t.Fatal(err)
	}
	if e.OverrideAt(at(59)) == nil || e.OverrideAt(at(60)) != nil {
		t.Errorf("at 59 s %v, at 60 s %v", e.OverrideAt(at(59)), e.OverrideAt(at(60)))
	}
	// Whatever changes next finds it gone.
	if e = e.Reset("op", at(61)); e.Override != nil || e.Terms[len(e.Terms)-1].Max != 10 {
		t.Errorf("%+v, want the declared settings", e)
	}
	if again := e.ClearOverride("op", at(62)); len(again.Changes) != len(e.Changes) {
		t.Error("clearing no override is a change")
	}
}
