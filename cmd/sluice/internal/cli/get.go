package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) newGetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "get ID",
		Short: "Show a task with its input and output",
		Long: `Show a task: what became of it, when it is due, its counters, input and output.
With --json the record itself is printed, one document.`,
		Example: `  sluice get 0197f0c2-5d3a-7c61-9a51-7b1de2f0a9c4
  sluice get 0197f0c2-5d3a-7c61-9a51-7b1de2f0a9c4 --json | jq .output`,
		Args: wantsID,
		RunE: func(cmd *cobra.Command, args []string) error { return a.get(cmd.Context(), args[0]) },
	}
}

func (a *app) get(ctx context.Context, id string) error {
	q, err := a.target.queue(ctx)
	if err != nil {
		return err
	}
	t, err := q.Get(ctx, id)
	if t.ID != "" { // with an error: a payload can't be read, all else is known
		a.printTask(t)
	}
	return err
}
