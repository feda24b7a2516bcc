package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/s3store"
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
		return until(ctx, slices.Values(args))
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

// until ends the items with the context.
func until[T any](ctx context.Context, items iter.Seq[T]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for item := range items {
			if ctx.Err() != nil || !yield(item) {
				return
			}
		}
	}
}

// change is what the commands that change or await tasks have in common: they do one thing
// to every task that is named, and one that fails does not stop the others.
type change struct {
	do func(opened, context.Context, string) (task.Task, error)
	// said words what became of the task.
	said func(now time.Time, t task.Task) string
	// good tells whether that is what was wanted. Defaults to always.
	good func(t task.Task) bool
}

// opened is a queue and its bucket.
type opened struct {
	*queue.Queue

	store *s3store.Store
}

func (a *app) openQueue(ctx context.Context) (opened, error) {
	store, err := a.target.store(ctx)
	if err != nil {
		return opened{}, err
	}
	return opened{queue.Over(store), store}, nil
}

// movedOnError says that a task is not what it was when it was selected.
type movedOnError struct{ status task.Status }

func (e *movedOnError) Error() string {
	if e.status == "" {
		return "is gone by now"
	}
	return "is " + string(e.status) + " by now, left alone"
}

// changed is what became of the tasks of a change.
type changed struct{ done, failed, movedOn int }

// change does the one thing to every task. An interrupt ends the ids; what is under way is
// finished, so that the outcome of every task is known.
func (a *app) change(ctx context.Context, q opened, c change, ids iter.Seq[string]) (n changed) {
	type result struct {
		id   string
		task task.Task
		err  error
	}
	finish := context.WithoutCancel(ctx)
	inOrder(ids, func(id string) result {
		t, err := c.do(q, finish, id)
		return result{id, t, err}
	}, func(r result) {
		var moved *movedOnError
		switch {
		case errors.As(r.err, &moved):
			n.movedOn++
			a.note("%s  %s", r.id, moved)
			return
		case r.err != nil && ctx.Err() != nil && errors.Is(r.err, ctx.Err()):
			return // it was only waited for
		case r.err != nil:
			n.failed++
			a.complain("%s", describe(r.err))
			return
		}
		if n.done++; c.good != nil && !c.good(r.task) {
			n.failed++
		}
		if a.json {
			a.printJSON(r.task.Encode())
		} else {
			a.out.printf("%s  %s\n", inline(r.id), inline(c.said(time.Now(), r.task)))
		}
		_ = a.out.flush() // the error stays, and is reported at the end
	})
	return n
}

// changeNamed changes the tasks that the arguments name.
func (a *app) changeNamed(ctx context.Context, c change, args []string) error {
	q, err := a.openQueue(ctx)
	if err != nil {
		return err
	}
	return a.change(ctx, q, c, a.ids(ctx, args)).conclude(ctx)
}

func (n changed) conclude(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case n.failed > 0:
		return errReported
	}
	return nil
}

// changeCommand is a command that changes the tasks that are named or selected.
type changeCommand struct {
	change

	// verb is the command's name, past what it leaves of the tasks.
	verb, past string
	// from are the statuses of tasks that can be changed so, usual those that are selected
	// unless --status says which.
	from, usual []task.Status
	// final tells that it can't be undone: it asks about named tasks too.
	final bool

	selection selection
	dryRun    bool
	yes       bool
}

// addFlags adds the filters and what belongs to them.
func (c *changeCommand) addFlags(cmd *cobra.Command) {
	c.selection.addFlags(cmd, fmt.Sprintf("%s (default %s)", join(c.from, ", "), join(c.usual, ",")))
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "with filters: show which tasks it would be, and do nothing")
	when := "with filters: "
	if c.final {
		when = ""
	}
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, when+"do not ask first")
}

// args takes ids or filters. It comes after the flags were read.
func (c *changeCommand) args(cmd *cobra.Command, args []string) error {
	filters := c.selection.given()
	switch {
	case filters && len(args) > 0:
		return usagef("%s names a task and filters select some: give ids or filters", args[0])
	case !filters && len(args) == 0:
		return usagef("which tasks? Give their ids, - for ids on standard input, or filters such as --status or --type")
	case !filters && c.dryRun:
		return usagef("--dry-run goes with filters: ids say which tasks it would be")
	case !filters:
		return wantsIDs(cmd, args)
	}
	for _, s := range c.selection.statuses.values {
		if !slices.Contains(c.from, s) {
			return usagef("--status %s: only %s tasks can be %s", s, join(c.from, ", "), c.past)
		}
	}
	return c.selection.check()
}

