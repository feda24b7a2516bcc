package faultproof_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// mutant is a broken rule: some text of the sources is replaced. What replaces
// it asks mutant(name) whether to be broken, so that one binary holds all mutants.
type mutant struct {
	name string
	// file of the sources, as seen from here. old occurs in it once.
	file     string
	old, new string
	// lives are those in which it must be caught, as a pattern of scenario names.
	lives string
}

var mutants = []mutant{
	{
		name: "a record is replaced without If-Match", lives: "sleep-retry-complete|cancel-running",
		file: "../../s3store/record.go",
		old:  `in.IfMatch = aws.String(prev.ETag)`,
		new:  `if !mutant("NAME") { in.IfMatch = aws.String(prev.ETag) }`,
	},
	{
		name: "a record is created without If-None-Match", lives: "complete",
		file: "../../s3store/record.go",
		old:  `in.IfNoneMatch = aws.String("*")`,
		new:  `if !mutant("NAME") { in.IfNoneMatch = aws.String("*") }`,
	},
	{
		name: "a wake-up is armed after the write", lives: "sleep-retry-complete",
		file: "../engine.go",
		old: `	if next.Status == task.Pending {
		armErr = e.arm(ctx, w, effects.WakeAt)
	}
	rec, err := e.Store.Write(ctx, w.rec, next)
	if err != nil {
		return err
	}
	w.rec = rec
`,
		new: `	if next.Status == task.Pending && !mutant("NAME") {
		armErr = e.arm(ctx, w, effects.WakeAt)
	}
	rec, err := e.Store.Write(ctx, w.rec, next)
	if err != nil {
		return err
	}
	w.rec = rec
	if next.Status == task.Pending && mutant("NAME") {
		armErr = e.arm(ctx, w, effects.WakeAt)
	}
`,
	},
	{
		name: "an outcome is written without looking at the lease", lives: "lease-taken-over",
		file: "../run.go",
		old:  `if lost.Current.Task.LeaseID != lease {`,
		new:  `if lost.Current.Task.LeaseID != lease && !mutant("NAME") {`,
	},
	{
		name: "a lease ends before the invocation", lives: "long-run",
		file: "../run.go",
		old:  `	return end.Add(leaseMargin)`,
		new: `	if mutant("NAME") {
		return now.Add(leaseMargin)
	}
	return end.Add(leaseMargin)`,
	},
	{
		name: "an outcome is written while the handler still runs", lives: "ignores-its-context",
		file: "../run.go",
		old:  `	case <-grace.C:`,
		new: `	case <-grace.C:
		if mutant("NAME") {
			return result{err: errTimeout}
		}`,
	},
	{
		name: "the inbox object is removed before the terminal write", lives: "complete",
		file: "../engine.go",
		old:  `	rec, err := e.Store.Write(ctx, w.rec, next)`,
		new: `	if effects.Finished && mutant("NAME") {
		if err := e.finish(ctx, w); err != nil {
			return err
		}
	}
	rec, err := e.Store.Write(ctx, w.rec, next)`,
	},
	{
		name: "the inbox object is deleted without its version", lives: "complete",
		file: "../../s3store/inbox.go",
		old:  `	if version != "" {`,
		new:  `	if version != "" && !mutant("NAME") {`,
	},
	{
		name: "a replay that is under way is cleaned up", lives: "replay",
		file: "../load.go",
		old: `	return err == nil
}`,
		new: `	return err == nil && !mutant("NAME")
}`,
	},
	{
		name: "junk in the inbox is not set aside", lives: "junk-over-the-inbox",
		file: "../load.go",
		old:  `		if err := e.quarantine(ctx, sub); err != nil {`,
		new: `		if mutant("NAME") {
			return false, nil
		}
		if err := e.quarantine(ctx, sub); err != nil {`,
	},
	{
		name: "the input of a finished task is not marked", lives: "payloads",
		file: "../../s3store/payload.go",
		old:  `	return s.tagInput(ctx, t, []types.Tag{{Key: &key, Value: &value}})`,
		new: `	if mutant("NAME") {
		return nil
	}
	return s.tagInput(ctx, t, []types.Tag{{Key: &key, Value: &value}})`,
	},
	{
		name: "a keyed submit does not look behind the inbox", lives: "keyed-resubmit",
		file: "../../queue/submit.go",
		old:  `	case s.named:`,
		new:  `	case s.named && !mutant("NAME"):`,
	},
	{
		name: "a claim that was lost is not refunded", lives: "limited",
		file: "../limits.go",
		old:  `	if r := w.reservation; r != nil && !claimed && sure {`,
		new:  `	if r := w.reservation; r != nil && !claimed && sure && !mutant("NAME") {`,
	},
	{
		name: "a claim that may have been lost is refunded", lives: "limited",
		file: "../limits.go",
		old:  `	sure := err == nil ||`,
		new:  `	sure := mutant("NAME") || err == nil ||`,
	},
	{
		name: "a task runs before its turn that it waits for", lives: "parked",
		file: "../parking.go",
		old:  `	for err == nil && turn.Action == limit.ToWait {`,
		new: `	if mutant("NAME") && err == nil && turn.Action == limit.ToWait {
		return true, nil
	}
	for err == nil && turn.Action == limit.ToWait {`,
	},
	{
		name: "a task that is taken along does not ask for its turn", lives: "parked-and-taken-along",
		file: "../parking.go",
		old:  `	turn, err := e.ask(ctx, w, parker)`,
		new: `	if w.along && mutant("NAME") {
		return true, nil
	}
	turn, err := e.ask(ctx, w, parker)`,
	},
	{
		name: "a slot is used although the key is held", lives: "held-while-parked",
		file: "../../limit/slot.go",
		old:  `		missing, ready := spot.missing(`,
		new: `		if mutant("NAME") {
			spot.hold = 0
		}
		missing, ready := spot.missing(`,
	},
	{
		name: "a woken task stays in the index", lives: "parked",
		file: "../../dynamolimit/along.go",
		old:  `	entry, err := l.removeEntry(ctx, p, task.ID)`,
		new: `	if mutant("NAME") {
		return &Sleeper{Task: task, Place: p, Found: true, l: l}, nil
	}
	entry, err := l.removeEntry(ctx, p, task.ID)`,
	},
	{
		name: "a woken task is not counted out", lives: "parked",
		file: "../../limit/park.go",
		old:  `			s.Plans[n].Crowd, s.left = CrowdLeave, true`,
		new: `			if s.left = true; !mutant("NAME") {
				s.Plans[n].Crowd = CrowdLeave
			}`,
	},
	{
		name: "a task is taken along that stays in the index", lives: "parked-and-taken-along",
		file: "../../dynamolimit/along.go",
		old:  `		taken, err := l.takeEntry(ctx, s)`,
		new: `		if mutant("NAME") {
			return &Sleeper{Task: Task{s.task, s.taskType}, Place: s.place, Found: true, l: l, entry: s.entry, along: true}, nil
		}
		taken, err := l.takeEntry(ctx, s)`,
	},
	{
		name: "a cancelled task does not leave its place", lives: "cancelled-while-parked",
		file: "../parking.go",
		old:  `	if !ok || w.rec.Task.Status != task.Cancelled ||`,
		new:  `	if !ok || mutant("NAME") || w.rec.Task.Status != task.Cancelled ||`,
	},
	{
		name: "an expired task does not leave its place", lives: "expired-while-parked",
		file: "../parking.go",
		old:  `	if s := w.sleeper; s != nil {`,
		new: `	if mutant("NAME") {
		return
	}
	if s := w.sleeper; s != nil {`,
	},
	{
		name: "a place is kept although the task was not parked", lives: "parked",
		file: "../parking.go",
		old:  `	if err != nil && !sleepsUnder(w.asStored(err), turn.Place) {`,
		new:  `	if err != nil && !sleepsUnder(w.asStored(err), turn.Place) && !mutant("NAME") {`,
	},
	{
		name: "nobody is woken earlier", lives: "granted-while-parked",
		file: "../../dynamolimit/pull.go",
		old:  `	if err := arm(ctx, s.task, wake); err != nil {`,
		new: `	if mutant("NAME") {
		return nil
	}
	if err := arm(ctx, s.task, wake); err != nil {`,
	},
}

