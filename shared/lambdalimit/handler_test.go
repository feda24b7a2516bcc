package lambdalimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/shared/lambdalimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

// everyRequest is a life in requests, one after the other.
var everyRequest = []struct{ what, request, want string }{
	{
		"admitted", `{"op":"acquire","tiers":[{"policy":"vendor","key":"acme"},{"policy":"tpm","key":"acme","cost":400}]}`,
		`{"admitted":true,"reservation":"…","charged":[{"policy":"vendor","key":"acme","cost":1},{"policy":"tpm","key":"acme","cost":400}]}`,
	},
	{
		"a policy that clamps charges what it has", `{"op":"acquire","tiers":[{"policy":"tpm","key":"big","cost":1001}]}`,
		`{"admitted":true,"reservation":"…","charged":[{"policy":"tpm","key":"big","cost":1000}]}`,
	},
	{
		"a subset by name", `{"op":"acquire","tiers":[{"policy":"vendor","key":"a","cost":99},{"policy":"daily"}],"only":["daily"]}`,
		`{"admitted":true,"reservation":"…","charged":[{"policy":"daily","cost":1}]}`,
	},
	{
		"a cost that never fits", `{"op":"acquire","tiers":[{"policy":"vendor","key":"acme","cost":11}]}`,
		`{"admitted":false,"never":true,"blocked":[{"policy":"vendor","key":"acme","cost":11,"available":9,"verdict":"never"}]}`,
	},
	{
		"later", `{"op":"acquire","tiers":[{"policy":"vendor","key":"acme","cost":10},{"policy":"daily"}]}`,
		`{"admitted":false,"never":false,"retry_after_ms":1000,"blocked":[{"policy":"vendor","key":"acme","cost":10,"available":9,"verdict":"later","wait_ms":1000}]}`,
	},
	{
		"the same tier twice costs the sum", `{"op":"acquire","tiers":[{"policy":"daily"},{"policy":"daily","key":"","cost":2}]}`,
		`{"admitted":false,"never":false,"retry_after_ms":52200000,"blocked":[{"policy":"daily","key":"","cost":3,"available":2,"verdict":"later","wait_ms":52200000}]}`,
	},
	{"drain", `{"op":"grant","policy":"credit","key":"x","amount":-4}`, `{"done":true}`},
	{
		"until changed", `{"op":"acquire","tiers":[{"policy":"credit","key":"x","cost":2}]}`,
		`{"admitted":false,"never":false,"retry_after_ms":86400000,"blocked":[{"policy":"credit","key":"x","cost":2,"available":1,"verdict":"until_changed","wait_ms":86400000}]}`,
	},
	{"grant", `{"op":"grant","policy":"credit","key":"x","amount":2}`, `{"done":true}`},
	{
		"inspect a manual policy", `{"op":"inspect","policy":"credit","key":"x"}`,
		`{"policy":"credit","key":"x","kind":"manual","limit":5,"available":3,"used":2,"resets_at":"2027-02-01T00:00:00Z"}`,
	},
	{"hold", `{"op":"hold","policy":"vendor","key":"acme","until":"2027-01-01T11:31:00+02:00"}`, `{"done":true}`},
	{
		"inspect what is held", `{"op":"inspect","policy":"vendor","key":"acme","cost":2}`,
		`{"policy":"vendor","key":"acme","kind":"bucket","limit":10,"available":9,"used":1,"full_at":"2027-01-01T09:30:01Z","held_until":"2027-01-01T09:31:00Z","blocked":{"policy":"vendor","key":"acme","cost":2,"available":9,"verdict":"later","wait_ms":60000,"held":true}}`,
	},
	{"release", `{"op":"release","policy":"vendor","key":"acme"}`, `{"done":true}`},
	{"override", `{"op":"set_override","policy":"vendor","max":3,"refill":2,"interval_ms":500,"expires_at":"2027-01-01T10:00:00Z","by":"ada"}`, `{"in_force_at":"2027-01-01T09:30:00Z"}`},
	{
		"inspect a window that nothing was charged to", `{"op":"inspect","policy":"daily","key":"quiet","cost":4}`,
		`{"policy":"daily","key":"quiet","kind":"window","limit":3,"available":3,"used":0,"resets_at":"2027-01-02T00:00:00Z","blocked":{"policy":"daily","key":"quiet","cost":4,"available":3,"verdict":"never"}}`,
	},
	{"clear the override", `{"op":"clear_override","policy":"vendor"}`, `{"in_force_at":"2027-01-01T09:30:00Z"}`},
	{"reset", `{"op":"reset","policy":"daily","by":"ada"}`, `{"in_force_at":"2027-01-01T09:30:00Z"}`},
}

func TestEveryRequestHasItsAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range everyRequest {
		answer := b.ask(t, c.request)
		if strings.Contains(answer, `"reservation"`) {
			answer = without(answer, reservation(t, answer))
		}
		if answer != c.want {
			t.Errorf("%s: %s\n got %s\nwant %s", c.what, c.request, answer, c.want)
		}
	}
}

func TestListsPolicies(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.ask(t, `{"op":"set_override","policy":"daily","max":0,"by":"ada"}`)
	answer := b.ask(t, `{"op":"policies"}`)
	for _, want := range []string{
		`{"policies":[{"policy":{"name":"credit","group":"credit","kind":"manual","max":5,"reset":{"cron":"0 0 1 * *","zone":"UTC"}`,
		`"override":{"max":0,"by":"ada","at":"2027-01-01T09:30:00Z"}`,
		`{"policy":{"name":"vendor","group":"llm","kind":"bucket","max":10,"refill":1,"interval_ms":1000`,
	} {
		if !strings.Contains(answer, want) {
			t.Errorf("%s\nlacks %s", answer, want)
		}
	}
}

func TestAReservationIsClosedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := reservation(t, b.ask(t, `{"op":"acquire","id":"one","tiers":[{"policy":"tpm","key":"a","cost":500},{"policy":"daily","cost":2}]}`))
	settle := fmt.Sprintf(`{"op":"settle","reservation":%q,"actual":[{"policy":"tpm","key":"a","cost":700}]}`, r)
	for range 2 {
		if answer := b.ask(t, settle); answer != `{"done":true}` {
			t.Fatal(answer)
		}
	}
	b.ask(t, fmt.Sprintf(`{"op":"refund","reservation":%q}`, r))
	for policy, want := range map[string]int64{`"tpm","key":"a"`: 700, `"daily"`: 2} {
		answer := b.ask(t, `{"op":"inspect","policy":`+policy+`}`)
		if !strings.Contains(answer, fmt.Sprintf(`"used":%d,`, want)) {
			t.Errorf("%s: %s, want %d used", policy, answer, want)
		}
	}
}

func TestARefundGivesEverythingBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := reservation(t, b.ask(t, `{"op":"acquire","id":"one","tiers":[{"policy":"tpm","key":"a","cost":500},{"policy":"daily","cost":2}]}`))
	b.ask(t, fmt.Sprintf(`{"op":"refund","reservation":%q}`, r))
	for _, policy := range []string{`"tpm","key":"a"`, `"daily"`} {
		if answer := b.ask(t, `{"op":"inspect","policy":`+policy+`}`); !strings.Contains(answer, `"used":0,`) {
			t.Errorf("%s: %s", policy, answer)
		}
	}
}

func TestARepeatedRequestIsNotCarriedOutAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	request := `{"op":"acquire","id":"7b8c1c52-5f0b-4c0e-9d35-0d8f3f1f6f0a","tiers":[{"policy":"vendor","key":"a","cost":4}]}`
	first, again := b.ask(t, request), b.ask(t, request)
	if first != again {
		t.Errorf("answered %s, then %s", first, again)
	}
	if answer := b.ask(t, `{"op":"inspect","policy":"vendor","key":"a"}`); !strings.Contains(answer, `"used":4,`) {
		t.Errorf("%s, want 4 charged", answer)
	}
}

func TestAHoldMayBeGivenAsATimeFromNow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	before := time.Now()
	b.ask(t, `{"op":"hold","policy":"vendor","key":"a","for_ms":3600000}`)
	r, err := b.limiter.InspectAt(before, vendor.Key("a"))
	if held := r.HeldUntil.Sub(before); err != nil || held < time.Hour || held > 2*time.Hour {
		t.Errorf("held for %v, %v", held, err)
	}
}

