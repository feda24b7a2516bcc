package task_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/shared/task"
)

var epoch = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)

// document is a record with the two fields that have no default, and more.
func document(more ...string) []byte {
	return []byte("{" + strings.Join(append([]string{`"id":"t1","task_type":"call_api"`}, more...), ",") + "}")
}

func mustDecode(t *testing.T, data []byte) task.Task {
	t.Helper()
	decoded, err := task.Decode(data)
	if err != nil {
		t.Fatalf("Decode(%s): %v", data, err)
	}
	return decoded
}

// wantRefused asserts a FormatError of the field whose text holds all words.
func wantRefused(t *testing.T, err error, field string, words ...string) {
	t.Helper()
	var format *task.FormatError
	if !errors.As(err, &format) {
		t.Fatalf("error %v, want a FormatError", err)
	}
	if format.Field != field {
		t.Errorf("error of field %q, want %q: %v", format.Field, field, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
	for _, jargon := range []string{"Go ", "struct", "jsontext", "unmarshal", "int64", "slice", "%!"} {
		if strings.Contains(err.Error(), jargon) {
			t.Errorf("error %q speaks of %q, which no producer can act on", err, jargon)
		}
	}
}

func TestAMissingFieldMeansItsDefault(t *testing.T) {
	t.Parallel()
	got := mustDecode(t, document(`"created_at":"2027-01-01T00:00:00Z"`))
	want := task.New("t1", "call_api", epoch)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got.Schema != 1 || got.Status != task.Pending || got.MaxRetries != 3 || got.TimeoutSeconds != 300 || got.MaxReschedules != nil {
		t.Errorf("defaults are %+v", got)
	}
}

func TestARecordWithoutIDOrTypeIsRefused(t *testing.T) {
	t.Parallel()
	_, err := task.Decode([]byte(`{"task_type":"a"}`))
	wantRefused(t, err, "id", "is missing")
	_, err = task.Decode([]byte(`{"id":"a"}`))
	wantRefused(t, err, "task_type", "is missing")
}

func TestNullIsTakenOnlyWhereAValueMayBeAbsent(t *testing.T) {
	t.Parallel()
	takesNull := map[string]bool{
		"input": true, "input_ref": true, "output": true, "output_ref": true, "max_reschedules": true, "throttled": true,
		"completed_at": true, "expires_at": true, "lease_id": true, "lease_expires_at": true, "worker_id": true,
		"last_error": true, "checkpoint": true, "idempotency_key": true, "idempotency_scope": true,
		"unhandled_since": true, "inbox_version": true,
	}
	for _, name := range task.FieldNames(false) {
		doc := []byte(fmt.Sprintf(`{"id":"t1","task_type":"a",%q:null}`, name))
		switch name {
		case "id":
			doc = []byte(`{"id":null,"task_type":"a"}`)
		case "task_type":
			doc = []byte(`{"id":"t1","task_type":null}`)
		}
		got, err := task.Decode(doc)
		if !takesNull[name] {
			wantRefused(t, err, name, "is null")
			continue
		}
		if err != nil {
			t.Errorf("%s: null is refused: %v", name, err)
		}
		if plain := mustDecode(t, []byte(`{"id":"t1","task_type":"a"}`)); !reflect.DeepEqual(got, plain) {
			t.Errorf("%s: null reads as %+v, want as if missing", name, got)
		}
	}
}

func TestAValueOfTheWrongTypeIsRefused(t *testing.T) {
	t.Parallel()
	samples := map[string]string{
		"a string": `"x"`, "a number": `1`, "a boolean": `true`, "an array": `[]`, "an object": `{}`,
	}
	// What is absent here takes any JSON.
	takes := map[string]string{
		"schema": "a number", "revision": "a number", "write_id": "a string", "id": "a string", "task_type": "a string",
		"status": "a string", "input_ref": "an object", "output_ref": "an object", "attempt": "a number",
		"retry_count": "a number", "max_retries": "a number", "reschedule_count": "a number", "max_reschedules": "a number",
		"throttle_count": "a number", "throttled": "an object", "timeout_seconds": "a number", "available_at": "a string",
		"created_at": "a string", "updated_at": "a string", "completed_at": "a string", "expires_at": "a string",
		"lease_id": "a string", "lease_expires_at": "a string", "worker_id": "a string", "last_error": "a string",
		"limits": "an array", "idempotency_key": "a string", "idempotency_scope": "a string", "cancel_requested": "a boolean",
		"tags": "an object", "unhandled_since": "a string", "inbox_version": "a string", "replay_revision": "a number",
	}
	for _, name := range task.FieldNames(false) {
		right, typed := takes[name]
		for kind, sample := range samples {
			members := map[string]json.RawMessage{"id": json.RawMessage(`"t1"`), "task_type": json.RawMessage(`"a"`), name: json.RawMessage(sample)}
			doc, err := json.Marshal(members)
			if err != nil {
				t.Fatal(err)
			}
			_, err = task.Decode(doc)
			switch {
			case !typed && err != nil:
				t.Errorf("%s takes any JSON but refuses %s: %v", name, kind, err)
			case typed && kind != right:
				wantRefused(t, err, name, "is "+kind)
			}
		}
	}
}

func TestCountsAndLimits(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, member string
		want         int64
		refused      string
	}{
		{"missing max_retries is the default", `"x":1`, 3, ""},
		{"0 means none", `"max_retries":0`, 0, ""},
		{"null is refused", `"max_retries":null`, 0, "is null: it must be a whole number"},
		{"a string is refused", `"max_retries":"3"`, 0, "is a string: it must be a whole number"},
		{"a negative number is refused", `"max_retries":-1`, 0, "is -1: it must be between 0 and 9007199254740991"},
		{"the largest", `"max_retries":9007199254740991`, 9007199254740991, ""},
		{"one more is refused", `"max_retries":9007199254740992`, 0, "must be between"},
		{"beyond 64 bits is refused", `"max_retries":18446744073709551617`, 0, "must be between"},
		{"a fraction is refused", `"max_retries":1.5`, 0, "is 1.5: it must be a whole number"},
		{"a point is refused", `"max_retries":3.0`, 0, "without point and exponent"},
		{"an exponent is refused", `"max_retries":1e2`, 0, "without point and exponent"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := task.Decode(document(tt.member))
			if tt.refused != "" {
				wantRefused(t, err, "max_retries", tt.refused)
				return
			}
			if err != nil || got.MaxRetries != tt.want {
				t.Errorf("max_retries %d, %v, want %d", got.MaxRetries, err, tt.want)
			}
		})
	}
	t.Run("max_reschedules 0 is none and null unlimited", func(t *testing.T) {
		t.Parallel()
		if got := mustDecode(t, document(`"max_reschedules":0`)).MaxReschedules; got == nil || *got != 0 {
			t.Errorf("0 reads as %v", got)
		}
		if got := mustDecode(t, document(`"max_reschedules":null`)).MaxReschedules; got != nil {
			t.Errorf("null reads as %v", *got)
		}
	})
	t.Run("timeout_seconds is bounded by what an invocation offers", func(t *testing.T) {
		t.Parallel()
		for _, bad := range []string{"0", "-1", "881"} {
			_, err := task.Decode(document(`"timeout_seconds":` + bad))
			wantRefused(t, err, "timeout_seconds", "must be between 1 and 880")
		}
		if got := mustDecode(t, document(`"timeout_seconds":880`)); got.TimeoutSeconds != task.MaxTimeoutSeconds {
			t.Errorf("got %d", got.TimeoutSeconds)
		}
	})
}

