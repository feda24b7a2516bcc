package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sluice-dev/sluice/shared/task"
)

// printTask writes one task: the record as JSON, or what a person wants to know.
func (a *app) printTask(t task.Task) {
	if a.json {
		a.printJSON(t.Encode())
		return
	}
	a.printDetails(t, time.Now())
}

// printJSON writes a document on a line of its own, or indented when a person reads it.
func (a *app) printJSON(doc []byte) {
	if a.out.terminal {
		v := jsontext.Value(slices.Clone(doc))
		if v.Indent(anyJSON, jsontext.AllowInvalidUTF8(true), jsontext.WithIndent("  ")) == nil {
			doc = v
		}
	}
	a.out.printf("%s\n", a.shown(doc))
}

// shown is the same JSON so that a terminal does not act on it.
func (a *app) shown(doc []byte) []byte {
	if a.out.terminal {
		return escapedJSON(doc)
	}
	return doc
}

func (a *app) paintStatus(s task.Status, text string) string {
	colors := map[task.Status]string{
		task.Running: "36", task.Completed: "32", task.Failed: "31", task.Cancelled: "33", task.Expired: "33",
	}
	if code := colors[s]; code != "" {
		return a.out.style(code, text)
	}
	return text
}

// when says what a task does now or since when it does nothing more.
func when(now time.Time, t task.Task) string {
	switch {
	case t.Status == task.Pending && t.AvailableAt.After(now):
		return "due " + relative(now, t.AvailableAt)
	case t.Status == task.Pending:
		return "due now"
	case t.Status == task.Running && t.LeaseOver(now):
		return "lease over " + relative(now, *t.LeaseExpiresAt)
	case t.Status == task.Running:
		return "for " + span(max(now.UnixMilli()-t.UpdatedAt.UnixMilli(), 0))
	case t.CompletedAt != nil:
		return relative(now, *t.CompletedAt)
	}
	return relative(now, t.UpdatedAt)
}

// remark is the one thing worth knowing besides.
func remark(t task.Task) string {
	switch {
	case t.Throttled != nil && t.Throttled.Policy != "":
		return "throttled by " + tier(t.Throttled.Policy, t.Throttled.Key)
	case t.Throttled != nil:
		return t.Throttled.Reason
	case t.CancelRequested && !t.Status.Terminal():
		return "cancel requested"
	case t.UnhandledSince != nil && t.Status == task.Pending:
		return "no handler for its type yet"
	case t.Status != task.Completed:
		first, _, _ := strings.Cut(t.LastError, "\n")
		return strings.TrimSuffix(first, "\r")
	}
	return ""
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func tier(policy, key string) string {
	if key == "" {
		return policy
	}
	return fmt.Sprintf("%s %q", policy, key)
}

// details is the list of names and values that stand for a task, or a policy.
type details struct{ rows [][2]string }

func (d *details) add(name, value string) {
	if value != "" {
		d.rows = append(d.rows, [2]string{name, value})
	}
}

func (d *details) addTime(name string, now time.Time, at *time.Time) {
	if at != nil {
		d.add(name, both(now, *at))
	}
}

func (a *app) printDetails(t task.Task, now time.Time) {
	a.out.printf("%s  %s  %s\n", a.out.bold(inline(t.ID)), inline(t.Type), a.paintStatus(t.Status, string(t.Status)))
	a.printRows(describeTask(t, now))
}

// printRows writes names and values below each other.
func (a *app) printRows(d *details) {
	width := 0
	for _, row := range d.rows {
		width = max(width, len(row[0]))
	}
	indent := "\n" + strings.Repeat(" ", width+2*columnGap)
	for _, row := range d.rows {
		a.out.printf("  %s  %s\n", a.out.dim(pad(row[0], width)), strings.ReplaceAll(block(row[1]), "\n", indent))
	}
}

func describeTask(t task.Task, now time.Time) *details {
	d := &details{}
	d.add("state", stateOf(now, t))
	d.add("attempts", number(t.Attempt))
	d.add("retries", fmt.Sprintf("%d of %d", t.RetryCount, t.MaxRetries))
	most := "(no limit)"
	if t.MaxReschedules != nil {
		most = fmt.Sprintf("of %d", *t.MaxReschedules)
	}
	d.add("reschedules", fmt.Sprintf("%d %s", t.RescheduleCount, most))
	if t.ThrottleCount > 0 {
		d.add("throttles", number(t.ThrottleCount))
	}
	d.add("created", both(now, t.CreatedAt))
	if t.Revision > 0 && !t.Status.Terminal() {
		d.add("updated", both(now, t.UpdatedAt))
	}
	if t.Status == task.Pending && t.AvailableAt.After(t.CreatedAt) {
		d.add("due", both(now, t.AvailableAt))
	}
	d.addTime("lease until", now, t.LeaseExpiresAt)
	d.addTime("expires", now, t.ExpiresAt)
	d.addTime("ended", now, t.CompletedAt)
	d.add("timeout", span(t.TimeoutSeconds*1000))
	d.add("worker", t.WorkerID)
	if t.IdempotencyKey != "" {
		d.add("key", fmt.Sprintf("%q within %q", t.IdempotencyKey, t.KeyScope()))
	}
	for _, name := range slices.Sorted(maps.Keys(t.Tags)) {
		d.add("tag", name+"="+t.Tags[name])
	}
	for _, l := range t.Limits {
		d.add("limit", fmt.Sprintf("%s, cost %d", tier(l.Policy, l.Key), l.Cost))
	}
	d.add("last error", t.LastError)
	d.add("checkpoint", readable(t.Checkpoint, nil))
	d.add("input", readable(t.Input, t.InputRef))
	d.add("output", readable(t.Output, t.OutputRef))
	return d
}

// stateOf says in words where a task is in its life.
func stateOf(now time.Time, t task.Task) string {
	text := remark(t)
	if t.Status == task.Pending && t.Throttled != nil && t.Throttled.Policy != "" {
		text += " until " + absolute(t.Throttled.Until)
	} else if strings.HasPrefix(t.LastError, text) {
		text = "" // it has a line of its own
	}
	if text != "" {
		text = ", " + text
	}
	switch t.Status {
	case task.Pending:
		return "waiting, " + when(now, t) + text
	case task.Running:
		return "running " + when(now, t) + text
	}
	end := t.UpdatedAt
	if t.CompletedAt != nil {
		end = *t.CompletedAt
	}
	return fmt.Sprintf("%s after %s", t.Status, span(max(end.UnixMilli()-t.CreatedAt.UnixMilli(), 0)))
}

// readable is JSON as a person reads it: on one line if it is short, and not all of it if it
// is very long.
func readable(raw []byte, ref *task.PayloadRef) string {
	const (
		oneLine = 80
		longest = 4000
	)
	switch {
	case ref != nil:
		return fmt.Sprintf("(%d bytes in %s)", ref.Size, ref.Key)
	case len(raw) == 0:
		return ""
	}
	v := jsontext.Value(slices.Clone(raw))
	if len(raw) <= oneLine {
		if v.Compact(anyJSON, jsontext.AllowInvalidUTF8(true)) != nil {
			return string(raw)
		}
	} else if len(raw) <= longest {
		if v.Indent(anyJSON, jsontext.AllowInvalidUTF8(true), jsontext.WithIndent("  ")) != nil {
			return string(raw)
		}
	}
	if len(v) > 2*longest || len(raw) > longest {
		return fmt.Sprintf("%s… (%d bytes, all of it with --json)", strings.ToValidUTF8(string(v[:longest/2]), ""), len(raw))
	}
	return string(v)
}
