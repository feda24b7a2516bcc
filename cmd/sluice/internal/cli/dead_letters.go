package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/cmd/sluice/internal/deadletter"
	"github.com/sluice-dev/sluice/shared/s3store"
)

const deadLettersLong = `Look at what could not be delivered to the claim function: events that it failed on
until Lambda gave up, and wake-ups that EventBridge Scheduler could not bring. They lie in
a queue of SQS for 14 days.

No task is lost by it: tasks are in the bucket, and the sweep has them looked at some 20
minutes later. So a letter is news. Find out why from it, mend that, and redrive.

The queue and the claim function are those of --stack; or with --bucket the function that
submissions start, and the queue that it names. --queue and --function say otherwise.`

const deadLettersListLong = `List the dead letters, oldest first as far as SQS knows: when each came, what it was, why
it was given up after how many tries, which tasks it names, and what the last try met.
All stay where they are; while they are listed, others do not see them.

With --json an array of {"message_id", "sent_at", "kind", "task_ids", "reason", "tries",
"error"} is printed, [] when there are none.`

const redriveLong = `Have the claim function look again at the tasks of each dead letter, and delete the
letter once Lambda has accepted that. It is safe, any number of times: a task that is not
due, or has ended, stays as it is. What fails again becomes another letter.

A message that is no event of the claim function stays, and the exit code is 1. With
--json a line {"message_id", "task_ids", "redriven", "error", ...} is printed for each.`

// letterFlags say which letters are meant.
type letterFlags struct {
	queue, function string
	limit           countFlag
	dryRun          bool
}

func (f *letterFlags) most() int {
	if f.limit.value == nil {
		return 0
	}
	return *f.limit.value
}

func (a *app) newDeadLettersCommand() *cobra.Command {
	var f letterFlags
	cmd := &cobra.Command{
		Use:     "dead-letters COMMAND",
		Short:   "List and redrive what could not be delivered",
		Long:    deadLettersLong,
		Example: "  sluice dead-letters list\n  sluice dead-letters redrive --dry-run\n  sluice dead-letters redrive",
		Args:    noSuchCommand,
		RunE:    showHelp,
	}
	list := &cobra.Command{
		Use:     "list [flags]",
		Aliases: []string{"ls"},
		Short:   "List them, and leave them where they are",
		Long:    deadLettersListLong,
		Example: "  sluice dead-letters list --stack Sluice\n  sluice dead-letters list --json | jq -r '.[].task_ids[]' | sort -u",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.listDeadLetters(cmd.Context(), &f) },
	}
	redrive := &cobra.Command{
		Use:     "redrive [flags]",
		Short:   "Have the claim function look at their tasks again, and delete them",
		Long:    redriveLong,
		Example: "  sluice dead-letters redrive --dry-run\n  sluice dead-letters redrive --limit 1\n  sluice dead-letters redrive",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.redriveDeadLetters(cmd.Context(), &f) },
	}
	f.limit.positive = true
	for _, c := range []*cobra.Command{list, redrive} {
		c.Flags().SortFlags = false
		c.DisableFlagsInUseLine = true
		if c == redrive {
			c.Flags().BoolVar(&f.dryRun, "dry-run", false, "only say what would be redriven")
		}
		c.Flags().Var(&f.limit, "limit", "how many at most (default all)")
		c.Flags().StringVar(&f.queue, "queue", "", "the queue of dead letters, by `name`, ARN or URL (default that of the stack)")
		c.Flags().StringVar(&f.function, "function", "", "the claim function, by `name` or ARN (default that of the stack)")
		cmd.AddCommand(c)
	}
	return cmd
}

// deadLetters opens the queue of dead letters.
func (a *app) deadLetters(ctx context.Context, f *letterFlags) (*deadletter.Box, error) {
	var bucket, stack string
	if f.function == "" { // else nothing has to be looked up
		var err error
		if bucket, stack, err = a.target.names(); err != nil {
			return nil, err
		}
	}
	config, err := a.target.config(ctx)
	if err != nil {
		return nil, err
	}
	box := &deadletter.Box{Messages: sqs.NewFromConfig(config), Functions: lambda.NewFromConfig(config), ClaimFunction: f.function}
	queue := f.queue
	switch {
	case f.function != "":
	case bucket != "":
		box.ClaimFunction, err = deadletter.ClaimFunctionOf(ctx, s3store.NewClient(config), bucket)
	default:
		var outputs map[string]string
		if outputs, err = outputsOf(ctx, cloudformation.NewFromConfig(config), stack); err != nil {
			return nil, fmt.Errorf("look for the dead letters of %w", err)
		}
		box.ClaimFunction, queue = outputs["ClaimFunctionName"], cmp.Or(queue, outputs["DeadLetterQueueUrl"])
		if box.ClaimFunction == "" {
			err = fmt.Errorf("the stack %s has no output ClaimFunctionName: is it a stack of Sluice? Else give --function and --queue", stack)
		}
	}
	if err != nil {
		return nil, err
	}
	return box, box.FindQueue(ctx, queue)
}

