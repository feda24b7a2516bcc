package lambdalimit_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/sluice-dev/sluice/shared/lambdalimit"
)

func compile(t rapid.TB, text string) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	doc, _ := parse(t, text).(map[string]any)
	id, _ := doc["$id"].(string)
	if err := compiler.AddResource(id, doc); err != nil {
		t.Fatalf("%v", err)
	}
	schema, err := compiler.Compile(id)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return schema
}

func parse(t rapid.TB, text string) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// good are members of a request with a value that is taken wherever the member is.
var good = map[string]string{
	"tiers": `[{"policy":"vendor"}]`, "only": `["vendor"]`, "id": `"a-1_B"`, "reservation": `"r1.x"`,
	"actual": `[{"policy":"vendor","key":"a","cost":0}]`, "policy": `"vendor"`, "key": `"a"`, "cost": `1`, "amount": `-5`,
	"until": `"2027-01-01T00:00:00Z"`, "for_ms": `1`, "max": `0`, "refill": `1`, "interval_ms": `1`,
	"expires_at": `"2027-01-01T00:00:00.25+05:30"`, "by": `""`,
}

// values are, for each member, values on both sides of every rule.
var values = map[string][]string{
	"op": {`"acquire"`, `"Acquire"`, `""`, `1`, `null`},
	"tiers": {
		`[]`, `{}`, `null`, `[{}]`, `[1]`, `[null]`, `[{"policy":""}]`, `[{"policy":1}]`, `[{"policy":"p","key":""}]`, `[{"policy":"p","cost":0}]`,
		`[{"policy":"p","cost":9007199254740991}]`, `[{"policy":"p","cost":9007199254740992}]`, `[{"policy":"p","cost":-1}]`, `[{"policy":"p","cost":1.5}]`,
		`[{"policy":"p","cost":"1"}]`, `[{"policy":"p","cost":null}]`, `[{"policy":"p","costs":1}]`, `[{"policy":"p","key":"` + strings.Repeat("k", 1024) + `"}]`,
		`[{"policy":"p","key":"` + strings.Repeat("k", 1025) + `"}]`, `[` + strings.Repeat(`{"policy":"p"},`, 159) + `{"policy":"p"}]`,
		`[` + strings.Repeat(`{"policy":"p"},`, 160) + `{"policy":"p"}]`,
	},
	"only":        {`[]`, `[""]`, `["a","b"]`, `[1]`, `"a"`, `null`},
	"id":          {`""`, `"` + strings.Repeat("i", 36) + `"`, `"` + strings.Repeat("i", 37) + `"`, `"a b"`, `"é"`, `1`, `null`},
	"reservation": {`""`, `1`, `null`},
	"actual":      {`[]`, `[{"policy":"p"}]`, `[{"policy":"p","cost":1}]`, `[{"policy":"","cost":1}]`, `[{"cost":1}]`, `[{"policy":"p","cost":-1}]`, `null`},
	"policy":      {`""`, `"é"`, `1`, `null`},
	"key":         {`""`, `"` + strings.Repeat("k", 1024) + `"`, `"` + strings.Repeat("k", 1025) + `"`, `1`, `null`},
	"cost":        {`0`, `-1`, `9007199254740991`, `9007199254740992`, `1.5`, `"1"`, `null`},
	"amount":      {`0`, `-9007199254740991`, `-9007199254740992`, `9007199254740991`, `9007199254740992`, `1.5`, `null`},
	"until":       {`"2027-01-01T00:00:00"`, `"2027-01-01 00:00:00Z"`, `"2027-02-30T00:00:00Z"`, `"2027-01-01t00:00:00z"`, `"2027-01-01T09:00:00,5Z"`, `"9999-12-31T23:59:59.999Z"`, `1`, `null`},
	"for_ms":      {`0`, `-1`, `3155760000000`, `3155760000001`, `1.5`, `"1"`, `null`},
	"max":         {`-1`, `9007199254740991`, `9007199254740992`, `"1"`, `null`},
	"refill":      {`0`, `9007199254740991`, `9007199254740992`, `null`},
	"interval_ms": {`0`, `3155760000000`, `3155760000001`, `null`},
	"expires_at":  {`""`, `"soon"`, `0`, `null`},
	"by":          {`"` + strings.Repeat("é", 256) + `"`, `"` + strings.Repeat("é", 257) + `"`, `1`, `null`},
	"other":       {`1`, `null`},
}

