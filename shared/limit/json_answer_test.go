package limit_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/sluice-dev/sluice/shared/limit"
)

func TestAnswersInJSON(t *testing.T) {
	t.Parallel()
	window := limit.Policy{Name: "w", Window: limit.Every(time.Hour), Max: 10}
	drip := limit.Policy{Name: "b", Rate: limit.PerMinute(6)}
	m := newMemory(t, window, drip)
	acquire(t, m, at(0), window.Key("é").Cost(10), drip.Key("é").Cost(6))
	if err := m.HoldAt(at(0), drip.Key("é"), at(1)); err != nil {
		t.Fatal(err)
	}
	denied := refuse(t, m, at(0), window.Key("é"), drip.Key("é"))
	never := refuse(t, m, at(0), window.Key("é").Cost(11))
	for want, answer := range map[string]any{
		`{"blocked":[{"policy":"w","key":"é","cost":1,"available":0,"verdict":"later","wait_ms":3600000},` +
			`{"policy":"b","key":"é","cost":1,"available":0,"verdict":"later","wait_ms":10000,"held":true}],"retry_after_ms":3600000}`: denied,
		`{"blocked":[{"policy":"w","key":"é","cost":11,"available":0,"verdict":"never"}],"never":true}`: never,
		`{"policy":"w","key":"é","kind":"window","limit":10,"available":0,"used":10,"resets_at":"1970-01-01T01:00:00Z"}`: func() *limit.Reading {
			r := inspect(t, m, at(0), window.Key("é").Cost(0))
			return &r
		}(),
		`{"policy":"b","key":"é","kind":"bucket","limit":6,"available":0,"used":6,"full_at":"1970-01-01T00:01:00Z","held_until":"1970-01-01T00:00:01Z",` +
			`"blocked":{"policy":"b","key":"é","cost":1,"available":0,"verdict":"later","wait_ms":10000,"held":true}}`: func() *limit.Reading {
			r := inspect(t, m, at(0), drip.Key("é"))
			return &r
		}(),
	} {
		got, err := json.Marshal(answer)
		if err != nil || string(got) != want {
			t.Errorf("%s (%v), want %s", got, err, want)
		}
		back := reflect.New(reflect.TypeOf(answer).Elem())
		if err := json.Unmarshal(got, back.Interface()); err != nil || !reflect.DeepEqual(back.Interface(), answer) {
			t.Errorf("%s reads as %+v (%v)", got, back.Interface(), err)
		}
	}
}

// One error names every bad member, in words for who has not seen our types.
func TestAPolicyInJSONNamesEveryBadMember(t *testing.T) {
	t.Parallel()
	for document, want := range map[string][]string{
		`{"name":"BAD","kind":"bucket","refill":0,"interval_ms":0,"burst":-2,"over_max":"x","group":"G G"}`: {"refill: ", "interval_ms: ", "name: ", "group: ", "burst: ", "over_max: "},
		`{"name":"a","kind":"window","refill":1}`:                                                           {"window: ", `refill: goes with the kind "bucket", not "window"`},
		`{"name":"a","kind":"buckets","group":"G"}`:                                                         {`kind: "buckets": want `, "group: "},
		`{"name":"a","kind":"bucket","refill":1.5}`:                                                         {"refill: want a whole number"},
		`{"name":7}`:   {"name: want text"},
		`{"NAME":"a"}`: {`"NAME" is no member of it`},
		`{"name":"a","kind":"bucket","max":null}`: {"max is null: leave the member out"},
		`[]`:   {"want an object"},
		`null`: {"null where an object is wanted"},
		`{"name":"a","kind":"window","max":1,"window":{"kind":"monthly","zone":3}}`: {"window.zone: want text"},
	} {
		var p limit.Policy
		err := p.UnmarshalJSON([]byte(document))
		if err == nil {
			t.Errorf("%s: no error", document)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q in it", document, err, part)
			}
		}
	}
	var p limit.Policy
	if err := p.UnmarshalJSON([]byte(`{"name":"a","kind":"window","max":1,"window":{"kind":"monthly","zone":"UTC","interval_ms":5}}`)); err != nil {
		t.Fatal(err)
	}
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "window.interval_ms") {
		t.Errorf("a period of a calendar window: %v", err)
	}
}
