package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/task"
)

const defaultListLimit = 100

const listLong = `List tasks in the order of their ids, which is the order of creation (tasks with an
idempotency key come last).

A page has --limit tasks. When there are more, the cursor of the next page is told on
standard error: it is the id of the last task of this page. --all lists every one.

With --json an array of records is printed, [] when there are none. Inputs and outputs
of more than 128 KiB are references there, get resolves them.`

const listExample = `  sluice list
  sluice list --status pending,running
  sluice list --status failed --type send_mail --tag team=sales --since 24h
  sluice list --status pending --before 7d
  sluice list --all --json | jq -r '.[] | [.id, .last_error] | @tsv'

  # the ids of all that failed today, for other commands
  sluice list --status failed --since 24h --all --quiet`

type listFlags struct {
	selection

	limit  countFlag
	cursor textFlag
	all    bool
	quiet  bool
}

func (f *listFlags) pageSize() int {
	if f.limit.value == nil {
		return defaultListLimit
	}
	return *f.limit.value
}

func (a *app) newListCommand() *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:     "list [flags]",
		Aliases: []string{"ls"},
		Short:   "List tasks by status, type, tag and age",
		Long:    listLong,
		Example: listExample,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.list(cmd.Context(), &f) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.addFlags(cmd, joinStatuses(", ")+"; parted by commas")
	flags.Var(&f.limit, "limit", fmt.Sprintf("how many at most (default %d)", defaultListLimit))
	f.limit.positive = true
	flags.Var(&f.cursor, "cursor", "go on behind the task of this `id`")
	flags.BoolVar(&f.all, "all", false, "all of them, however many there are")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print only the ids")
	return cmd
}

func (a *app) list(ctx context.Context, f *listFlags) error {
	if f.all && f.limit.value != nil {
		return usagef("--limit and --all are both given: give one of them")
	}
	if f.cursor.value != "" && task.ValidateID(f.cursor.value) != nil {
		return usagef("--cursor %q is no cursor: it is the id of the last task of the page before", f.cursor.value)
	}
	if err := f.check(); err != nil {
		return err
	}
	q, err := a.target.queue(ctx)
	if err != nil {
		return err
	}
	options := f.options()
	options.Limit, options.Cursor = f.pageSize(), f.cursor.value
	list := a.newLister(f.quiet)
	if f.all {
		return list.addAll(q.All(ctx, options))
	}
	page, err := q.List(ctx, options)
	if err != nil {
		return err
	}
	for _, t := range page.Tasks {
		list.add(t)
	}
	list.end()
	for _, p := range page.Problems {
		a.noteUnreadable(p.ID, p.Err)
	}
	if page.Cursor != "" {
		a.note("there are more: --cursor %s shows the next %d, --all shows all", page.Cursor, f.pageSize())
	}
	return missing(len(page.Problems))
}

// noteUnreadable tells of a task that is there and can't be shown.
func (a *app) noteUnreadable(id string, err error) { a.note("%s can't be read: %v", id, err) }

// missing is the error of a list without some tasks that are there.
func missing(n int) error {
	if n == 0 {
		return nil
	}
	return fmt.Errorf("the list is without %s that can't be read: mend or purge them", tasks(n))
}

// lister prints tasks as they come.
type lister struct {
	*app
	quiet bool
	count int
	now   time.Time
	table *table
}

// batch is after how many tasks a list is shown.
const batch = 100

func (a *app) newLister(quiet bool) *lister {
	l := &lister{app: a, quiet: quiet, now: time.Now()}
	l.table = newTable(a.out, "ID", "TYPE", "STATUS", "CREATED", "WHEN", "ATTEMPTS", "SLEEPS", "NOTE")
	l.table.paint = l.paint
	return l
}

const statusColumn = 2

func (l *lister) paint(row []string, column int, padded string) string {
	switch {
	case row[0] == "ID":
		return l.out.dim(padded)
	case column == statusColumn:
		return l.paintStatus(task.Status(row[column]), padded)
	}
	return padded
}

func (l *lister) add(t task.Task) {
	l.count++
	switch {
	case l.quiet:
		l.out.printf("%s\n", t.ID)
	case l.json:
		l.out.printf("%s\n", map[bool]string{true: "[", false: ","}[l.count == 1])
		_, _ = l.out.Write(l.shown(t.Encode())) // the error stays
	default:
		l.table.add(t.ID, t.Type, string(t.Status), relative(l.now, t.CreatedAt), when(l.now, t),
			number(t.Attempt), number(t.RescheduleCount+t.ThrottleCount), remark(t))
	}
	if l.count%batch == 0 {
		l.flush()
	}
}

// addAll prints all tasks of a sequence, and tells of those that can't be read.
func (l *lister) addAll(all iter.Seq2[task.Task, error]) error {
	unreadable := 0
	for t, err := range all {
		switch {
		case errors.Is(err, queue.ErrDamaged):
			l.flush()
			l.noteUnreadable(t.ID, err)
			unreadable++
		case err != nil:
			l.flush()
			return err
		default:
			l.add(t)
		}
	}
	l.end()
	return missing(unreadable)
}

func (l *lister) flush() {
	if !l.quiet && !l.json && l.count > 0 {
		l.table.flush()
	}
	_ = l.out.flush() // the error stays, and is reported at the end
}

func (l *lister) end() {
	switch {
	case l.json && l.count == 0:
		l.out.printf("[]\n")
	case l.json:
		l.out.printf("\n]\n")
	case l.count == 0 && !l.quiet:
		l.note("no tasks")
	}
	l.flush()
}
