package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/task"
)

func (a *app) newWaitCommand() *cobra.Command {
	limit := durationFlag{positive: true}
	cmd := &cobra.Command{
		Use:   "wait ID...|- [flags]",
		Short: "Wait until tasks have ended",
		Long: `Wait until every task has ended, and print each in the order they are named. Exit
code 0 means that all of them completed; 1 that one failed, was cancelled or expired,
or that the time was up. Giving up waiting does nothing to the tasks.

The ids are arguments, or lines of standard input for "-". With --json each record is
printed on a line.`,
		Example: `  sluice wait 0197f0c2-5d3a-7c61-9a51-7b1de2f0a9c4 --timeout 10m
  sluice submit-many tasks.ndjson --quiet | sluice wait -`,
		Args: wantsIDs,
		RunE: func(cmd *cobra.Command, args []string) error { return a.wait(cmd.Context(), args, limit.value) },
	}
	cmd.Flags().Var(&limit, "timeout", "give up waiting after this `duration` (default never)")
	return cmd
}

func (a *app) wait(ctx context.Context, args []string, limit *time.Duration) error {
	limited, cancel := withLimit(ctx, limit)
	defer cancel()
	return a.changeNamed(ctx, change{
		do: func(q opened, _ context.Context, id string) (task.Task, error) {
			return waitFor(limited, q.Queue, id, limit)
		},
		said: func(now time.Time, t task.Task) string { return stateOf(now, t) + because(t) },
		good: func(t task.Task) bool { return t.Status == task.Completed },
	}, args)
}

// withLimit ends the context after the limit, if there is one.
func withLimit(ctx context.Context, limit *time.Duration) (context.Context, context.CancelFunc) {
	if limit == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, *limit)
}

// waitFor waits until a task has ended. The limit is named when its time is up.
func waitFor(ctx context.Context, q *queue.Queue, id string, limit *time.Duration) (task.Task, error) {
	t, err := q.Wait(ctx, id)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		status := "not known to have ended"
		if t.Status != "" {
			status = "still " + string(t.Status)
		}
		return t, fmt.Errorf("task %s is %s after %s: the time to wait is up, the task itself goes on", id, status, *limit)
	}
	return t, err
}
