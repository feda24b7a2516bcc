package reset_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/reset"
)

var (
	monthly = limit.Policy{Name: "monthly", Manual: limit.ResetOn("0 0 1 * *", "Europe/Paris"), Max: 100}
	hourly  = limit.Policy{Name: "hourly", Manual: limit.ResetOn("0 * * * *", "UTC"), Max: 5}
	byHand  = limit.Policy{Name: "by-hand", Manual: limit.ByOperator, Max: 5}
	window  = limit.Policy{Name: "window", Window: limit.Days("UTC"), Max: 5}

	start = time.Date(2027, 1, 1, 9, 30, 0, 0, time.UTC)
)

// registry keeps entries in memory.
type registry struct {
	entries map[string]limit.Entry
	now     time.Time
	fail    map[string]error // by policy; "" is reading
}

func (r *registry) Policies(context.Context) ([]limit.Entry, error) {
	return slices.Collect(maps.Values(r.entries)), r.fail[""]
}

func (r *registry) ResetDue(_ context.Context, by string) (resets []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(r.entries)) {
		next, due := r.entries[name].ResetDue(by, r.now)
		switch {
		case r.fail[name] != nil:
			err = r.fail[name]
		case due:
			r.entries[name] = next
			resets = append(resets, name)
		}
	}
	return resets, err
}

type bundle struct {
	registry *registry
	resetter *reset.Resetter
	log      *bytes.Buffer
}

func setup(t *testing.T, policies ...limit.Policy) *bundle {
	t.Helper()
	r := &registry{entries: make(map[string]limit.Entry), now: start, fail: make(map[string]error)}
	for _, p := range policies {
		e, _, err := limit.Register(nil, p, 1, "deploy", start)
		if err != nil {
			t.Fatal(err)
		}
		r.entries[p.Name] = e
	}
	b := &bundle{registry: r, log: new(bytes.Buffer)}
	b.resetter = reset.New(reset.Config{
		Registry: r, Now: func() time.Time { return r.now }, Log: slog.New(slog.NewJSONHandler(b.log, nil)), FunctionName: "f",
	})
	return b
}

// run runs the function at a time and returns what it has reset, in order.
func (b *bundle) run(t *testing.T, at time.Time) []string {
	t.Helper()
	b.registry.now = at
	report, err := b.resetter.Handle(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(report.Resets)
	return report.Resets
}

func TestAManualPolicyIsResetOncePerTimeOfItsCron(t *testing.T) {
	t.Parallel()
	b := setup(t, monthly, hourly, byHand, window)
	hour := start.Truncate(time.Hour)
	for _, c := range []struct {
		what string
		at   time.Time
		want []string
	}{
		{"nothing is due", start, nil},
		{"the minute before", hour.Add(time.Hour - time.Millisecond), nil},
		{"the hour", hour.Add(time.Hour), []string{"hourly"}},
		{"the same hour again", hour.Add(time.Hour), nil},
		{"a minute later", hour.Add(time.Hour + time.Minute), nil},
		{"after three missed hours", hour.Add(4*time.Hour + time.Minute), []string{"hourly"}},
		{"and not once more", hour.Add(4*time.Hour + 2*time.Minute), nil},
		{"midnight in Paris on the first", time.Date(2027, 1, 31, 23, 0, 0, 0, time.UTC), []string{"hourly", "monthly"}},
		{"a clock that steps back", start, nil},
	} {
		if got := b.run(t, c.at); !slices.Equal(got, c.want) {
			t.Errorf("%s: reset %v, want %v", c.what, got, c.want)
		}
	}
	if e := b.registry.entries["hourly"]; e.Generation != 3 || e.Changes[len(e.Changes)-1].By != reset.By {
		t.Errorf("%+v", e)
	}
}

func TestAFailureDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	b := setup(t, monthly, hourly)
	b.registry.now = start.AddDate(0, 2, 0)
	b.registry.fail["hourly"] = errors.New("throttled")
	report, err := b.resetter.Handle(t.Context())
	if err == nil || !strings.Contains(err.Error(), "reset the policies that are due: throttled") || !slices.Equal(report.Resets, []string{"monthly"}) {
		t.Errorf("%+v, %v", report, err)
	}
	delete(b.registry.fail, "hourly")
	if got := b.run(t, b.registry.now); !slices.Equal(got, []string{"hourly"}) {
		t.Errorf("the next run reset %v", got)
	}
}

func TestARunTellsItsGauges(t *testing.T) {
	t.Parallel()
	b := setup(t, monthly, hourly, window)
	for name, expires := range map[string]time.Time{"hourly": {}, "window": start.Add(time.Minute)} {
		e, err := b.registry.entries[name].SetOverride(limit.Override{Max: new(int64(1)), Expires: expires}, start)
		if err != nil {
			t.Fatal(err)
		}
		b.registry.entries[name] = e
	}
	b.run(t, start)
	metrics := lastLine(t, b)
	if metrics["LimitPolicies"] != 3.0 || metrics["LimitOverrides"] != 2.0 || metrics["LimitResets"] != 0.0 || metrics["FunctionName"] != "f" {
		t.Errorf("%v", metrics)
	}
	want := `{"CloudWatchMetrics":[{"Dimensions":[["FunctionName"]],"Metrics":[{"Name":"LimitResets","Unit":"Count"},{"Name":"LimitPolicies","Unit":"Count"},{"Name":"LimitOverrides","Unit":"Count"}],"Namespace":"Sluice"}],"Timestamp":1798795800000}`
	if got, err := json.Marshal(metrics["_aws"]); err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	b.run(t, start.Add(time.Hour)) // one override has expired
	if metrics := lastLine(t, b); metrics["LimitOverrides"] != 1.0 || metrics["LimitResets"] != 1.0 {
		t.Errorf("%v", metrics)
	}
}

func TestAnUnreadableRegistryIsAnErrorWithoutGauges(t *testing.T) {
	t.Parallel()
	b := setup(t, hourly)
	b.registry.fail[""] = limit.ErrStoreDenied
	b.registry.entries = nil
	if _, err := b.resetter.Handle(t.Context()); !errors.Is(err, limit.ErrStoreDenied) || !strings.Contains(err.Error(), "read the policies: ") {
		t.Errorf("%v", err)
	}
	metrics := lastLine(t, b)
	if _, told := metrics["LimitPolicies"]; told || metrics["level"] != "ERROR" {
		t.Errorf("%v", metrics)
	}
}

// lastLine is what was logged last, and empties the log.
func lastLine(t *testing.T, b *bundle) map[string]any {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(b.log.String()), "\n")
	b.log.Reset()
	var line map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &line); err != nil {
		t.Fatal(err)
	}
	return line
}
