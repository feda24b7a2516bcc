package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/shared/task"
)

const watchLong = `Watch a queue: what is live now, and then every change of it, until Ctrl-C, which
ends the command with exit code 0. With --until-idle it ends by itself once no selected
task is waiting or running.

On a terminal it is a table that renews itself, the latest changes on top. Elsewhere it
is a line for each change: the time of the change, id, type, status and what there is to
say. With --json each change is the task's record on a line, inputs and outputs of more
than 128 KiB as references.

It polls: of several changes of a task between two looks the last one is shown. A look
costs 17 LIST requests and a GET for each task that is new, due, running or just ended;
while nothing changes the pauses grow to five times --every. Tasks that have an id of
their own or an idempotency key and end within one pause may be missed when there are
more than a thousand records of such tasks.`

const watchExample = `  sluice watch
  sluice watch --type send_mail --status failed
  sluice watch --until-idle --json | jq -r 'select(.status == "completed") | .id'`

const (
	defaultWatchEvery = 2 * time.Second
	leastWatchEvery   = 100 * time.Millisecond
	// idlePauses is how many times --every a pause is when nothing changes.
	idlePauses = 5
)

type watchFlags struct {
	selection

	every     durationFlag
	untilIdle bool
}

func (a *app) newWatchCommand() *cobra.Command {
	var f watchFlags
	cmd := &cobra.Command{
		Use:     "watch [flags]",
		Short:   "Watch what changes, as it happens",
		Long:    watchLong,
		Example: watchExample,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.watch(cmd.Context(), &f) },
	}
	f.addFlags(cmd, joinStatuses(", ")+"; parted by commas")
	flags := cmd.Flags()
	flags.Var(&f.every, "every", fmt.Sprintf("look this often while something changes (default %s, at least %s)", defaultWatchEvery, leastWatchEvery))
	flags.BoolVar(&f.untilIdle, "until-idle", false, "end once nothing that is selected is waiting or running")
	return cmd
}

func (a *app) watch(ctx context.Context, f *watchFlags) error {
	every := defaultWatchEvery
	if f.every.value != nil {
		every = *f.every.value
	}
	if every < leastWatchEvery {
		return usagef("--every %s is too often: %s is the least", every, leastWatchEvery)
	}
	if err := f.check(); err != nil {
		return err
	}
	store, err := a.target.store(ctx)
	if err != nil {
		return err
	}
	v := &watchView{app: a, watcher: newWatcher(store, f.selection)}
	err = v.run(ctx, every, f.untilIdle)
	var signaled signalError
	if errors.As(context.Cause(ctx), &signaled) && signaled.number == syscall.SIGINT {
		return nil // that is how it is meant to end
	}
	return err
}

// watchView shows what a watcher sees.
type watchView struct {
	*app

	watcher *watcher
	// drawn is how many lines of the table stand above the cursor.
	drawn int
	// troubled tells that the last poll failed.
	troubled bool
}

// run polls until the context ends, or until nothing is live if that is wanted. The first
// poll must succeed, a later one that fails is told and tried again.
func (v *watchView) run(ctx context.Context, every time.Duration, untilIdle bool) error {
	for pause := every; ; {
		changes, err := v.watcher.poll(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && v.watcher.polls == 0:
			return err
		case err != nil:
			v.trouble(err)
		default:
			v.troubled = false
			v.show(changes)
			if err := v.out.flush(); err != nil {
				return err
			}
			if n := v.watcher.counts(); untilIdle && n[task.Pending]+n[task.Running] == 0 {
				return nil
			}
		}
		if pause = min(pause*3/2, idlePauses*every); len(changes) > 0 {
			pause = every
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

func (v *watchView) trouble(err error) {
	if !v.troubled {
		v.troubled, v.drawn = true, 0
		v.complain("%s; trying again", describe(err))
	}
}

func (v *watchView) show(changes []task.Task) {
	if v.out.terminal && !v.json {
		v.draw()
		return
	}
	now := time.Now()
	for _, t := range changes {
		switch {
		case !v.watcher.selection.selects(t):
		case v.json:
			v.out.printf("%s\n", v.shown(t.Encode()))
		default:
			v.out.printf("%s  %s  %s  %s  %s\n", t.UpdatedAt.UTC().Format(time.RFC3339), t.ID, inline(t.Type), t.Status, inline(news(now, t)))
		}
	}
}

// news says what became of a task.
func news(now time.Time, t task.Task) string {
	text := when(now, t)
	switch {
	case t.Revision == 0:
		text = "submitted, " + text
	case t.Status == task.Running:
		text = fmt.Sprintf("attempt %d", t.Attempt)
	case t.Status.Terminal():
		text = "after " + span(max(t.UpdatedAt.UnixMilli()-t.CreatedAt.UnixMilli(), 0))
	}
	if r := remark(t); r != "" {
		text += ", " + r
	}
	return text
}

// draw puts the table in the place of the one drawn before. Lines are not to be broken by
// the terminal: their number would not be known.
func (v *watchView) draw() {
	const (
		noWrap, wrap = "\x1b[?7l", "\x1b[?7h"
		around       = 4 // lines beside the rows: counts, heading, how many more, cursor
		usualHeight  = 24
	)
	width, height := v.out.size()
	if height == 0 {
		height = usualHeight
	}
	if v.drawn > 0 {
		v.out.printf("\x1b[%dA\r\x1b[J", v.drawn)
	}
	now := time.Now()
	rows, more := v.watcher.latest(height - around)
	v.out.printf("%s%s\n", noWrap, v.headline())
	v.drawn = 1 + len(rows)
	if len(rows) > 0 {
		v.drawn++
		v.out.width = width
		l := &lister{app: v.app}
		table := newTable(v.out, "ID", "TYPE", "STATUS", "WHEN", "ATTEMPTS", "SLEEPS", "NOTE")
		table.paint = l.paint
		for _, t := range rows {
			table.add(t.ID, t.Type, string(t.Status), when(now, t), number(t.Attempt), number(t.RescheduleCount+t.ThrottleCount), remark(t))
		}
		table.flush()
	}
	if more > 0 {
		v.drawn++
		v.out.printf("%s\n", v.out.dim(fmt.Sprintf("and %s more, changed before", tasks(more))))
	}
	v.out.printf(wrap)
}

// headline counts what there is and what has ended since.
func (v *watchView) headline() string {
	n := v.watcher.counts()
	parts := []string{fmt.Sprintf("%d waiting", n[task.Pending]), fmt.Sprintf("%d running", n[task.Running])}
	for _, s := range task.Statuses() {
		if s.Terminal() && n[s] > 0 {
			parts = append(parts, v.paintStatus(s, fmt.Sprintf("%d %s", n[s], s)))
		}
	}
	return strings.Join(parts, ", ") + v.out.dim(" since "+v.watcher.started.Local().Format("15:04:05"))
}
