package limit_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/sluice-dev/sluice/shared/limit"
)

func somePolicies() []limit.Policy {
	anchor := time.Date(2027, 1, 31, 14, 0, 0, 0, time.UTC)
	return []limit.Policy{
		{Name: "bucket", Rate: limit.PerSecond(10)},
		{Name: "burst", Group: "llm", Rate: limit.PerMinute(1_000_000), Max: 5, Burst: 20, OverMax: limit.Clamp},
		{Name: "every", Window: limit.Every(5 * time.Hour), Max: 500},
		{Name: "anchored", Window: limit.Every(5 * time.Hour).From(anchor), Max: 500},
		{Name: "first-use", Window: limit.FromFirstUse(5 * time.Hour), Max: 500},
		{Name: "daily", Window: limit.Days("Europe/Paris"), Max: limit.MaxUnits},
		{Name: "weekly", Window: limit.Weeks("UTC").From(anchor), Max: 1, OverMax: limit.Reject},
		{Name: "monthly", Window: limit.Months("America/New_York").From(anchor), Max: 1},
		{Name: "cron", Window: limit.Cron("0 9 * * mon-fri", "Asia/Tokyo"), Max: 1},
		{Name: "credit", Manual: limit.ByOperator, Max: 1000},
		{Name: "paused", Manual: limit.ByOperator},
		{Name: "allowance", Manual: limit.ResetOn("0 0 1 * *", "Europe/Paris"), Max: 1000},
	}
}

func TestValidPolicies(t *testing.T) {
	t.Parallel()
	for _, p := range somePolicies() {
		if err := p.Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestOneErrorNamesEveryBadField(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy limit.Policy
		fields []string
	}{
		{limit.Policy{}, []string{"name", "kind"}},
		{limit.Policy{Name: "Upper", Group: "a b", Rate: limit.Per(0, time.Microsecond), Max: -1, Burst: -1, OverMax: "drop"},
			[]string{"name", "group", "refill", "interval_ms", "max", "burst", "over_max"}},
		{limit.Policy{Name: strings.Repeat("a", 64), Rate: limit.PerSecond(1)}, []string{"name"}},
		{limit.Policy{Name: "-a", Rate: limit.PerSecond(1)}, []string{"name"}},
		{limit.Policy{Name: "a\n", Rate: limit.PerSecond(1)}, []string{"name"}},
		{limit.Policy{Name: "p", Rate: limit.PerSecond(limit.MaxUnits + 1)}, []string{"refill"}},
		{limit.Policy{Name: "p", Rate: limit.Per(1, limit.MaxPeriod+time.Millisecond)}, []string{"interval_ms"}},
		{limit.Policy{Name: "p", Rate: limit.Per(1, 1500*time.Microsecond)}, []string{"interval_ms"}},
		{limit.Policy{Name: "p", Rate: limit.PerSecond(1), Max: limit.MaxUnits, Burst: 1}, []string{"burst"}},
		{limit.Policy{Name: "p", Rate: limit.PerSecond(1), Window: limit.Days("UTC"), Manual: limit.ByOperator}, []string{"kind"}},
		{limit.Policy{Name: "p", Window: limit.Days("UTC")}, []string{"max"}},
		{limit.Policy{Name: "p", Window: limit.Days("UTC"), Max: 1, Burst: 1}, []string{"burst"}},
		{limit.Policy{Name: "p", Window: limit.Days("Local"), Max: 1}, []string{"window.zone"}},
		{limit.Policy{Name: "p", Window: limit.Days("Europe/Pairs"), Max: 1}, []string{"window.zone"}},
		{limit.Policy{Name: "p", Window: limit.Cron("0 0 * *", ""), Max: 1}, []string{"window.zone", "window.cron"}},
		{limit.Policy{Name: "p", Window: limit.Cron("@daily", "UTC").From(at(0)), Max: 1}, []string{"window.anchor"}},
		{limit.Policy{Name: "p", Window: limit.Every(time.Hour).From(at(-1)), Max: 1}, []string{"window.anchor"}},
		{limit.Policy{Name: "p", Manual: limit.ResetOn("x", "y"), Max: limit.MaxUnits + 1}, []string{"manual.zone", "manual.cron", "max"}},
	} {
		err := c.policy.Validate()
		var bad *limit.InvalidPolicyError
		if !errors.As(err, &bad) {
			t.Errorf("%+v: error %v", c.policy, err)
			continue
		}
		var fields []string
		for _, f := range bad.Fields {
			fields = append(fields, f.Field)
			if !strings.Contains(err.Error(), f.Field+": "+f.Problem) {
				t.Errorf("%v does not say %+v", err, f)
			}
		}
		if strings.Join(fields, " ") != strings.Join(c.fields, " ") {
			t.Errorf("error %v, want one about %v", err, c.fields)
		}
	}
}

func TestScaleIsExact(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		got, want limit.Rate
	}{
		{limit.PerSecond(1).Scale(5, 2), limit.Per(5, 2*time.Second)},
		{limit.PerSecond(10).Scale(1, 2), limit.Per(5, time.Second)},
		{limit.PerSecond(10).Scale(1, 3), limit.Per(10, 3*time.Second)},
		{limit.PerSecond(1).Scale(3, 1), limit.Per(3, time.Second)},
		{limit.Per(1, time.Millisecond).Scale(7, 3), limit.Per(7, 3*time.Millisecond)},
		{limit.PerSecond(1).Scale(0, 1), limit.Rate{}},
		{limit.PerSecond(1).Scale(1, -1), limit.Rate{}},
		{limit.Per(1, limit.MaxPeriod).Scale(1, 2), limit.Rate{}},
		{limit.PerSecond(limit.MaxUnits).Scale(limit.MaxUnits, 1), limit.Rate{}},
	} {
		a, b := c.got, c.want
		if (a == limit.Rate{}) != (b == limit.Rate{}) || a.Tokens*int64(b.Interval) != b.Tokens*int64(a.Interval) || a.Interval%time.Millisecond != 0 {
			t.Errorf("%v, want %v", a, b)
		}
	}
}

func TestPolicyInJSON(t *testing.T) {
	t.Parallel()
	for i, want := range []string{
		`{"name":"bucket","kind":"bucket","refill":10,"interval_ms":1000}`,
		`{"name":"burst","group":"llm","kind":"bucket","max":5,"burst":20,"refill":1000000,"interval_ms":60000,"over_max":"clamp"}`,
		`{"name":"every","kind":"window","max":500,"window":{"kind":"every","interval_ms":18000000}}`,
		`{"name":"anchored","kind":"window","max":500,"window":{"kind":"every","interval_ms":18000000,"anchor":"2027-01-31T14:00:00Z"}}`,
		`{"name":"first-use","kind":"window","max":500,"window":{"kind":"first_use","interval_ms":18000000}}`,
		`{"name":"daily","kind":"window","max":9007199254740991,"window":{"kind":"daily","zone":"Europe/Paris"}}`,
		`{"name":"weekly","kind":"window","max":1,"window":{"kind":"weekly","anchor":"2027-01-31T14:00:00Z","zone":"UTC"},"over_max":"reject"}`,
		`{"name":"monthly","kind":"window","max":1,"window":{"kind":"monthly","anchor":"2027-01-31T14:00:00Z","zone":"America/New_York"}}`,
		`{"name":"cron","kind":"window","max":1,"window":{"kind":"cron","zone":"Asia/Tokyo","cron":"0 9 * * mon-fri"}}`,
		`{"name":"credit","kind":"manual","max":1000}`,
		`{"name":"paused","kind":"manual"}`,
		`{"name":"allowance","kind":"manual","max":1000,"reset":{"cron":"0 0 1 * *","zone":"Europe/Paris"}}`,
	} {
		p := somePolicies()[i]
		got, err := json.Marshal(p)
		if err != nil || string(got) != want {
			t.Errorf("%s (%v), want %s", got, err, want)
		}
		var back limit.Policy
		if err := json.Unmarshal(got, &back); err != nil || back != p {
			t.Errorf("%s reads as %+v (%v), want %+v", got, back, err, p)
		}
	}
}

func TestPolicyInJSONIsReadStrictly(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"unknown name":     `{"name":"p","kind":"manual","max":1,"burts":1}`,
		"folded case":      `{"Name":"p","kind":"manual","max":1}`,
		"name twice":       `{"name":"p","name":"q","kind":"manual","max":1}`,
		"null":             `{"name":"p","kind":"manual","max":null}`,
		"null within":      `{"name":"p","kind":"window","max":1,"window":{"kind":"daily","zone":null}}`,
		"text for number":  `{"name":"p","kind":"manual","max":"1"}`,
		"fraction":         `{"name":"p","kind":"manual","max":1.5}`,
		"too large":        `{"name":"p","kind":"manual","max":9223372036854775808}`,
		"trailing":         `{"name":"p","kind":"manual","max":1}{}`,
		"no kind":          `{"name":"p","max":1}`,
		"another kind":     `{"name":"p","kind":"window","max":1,"refill":1,"interval_ms":1}`,
		"bucket by reset":  `{"name":"p","kind":"bucket","refill":1,"interval_ms":1,"reset":{"cron":"@daily","zone":"UTC"}}`,
		"an array":         `[]`,
		"anchor zoneless":  `{"name":"p","kind":"window","max":1,"window":{"kind":"daily","zone":"UTC","anchor":"2027-01-31T14:00:00"}}`,
		"an empty string":  ``,
		"not UTF-8":        "{\"name\":\"\xff\",\"kind\":\"manual\"}",
		"null as a policy": `null`,
	} {
		var p limit.Policy
		if err := json.Unmarshal([]byte(text), &p); err == nil {
			t.Errorf("%s: %s is read as %+v", name, text, p)
		}
	}
}

// What is read and valid is written and read again as the same.
func FuzzPolicyJSON(f *testing.F) {
	for _, p := range somePolicies() {
		text, err := json.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var p limit.Policy
		if json.Unmarshal(text, &p) != nil || p.Validate() != nil {
			return
		}
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var q limit.Policy
		if err := json.Unmarshal(again, &q); err != nil || p != q {
			t.Fatalf("%s is written as %s and read as %+v (%v), want %+v", text, again, q, err, p)
		}
		if _, err := limit.NewMemory(p); err != nil {
			t.Fatal(err)
		}
	})
}

func TestPoliciesAreShownInWords(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]fmt.Stringer{
		"10 per 1s":            limit.PerSecond(10),
		"every 5h0m0s":         limit.Every(5 * time.Hour),
		"first_use 1h0m0s":     limit.FromFirstUse(time.Hour),
		"daily Europe/Paris":   limit.Days("Europe/Paris"),
		`cron "0 9 * * *" UTC`: limit.Cron("0 9 * * *", "UTC"),
		`p["a"]`:               limit.Policy{Name: "p"}.Key("a"),
		`p["a"]: cost 2, available 1, waits for a change, grant or reset`: limit.Blocked{Policy: "p", Key: "a", Cost: 2, Available: 1, Verdict: limit.UntilChanged},
		`p["a"]: cost 2, available 1, can never be admitted`:              limit.Blocked{Policy: "p", Key: "a", Cost: 2, Available: 1, Verdict: limit.Never},
	} {
		if got.String() != want {
			t.Errorf("%q, want %q", got.String(), want)
		}
	}
}
