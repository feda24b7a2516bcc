package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/task"
)

func (a *app) newCancelCommand() *cobra.Command {
	c := change{do: (*queue.Queue).Cancel, said: func(_ time.Time, t task.Task) string {
		if t.Status == task.Running {
			return "running, its handler is asked to stop"
		}
		return string(t.Status)
	}}
	return &cobra.Command{
		Use:   "cancel ID...|-",
		Short: "Cancel tasks: waiting ones end, running ones are asked to stop",
		Long: `Cancel tasks. A waiting one ends at once. A running one is asked to stop: its
handler's context ends within about ten seconds, and what it returns in time is kept.
Cancelling twice is no error, cancelling a task that has ended otherwise is one.

The ids are arguments, or lines of standard input for "-". With --json each record is
printed on a line.`,
		Example: `  sluice cancel 0197f0c2-5d3a-7c61-9a51-7b1de2f0a9c4
  sluice list --status pending --type report --all --quiet | sluice cancel -`,
		Args: wantsIDs,
		RunE: func(cmd *cobra.Command, args []string) error { return a.changeAll(cmd.Context(), c, args) },
	}
}