func (a *app) listDeadLetters(ctx context.Context, f *letterFlags) error {
	box, err := a.deadLetters(ctx, f)
	if err != nil {
		return err
	}
	letters, err := a.lookAtLetters(ctx, box, f)
	if err != nil {
		return err
	}
	if a.json {
		doc, err := jsonv2.Marshal(letters, jsontext.AllowInvalidUTF8(true))
		if err != nil {
			return err
		}
		a.printJSON(doc)
		return nil
	}
	a.printLetters(letters)
	return nil
}

// lookAtLetters takes all letters and puts them back, also when it is interrupted.
func (a *app) lookAtLetters(ctx context.Context, box *deadletter.Box, f *letterFlags) ([]deadletter.Letter, error) {
	letters := []deadletter.Letter{}
	var failed error
	for l, err := range box.Take(ctx, time.Time{}, f.most()) {
		if err != nil {
			failed = err
			break
		}
		letters = append(letters, l)
		a.err.showProgress("%d dead letters", len(letters))
	}
	a.err.clearProgress()
	return letters, errors.Join(failed, putBack(ctx, box, letters))
}

// putBack leaves letters in the queue, also at the end of the command.
func putBack(ctx context.Context, box *deadletter.Box, letters []deadletter.Letter) error {
	const atMost = 30 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), atMost)
	defer cancel()
	return box.PutBack(ctx, letters...)
}

func (a *app) printLetters(letters []deadletter.Letter) {
	if len(letters) == 0 {
		a.note("no dead letters")
		return
	}
	now := time.Now()
	t := newTable(a.out, "MESSAGE", "SENT", "WHAT", "WHY", "TRIES", "TASKS", "LAST ERROR")
	for _, l := range letters {
		t.add(l.ID, relative(now, l.SentAt), strings.ReplaceAll(string(l.Kind), "_", "-"), cmp.Or(l.Reason, "-"), number(int64(l.Tries)), tasksOf(l), l.Error)
	}
	t.flush()
}

// tasksOf names the tasks of a letter, "-" for none.
func tasksOf(l deadletter.Letter) string { return cmp.Or(strings.Join(l.TaskIDs, ","), "-") }

// redriven is the outcome for one letter.
type redriven struct {
	deadletter.Letter

	Redriven bool `json:"redriven"`
	// Problem is why it was not.
	Problem string `json:"problem,omitempty"`
}

func (a *app) redriveDeadLetters(ctx context.Context, f *letterFlags) error {
	box, err := a.deadLetters(ctx, f)
	if err != nil {
		return err
	}
	if f.dryRun {
		letters, err := a.lookAtLetters(ctx, box, f)
		if err != nil {
			return err
		}
		return a.rehearse(letters)
	}
	done, left, err := a.redriveAll(ctx, box, f)
	err = errors.Join(err, putBack(ctx, box, left))
	if err != nil {
		return err
	}
	a.note("%d redriven, %d left", done, len(left))
	if len(left) > 0 {
		return errReported
	}
	return nil
}

// rehearse says what would be redriven.
func (a *app) rehearse(letters []deadletter.Letter) error {
	left := 0
	for _, l := range letters {
		if l.Kind == deadletter.Unknown {
			left++
			a.printRedriven(redriven{Letter: l, Problem: deadletter.ErrUnknown.Error()}, "would not be redriven: "+deadletter.ErrUnknown.Error())
			continue
		}
		a.printRedriven(redriven{Letter: l}, "would be redriven")
	}
	a.note("%d would be redriven, %d left", len(letters)-left, left)
	if left > 0 {
		return errReported
	}
	return nil
}

// redriveAll redrives letters one by one, and returns those that stay. Those that come up meanwhile
// are left alone, or it would never end where the function still fails.
func (a *app) redriveAll(ctx context.Context, box *deadletter.Box, f *letterFlags) (done int, left []deadletter.Letter, err error) {
	const clocksDiffer = time.Minute // less than Lambda takes to give an event up again
	for l, err := range box.Take(ctx, time.Now().Add(clocksDiffer), f.most()) {
		if err != nil {
			return done, left, err
		}
		if err := box.Redrive(ctx, l); err != nil {
			left = append(left, l)
			if affectsAll(err) || ctx.Err() != nil {
				return done, left, err
			}
			a.printRedriven(redriven{Letter: l, Problem: describe(err)}, "not redriven: "+describe(err))
			continue
		}
		done++
		a.printRedriven(redriven{Letter: l, Redriven: true}, "redriven")
	}
	return done, left, nil
}

// printRedriven writes the line of a letter. What is left is told of on standard error.
func (a *app) printRedriven(r redriven, said string) {
	if a.json {
		doc, err := jsonv2.Marshal(r, jsontext.AllowInvalidUTF8(true))
		if err == nil {
			a.out.printf("%s\n", a.shown(doc))
		}
	} else if r.Problem == "" {
		a.out.printf("%s  %s  %s\n", r.ID, inline(tasksOf(r.Letter)), said)
	}
	if r.Problem != "" {
		a.complain("message %s: %s", r.ID, said)
	}
	_ = a.out.flush() // the error stays, and is reported at the end
}