func TestRefusalsNameTheMember(t *testing.T) {
	t.Parallel()
	b := setup(t)
	long := strings.Repeat("k", 1025)
	for _, c := range []struct{ request, want string }{
		{``, `not one JSON document`},
		{`{`, `not one JSON document`},
		{`{"op":"policies"}{}`, `not one JSON document`},
		{`null`, `the request is null`},
		{`[]`, `the request is a list: want an object`},
		{`"acquire"`, `the request is a string: want an object`},
		{`{}`, `op is missing: want "acquire", "settle"`},
		{`{"op":1}`, `op is a number: want a string`},
		{`{"op":null}`, `op is null`},
		{`{"op":"Acquire"}`, `op "Acquire": want "acquire"`},
		{`{"Op":"policies"}`, `op is missing`},
		{`{"op":"policies","op":"reset"}`, `op is given twice`},
		{`{"op":"policies","extra":1}`, `extra is not a member of a request`},
		{`{"op":"policies","key":"a"}`, `key does not go with policies`},
		{`{"op":"acquire"}`, `tiers is missing: acquire needs it`},
		{`{"op":"acquire","tiers":[]}`, `tiers want at least one`},
		{`{"op":"acquire","tiers":{}}`, `tiers is an object: want a list`},
		{`{"op":"acquire","tiers":[1]}`, `tiers[0] is a number: want an object`},
		{`{"op":"acquire","tiers":[{}]}`, `tiers[0].policy is missing or empty`},
		{`{"op":"acquire","tiers":[{"policy":"vendor","Key":"a"}]}`, `tiers[0].Key is not a member of a request`},
		{`{"op":"acquire","tiers":[{"policy":"vendor","key":"a","key":"b"}]}`, `tiers[0].key is given twice`},
		{`{"op":"acquire","tiers":[{"policy":"vendor","cost":"1"}]}`, `tiers[0].cost is a string: want a whole number`},
		{`{"op":"acquire","tiers":[{"policy":"vendor","cost":1.5}]}`, `tiers[0].cost is 1.5: want a whole number`},
		{`{"op":"acquire","tiers":[{"policy":"vendor","cost":1e400}]}`, `tiers[0].cost is 1e400: want a whole number`},
		{`{"op":"acquire","tiers":[{"policy":"vendor"},{"policy":"vendor","cost":-1}]}`, `tiers[1].cost -1: want 0 to 9007199254740991`},
		{`{"op":"acquire","tiers":[{"policy":"vendor","cost":9007199254740992}]}`, `tiers[0].cost 9007199254740992: want 0 to`},
		{`{"op":"acquire","tiers":[{"policy":"vendor","cost":null}]}`, `tiers[0].cost is null: leave it out`},
		{`{"op":"acquire","tiers":[{"policy":"vendor","key":"` + long + `"}]}`, `tiers[0].key has 1025 bytes`},
		{`{"op":"acquire","tiers":[{"policy":"vendor"}],"only":[]}`, `only name at least one policy`},
		{`{"op":"acquire","tiers":[{"policy":"vendor"}],"id":""}`, `id is empty`},
		{`{"op":"acquire","tiers":[{"policy":"vendor"}],"id":"a b"}`, `id "a b": want letters`},
		{`{"op":"acquire","tiers":[` + strings.Repeat(`{"policy":"vendor"},`, 160) + `{"policy":"vendor"}]}`, `tiers 161 of them: want at most 160`},
		{`{"op":"acquire","tiers":[` + distinctKeys(11) + `]}`, `11 different groups and keys in one request: want at most 10`},
		{`{"op":"settle","reservation":"r1.AAAA","actual":[]}`, `reservation is not one that this function has given`},
		{`{"op":"settle","reservation":"","actual":[]}`, `reservation is empty`},
		{`{"op":"settle","reservation":"x","actual":[{"policy":"vendor"}]}`, `actual[0].cost is missing`},
		{`{"op":"refund"}`, `reservation is missing`},
		{`{"op":"inspect","policy":""}`, `policy is empty`},
		{`{"op":"grant","policy":"vendor"}`, `amount is missing`},
		{`{"op":"grant","policy":"vendor","amount":9007199254740992}`, `amount 9007199254740992: want -9007199254740991 to`},
		{`{"op":"hold","policy":"vendor"}`, `give until, a time, or for_ms`},
		{`{"op":"hold","policy":"vendor","until":"2027-01-01T00:00:00Z","for_ms":1}`, `one of the two`},
		{`{"op":"hold","policy":"vendor","until":"2027-01-01T00:00:00"}`, `until is a string: want a time with its zone`},
		{`{"op":"hold","policy":"vendor","for_ms":0}`, `for_ms 0: want 1 to`},
		{`{"op":"reset","policy":"vendor","by":"` + strings.Repeat("é", 257) + `"}`, `by want at most 256 characters`},
	} {
		answer := b.ask(t, c.request)
		said := strings.ReplaceAll(answer, `\"`, `"`)
		if !strings.HasPrefix(answer, `{"error":{"code":"invalid_request","message":"`) || !strings.Contains(said, c.want) {
			t.Errorf("%.200s\n got %s\nwant %s", c.request, answer, c.want)
		}
	}
	if b.log.Len() > 0 {
		t.Errorf("a caller's mistakes are no business of the operator: %s", b.log)
	}
}

func distinctKeys(n int) string {
	var tiers []string
	for i := range n {
		tiers = append(tiers, fmt.Sprintf(`{"policy":"vendor","key":"%d"}`, i))
	}
	return strings.Join(tiers, ",")
}

