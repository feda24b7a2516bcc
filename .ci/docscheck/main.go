// Command docscheck reads every Markdown file that git knows and reports what a reader would trip over:
// links to files or headings that do not exist, `make` targets that the Makefile does not have, and Go
// examples that do not parse.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	problems, files, err := check()
	if err != nil {
		fmt.Fprintln(os.Stderr, "docs-check:", err)
		os.Exit(2)
	}
	for _, problem := range problems {
		fmt.Println(problem)
	}
	fmt.Printf("docs-check: %d files, %d problems\n", files, len(problems))
	if len(problems) > 0 {
		os.Exit(1)
	}
}

func check() (problems []string, files int, err error) {
	list, err := exec.Command("git", "ls-files", "*.md").Output() //nolint:noctx // lasts milliseconds
	if err != nil {
		return nil, 0, fmt.Errorf("asking git for the files: %w", err)
	}
	targets, err := makeTargets()
	if err != nil {
		return nil, 0, err
	}
	for file := range strings.FieldsSeq(string(list)) {
		data, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // removed, not yet committed
		}
		if err != nil {
			return nil, 0, err
		}
		files++
		d := document{file: file, prose: fences.ReplaceAllString(string(data), "")}
		for _, problem := range append(append(d.links(), goExamples(data)...), unknownTargets(data, targets)...) {
			problems = append(problems, file+": "+problem)
		}
	}

	return problems, files, nil
}

var (
	fences   = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```[ \t]*$")
	goFences = regexp.MustCompile("(?ms)^```go\n(.*?)^```[ \t]*$")
	links    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	headings = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *#*$`)
	makeUses = regexp.MustCompile("(?m)(?:`|^ *\\$? *|&& )make ((?:[a-z][a-z0-9-]* ?)+)")
	targetIs = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
	notAWord = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// document is a Markdown file without its fenced code.
type document struct{ file, prose string }

// links reports the relative links of the document that lead nowhere.
func (d document) links() []string {
	var broken []string
	for _, match := range links.FindAllStringSubmatch(d.prose, -1) {
		target := match[1]
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		path, heading, _ := strings.Cut(target, "#")
		prose := d.prose
		if path != "" {
			data, err := os.ReadFile(filepath.Join(filepath.Dir(d.file), path))
			if info, statErr := os.Stat(filepath.Join(filepath.Dir(d.file), path)); statErr == nil && info.IsDir() {
				err = nil
			}
			if err != nil {
				broken = append(broken, "no file behind the link "+target)
				continue
			}
			prose = fences.ReplaceAllString(string(data), "")
		}
		if heading != "" && strings.HasSuffix(strings.ToLower(path+".md"), ".md") && !hasHeading(prose, heading) {
			broken = append(broken, "no heading behind the link "+target)
		}
	}

	return broken
}

// hasHeading says whether a document has a heading with this anchor, made the way code hosts make them.
func hasHeading(prose, anchor string) bool {
	for _, match := range headings.FindAllStringSubmatch(prose, -1) {
		text := notAWord.ReplaceAllString(strings.ToLower(match[1]), "")
		if strings.ReplaceAll(text, " ", "-") == anchor {
			return true
		}
	}

	return false
}

// goExamples reports the Go examples that gofmt would refuse. An example may be a file or a part of one,
// and may leave parts out with an ellipsis.
func goExamples(data []byte) []string {
	var broken []string
	for _, match := range goFences.FindAllSubmatch(data, -1) {
		code := bytes.ReplaceAll(match[1], []byte("…"), nil)
		if _, err := format.Source(code); err != nil {
			broken = append(broken, fmt.Sprintf("a Go example does not parse: %v in %q", err, firstLine(match[1])))
		}
	}

	return broken
}

func firstLine(code []byte) string {
	line, _, _ := strings.Cut(string(code), "\n")

	return line
}

func makeTargets() (map[string]bool, error) {
	data, err := os.ReadFile("Makefile")
	if err != nil {
		return nil, err
	}
	targets := map[string]bool{}
	for _, match := range targetIs.FindAllSubmatch(data, -1) {
		targets[string(match[1])] = true
	}

	return targets, nil
}

// unknownTargets reports `make x` in code where the Makefile has no x.
func unknownTargets(data []byte, targets map[string]bool) []string {
	var unknown []string
	for _, match := range makeUses.FindAllStringSubmatch(string(data), -1) {
		for target := range strings.FieldsSeq(match[1]) {
			if !targets[target] {
				unknown = append(unknown, "the Makefile has no target "+target)
			}
		}
	}

	return unknown
}