func TestFreeJSONIsKeptAsText(t *testing.T) {
	t.Parallel()
	texts := []string{
		`123456789012345678901234567890`, `1e400`, `-0`, `1.50`, `0.1e-7`, `false`, `""`, `[]`, `{}`,
		`{"z":1,"a":2,"m":{"y":1,"b":2}}`,              // the order of fields
		`{"a":1,"a":2,"A":3}`,                          // names given twice are a matter of producer and handler
		`"<b>&amp;\u003c\u00e9\/\ud83d\ude00é😀\u2028"`, // spelling of strings
		`"half an emoji \ud83d"`,                       // as JavaScript cuts text
		"{\n  \"a\" : [ 1 ,\t2 ]\n}",                   // white space
		strings.Repeat("[", 500) + strings.Repeat("]", 500),
	}
	for _, name := range []string{"input", "output", "checkpoint", "a_field_of_the_future"} {
		for _, text := range texts {
			doc := document(`"` + name + `":` + text)
			record := mustDecode(t, doc)
			for range 3 {
				encoded := record.Encode()
				if !bytes.Contains(encoded, []byte(`"`+name+`":`+text)) {
					t.Fatalf("%s %s came out as %s", name, text, encoded)
				}
				record = mustDecode(t, encoded)
			}
		}
	}
}

