package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/shared/task"
)

const replayLong = `Run tasks again that have failed, were cancelled or expired: they are due at once,
with all counters reset. A task in another status is an error.

The ids are arguments, or lines of standard input for "-". Or filters select the tasks,
failed ones unless --status says otherwise: then --dry-run shows them, and the command
asks before it does anything; where there is no terminal to ask, --yes is needed. A task
that is no longer of the selected status when its turn comes is left alone.

With --json each record is printed on a line.`

const replayExample = `  sluice replay 0197f0c2-5d3a-7c61-9a51-7b1de2f0a9c4

  # run again what failed today
  sluice replay --since 24h --dry-run
  sluice replay --since 24h
  sluice replay --status failed,expired --type send_mail --tag team=sales --yes`

func (a *app) newReplayCommand() *cobra.Command {
	c := &changeCommand{
		verb: "replay", past: "replayed",
		from:  []task.Status{task.Failed, task.Cancelled, task.Expired},
		usual: []task.Status{task.Failed},
	}
	c.do = opened.Replay
	c.said = func(now time.Time, t task.Task) string { return "replayed, " + when(now, t) }
	cmd := &cobra.Command{
		Use:     "replay ID...|-|FILTERS [flags]",
		Short:   "Run failed, cancelled and expired tasks again",
		Long:    replayLong,
		Example: replayExample,
		Args:    c.args,
		RunE:    func(cmd *cobra.Command, args []string) error { return a.runChange(cmd.Context(), c, args) },
	}
	c.addFlags(cmd)
	return cmd
}
