package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/shared/task"
)

// tally is what the closing table shows.
type tally struct {
	lines, distinct                int
	byStatus                       map[task.Status]int
	sleeps, retries, attempts      int64
	requests, limited              int
	lost, deliveredTwice, notThere int
	s3                             cloud.Counts
}

func (d *demo) tally() (tally, error) {
	t := tally{byStatus: make(map[task.Status]int), distinct: len(d.tasks)}
	file, err := os.ReadFile(webhooks)
	if err != nil {
		return t, err
	}
	t.lines = bytes.Count(bytes.TrimSpace(file), []byte("\n")) + 1
	for _, one := range d.tasks {
		t.byStatus[one.Status]++
		t.sleeps += one.RescheduleCount
		t.retries += one.RetryCount
		t.attempts += one.Attempt
		delivered := d.api.deliveredTo(one.ID)
		switch {
		case !one.Status.Terminal():
			t.lost++
		case one.Status == task.Completed && delivered == 0:
			t.notThere++
		case delivered > 1:
			t.deliveredTwice++
		}
	}
	t.requests, t.limited = d.api.counts()
	t.s3 = d.cloud.Cloud.Requests().Snapshot("local", d.cloud.Function)
	return t, nil
}

// report prints the closing table and holds it against what the file asks for.
func (d *demo) report(context.Context) error {
	t, err := d.tally()
	if err != nil {
		return err
	}
	perTask := func(n int) string { return fmt.Sprintf("%.2f", float64(n)/float64(t.distinct)) }
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "lines sent\t%d\t(one is a repetition under its idempotency key)\n", t.lines)
	fmt.Fprintf(w, "tasks\t%d\t%s\n", t.distinct, d.states(t))
	fmt.Fprintf(w, "attempts\t%d\t%s per task\n", t.attempts, perTask(int(t.attempts)))
	fmt.Fprintf(w, "sleeps\t%d\tasked for by Retry-After, no retry was spent on them\n", t.sleeps)
	fmt.Fprintf(w, "retries\t%d\tafter a 500\n", t.retries)
	fmt.Fprintf(w, "requests the API saw\t%d\t%s per task, %d of them answered 429\n", t.requests, perTask(t.requests), t.limited)
	for _, verb := range []string{"PutObject", "GetObject", "DeleteObject", "ListObjectsV2"} {
		n := t.s3.Of(cloud.S3, verb)
		fmt.Fprintf(w, "S3 %s\t%d\t%s per task\n", verb, n, perTask(n))
	}
	fmt.Fprintf(w, "Scheduler CreateSchedule\t%d\t%s per task\n", t.s3.Of(cloud.Scheduler), perTask(t.s3.Of(cloud.Scheduler)))
	fmt.Fprintf(w, "lost\t%d\n", t.lost+t.notThere)
	if err := w.Flush(); err != nil {
		return err
	}
	return t.check()
}

func (d *demo) states(t tally) string {
	var parts []string
	for _, s := range task.Statuses() {
		if n := t.byStatus[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", s, n))
		}
	}
	return strings.Join(parts, ", ")
}

// check holds the outcome against what examples/webhooks.ndjson asks for.
func (t tally) check() error {
	const invalid, cancelled, repeated = 3, 1, 1
	distinct := t.lines - repeated
	var wrong []string
	expect := func(what string, got, want int) {
		if got != want {
			wrong = append(wrong, fmt.Sprintf("%s: %d, want %d", what, got, want))
		}
	}
	expect("tasks", t.distinct, distinct)
	expect("failed", t.byStatus[task.Failed], invalid)
	expect("cancelled", t.byStatus[task.Cancelled], cancelled)
	expect("completed", t.byStatus[task.Completed], distinct-invalid-cancelled)
	expect("lost", t.lost, 0)
	expect("completed without a delivery", t.notThere, 0)
	expect("delivered twice", t.deliveredTwice, 0)
	if t.limited == 0 {
		wrong = append(wrong, "the API answered no 429")
	}
	if len(wrong) > 0 {
		return fmt.Errorf("not as expected: %s", strings.Join(wrong, "; "))
	}
	return nil
}
