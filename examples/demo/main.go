// Command demo runs the main job on the embedded cloud: the webhook deliveries of
// examples/webhooks.ndjson, sent to two small HTTP APIs that allow five requests per second
// each and answer 429 beyond. Tasks for the one react to that; tasks for the other are
// under a policy that matches the API's limit. The demo shows what happened, and
// fails when anything was lost.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/sluice-dev/sluice/localstack/dev"
	"github.com/sluice-dev/sluice/shared/handlers"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/task"
)

const (
	webhooks = "examples/webhooks.ndjson"
	policies = "examples/policies.json"
	sluice   = "bin/sluice"
	patience = 3 * time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to clean up
	}
}

func run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	const perSecond = 5
	reacting, err := startAPI(ctx, perSecond)
	if err != nil {
		return err
	}
	defer reacting.close()
	limited, err := startAPI(ctx, perSecond)
	if err != nil {
		return err
	}
	defer limited.close()
	cloud, err := dev.Start(ctx, dev.Options{
		Address:     "127.0.0.1:0",
		Environment: map[string]string{handlers.EnvHTTPHosts: reacting.host() + "," + limited.host()},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cloud.Close()) }()

	d := &demo{
		cloud: cloud, reacting: reacting, limited: limited,
		queue: queue.Over(cloud.Store("demo")), wakeups: countWakeups(cloud.Cloud),
	}
	fmt.Printf("Two APIs, at %s and %s, allow %d requests per second each.\nSluice runs at %s.\n\n",
		reacting.url(), limited.url(), perSecond, cloud.Endpoint)
	for _, step := range []func(context.Context) error{d.declare, d.submit, d.cancelOne, d.watch, d.showOne, d.report} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

type demo struct {
	cloud *dev.Instance
	// reacting is called by tasks that react to its 429s, limited by tasks that
	// are under a policy.
	reacting, limited *api
	queue             *queue.Queue
	wakeups           *wakeups
	tasks             []task.Task
}

// sluice runs the command line as a user would. Its results go to out.
func (d *demo) sluice(ctx context.Context, out io.Writer, args ...string) error {
	fmt.Println("$ sluice", strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, sluice, args...)
	cmd.Env = d.cloud.Environment()
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	err := cmd.Run()
	fmt.Println()
	return err
}

func (d *demo) declare(ctx context.Context) error {
	return d.sluice(ctx, os.Stdout, "limits", "declare", policies)
}

func (d *demo) submit(ctx context.Context) error {
	// A line per task goes to standard output, which is not wanted here.
	return d.sluice(ctx, io.Discard, "submit-many", webhooks, "--var", "API="+d.reacting.url(), "--var", "LIMITED="+d.limited.url())
}

// cancelOne cancels the delivery that is not due before an hour.
func (d *demo) cancelOne(ctx context.Context) error {
	page, err := d.queue.List(ctx, queue.ListOptions{Tags: map[string]string{"cancel": "demo"}})
	if err != nil {
		return err
	}
	if len(page.Tasks) != 1 {
		return fmt.Errorf("%d tasks have the tag cancel=demo, want 1", len(page.Tasks))
	}
	return d.sluice(ctx, os.Stdout, "cancel", page.Tasks[0].ID)
}

// watch shows the tasks' statuses until all have ended.
func (d *demo) watch(ctx context.Context) error {
	terminal := term.IsTerminal(int(os.Stdout.Fd()))
	start := time.Now()
	for {
		counts, err := d.read(ctx)
		if err != nil {
			return err
		}
		line := progress(time.Since(start), counts)
		switch done := counts[task.Pending]+counts[task.Running] == 0; {
		case terminal && !done:
			fmt.Print("\r" + line)
		case terminal:
			fmt.Print("\r" + line + "\n\n")
			return nil
		default:
			fmt.Println(line)
			if done {
				fmt.Println()
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("tasks are still live: %w", ctx.Err())
		case <-time.After(3 * time.Second):
		}
	}
}

func progress(since time.Duration, counts map[task.Status]int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%3.0f s", since.Seconds())
	for _, s := range task.Statuses() {
		fmt.Fprintf(&b, "  %s %2d", s, counts[s])
	}
	return b.String()
}

func (d *demo) read(ctx context.Context) (map[task.Status]int, error) {
	d.tasks = nil
	counts := make(map[task.Status]int)
	for t, err := range d.queue.All(ctx, queue.ListOptions{}) {
		if err != nil {
			return nil, err
		}
		d.tasks = append(d.tasks, t)
		counts[t.Status]++
	}
	return counts, nil
}

// showOne prints the history of a task that slept and then completed.
func (d *demo) showOne(ctx context.Context) error {
	var slept task.Task
	for _, t := range d.tasks {
		if t.Status == task.Completed && t.RescheduleCount > 0 && (slept.ID == "" || t.RescheduleCount < slept.RescheduleCount) {
			slept = t
		}
	}
	if slept.ID == "" {
		return errors.New("no task slept: the API met no limit")
	}
	return d.sluice(ctx, os.Stdout, "history", slept.ID)
}
