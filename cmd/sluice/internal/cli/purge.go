package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/task"
)

const purgeLong = `Delete all there is of tasks: record, history, input and output. It can't be undone,
and an idempotency key may be used anew afterwards. Finished tasks expire by themselves
some day, so this is for what has to go at once.

Only tasks that have ended are purged, unless --force is given: that cancels a waiting
task first, and pulls a running one from under its handler, which is not stopped at once;
what it returns is dropped. --force also deletes records that are damaged.

The ids are arguments, or lines of standard input for "-". Or filters select the tasks,
of every status that can be purged unless --status says which; --dry-run shows them. The
command asks before it does anything; where there is no terminal to ask, --yes is needed.

With --json the record that each task had is printed on a line.`

const purgeExample = `  sluice purge 0197f0c2-5d3a-7c61-9a51-7b1de2f0a9c4
  sluice purge --tag customer=1234 --dry-run
  sluice purge --status completed --before 7d --yes`

func (a *app) newPurgeCommand() *cobra.Command {
	ended := []task.Status{task.Completed, task.Failed, task.Cancelled, task.Expired}
	c := &changeCommand{verb: "purge", past: "purged", from: ended, usual: ended, final: true}
	force := false
	c.do = func(q opened, ctx context.Context, id string) (task.Task, error) { return purge(ctx, q, id, force) }
	c.said = func(time.Time, task.Task) string { return "purged" }
	cmd := &cobra.Command{
		Use:     "purge ID...|-|FILTERS [flags]",
		Short:   "Delete tasks with all they have, which can't be undone",
		Long:    purgeLong,
		Example: purgeExample,
		Args: func(cmd *cobra.Command, args []string) error {
			if force {
				c.from, c.usual = task.Statuses(), task.Statuses()
			}
			return c.args(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.runChange(cmd.Context(), c, args) },
	}
	c.addFlags(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "purge waiting, running and damaged tasks too")
	return cmd
}

// purge deletes a task and returns what it was.
func purge(ctx context.Context, q opened, id string, force bool) (task.Task, error) {
	rec, err := q.store.Find(ctx, id)
	switch {
	case errors.Is(err, queue.ErrNotFound), force:
	case err != nil:
		return task.Task{}, err
	case !rec.Task.Status.Terminal():
		return rec.Task, &task.TransitionError{ID: id, Status: rec.Task.Status, Event: "purge", Reason: "only tasks that have ended are purged: cancel it first, or give --force"}
	}
	var options []queue.PurgeOption
	if force {
		options = append(options, queue.Force())
	}
	was := rec.Task
	was.ID = id
	return was, q.Purge(ctx, id, options...)
}
