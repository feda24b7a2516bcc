package task_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/sluice-dev/sluice/shared/task"
)

func compileSchema(t *testing.T, text string) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	id, _ := parseJSON(t, text).(map[string]any)["$id"].(string)
	if err := compiler.AddResource(id, parseJSON(t, text)); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile(id)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func parseJSON(t rapid.TB, text string) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func properties(t *testing.T, schema string) []string {
	t.Helper()
	doc, _ := parseJSON(t, schema).(map[string]any)
	props, _ := doc["properties"].(map[string]any)
	return slices.Sorted(maps.Keys(props))
}

func TestSchemasListEveryField(t *testing.T) {
	t.Parallel()
	if got, want := properties(t, task.SubmissionSchema), slices.Sorted(slices.Values(task.FieldNames(true))); !slices.Equal(got, want) {
		t.Errorf("submission.schema.json lists %v, the document has %v", got, want)
	}
	// A replay_revision is the submission's alone.
	names := slices.DeleteFunc(task.FieldNames(false), func(n string) bool { return n == "replay_revision" })
	if got, want := properties(t, task.RecordSchema), slices.Sorted(slices.Values(names)); !slices.Equal(got, want) {
		t.Errorf("record.schema.json lists %v, the document has %v", got, want)
	}
}

func TestExamplesInTheSchemaAreSubmissions(t *testing.T) {
	t.Parallel()
	schema := compileSchema(t, task.SubmissionSchema)
	var doc struct {
		Examples []json.RawMessage `json:"examples"`
	}
	if err := json.Unmarshal([]byte(task.SubmissionSchema), &doc); err != nil || len(doc.Examples) == 0 {
		t.Fatalf("%d examples, %v", len(doc.Examples), err)
	}
	for _, example := range doc.Examples {
		if err := schema.Validate(parseJSON(t, string(example))); err != nil {
			t.Error(err)
		}
		var named struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(example, &named); err != nil {
			t.Fatal(err)
		}
		if named.ID == "" {
			named.ID = "t1"
		}
		if _, err := task.DecodeSubmission(example, named.ID, epoch); err != nil {
			t.Error(err)
		}
	}
}

var someSHA256 = strings.Repeat("0a", 32)

// submissionValues are, for each field a producer may set, values on both
// sides of every rule.
var submissionValues = map[string][]string{
	"schema":    {`1`, `2`, `0`, `"1"`, `null`},
	"id":        {`"t1"`, `""`, `"-t"`, `"` + strings.Repeat("a", 53) + `"`, `1`, `null`},
	"task_type": {`"a"`, `"http.request"`, `""`, `"a b"`, `"` + strings.Repeat("a", 128) + `"`, `"` + strings.Repeat("a", 129) + `"`, `null`},
	"input":     {`null`, `1`, `"x"`, `{"a":[1,2]}`, `123456789012345678901234567890`},
	"input_ref": {
		`null`, `{"key":"payloads/t1/input","size":1,"sha256":"` + someSHA256 + `"}`, `{}`, `[]`,
		`{"key":"payloads/t1/","size":1,"sha256":"` + someSHA256 + `"}`, `{"key":"inbox/t1/x","size":1,"sha256":"` + someSHA256 + `"}`,
		`{"key":"payloads/t1/input","size":-1,"sha256":"` + someSHA256 + `"}`, `{"key":"payloads/t1/input","size":1,"sha256":"0A"}`,
		`{"key":"payloads/t1/input","size":1,"sha256":"` + someSHA256 + `","etag":""}`, `{"key":"payloads/t1/input","size":1}`,
	},
	"max_retries":     {`0`, `3`, `9007199254740991`, `9007199254740992`, `-1`, `1.5`, `"3"`, `null`},
	"max_reschedules": {`0`, `null`, `9007199254740991`, `9007199254740992`, `-1`, `"3"`},
	"timeout_seconds": {`1`, `880`, `0`, `881`, `null`},
	"available_at":    {`"2027-01-01T00:00:00Z"`, `"2027-01-01T00:00:00.25+05:30"`, `"2027-01-01T00:00:00"`, `"2027-01-01 00:00:00Z"`, `"2027-02-30T00:00:00Z"`, `"2027-01-01t00:00:00z"`, `1`, `null`},
	"created_at":      {`"2027-01-01T00:00:00Z"`, `"9999-12-31T23:59:59Z"`, `"2027-01-01T9:00:00Z"`, `"2027-01-01T09:00:00,5Z"`, `"soon"`, `null`},
	"expires_at":      {`"2027-01-01T00:00:00Z"`, `null`, `""`, `0`},
	"limits": {
		`[]`, `[{"policy":"p"}]`, `[{"policy":"p","key":"k","cost":0}]`, `[{"policy":""}]`, `[{}]`, `[1]`, `{}`, `null`,
		`[{"policy":"p","cost":-1}]`, `[{"policy":"p","cost":9007199254740992}]`, `[{"policy":"p","cost":null}]`, `[{"policy":"p","costs":1}]`,
		`[{"policy":"p","key":"` + strings.Repeat("k", 1024) + `"}]`, `[{"policy":"p","key":"` + strings.Repeat("k", 1025) + `"}]`,
		`[` + strings.Repeat(`{"policy":"p"},`, 15) + `{"policy":"p"}]`, `[` + strings.Repeat(`{"policy":"p"},`, 16) + `{"policy":"p"}]`,
	},
	// With a key the id would have to be the one it derives: only absent ones.
	"idempotency_key":   {`null`, `""`, `"` + strings.Repeat("k", 1025) + `"`, `1`},
	"idempotency_scope": {`null`, `"mail"`, `"` + strings.Repeat("k", 1024) + `"`, `"` + strings.Repeat("k", 1025) + `"`, `1`},
	"tags": {
		`{}`, `{"a":"b"}`, `{"a":""}`, `{"":"b"}`, `{"a":1}`, `{"a":null}`, `[]`, `null`,
		`{"` + strings.Repeat("a", 128) + `":"` + strings.Repeat("b", 256) + `"}`, `{"` + strings.Repeat("a", 129) + `":""}`, `{"a":"` + strings.Repeat("b", 257) + `"}`,
	},
	"replay_revision": {`0`, `7`, `-1`, `null`},
	"something_else":  {`null`, `{"a":1}`},
}

