package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
  sluice list --all --json | jq -r '.[] | [.id, .last_error] | @tsv'

  # run again what failed today
  sluice list --status failed --since 24h --all --quiet | sluice replay -`

type listFlags struct {
	statuses statusFlag
	taskType textFlag
	tags     pairsFlag
	since    sinceFlag
	limit    countFlag
	cursor   textFlag
	all      bool
	quiet    bool
}

func (f *listFlags) pageSize() int {
	if f.limit.value == nil {
		return defaultListLimit
	}
	return *f.limit.value
}

// statusFlag is a list of statuses, parted by commas or given several times.
type statusFlag struct{ values []task.Status }

func (f *statusFlag) Set(s string) error {
	for name := range strings.SplitSeq(s, ",") {
		status := task.Status(strings.TrimSpace(name))
		if !slices.Contains(task.Statuses(), status) {
			return fmt.Errorf("is no status: use %s", joinStatuses(", "))
		}
		f.values = append(f.values, status)
	}
	return nil
}

func (f *statusFlag) String() string { return "" }
func (f *statusFlag) Type() string   { return "status" }

func joinStatuses(sep string) string {
	names := make([]string, 0, len(task.Statuses()))
	for _, s := range task.Statuses() {
		names = append(names, string(s))
	}
	return strings.Join(names, sep)
}

// sinceFlag is a time, or a duration before now.
type sinceFlag struct{ value time.Time }

func (f *sinceFlag) Set(s string) (err error) {
	f.value, err = parseSince(s, time.Now())
	return err
}

func (f *sinceFlag) String() string { return "" }
func (f *sinceFlag) Type() string   { return "duration or time" }

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
	flags.Var(&f.statuses, "status", "only these: "+joinStatuses(", ")+"; parted by commas")
	flags.Var(&f.taskType, "type", "only tasks of this `type`")
	flags.Var(&f.tags, "tag", "only tasks with this tag, can be repeated")
	flags.Var(&f.since, "since", "only tasks created since: 24h, 7d or 2027-01-01T00:00:00Z")
	flags.Var(&f.limit, "limit", fmt.Sprintf("how many at most (default %d)", defaultListLimit))
	f.limit.positive = true
	flags.Var(&f.cursor, "cursor", "go on behind the task of this `id`")
	flags.BoolVar(&f.all, "all", false, "all of them, however many there are")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print only the ids")
	names := strings.Split(joinStatuses("\n"), "\n")
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) list(ctx context.Context, f *listFlags) error {
	if f.all && f.limit.value != nil {
		return usagef("--limit and --all are both given: give one of them")
	}
	if f.cursor.value != "" && task.ValidateID(f.cursor.value) != nil {
		return usagef("--cursor %q is no cursor: it is the id of the last task of the page before", f.cursor.value)
	}
	q, err := a.target.queue(ctx)
	if err != nil {
		return err
	}
	options := queue.ListOptions{
		Statuses: f.statuses.values, Type: f.taskType.value, Tags: f.tags.values,
		Since: f.since.value, Limit: f.pageSize(), Cursor: f.cursor.value,
	}
	list := a.newLister(f)
	if f.all {
		for t, err := range q.All(ctx, options) {
			if err != nil {
				list.flush()
				return err
			}
			list.add(t)
		}
		list.end()
		return nil
	}
	page, err := q.List(ctx, options)
	if err != nil {
		return err
	}
	for _, t := range page.Tasks {
		list.add(t)
	}
	list.end()
	if page.Cursor != "" {
		a.note("there are more: --cursor %s shows the next %d, --all shows all", page.Cursor, f.pageSize())
	}
	return nil
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

func (a *app) newLister(f *listFlags) *lister {
	l := &lister{app: a, quiet: f.quiet, now: time.Now()}
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