// The decoder is the truth, the schema says the same: they agree about every value of
// every member in every request, and about random documents.
func TestTheRequestSchemaAgreesWithTheDecoder(t *testing.T) {
	t.Parallel()
	schema := compile(t, lambdalimit.RequestSchema)
	agree := func(t rapid.TB, members map[string]json.RawMessage) {
		t.Helper()
		doc, err := json.Marshal(members)
		if err != nil {
			t.Fatalf("%v", err)
		}
		decodeErr := lambdalimit.CheckRequest(doc)
		schemaErr := schema.Validate(parse(t, string(doc)))
		if (decodeErr == nil) != (schemaErr == nil) {
			t.Fatalf("%.500s\ndecoder: %v\nschema: %v", doc, decodeErr, schemaErr)
		}
	}
	for _, op := range lambdalimit.Ops() {
		required, optional := lambdalimit.Members(op)
		base := func() map[string]json.RawMessage {
			m := map[string]json.RawMessage{"op": json.RawMessage(`"` + op + `"`)}
			for _, name := range required {
				m[name] = json.RawMessage(good[name])
			}
			return m
		}
		agree(t, base())
		for _, name := range required {
			m := base()
			delete(m, name)
			agree(t, m)
		}
		for _, name := range slices.Sorted(maps.Keys(values)) {
			for _, value := range append(slices.Clone(values[name]), good[name]) {
				if value == "" {
					continue
				}
				m := base()
				m[name] = json.RawMessage(value)
				agree(t, m)
			}
		}
		rapid.Check(t, func(t *rapid.T) {
			m := base()
			names := slices.Concat(required, optional, optional, []string{"key", "other"})
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 5, rapid.ID).Draw(t, "members") {
				// Three of four values are good ones: else hardly any document would be.
				value := good[name]
				if value == "" || rapid.IntRange(0, 3).Draw(t, "good") == 0 {
					value = rapid.SampledFrom(values[name]).Draw(t, name)
				}
				m[name] = json.RawMessage(value)
			}
			agree(t, m)
		})
	}
}

func TestTheExamplesOfTheSchemasFitThem(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"request": lambdalimit.RequestSchema, "answer": lambdalimit.AnswerSchema} {
		schema := compile(t, text)
		doc, _ := parse(t, text).(map[string]any)
		examples, _ := doc["examples"].([]any)
		if len(examples) == 0 {
			t.Errorf("no examples of a %s", name)
		}
		for _, example := range examples {
			if err := schema.Validate(example); err != nil {
				t.Errorf("%s %v: %v", name, example, err)
			}
		}
	}
}

func TestTheAnswerSchemaRefuses(t *testing.T) {
	t.Parallel()
	schema := compile(t, lambdalimit.AnswerSchema)
	for _, bad := range []string{
		`{}`,
		`{"done":false}`,
		`{"admitted":true}`,
		`{"admitted":false,"never":false,"blocked":[{"policy":"p","key":"","cost":1,"available":0,"verdict":"later","wait_ms":1}]}`,
		`{"admitted":false,"never":true,"retry_after_ms":1,"blocked":[{"policy":"p","key":"","cost":1,"available":0,"verdict":"never"}]}`,
		`{"admitted":false,"never":false,"retry_after_ms":1,"blocked":[{"policy":"p","key":"","cost":1,"available":0,"verdict":"later"}]}`,
		`{"error":{"code":"limited","message":"no"}}`,
		`{"error":{"code":"internal","message":"no","stack":"x"}}`,
	} {
		if err := schema.Validate(parse(t, bad)); err == nil {
			t.Errorf("%s fits", bad)
		}
	}
}