// mutantVariable tells a mutated binary which mutant to be.
const mutantVariable = "SLUICE_MUTANT"

func TestTheProofBites(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("not run with -race and -short: it builds the tests anew")
	}
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Skip("not run: there is no go command here")
	}
	binary := buildMutants(t, goCommand)
	var caught atomic.Int64
	t.Run("mutant", func(t *testing.T) {
		for _, m := range mutants {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				child := exec.CommandContext(t.Context(), binary, "-test.failfast", "-test.timeout=3m",
					"-test.run", "^TestEveryFaultInEveryLife$/^life$/^("+m.lives+")$")
				child.Env = append(os.Environ(), mutantVariable+"="+m.name)
				output, err := child.CombinedOutput()
				var exit *exec.ExitError
				switch {
				case err == nil:
					t.Errorf("no case fails")
				case !errors.As(err, &exit) || !bytes.Contains(output, []byte("--- FAIL")):
					t.Errorf("it did not run: %v\n%s", err, output)
				default:
					caught.Add(1)
					t.Logf("caught: %s", complaint(output))
				}
			})
		}
	})
	fmt.Fprintf(os.Stdout, "figure mutants_caught = %d of %d\n", caught.Load(), len(mutants))
}

// complaint is the first thing that a failed run complains of.
func complaint(output []byte) string {
	for line := range strings.Lines(string(output)) {
		if _, text, found := strings.Cut(line, "_test.go:"); found {
			return strings.TrimSpace(text)
		}
	}
	return string(output)
}

