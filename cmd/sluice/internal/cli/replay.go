package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/task"
)

func (a *app) newReplayCommand() *cobra.Command {
	c := change{do: (*queue.Queue).Replay, said: func(now time.Time, t task.Task) string {
		return "replayed, " + when(now, t)
	}}
	return &cobra.Command{
		Use:   "replay ID...|-",
		Short: "Run failed, cancelled and expired tasks again",
		Long: `Run tasks again that have failed, were cancelled or expired: they are due at once,
with all counters reset. A task in another status is an error.

The ids are arguments, or lines of standard input for "-". With --json each record is
printed on a line.`,
		Example: `  sluice replay 0197f0c2-5d3a-7c61-9a51-7b1de2f0a9c4
  sluice list --status failed --since 24h --all --quiet | sluice replay -`,
		Args: wantsIDs,
		RunE: func(cmd *cobra.Command, args []string) error { return a.changeAll(cmd.Context(), c, args) },
	}
}