// The decoder is the truth, the schema says the same: they agree about every
// single value of every field, and about random documents.
func TestTheSubmissionSchemaAgreesWithTheDecoder(t *testing.T) {
	t.Parallel()
	schema := compileSchema(t, task.SubmissionSchema)
	agree := func(t rapid.TB, members map[string]json.RawMessage) {
		t.Helper()
		doc, err := json.Marshal(members)
		if err != nil {
			t.Fatalf("%v", err)
		}
		_, decodeErr := task.DecodeSubmission(doc, "t1", epoch)
		schemaErr := schema.Validate(parseJSON(t, string(doc)))
		if (decodeErr == nil) != (schemaErr == nil) {
			t.Fatalf("%s\ndecoder: %v\nschema: %v", doc, decodeErr, schemaErr)
		}
	}
	for _, name := range task.FieldNames(true) {
		if len(submissionValues[name]) == 0 {
			t.Errorf("no values for %s", name)
		}
	}
	for name, values := range submissionValues {
		for _, value := range values {
			members := map[string]json.RawMessage{"task_type": json.RawMessage(`"a"`)}
			members[name] = json.RawMessage(value)
			agree(t, members)
		}
	}
	agree(t, map[string]json.RawMessage{})
	rapid.Check(t, func(t *rapid.T) {
		members := map[string]json.RawMessage{"task_type": json.RawMessage(`"a"`)}
		names := slices.Sorted(maps.Keys(submissionValues))
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 4, rapid.ID).Draw(t, "fields") {
			// Three of four values are the field's first, a good one: else hardly
			// any document with several fields would be good.
			values := submissionValues[name]
			if rapid.IntRange(0, 3).Draw(t, "good") > 0 {
				values = values[:1]
			}
			members[name] = json.RawMessage(rapid.SampledFrom(values).Draw(t, name))
		}
		agree(t, members)
	})
}

func TestTheRecordSchemaRefuses(t *testing.T) {
	t.Parallel()
	schema := compileSchema(t, task.RecordSchema)
	good := string(running(t).Encode())
	if err := schema.Validate(parseJSON(t, good)); err != nil {
		t.Fatal(err)
	}
	for _, change := range []struct{ what, old, put string }{
		{"no id", `"id":"t1",`, ``},
		{"an unknown status", `"running"`, `"done"`},
		{"a lease of a pending task", `"running"`, `"pending"`},
		{"a running task without lease", `"lease_id":"lease-1",`, ``},
		{"a finished task that never ended", `"running"`, `"completed"`},
		{"a counter as text", `"attempt":1`, `"attempt":"1"`},
		{"a time without zone", `"created_at":"2027-01-01T00:00:00Z"`, `"created_at":"2027-01-01T00:00:00"`},
	} {
		bad := strings.Replace(good, change.old, change.put, 1)
		if bad == good {
			t.Fatalf("%s: %s is not in %s", change.what, change.old, good)
		}
		if err := schema.Validate(parseJSON(t, bad)); err == nil {
			t.Errorf("%s is taken: %s", change.what, bad)
		}
	}
}
