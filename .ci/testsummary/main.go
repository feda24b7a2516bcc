// Command testsummary reads the output of `go test -json` and prints one line per package, the output
// of whatever failed, and a closing line that tells passed, failed and not run apart. A test that was
// skipped has not run and is never counted as passed.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// event is one line of `go test -json`, see `go doc test2json`.
type event struct {
	Action      string
	Package     string
	ImportPath  string // set instead of Package in build events
	Test        string
	Output      string
	Elapsed     float64 // seconds
	FailedBuild string
}

// tally is what the closing line says.
type tally struct {
	passed, failed, notRun         int
	packages, untested, failedPkgs int
	failures, skips, stray         []string
	figures                        []string            // what tests say that they have counted
	output                         map[string][]string // by package and test
}

func main() {
	appendTo := flag.String("append", "", "a `file` that the closing line is appended to as well")
	flag.Parse()
	title := flag.Arg(0)
	sum, err := read(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: reading the test output: %v\n", title, err)
		os.Exit(2)
	}
	sum.explain(os.Stdout)
	closing := title + ": " + sum.String()
	fmt.Println(closing)
	if *appendTo != "" {
		if err := appendLine(*appendTo, strings.Join(append([]string{closing}, sum.reasons()...), "\n")); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", title, err)
			os.Exit(2)
		}
	}
	if !sum.good() {
		os.Exit(1)
	}
}

// read consumes the events and prints each package as it ends.
func read(in io.Reader, out io.Writer) (*tally, error) {
	sum := &tally{output: map[string][]string{}}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if strings.TrimSpace(line) != "" {
			var ev event
			if json.Unmarshal([]byte(line), &ev) != nil {
				sum.stray = append(sum.stray, line)
			} else {
				sum.add(ev, out)
			}
		}
		if errors.Is(err, io.EOF) {
			return sum, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (s *tally) add(ev event, out io.Writer) {
	name := ev.Package + ev.ImportPath + " " + ev.Test
	switch ev.Action {
	case "output", "build-output":
		s.output[name] = append(s.output[name], ev.Output)
		if match := figure.FindStringSubmatch(ev.Output); match != nil {
			s.figures = append(s.figures, match[1])
		}
	case "pass", "fail", "skip", "build-fail":
		if ev.Test == "" {
			s.endPackage(ev, name, out)
		} else {
			s.endTest(ev, name)
		}
	}
}

func (s *tally) endTest(ev event, name string) {
	switch ev.Action {
	case "pass":
		s.passed++
		delete(s.output, name)
	case "fail":
		s.failed++
		s.failures = append(s.failures, name)
	case "skip":
		s.notRun++
		s.skips = append(s.skips, name)
	}
}

func (s *tally) endPackage(ev event, name string, out io.Writer) {
	switch ev.Action {
	case "pass":
		s.packages++
		fmt.Fprintf(out, "ok    %-60s %6.1fs\n", ev.Package, ev.Elapsed)
		delete(s.output, name)
	case "skip":
		s.untested++
	case "fail":
		s.packages++
		s.failedPkgs++
		s.failures = append(s.failures, name)
		if ev.FailedBuild != "" {
			s.failures = append(s.failures, ev.FailedBuild+" ")
		}
		fmt.Fprintf(out, "FAIL  %-60s %6.1fs\n", ev.Package, ev.Elapsed)
	case "build-fail":
		s.failures = append(s.failures, name)
	}
}

// explain prints what was counted, what went wrong, and what did not run and why.
func (s *tally) explain(out io.Writer) {
	for _, line := range s.figures {
		fmt.Fprintln(out, line)
	}
	slices.Sort(s.failures)
	for _, name := range slices.Compact(s.failures) {
		fmt.Fprintf(out, "\n--- %s\n%s", strings.TrimSpace(name), strings.Join(s.output[name], ""))
	}
	for _, line := range s.stray {
		fmt.Fprint(out, line)
	}
	for _, name := range s.skips {
		fmt.Fprintf(out, "not run: %s\n%s", name, strings.Join(s.output[name], ""))
	}
}

// reasons are why tests did not run, one line each.
func (s *tally) reasons() []string {
	var lines []string
	for _, name := range s.skips {
		_, test, _ := strings.Cut(name, " ")
		reason := "no reason is given"
		for _, line := range s.output[name] {
			if match := reported.FindStringSubmatch(line); match != nil {
				reason = strings.TrimPrefix(match[1], "not run: ")
			}
		}
		lines = append(lines, fmt.Sprintf("  not run: %s (%s)", test, reason))
	}
	return lines
}

// figure is a line with a number that a test has printed or reported.
var figure = regexp.MustCompile(`^(?:\s+\w+\.go:\d+: )?(figure .*)\n`)

// reported is a line that a test has reported, its last one being why it was skipped.
var reported = regexp.MustCompile(`^\s+\w+\.go:\d+: (.*)\n`)

// good says whether everything that ran passed, and something ran.
func (s *tally) good() bool {
	return s.failed == 0 && len(s.failures) == 0 && s.passed > 0
}

// String is the closing line.
func (s *tally) String() string {
	verdict := "ok"
	if !s.good() {
		verdict = "FAILED"
	}

	return fmt.Sprintf("%s: %d passed, %d failed, %d not run, in %d packages (%d failed; %d more hold no tests)",
		verdict, s.passed, s.failed, s.notRun, s.packages, s.failedPkgs, s.untested)
}

func appendLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")

	return errors.Join(err, f.Close())
}