func TestErrorsHaveCodes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range []struct{ request, want string }{
		{`{"op":"acquire","tiers":[{"policy":"nobody"}]}`, `{"error":{"code":"unknown_policy","message":"unknown policy`},
		{`{"op":"acquire","tiers":[{"policy":"vendor"}],"only":["vender"]}`, `{"error":{"code":"unknown_policy","message":"unknown policy`},
		{`{"op":"reset","policy":"nobody"}`, `{"error":{"code":"unknown_policy"`},
		{`{"op":"set_override","policy":"vendor"}`, `{"error":{"code":"invalid_policy","message":"policy \"vendor\": override: set at least one of max, refill and interval_ms"`},
		{
			`{"op":"set_override","policy":"vendor","max":-1,"refill":0}`,
			`{"error":{"code":"invalid_policy","message":"policy \"vendor\": max: -1: want 0 to 9007199254740991; refill: 0: want 1 to 9007199254740991","policy":"vendor","fields":[{"field":"max"`,
		},
		{
			`{"op":"set_override","policy":"daily","refill":1,"interval_ms":1}`,
			`{"error":{"code":"invalid_policy","message":"policy \"daily\": refill: a window policy has none; interval_ms: the policy has no interval to override","policy":"daily","fields":[{"field":"refill","problem":"a window policy has none"},{"field":"interval_ms",`,
		},
	} {
		if answer := b.ask(t, c.request); !strings.HasPrefix(answer, c.want) {
			t.Errorf("%s\n got %s\nwant %s", c.request, answer, c.want)
		}
	}
	acquire := `{"op":"acquire","tiers":[{"policy":"vendor"}]}`
	for _, c := range []struct {
		err  error
		want string
	}{
		{limit.ErrStoreBusy, `"store_busy"`},
		{fmt.Errorf("%w: dial: refused", limit.ErrStoreDown), `"store_unavailable"`},
		{limit.ErrStoreDenied, `"access_denied"`},
		{context.DeadlineExceeded, `"store_unavailable"`},
		{errors.New("something else"), `"internal","message":"something else"`},
	} {
		b.limiter.fail = c.err
		b.log.Reset()
		if answer := b.ask(t, acquire); !strings.HasPrefix(answer, `{"error":{"code":`+c.want) {
			t.Errorf("%v: %s", c.err, answer)
		}
		if !strings.Contains(b.log.String(), "op=acquire") {
			t.Errorf("%v: logged %q", c.err, b.log)
		}
	}
}

// An alarm can be set on what the operator has to look into, and on nothing else.
func TestTroubleIsAMetricByItsCode(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.handler.Log = slog.New(slog.NewJSONHandler(b.log, nil))
	b.ask(t, `{"op":"acquire","tiers":[{"policy":"nobody"}]}`)
	if b.log.Len() > 0 {
		t.Errorf("the caller's own mistake: %s", b.log)
	}
	b.limiter.fail = limit.ErrStoreDenied
	b.ask(t, `{"op":"acquire","tiers":[{"policy":"vendor"}]}`)
	var line struct {
		AWS struct {
			CloudWatchMetrics []struct {
				Namespace  string
				Dimensions [][]string
				Metrics    []struct{ Name, Unit string }
			}
		} `json:"_aws"`
		Op            string `json:"op"`
		Code          string
		LimiterErrors float64
	}
	if err := json.Unmarshal(b.log.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if line.Op != "acquire" || line.Code != "access_denied" || line.LimiterErrors != 1 || len(line.AWS.CloudWatchMetrics) != 1 {
		t.Fatalf("line = %s", b.log)
	}
	m := line.AWS.CloudWatchMetrics[0]
	if m.Namespace != "Sluice" || m.Dimensions[0][0] != "Code" || m.Metrics[0].Name != lambdalimit.MetricErrors || m.Metrics[0].Unit != "Count" {
		t.Errorf("line = %s", b.log)
	}
}

func TestAPanicIsAnErrorWithoutItsStack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.limiter.panics = true
	answer := b.ask(t, `{"op":"acquire","tiers":[{"policy":"vendor"}]}`)
	if want := `{"error":{"code":"internal","message":"the function met a fault, its log says more"}}`; answer != want {
		t.Errorf("got %s", answer)
	}
	if !strings.Contains(b.log.String(), "setup_test.go") {
		t.Errorf("the log lacks the stack: %s", b.log)
	}
}

func TestTheAnswerComesBeforeTheFunctionEnds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond) // less than an answer takes
	defer cancel()
	answer, err := b.handler.Invoke(ctx, []byte(`{"op":"acquire","id":"i","tiers":[{"policy":"vendor"}]}`))
	if err != nil || !strings.Contains(string(answer), `"store_unavailable","message":"the store gave no answer before`) {
		t.Errorf("%s, %v", answer, err)
	}
}
