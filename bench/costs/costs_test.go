package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// What a reader of the documentation sees is what the program prints.
func TestTheDocumentationShowsWhatIsPrinted(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run("", &out); err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../../docs/costs.md")
	if err != nil {
		t.Fatal(err)
	}
	for paragraph := range strings.SplitSeq(strings.TrimSpace(out.String()), "\n\n") {
		if !strings.Contains(string(doc), paragraph) {
			t.Errorf("docs/costs.md lacks what `go run ./bench/costs` prints:\n%s", paragraph)
		}
	}
}

// A count that has no price would be missing from the sums.
func TestACountWithoutAPriceIsRefused(t *testing.T) {
	t.Parallel()
	for figure, changed := range map[string]string{
		"requests_per_task case=plain verb=other = 0.00": "requests_per_task case=plain verb=other = 1.00",
		"requests_per_idle_hour of=sweep = ":             "requests_per_idle_hour of=sweep = 1",
		"operation=s3.GetObject":                         "operation=s3.SelectObjectContent",
		"figure requests_per_sleep verb=schedule":        "figure requests_per_nap verb=schedule",
	} {
		text := strings.Replace(measured, figure, changed, 1)
		if text == measured {
			t.Fatalf("no figure %q", figure)
		}
		if _, err := countsFrom(text); err == nil {
			t.Errorf("%q was taken", changed)
		}
	}
}