func TestUnknownFieldsSurviveEveryRewrite(t *testing.T) {
	t.Parallel()
	unknown := `"Task_Type":"b","x-é":{"a":[1,2.50]},"\u0061b":null,"zz":1e999,"ID":"other"`
	now := epoch
	record := mustDecode(t, document(unknown))
	for range 20 {
		var err error
		record, _, err = task.Apply(record, task.Claim{LeaseID: "l", LeaseExpiresAt: now.Add(time.Minute)}, now)
		if err != nil {
			t.Fatal(err)
		}
		record, _, err = task.Apply(record, task.Reschedule{}, now)
		if err != nil {
			t.Fatal(err)
		}
		record = mustDecode(t, record.Encode())
	}
	if got := string(record.Encode()); !strings.HasSuffix(got, ","+unknown+"}") {
		t.Errorf("after 40 rewrites: %s", got)
	}
	submission, err := task.DecodeSubmission(document(unknown), "t1", now)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(submission.Encode()); !strings.HasSuffix(got, ","+unknown+"}") {
		t.Errorf("first record of a submission: %s", got)
	}
}

func TestFieldNamesMatchExactly(t *testing.T) {
	t.Parallel()
	got := mustDecode(t, []byte(`{"id":"t1","task_type":"a","Task_Type":"b","TASK_TYPE":"c","Max_Retries":9}`))
	if got.Type != "a" || got.MaxRetries != 3 {
		t.Errorf("task_type %q, max_retries %d: a name of another case was taken", got.Type, got.MaxRetries)
	}
	// An escape is another spelling of the same name.
	if got := mustDecode(t, []byte(`{"\u0069d":"t1","task_type":"a"}`)); got.ID != "t1" {
		t.Errorf("id is %q", got.ID)
	}
}

func TestDocumentsThatAreRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, doc, field string
		words            []string
	}{
		{"nothing", "", "", []string{"it is empty"}},
		{"white space", " \n", "", []string{"it is empty"}},
		{"a byte-order mark alone", "\uFEFF", "", []string{"it is empty"}},
		{"no object", `["a"]`, "", []string{"not an object"}},
		{"null", `null`, "", []string{"not an object"}},
		{"cut off", `{"id":"t1",`, "", []string{"line 1, column 12", "ends too early"}},
		{"cut off in a string", `{"id":"t1`, "", []string{"ends too early"}},
		{"no JSON", "{\n  'id': 1}", "", []string{"line 2, column 3", "not valid JSON"}},
		{"a comma too many", `{"id":"t1",}`, "", []string{"line 1, column 11", "not valid JSON"}},
		{"trailing data", `{}{}`, "", []string{"line 1, column 3", "something follows the object"}},
		{"trailing text", `{"id":"t1","task_type":"a"} x`, "", []string{"something follows"}},
		{"broken UTF-8", "{\"id\":\"t1\",\n\"input\":\"é\xff\"}", "", []string{"line 2, column 11", "UTF-8"}},
		{"a name twice", `{"id":"t1","task_type":"a","id":"t1"}`, "id", []string{"is given twice"}},
		{"a name twice in another spelling", `{"id":"t1","\u0069d":"t1"}`, "id", []string{"is given twice"}},
		{"an unknown name twice", `{"x":1,"x":1}`, "x", []string{"is given twice"}},
		{"an unknown version", `{"schema":2,"id":"t1","task_type":"a"}`, "schema", []string{"is 2", "reads schema 1"}},
		{"an unknown status", `{"id":"t1","status":"done"}`, "status", []string{`"done"`, "pending running completed failed cancelled expired"}},
		{"a status of another case", `{"id":"t1","status":"Pending"}`, "status", []string{`"Pending"`}},
		{"half an emoji in a name", `{"id":"\ud83d"}`, "id", []string{`\ud83d`, "stands for no character"}},
		{"a running task without lease", `{"id":"t1","task_type":"a","status":"running"}`, "lease_id", []string{"a running task has both"}},
		{"an odd id", `{"id":"a b","task_type":"a"}`, "id", []string{"A-Z a-z 0-9 _ -"}},
		{"an odd type", `{"id":"a","task_type":"a b"}`, "task_type", []string{"A-Z a-z 0-9 _ . : / -"}},
		{"input and input_ref", `{"id":"t1","task_type":"a","input":1,"input_ref":{"key":"payloads/t1/i","size":1,"sha256":"` + strings.Repeat("0", 64) + `"}}`, "input_ref", []string{"give one of them"}},
		{"another task's payload", `{"id":"t1","task_type":"a","input_ref":{"key":"payloads/t2/i","size":1,"sha256":""}}`, "input_ref", []string{"payloads/t2/i", "are under payloads/t1/"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := task.Decode([]byte(tt.doc))
			wantRefused(t, err, tt.field, tt.words...)
		})
	}
}

