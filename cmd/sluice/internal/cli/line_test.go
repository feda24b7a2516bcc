package cli

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestVariablesStandInsideStringsOnly(t *testing.T) {
	t.Parallel()
	vars := map[string]string{"HOST": "localhost:80", "Q": `"\`, "EMPTY": "", "NESTED": "{{HOST}}"}
	for text, want := range map[string]string{
		`{"a": "http://{{HOST}}/x"}`:                   `{"a": "http://localhost:80/x"}`,
		`["{{HOST}}","{{HOST}}{{EMPTY}}"]`:             `["localhost:80","localhost:80"]`,
		`"{{Q}}"`:                                      `"\"\\"`,
		`"{{NESTED}}"`:                                 `"{{HOST}}"`,
		`{"{{HOST}}": "{{OTHER}} {{ HOST }} {HOST}"}`:  `{"{{HOST}}": "{{OTHER}} {{ HOST }} {HOST}"}`,
		`{"n": 1.10, "s": "\u00e9{{EMPTY}}", "k":[ ]}`: `{"n": 1.10, "s": "é", "k":[ ]}`,
		`"\u007b{HOST}}"`:                              `"localhost:80"`,
		`{"\u0041": "A"}`:                              `{"\u0041": "A"}`,
	} {
		v := &variables{values: vars}
		if got := string(v.replace([]byte(text))); got != want {
			t.Errorf("replace(%s) = %s, want %s", text, got, want)
		}
	}
}

// Where no variable stands, a line stays as it is to the letter; where one does, the
// JSON reads as if the text had been replaced in each string.
func TestVariablesLeaveTheRestAlone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := jsonValue(3).Draw(t, "value")
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		v := &variables{values: map[string]string{"A": "b{{A}}\"", "NOWHERE": "x"}}
		got := v.replace(text)
		if reflect.DeepEqual(replacedValue(value), value) && !bytes.Equal(got, text) {
			t.Fatalf("replace(%s) = %s", text, got)
		}
		var read any
		if err := json.Unmarshal(got, &read); err != nil {
			t.Fatalf("replace(%s) = %s: %v", text, got, err)
		}
		if want := replacedValue(value); !reflect.DeepEqual(read, want) {
			t.Fatalf("replace(%s) = %s, want %v", text, got, want)
		}
	})
}

func jsonValue(depth int) *rapid.Generator[any] {
	text := rapid.StringMatching(`(\{\{|A|\}\}|\{\{A\}\}|[a-zé"\\ ]){0,6}`)
	leaf := []*rapid.Generator[any]{
		text.AsAny(), rapid.Float64Range(-1e9, 1e9).AsAny(), rapid.Bool().AsAny(), rapid.Just[any](nil),
	}
	if depth == 0 {
		return rapid.OneOf(leaf...)
	}
	inner := jsonValue(depth - 1)
	return rapid.OneOf(append(leaf,
		rapid.SliceOfN(inner, 0, 3).AsAny(),
		rapid.MapOfN(text, inner, 0, 3).AsAny())...)
}

func replacedValue(value any) any {
	switch v := value.(type) {
	case string:
		return strings.ReplaceAll(v, "{{A}}", "b{{A}}\"")
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = replacedValue(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[name] = replacedValue(member)
		}
		return out
	}
	return value
}

func TestParseLineKeepsTheInputToTheLetter(t *testing.T) {
	t.Parallel()
	const input = `{ "b":1.0,"a": 12345678901234567890, "a":"\u00e9\/"  }`
	s, err := parseLine([]byte(`{"task_type":"x","input":`+input+`}`), &variables{})
	if err != nil || string(s.input) != input {
		t.Errorf("input %s, %v, want %s", s.input, err, input)
	}
}