// buildMutants builds the tests of this package with all mutants in them.
func buildMutants(t *testing.T, goCommand string) string {
	t.Helper()
	dir := t.TempDir()
	sources := map[string]string{} // by absolute path
	for _, m := range mutants {
		path, err := filepath.Abs(m.file)
		if err != nil {
			t.Fatal(err)
		}
		if _, read := sources[path]; !read {
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			sources[path] = string(source)
			sources[filepath.Join(filepath.Dir(path), "mutant.go")] = switchOf(string(source))
		}
		original := strings.ReplaceAll(m.old, "NAME", m.name)
		if n := strings.Count(sources[path], original); n != 1 {
			t.Fatalf("mutant %q: its text occurs %d times in %s: it must be adapted to the sources\n%s", m.name, n, m.file, m.old)
		}
		sources[path] = strings.Replace(sources[path], original, strings.ReplaceAll(m.new, "NAME", m.name), 1)
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for path, source := range sources {
		replacement := filepath.Join(dir, fmt.Sprintf("%d.go", len(overlay.Replace)))
		overlay.Replace[path] = replacement
		if err := os.WriteFile(replacement, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	document, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	overlayFile, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "mutants.test")
	if err := os.WriteFile(overlayFile, document, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), goCommand, "test", "-c", "-vet=off", "-overlay", overlayFile, "-o", binary, ".")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the mutants: %v\n%s", err, output)
	}
	return binary
}

// switchOf is a file for the package of the source that tells which mutant to
// be.
func switchOf(source string) string {
	clause := source[strings.Index(source, "\npackage ")+1:]
	clause, _, _ = strings.Cut(clause, "\n")
	return clause + "\n\nimport \"os\"\n\nfunc mutant(name string) bool { return os.Getenv(\"" + mutantVariable + "\") == name }\n"
}
