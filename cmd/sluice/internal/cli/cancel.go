package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/shared/task"
)

const cancelLong = `Cancel tasks. A waiting one ends at once. A running one is asked to stop: its
handler's context ends within about ten seconds, and what it returns in time is kept.
Cancelling twice is no error, cancelling a task that has ended otherwise is one.

The ids are arguments, or lines of standard input for "-". Or filters select the tasks:
then --dry-run shows them, and the command asks before it does anything; where there is
no terminal to ask, --yes is needed. A task that is no longer of the selected status when
its turn comes is left alone.

With --json each record is printed on a line.`

const cancelExample = `  sluice cancel 0197f0c2-5d3a-7c61-9a51-7b1de2f0a9c4
  sluice cancel --type report --status pending --dry-run
  sluice cancel --tag campaign=spring --yes
  sluice cancel --before 7d --type report`

func (a *app) newCancelCommand() *cobra.Command {
	live := []task.Status{task.Pending, task.Running}
	c := &changeCommand{verb: "cancel", past: "cancelled", from: live, usual: live}
	c.do = opened.Cancel
	c.said = func(_ time.Time, t task.Task) string {
		if t.Status == task.Running {
			return "running, its handler is asked to stop"
		}
		return string(t.Status)
	}
	cmd := &cobra.Command{
		Use:     "cancel ID...|-|FILTERS [flags]",
		Short:   "Cancel tasks: waiting ones end, running ones are asked to stop",
		Long:    cancelLong,
		Example: cancelExample,
		Args:    c.args,
		RunE:    func(cmd *cobra.Command, args []string) error { return a.runChange(cmd.Context(), c, args) },
	}
	c.addFlags(cmd)
	return cmd
}
