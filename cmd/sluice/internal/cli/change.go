package cli

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/task"
)

// wantsID takes one task id.
func wantsID(cmd *cobra.Command, args []string) error {
	if err := wants("the task's id", false)(cmd, args); err != nil {
		return err
	}
	return checkIDs(args)
}

// wantsIDs takes task ids, or "-" for ids on standard input.
func wantsIDs(cmd *cobra.Command, args []string) error {
	if err := wants("the task's id", true)(cmd, args); err != nil {
		return err
	}
	if slices.Contains(args, stdinName) {
		return wants("- (ids from standard input)", false)(cmd, args)
	}
	return checkIDs(args)
}

func checkIDs(ids []string) error {
	for _, id := range ids {
		if err := task.ValidateID(id); err != nil {
			return usagef("%v", err)
		}
	}
	return nil
}

// ids are the arguments, or the lines of standard input.
func (a *app) ids(ctx context.Context, args []string) iter.Seq[string] {
	if args[0] != stdinName {
		return slices.Values(args)
	}
	a.announceStdin("task ids, one per line,")
	return func(yield func(string) bool) {
		ch := lines(ctx, a.stdin)
		for {
			select {
			case l, ok := <-ch:
				if !ok || ctx.Err() != nil {
					return
				}
				if l.err != nil {
					a.complain("standard input: %v", l.err)
					return
				}
				if !yield(string(l.text)) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// change is what cancel and replay have in common: they do one thing to every task that is
// named, and one that fails does not stop the others.
type change struct {
	do func(*queue.Queue, context.Context, string) (task.Task, error)
	// said words what became of the task.
	said func(now time.Time, t task.Task) string
	// good tells whether that is what was wanted. Defaults to always.
	good func(t task.Task) bool
}

func (a *app) changeAll(ctx context.Context, c change, args []string) error {
	q, err := a.target.queue(ctx)
	if err != nil {
		return err
	}
	type result struct {
		id   string
		task task.Task
		err  error
	}
	failed := false
	inOrder(a.ids(ctx, args), func(id string) result {
		t, err := c.do(q, ctx, id)
		return result{id, t, err}
	}, func(r result) {
		switch {
		case ctx.Err() != nil:
			return
		case r.err != nil:
			failed = true
			a.complain("%s", describe(r.err))
			return
		}
		failed = failed || c.good != nil && !c.good(r.task)
		if a.json {
			a.printJSON(r.task.Encode())
		} else {
			a.out.printf("%s  %s\n", inline(r.id), inline(c.said(time.Now(), r.task)))
		}
		_ = a.out.flush() // the error stays, and is reported at the end
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if failed {
		return errReported
	}
	return nil
}
