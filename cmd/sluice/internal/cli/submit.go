package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/task"
)

const submitLong = `Submit one task and print its id. The task is accepted if and only if the exit code
is 0.

The input is JSON and reaches the handler to the letter: given inline, read from a
file after @, or from standard input for "-". Without --input it is null.

Durations are written like 90s, 1h30m, 7d or 2w; times like 2027-01-01T09:30:00Z.

With --wait the command stays until the task has ended, prints its record, and fails
unless the task completed.`

const submitExample = `  sluice submit -t send_mail -i '{"to": "ada@example.com"}'
  sluice submit -t report -i @report.json --delay 36h --expires-in 7d --tag team=sales
  jq .payload event.json | sluice submit -t import -i - --idempotency-key order-1001

  # stay until it has ended, then show the output
  sluice submit -t resize -i '{"image": "a.png"}' --wait --json | jq .output

  # wait for tokens of two policies: 1500 of tpm for acme, and 1 of daily
  sluice submit -t call_llm -i @prompt.json --limit tpm --limit-key acme --limit-cost 1500 --limit daily`

// submitFlags are the flags of submit.
type submitFlags struct {
	submission
	input                      string
	taskType, id, key, scope   textFlag
	delay, timeout, expiresIn  durationFlag
	at, expiresAt              timeFlag
	maxRetries, maxReschedules countFlag
	tags                       pairsFlag
	limits                     limitsFlag
	wait                       bool
	waitTimeout                durationFlag
}

func (a *app) newSubmitCommand() *cobra.Command {
	var f submitFlags
	cmd := &cobra.Command{
		Use:     "submit -t TYPE [-i JSON|@FILE|-] [flags]",
		Short:   "Submit a task",
		Long:    submitLong,
		Example: submitExample,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.submit(cmd.Context(), &f, cmd.Flags().Changed("input"))
		},
	}
	f.timeout.positive, f.expiresIn.positive, f.waitTimeout.positive = true, true, true
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.VarP(&f.taskType, "type", "t", "`type` of the task, which selects the handler (required)")
	flags.StringVarP(&f.input, "input", "i", "", "input as `JSON`, @FILE, or - for standard input (default null)")
	flags.Var(&f.delay, "delay", "run it after this `duration` at the earliest (default at once)")
	flags.Var(&f.at, "at", "run it at this `time` at the earliest")
	flags.Var(&f.expiresIn, "expires-in", "give it up if it is still waiting after this `duration` (default never)")
	flags.Var(&f.expiresAt, "expires-at", "give it up if it is still waiting at this `time`")
	flags.Var(&f.timeout, "timeout", fmt.Sprintf("the longest one run may take, up to %ds (default %ds)", task.MaxTimeoutSeconds, task.DefaultTimeoutSeconds))
	flags.Var(&f.maxRetries, "max-retries", fmt.Sprintf("how often it may fail and be tried again, 0 for never (default %d)", task.DefaultMaxRetries))
	flags.Var(&f.maxReschedules, "max-reschedules", "how often its handler may put it to sleep, 0 for never (default no limit)")
	flags.Var(&f.tags, "tag", "label it, can be repeated")
	flags.Var(&f.id, "id", "choose its `id`: an error if a task of that id exists (default a new UUIDv7)")
	flags.Var(&f.key, "idempotency-key", "make repeated submits of this `key` one task: the first one's id is printed")
	flags.Var(&f.scope, "scope", "within which the idempotency key counts (default the type)")
	flags.Var(f.limits.policy(), "limit", "run it only when this `policy` admits it, can be repeated")
	flags.Var(f.limits.key(), "limit-key", "`key` of the --limit before it (default the empty key)")
	flags.Var(f.limits.cost(), "limit-cost", "cost at the --limit before it (default 1)")
	flags.BoolVar(&f.wait, "wait", false, "stay until the task has ended and print its record")
	flags.Var(&f.waitTimeout, "wait-timeout", "give up waiting, not the task, after this `duration`")
	return cmd
}

// collect brings the flags into the form that lines of files share.
func (f *submitFlags) collect() error {
	s := &f.submission
	s.taskType, s.id, s.key, s.scope = f.taskType.value, f.id.value, f.key.value, f.scope.value
	s.delay, s.timeout, s.expiresIn = f.delay.value, f.timeout.value, f.expiresIn.value
	s.at, s.expiresAt = f.at.value, f.expiresAt.value
	s.maxRetries, s.maxReschedules = f.maxRetries.value, f.maxReschedules.value
	s.tags, s.limits = f.tags.values, f.limits.tiers
	if f.waitTimeout.value != nil && !f.wait {
		return usagef("--wait-timeout is given without --wait")
	}
	return s.check(flagOf)
}

// flagOf is the flag that sets a field.
func flagOf(field string) string {
	if field == "task_type" {
		return "--type"
	}
	return "--" + strings.ReplaceAll(field, "_", "-")
}

func (a *app) submit(ctx context.Context, f *submitFlags, hasInput bool) error {
	if err := f.collect(); err != nil {
		return err
	}
	if hasInput {
		var err error
		if f.submission.input, err = a.readInput(ctx, f.input); err != nil {
			return err
		}
	}
	q, err := a.target.queue(ctx)
	if err != nil {
		return err
	}
	started := time.Now()
	t, err := q.Submit(ctx, f.submission.taskType, f.submission.input, f.options()...)
	var refused *task.FormatError
	switch {
	case errors.As(err, &refused) && !errors.Is(err, queue.ErrDamaged): // else it is the record that is wrong
		return usagef("%s %s", flagOf(refused.Field), refused.Problem)
	case err != nil:
		return err
	case f.wait:
		return a.submitted(ctx, q, t, f.waitTimeout.value)
	case a.json:
		a.printTask(t)
		return nil
	}
	a.out.printf("%s\n", t.ID)
	if a.err.terminal {
		a.note("%s", howSubmitted(t, started))
	}
	return nil
}

// howSubmitted words the outcome of a submit for a person.
func howSubmitted(t task.Task, started time.Time) string {
	now := time.Now()
	switch {
	case t.CreatedAt.Before(started):
		return fmt.Sprintf("was submitted %s and is %s", relative(now, t.CreatedAt), t.Status)
	case t.AvailableAt.After(now):
		return "submitted, due " + both(now, t.AvailableAt)
	}
	return "submitted, due now"
}

// submitted waits for the task.
func (a *app) submitted(ctx context.Context, q *queue.Queue, t task.Task, limit *time.Duration) error {
	a.note("waiting for %s", t.ID)
	limited, cancel := withLimit(ctx, limit)
	defer cancel()
	t, err := waitFor(limited, q, t.ID, limit)
	if err != nil {
		return err
	}
	a.printTask(t)
	if t.Status != task.Completed {
		if err := a.out.flush(); err != nil {
			return err
		}
		return fmt.Errorf("task %s is %s%s", t.ID, t.Status, because(t))
	}
	return nil
}

// because is the reason of an end, as the end of a sentence.
func because(t task.Task) string {
	if t.LastError == "" {
		return ""
	}
	const longest = 200
	first, _, _ := strings.Cut(t.LastError, "\n")
	return ": " + cut(first, longest)
}
