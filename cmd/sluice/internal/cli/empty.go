package cli

import (
	"context"

	"github.com/spf13/cobra"
)

const emptyLong = `Delete everything in the queue's bucket: every task, live ones included, with every
version, payload and what was set aside. It can't be undone. It is for taking a queue
down: CloudFormation deletes a bucket only if it is empty, and only that of a stack that
was deployed with -c ephemeral=true.

The name of the bucket has to be given with --confirm, whatever names it otherwise. Stop
what submits tasks first: what arrives meanwhile may stay.`

const emptyExample = `  sluice empty --stack Sluice --confirm sluice-123456789012-us-east-1`

func (a *app) newEmptyCommand() *cobra.Command {
	var confirm string
	cmd := &cobra.Command{
		Use:     "empty --confirm BUCKET [flags]",
		Short:   "Delete everything in the bucket, to take a queue down",
		Long:    emptyLong,
		Example: emptyExample,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.empty(cmd.Context(), confirm) },
	}
	cmd.Flags().StringVar(&confirm, "confirm", "", "the name of the `bucket` that is to be emptied")
	return cmd
}

func (a *app) empty(ctx context.Context, confirm string) error {
	store, err := a.target.store(ctx)
	if err != nil {
		return err
	}
	switch confirm {
	case store.Bucket():
	case "":
		return usagef("this deletes every task in the bucket %s: if you mean it, give --confirm %s", store.Bucket(), store.Bucket())
	default:
		return usagef("--confirm says %q, the bucket is %q: nothing was deleted", confirm, store.Bucket())
	}
	deleted, err := store.Empty(ctx, func(n int) { a.err.showProgress("%d versions deleted", n) })
	a.err.clearProgress()
	if err != nil {
		return err
	}
	a.note("%d versions deleted, %s is empty", deleted, store.Bucket())
	return nil
}