func (a *app) runChange(ctx context.Context, c *changeCommand, args []string) error {
	filters := c.selection.given()
	asks := !c.yes && !c.dryRun && (filters || c.final)
	if asks && (!a.canAsk() || slices.Contains(args, stdinName)) {
		return usagef("tasks are %s after a question, and there is no terminal to ask it: give --yes%s", c.past,
			map[bool]string{true: ", or --dry-run to see which tasks they are"}[filters])
	}
	q, err := a.openQueue(ctx)
	if err != nil {
		return err
	}
	if filters {
		return a.changeSelected(ctx, q, c, asks)
	}
	if asks {
		if err := a.confirm(ctx, c.question(tasks(len(args)), q)); err != nil {
			return err
		}
	}
	return a.change(ctx, q, c.change, a.ids(ctx, args)).conclude(ctx)
}

// question asks for leave.
func (c *changeCommand) question(which string, q opened) string {
	warning := ""
	if c.final {
		warning = " This can't be undone."
	}
	return fmt.Sprintf("%s %s in bucket %s?%s", title(c.verb), which, q.store.Bucket(), warning)
}

// changeSelected changes the tasks that pass the filters.
func (a *app) changeSelected(ctx context.Context, q opened, c *changeCommand, asks bool) error {
	if len(c.selection.statuses.values) == 0 {
		c.selection.statuses.values = c.usual
	}
	found, counts, err := a.find(ctx, q.Queue, c)
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		a.note("no tasks match, nothing was done")
		return nil
	case c.dryRun:
		a.note("%s would be %s, nothing was done", counts, c.past)
		return nil
	case asks:
		if err := a.confirm(ctx, c.question(counts.String(), q)); err != nil {
			return err
		}
	}
	selected := c.change
	selected.do = func(q opened, ctx context.Context, id string) (task.Task, error) {
		rec, err := q.store.Find(ctx, id)
		switch {
		case errors.Is(err, queue.ErrNotFound):
			return task.Task{}, &movedOnError{}
		case err != nil:
			return task.Task{}, err
		case !slices.Contains(c.selection.statuses.values, rec.Task.Status):
			return task.Task{}, &movedOnError{rec.Task.Status}
		}
		return c.do(q, ctx, id)
	}
	n := a.change(ctx, q, selected, a.showingProgress(until(ctx, slices.Values(found)), len(found)))
	a.err.clearProgress()
	a.note("%s", n.summary(len(found), c.past))
	return n.conclude(ctx)
}

// summary says what became of the tasks that were found.
func (n changed) summary(found int, past string) string {
	text := fmt.Sprintf("%d of %s %s", n.done, tasks(found), past)
	if n.movedOn > 0 {
		text += fmt.Sprintf(", %d had moved on", n.movedOn)
	}
	if n.failed > 0 {
		text += fmt.Sprintf(", %d failed", n.failed)
	}
	if rest := found - n.done - n.movedOn - n.failed; rest > 0 {
		text += fmt.Sprintf(", %d not tried", rest)
	}
	return text
}

// find looks the selected tasks up. A dry run prints them.
func (a *app) find(ctx context.Context, q *queue.Queue, c *changeCommand) (ids []string, counts tally, err error) {
	counts = make(tally)
	list := a.newLister(false)
	for t, err := range q.All(ctx, c.selection.options()) {
		if errors.Is(err, queue.ErrDamaged) {
			a.noteUnreadable(t.ID, err)
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		ids = append(ids, t.ID)
		counts[t.Status]++
		switch {
		case c.dryRun && a.json:
			a.printJSON(t.Encode())
		case c.dryRun:
			list.add(t)
		case len(ids)%batch == 0:
			a.err.showProgress("looking for tasks: %d found", len(ids))
		}
	}
	if c.dryRun && !a.json {
		list.flush()
	}
	a.err.clearProgress()
	return ids, counts, a.out.flush()
}

// showingProgress shows how far it is, unless the results scroll by on the same terminal.
func (a *app) showingProgress(ids iter.Seq[string], total int) iter.Seq[string] {
	return func(yield func(string) bool) {
		n := 0
		for id := range ids {
			if n%atOnce == 0 && !a.out.terminal {
				a.err.showProgress("%d of %d", n, total)
			}
			if n++; !yield(id) {
				return
			}
		}
	}
}

// title begins with a capital letter.
func title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }
