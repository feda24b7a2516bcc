package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/shared/task"
)

// tally is what became of the tasks that call one API.
type tally struct {
	tasks                        int
	byStatus                     map[task.Status]int
	attempts                     int64
	sleeps, throttles, retries   int64
	wakeups                      int
	first, last                  time.Time // submit and end
	requests, limited            int
	live, undelivered, delivered int
}

func (d *demo) tally(a *api, under bool) tally {
	t := tally{byStatus: make(map[task.Status]int)}
	for _, one := range d.tasks {
		if (len(one.Limits) > 0) != under {
			continue
		}
		t.tasks++
		t.byStatus[one.Status]++
		t.attempts += one.Attempt
		t.sleeps += one.RescheduleCount
		t.throttles += one.ThrottleCount
		t.retries += one.RetryCount
		t.wakeups += d.wakeups.of(one.ID)
		if t.first.IsZero() || one.CreatedAt.Before(t.first) {
			t.first = one.CreatedAt
		}
		if one.CompletedAt != nil && one.CompletedAt.After(t.last) {
			t.last = *one.CompletedAt
		}
		delivered := a.deliveredTo(one.ID)
		switch {
		case !one.Status.Terminal():
			t.live++
		case one.Status == task.Completed && delivered == 0:
			t.undelivered++
		case delivered > 1:
			t.delivered++
		}
	}
	t.requests, t.limited = a.counts()
	return t
}

// report prints the closing tables and holds them against what the file asks
// for.
func (d *demo) report(context.Context) error {
	file, err := os.ReadFile(webhooks)
	if err != nil {
		return err
	}
	lines := bytes.Count(bytes.TrimSpace(file), []byte("\n")) + 1
	reacting, limited := d.tally(d.reacting, false), d.tally(d.limited, true)
	if err := printTasks(lines, reacting, limited); err != nil {
		return err
	}
	if err := d.printRequests(); err != nil {
		return err
	}
	return check(lines, reacting, limited)
}

func printTasks(lines int, reacting, limited tally) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	row := func(what string, value func(tally) string) {
		fmt.Fprintf(w, "%s\t%s\t%s\n", what, value(reacting), value(limited))
	}
	count := func(value func(tally) int64) func(tally) string {
		return func(t tally) string { return fmt.Sprint(value(t)) }
	}
	fmt.Fprintf(w, "%d lines\treacting to 429s\tunder a policy\n", lines)
	row("tasks", func(t tally) string { return fmt.Sprint(t.tasks) })
	row("ended", states)
	row("attempts", count(func(t tally) int64 { return t.attempts }))
	row("sleeps after a 429 or 503", count(func(t tally) int64 { return t.sleeps }))
	row("sleeps imposed by the limiter", count(func(t tally) int64 { return t.throttles }))
	row("retries after a 500", count(func(t tally) int64 { return t.retries }))
	row("wake-ups by the Scheduler", func(t tally) string { return fmt.Sprint(t.wakeups) })
	row("requests the API saw", func(t tally) string {
		return fmt.Sprintf("%d, %.2f per task", t.requests, float64(t.requests)/float64(t.tasks))
	})
	row("answered 429", func(t tally) string { return fmt.Sprint(t.limited) })
	row("first submit to last end", func(t tally) string { return fmt.Sprintf("%.1f s", t.last.Sub(t.first).Seconds()) })
	row("lost", func(t tally) string { return fmt.Sprint(t.live + t.undelivered) })
	fmt.Fprintln(w)
	return w.Flush()
}

func states(t tally) string {
	var parts []string
	for _, s := range task.Statuses() {
		if n := t.byStatus[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", s, n))
		}
	}
	return strings.Join(parts, ", ")
}

// printRequests prints what all of it asked of AWS.
func (d *demo) printRequests() error {
	counts := d.cloud.Cloud.Requests().Snapshot("local", d.cloud.Function)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	row := func(what string, n int) {
		fmt.Fprintf(w, "%s\t%d\t%.2f per task\n", what, n, float64(n)/float64(len(d.tasks)))
	}
	for _, verb := range []string{"PutObject", "GetObject", "DeleteObject", "ListObjectsV2"} {
		row("S3 "+verb, counts.Of(cloud.S3, verb))
	}
	row("Scheduler CreateSchedule", counts.Of(cloud.Scheduler, "CreateSchedule"))
	row("DynamoDB requests", counts.Of(cloud.DynamoDB))
	return w.Flush()
}

// check holds the outcome against what examples/webhooks.ndjson asks for.
func check(lines int, reacting, limited tally) error {
	const invalid, cancelled, repeated = 3, 1, 1
	distinct := lines - repeated
	var wrong []string
	expect := func(what string, got, want int) {
		if got != want {
			wrong = append(wrong, fmt.Sprintf("%s: %d, want %d", what, got, want))
		}
	}
	both := func(value func(tally) int) int { return value(reacting) + value(limited) }
	ended := func(s task.Status) int { return both(func(t tally) int { return t.byStatus[s] }) }
	expect("tasks", both(func(t tally) int { return t.tasks }), distinct)
	expect("failed", ended(task.Failed), invalid)
	expect("cancelled", ended(task.Cancelled), cancelled)
	expect("completed", ended(task.Completed), distinct-invalid-cancelled)
	expect("still live", both(func(t tally) int { return t.live }), 0)
	expect("completed without a delivery", both(func(t tally) int { return t.undelivered }), 0)
	expect("delivered twice", both(func(t tally) int { return t.delivered }), 0)
	expect("429s met under a policy", limited.limited, 0)
	if limited.wakeups > 2*limited.tasks {
		wrong = append(wrong, fmt.Sprintf("%d wake-ups of %d tasks under a policy, want about one each at most", limited.wakeups, limited.tasks))
	}
	if reacting.limited == 0 {
		wrong = append(wrong, "the API answered no 429")
	}
	if len(wrong) > 0 {
		return fmt.Errorf("not as expected: %s", strings.Join(wrong, "; "))
	}
	return nil
}
