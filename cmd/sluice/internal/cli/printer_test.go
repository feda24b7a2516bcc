package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestInlineShowsWhatATerminalWouldObey(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain text, é, ελ, 🙂":  "plain text, é, ελ, 🙂",
		"<img src=x onerror=1>": "<img src=x onerror=1>",
		"\x1b[2J\x1b]0;t\x07":   `\u001b[2J\u001b]0;t\u0007`,
		"a\nb\tc\rd":            `a\nb\tc\u000dd`,
		"\u009b31m\u0085\x7f":   `\u009b31m\u0085\u007f`,
		"\u202egnp.exe":         `\u202egnp.exe`,
		"\u2028\u2066\u200f":    `\u2028\u2066\u200f`,
		"\xff\xfe":              `\xff\xfe`,
		"\uFFFD":                "\uFFFD",
	} {
		if got := inline(text); got != want {
			t.Errorf("inline(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestBlockKeepsLines(t *testing.T) {
	t.Parallel()
	if got, want := block("a\r\n\tb\x1b\n\n"), "a\n    b\\u001b"; got != want {
		t.Errorf("block = %q, want %q", got, want)
	}
}

// Whatever a task holds, a person's terminal gets no character that it obeys.
func TestNothingObeyedIsShown(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.OneOf(rapid.Byte(), rapid.ByteRange(0x80, 0x9f), rapid.Just(byte(0xc2)), rapid.Just(byte(0x1b)))).Draw(t, "text"))
		if shown := inline(text); strings.ContainsFunc(shown, obeyed) || !isUTF8(shown) {
			t.Fatalf("inline(%q) = %q", text, shown)
		}
	})
}

func isUTF8(s string) bool { return strings.ToValidUTF8(s, "") == s }

func TestEscapedJSONIsTheSameJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.String().Draw(t, "text") + "\u009b\u202e\x7f\u2028"
		var doc bytes.Buffer
		enc := json.NewEncoder(&doc)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(map[string]string{want: want}); err != nil {
			t.Fatal(err)
		}
		shown := escapedJSON(bytes.TrimSpace(doc.Bytes()))
		if bytes.ContainsFunc(shown, obeyed) {
			t.Fatalf("%q is shown", shown)
		}
		var got map[string]string
		if err := json.Unmarshal(shown, &got); err != nil || !reflect.DeepEqual(got, map[string]string{want: want}) {
			t.Fatalf("%s reads as %q, %v", shown, got, err)
		}
	})
}

func TestTableAlignsAndCutsTheLastColumnOnATerminal(t *testing.T) {
	t.Parallel()
	write := func(p printer) string {
		var out bytes.Buffer
		p.Writer = bufio.NewWriter(&out)
		table := newTable(&p, "ID", "NOTE")
		table.add("é1", "short")
		table.add("12345", "a note that is\nfar too long")
		table.flush()
		table.add("6", "")
		table.flush()
		if err := p.flush(); err != nil {
			t.Error(err)
		}
		return out.String()
	}
	want := "ID     NOTE\né1     short\n12345  a note that is\\nfar too long\n6\n"
	if got := write(printer{}); got != want {
		t.Errorf("to a file:\n%s\nwant\n%s", got, want)
	}
	want = "ID     NOTE\né1     short\n12345  a note that is…\n6\n"
	if got := write(printer{terminal: true, width: 22}); got != want {
		t.Errorf("to a terminal:\n%s\nwant\n%s", got, want)
	}
}