func TestAByteOrderMarkIsReadOver(t *testing.T) {
	t.Parallel()
	if got := mustDecode(t, append([]byte("\uFEFF \n"), document()...)); got.ID != "t1" {
		t.Errorf("id %q", got.ID)
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	at := func(s string) time.Time { return mustDecode(t, document(`"available_at":"`+s+`"`)).AvailableAt }
	t.Run("are instants, not text", func(t *testing.T) {
		t.Parallel()
		whole, tenth, paris := at("2027-01-01T00:00:00Z"), at("2027-01-01T00:00:00.1Z"), at("2027-01-01T02:00:00+02:00")
		if !whole.Before(tenth) || !whole.Equal(paris) {
			t.Errorf("%v, %v, %v", whole, tenth, paris)
		}
		for _, v := range []time.Time{whole, tenth, paris} {
			if v.Location() != time.UTC {
				t.Errorf("%v is not in UTC", v)
			}
		}
		record := mustDecode(t, document(`"available_at":"2027-01-01T02:00:00.500+02:00"`))
		if got := string(record.Encode()); !strings.Contains(got, `"available_at":"2027-01-01T00:00:00.5Z"`) {
			t.Errorf("written as %s", got)
		}
	})
	t.Run("reach to the year 9999", func(t *testing.T) {
		t.Parallel()
		if got := at("9999-12-31T23:59:59.999999999Z"); !got.Equal(task.MaxTime) {
			t.Errorf("got %v", got)
		}
		at("0001-01-01T00:00:00Z")
	})
	t.Run("need a zone and RFC 3339", func(t *testing.T) {
		t.Parallel()
		for _, bad := range []string{
			"2027-01-01T00:00:00", "2027-01-01", "2027-01-01 00:00:00Z", "2027-01-01T9:30:00Z", "2027-01-01T00:00:00,5Z",
			"2027-02-30T00:00:00Z", "2027-01-01T24:00:00Z", "2027-01-01T00:00:00+24:00", "2027-01-01T00:00:00-24:30", "2027-01-01T00:00:00+25:00", "10000-01-01T00:00:00Z",
			"9999-12-31T23:59:59-01:00", "0000-01-01T00:00:00Z", "1767225600", "tomorrow", "",
		} {
			_, err := task.Decode(document(`"expires_at":"` + bad + `"`))
			if err == nil {
				t.Errorf("%q is taken", bad)
				continue
			}
			wantRefused(t, err, "expires_at", `is "`+bad+`": it must be`)
		}
		_, err := task.Decode(document(`"expires_at":1767225600`))
		wantRefused(t, err, "expires_at", "is a number: it must be a string")
	})
}

func TestNestedFieldsAreStrict(t *testing.T) {
	t.Parallel()
	tests := []struct{ member, field, words string }{
		{`"limits":null`, "limits", "leave it out for no limits"},
		{`"limits":{"policy":"a"}`, "limits", "is an object: it must be a list such as"},
		{`"limits":["vendor"]`, "limits", "at 0 is a string: it must be an object with policy, key and cost"},
		{`"limits":[null]`, "limits", "at 0 is null"},
		{`"limits":[{"policy":"a"},{}]`, "limits", `at 1 has no field "policy"`},
		{`"limits":[{"policy":""}]`, "limits", "at 0 names no policy"},
		{`"limits":[{"policy":1}]`, "limits", `at 0 has a field "policy" that is a number: it must be a string`},
		{`"limits":[{"policy":"a","costs":2}]`, "limits", `unknown field "costs": it may have policy, key and cost`},
		{`"limits":[{"policy":"a","Cost":2}]`, "limits", `unknown field "Cost"`},
		{`"limits":[{"policy":"a","cost":1,"cost":2}]`, "limits", `at 0 has a field "cost" that is given twice`},
		{`"limits":[{"policy":"a","cost":"2"}]`, "limits", `"cost" that is a string: it must be a whole number`},
		{`"limits":[{"policy":"a","cost":-1}]`, "limits", "must be between 0 and 9007199254740991"},
		{`"limits":[{"policy":"a","cost":null}]`, "limits", "is null"},
		{`"limits":[{"policy":"a","key":null}]`, "limits", "is null"},
		{`"limits":[{"policy":"a","key":"` + strings.Repeat("k", 1025) + `"}]`, "limits", "has a key of 1025 bytes: 1024 at most"},
		{`"limits":[` + strings.Repeat(`{"policy":"a"},`, 16) + `{"policy":"a"}]`, "limits", "has 17 tiers: 16 at most"},
		{`"tags":null`, "tags", "leave it out for no tags"},
		{`"tags":["a"]`, "tags", "is an array: it must be an object of strings"},
		{`"tags":{"a":1}`, "tags", `has a field "a" that is a number: it must be a string`},
		{`"tags":{"a":null}`, "tags", "is null"},
		{`"tags":{"a":"1","a":"1"}`, "tags", `"a" that is given twice`},
		{`"tags":{"":"1"}`, "tags", "name has 1 to 128 bytes"},
		{`"tags":{"a":"` + strings.Repeat("v", 257) + `"}`, "tags", "its value at most 256"},
		{`"input_ref":{"key":"payloads/t1/i","size":1}`, "input_ref", `has no field "sha256"`},
		{`"input_ref":{"key":"payloads/t1/i","size":-1,"sha256":""}`, "input_ref", `"size" that is -1`},
		{`"input_ref":{"key":"payloads/t1/i","size":1,"sha256":"abc"}`, "input_ref", "64 lower-case hex digits"},
		{`"input_ref":{"key":"payloads/t1/","size":1,"sha256":"abc"}`, "input_ref", "are under payloads/t1/"},
		{`"throttled":{"policy":"a"}`, "throttled", `has no field "until"`},
		{`"throttled":{"until":"soon"}`, "throttled", `"until" that is "soon": it must be a time`},
		{`"throttled":{"until":null}`, "throttled", "is null"},
		{`"idempotency_key":"` + strings.Repeat("k", 1025) + `"`, "idempotency_key", "has 1025 bytes: 1024 at most"},
		{`"idempotency_scope":"` + strings.Repeat("k", 1025) + `"`, "idempotency_scope", "has 1025 bytes: 1024 at most"},
	}
	for _, tt := range tests {
		_, err := task.Decode(document(tt.member))
		wantRefused(t, err, tt.field, tt.words)
	}
	got := mustDecode(t, document(`"limits":[{"policy":"a"},{"policy":"b","key":"é","cost":0}]`)).Limits
	if want := []task.Limit{{Policy: "a", Cost: 1}, {Policy: "b", Key: "é", Cost: 0}}; !reflect.DeepEqual(got, want) {
		t.Errorf("limits are %+v, want %+v", got, want)
	}
}

func TestARecordIsWrittenInFixedOrder(t *testing.T) {
	t.Parallel()
	record := task.New("t1", "call_api", epoch)
	record.Input = json.RawMessage(`{"b":1,"a":2}`)
	record.Tags = map[string]string{"b": "2", "a": "1"}
	record.Limits = []task.Limit{{Policy: "vendor", Key: "acme", Cost: 2}}
	want := `{"schema":1,"revision":0,"write_id":"","id":"t1","task_type":"call_api","status":"pending","input":{"b":1,"a":2},` +
		`"attempt":0,"retry_count":0,"max_retries":3,"reschedule_count":0,"max_reschedules":null,"throttle_count":0,"timeout_seconds":300,` +
		`"available_at":"2027-01-01T00:00:00Z","created_at":"2027-01-01T00:00:00Z","updated_at":"2027-01-01T00:00:00Z",` +
		`"limits":[{"policy":"vendor","key":"acme","cost":2}],"tags":{"a":"1","b":"2"}}`
	if got := string(record.Encode()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	wantSubmission := `{"schema":1,"id":"t1","task_type":"call_api","input":{"b":1,"a":2},"max_retries":3,"max_reschedules":null,"timeout_seconds":300,` +
		`"available_at":"2027-01-01T00:00:00Z","created_at":"2027-01-01T00:00:00Z",` +
		`"limits":[{"policy":"vendor","key":"acme","cost":2}],"tags":{"a":"1","b":"2"}}`
	if got := string(record.EncodeSubmission()); got != wantSubmission {
		t.Errorf("got  %s\nwant %s", got, wantSubmission)
	}
}

func TestASubmissionSetsOnlyWhatIsTheProducers(t *testing.T) {
	t.Parallel()
	doc := document(`"status":"running","attempt":7,"retry_count":2,"reschedule_count":5,"throttle_count":4,"revision":9,"write_id":"w",
		"lease_id":"l","worker_id":"w","last_error":"e","output":1,"checkpoint":2,"cancel_requested":true,
		"completed_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z","inbox_version":"v",
		"input":{"a":1},"max_retries":5,"max_reschedules":0,"timeout_seconds":10,"expires_at":"2028-01-01T00:00:00Z","tags":{"a":"b"},"replay_revision":3`)
	got, err := task.DecodeSubmission(doc, "t1", epoch)
	if err != nil {
		t.Fatal(err)
	}
	want := task.New("t1", "call_api", epoch)
	want.Input = json.RawMessage(`{"a":1}`)
	want.MaxRetries, want.TimeoutSeconds, want.ReplayRevision = 5, 10, 3
	want.MaxReschedules = new(int64)
	expires := epoch.AddDate(1, 0, 0)
	want.ExpiresAt = &expires
	want.Tags = map[string]string{"a": "b"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestSubmissionTimes(t *testing.T) {
	t.Parallel()
	hour := epoch.Add(time.Hour)
	tests := []struct {
		name, members      string
		available, created time.Time
	}{
		{"the object's time stands in for created_at, due at once", `"x":1`, epoch, epoch},
		{"created_at is the producer's", `"created_at":"2027-01-01T01:00:00Z"`, hour, hour},
		{"a delay is an available_at", `"available_at":"2027-01-01T01:00:00Z"`, hour, epoch},
		{"the year 9999", `"available_at":"9999-12-31T23:59:59Z"`, time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), epoch},
		{"a zero time of Go counts as missing", `"available_at":"0001-01-01T00:00:00Z","created_at":"0001-01-01T00:00:00Z"`, epoch, epoch},
	}
	for _, tt := range tests {
		got, err := task.DecodeSubmission(document(tt.members), "t1", epoch)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if !got.AvailableAt.Equal(tt.available) || !got.CreatedAt.Equal(tt.created) || !got.UpdatedAt.Equal(tt.created) {
			t.Errorf("%s: available %v, created %v, updated %v", tt.name, got.AvailableAt, got.CreatedAt, got.UpdatedAt)
		}
	}
}

func TestIDAndKeyOfASubmissionAgree(t *testing.T) {
	t.Parallel()
	derived := task.DeriveID("mail", "order-1")
	tests := []struct{ name, doc, id, field, words string }{
		{"no id: the object's key names it", `{"task_type":"mail"}`, "t1", "", ""},
		{"the same id", `{"id":"t1","task_type":"mail"}`, "t1", "", ""},
		{"another id", `{"id":"t2","task_type":"mail"}`, "t1", "id", `is "t2" but the object's key names "t1"`},
		{"an odd id in the key", `{"task_type":"mail"}`, "a b", "id", "is refused"},
		{"no type", `{"id":"t1"}`, "t1", "task_type", "name the handler"},
		{"an idempotency key and its id", `{"task_type":"mail","idempotency_key":"order-1"}`, derived, "", ""},
		{"a scope of one's own", `{"task_type":"other","idempotency_key":"order-1","idempotency_scope":"mail"}`, derived, "", ""},
		{"an idempotency key under another id", `{"task_type":"mail","idempotency_key":"order-1"}`, "t1", "idempotency_key", "derives the id " + derived},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := task.DecodeSubmission([]byte(tt.doc), tt.id, epoch)
			if tt.words != "" {
				wantRefused(t, err, tt.field, tt.words)
				return
			}
			if err != nil || got.ID != tt.id {
				t.Errorf("id %q, %v", got.ID, err)
			}
		})
	}
}

func TestAnOversizedSubmissionIsRefused(t *testing.T) {
	t.Parallel()
	rest := len(document(`"input":""`))
	fits := document(`"input":"` + strings.Repeat("x", task.MaxDocumentBytes-rest) + `"`)
	if _, err := task.DecodeSubmission(fits, "t1", epoch); err != nil {
		t.Errorf("%d bytes: %v", len(fits), err)
	}
	_, err := task.DecodeSubmission(append(fits, ' '), "t1", epoch)
	wantRefused(t, err, "", "1048577 bytes", "input_ref")
}

func TestValidateRefusesWhatADocumentCannotHold(t *testing.T) {
	t.Parallel()
	tests := []struct {
		field, words string
		set          func(*task.Task)
	}{
		{"task_type", "is missing", func(v *task.Task) { v.Type = "" }},
		{"task_type", "is refused", func(v *task.Task) { v.Type = "a b" }},
		{"id", "is refused", func(v *task.Task) { v.ID = "-a" }},
		{"id", "is refused", func(v *task.Task) { v.ID = "" }},
		{"max_retries", "is -1", func(v *task.Task) { v.MaxRetries = -1 }},
		{"timeout_seconds", "between 1 and 880", func(v *task.Task) { v.TimeoutSeconds = 0 }},
		{"input", "one JSON value", func(v *task.Task) { v.Input = json.RawMessage(`{`) }},
		{"input", "one JSON value", func(v *task.Task) { v.Input = json.RawMessage(`1,"max_retries":99`) }},
		{"input", "one JSON value", func(v *task.Task) { v.Input = json.RawMessage("\"\xff\"") }},
		{"tags", "UTF-8", func(v *task.Task) { v.Tags = map[string]string{"\xfe": "", "\xff": ""} }},
		{"limits", "UTF-8", func(v *task.Task) { v.Limits = []task.Limit{{Policy: "a", Key: "\xff"}} }},
		{"limits", "between 0", func(v *task.Task) { v.Limits = []task.Limit{{Policy: "a", Cost: -1}} }},
		{"idempotency_key", "UTF-8", func(v *task.Task) { v.IdempotencyKey = "\xff" }},
		{"idempotency_scope", "UTF-8", func(v *task.Task) { v.IdempotencyScope = "\xff" }},
		{"idempotency_key", "derives the id", func(v *task.Task) { v.IdempotencyKey = "k" }},
		{"", "1048", func(v *task.Task) {
			v.Input = json.RawMessage(`"` + strings.Repeat("x", task.MaxDocumentBytes) + `"`)
		}},
	}
	for _, tt := range tests {
		v := task.New("t1", "call_api", epoch)
		if err := v.Validate(); err != nil {
			t.Fatal(err)
		}
		tt.set(&v)
		wantRefused(t, v.Validate(), tt.field, tt.words)
		v.Encode() // and nothing that Go code sets makes it panic
	}
}

func TestTasksAreJSONValuesOfGo(t *testing.T) {
	t.Parallel()
	v := task.New("t1", "call_api", epoch)
	v.Input = json.RawMessage(`{"n":123456789012345678901234567890}`)
	data, err := json.Marshal([]task.Task{v})
	if err != nil {
		t.Fatal(err)
	}
	var back []task.Task
	if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(back, []task.Task{v}) {
		t.Errorf("%+v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`[{"id":1}]`), &back); err == nil {
		t.Error("a bad record was read")
	}
}
