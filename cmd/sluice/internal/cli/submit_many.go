package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"regexp"
	"sync/atomic"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/task"
)

const submitManyLong = `Submit the tasks of a file, or of standard input for "-": one JSON object on each
line, blank lines are left out. Fields:

  task_type        selects the handler (required)
  input            any JSON, reaches the handler to the letter (default null)
  id               the task's id (default a new UUIDv7)
  idempotency_key  makes repeated submits one task; scope: within which it counts
  delay, at        when it is due: a duration such as "36h", or a time
  expires_in, expires_at
                   when it is given up if it is still waiting
  timeout          the longest one run may take: a duration
  max_retries, max_reschedules
                   numbers; null for no limit of reschedules
  tags             {"name": "value", ...}
  limits           [{"policy": "tpm", "key": "acme", "cost": 1500}, ...]

A line is accepted or refused on its own: a bad one is reported with its number and
does not stop the others, but the command fails then. It stops early only when no
line can succeed, as without the bucket. With idempotency keys the whole file can be
submitted again safely.

--var NAME=VALUE puts VALUE in place of {{NAME}} inside strings.`

const submitManyExample = `  sluice submit-many tasks.ndjson
  sluice submit-many tasks.ndjson --var HOST=localhost:8080 --quiet > ids.txt
  jq -c '.users[] | {task_type: "send_mail", input: {to: .email}, idempotency_key: .id}' users.json |
    sluice submit-many - --json`

type submitManyFlags struct {
	vars  pairsFlag
	quiet bool
}

var varName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (a *app) newSubmitManyCommand() *cobra.Command {
	var f submitManyFlags
	cmd := &cobra.Command{
		Use:     "submit-many FILE|- [flags]",
		Short:   "Submit a task for every line of a file",
		Long:    submitManyLong,
		Example: submitManyExample,
		Args:    wants("the file (or - for standard input)", false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.submitMany(cmd.Context(), &f, args[0])
		},
	}
	f.vars.check = func(name string) error {
		if !varName.MatchString(name) {
			return errors.New("has a name that can't stand in {{}}: use letters, digits and _")
		}
		return nil
	}
	cmd.Flags().Var(&f.vars, "var", "put VALUE in place of {{NAME}}, can be repeated")
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "print only the ids")
	return cmd
}

// lineResult is what became of a line.
type lineResult struct {
	line
	task task.Task
	err  error
}

// document is the result line of --json.
func (r lineResult) document() []byte {
	type document struct {
		Line     int         `json:"line"`
		ID       string      `json:"id,omitempty"`
		TaskType string      `json:"task_type,omitempty"`
		Status   task.Status `json:"status,omitempty"`
		Error    string      `json:"error,omitempty"`
	}
	d := document{Line: r.number, ID: r.task.ID, TaskType: r.task.Type, Status: r.task.Status}
	if r.err != nil {
		d = document{Line: r.number, Error: describe(r.err)}
	}
	// Only broken UTF-8 could fail, and that is replaced.
	data, _ := jsonv2.Marshal(d, jsontext.AllowInvalidUTF8(true))
	return data
}

func (a *app) submitMany(ctx context.Context, f *submitManyFlags, name string) error {
	q, err := a.target.queue(ctx)
	if err != nil {
		return err
	}
	file, size, err := a.open(name, "the tasks")
	if err != nil {
		return err
	}
	defer file.Close()
	m := &manySubmits{app: a, queue: q, quiet: f.quiet, vars: variables{values: f.vars.values}, size: size, started: time.Now(), ids: make(map[string]bool)}
	m.run(ctx, file)
	return m.conclude(ctx)
}

// manySubmits is one run of submit-many.
type manySubmits struct {
	*app
	queue *queue.Queue
	quiet bool
	vars  variables
	// size of the file, 0 if it is not known.
	size    int64
	started time.Time
	// ids holds those of keyed tasks.
	ids map[string]bool

	submitted, existed, failed int
	last                       int
	// hopeless is set when no further line can succeed.
	hopeless atomic.Bool
	stopped  error
	shownAt  time.Time
}

// run submits line by line. An interrupt stops the reading, what is under way is
// finished, so that the outcome of every line is known.
func (m *manySubmits) run(ctx context.Context, file *os.File) {
	finish := context.WithoutCancel(ctx)
	inOrder(m.lines(ctx, file),
		func(l line) lineResult { return m.submit(finish, l) },
		m.report)
	m.err.clearProgress()
}

func (m *manySubmits) lines(ctx context.Context, file *os.File) iter.Seq[line] {
	return func(yield func(line) bool) {
		ch := lines(ctx, file)
		for !m.hopeless.Load() {
			select {
			case l, ok := <-ch:
				if !ok || !yield(l) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

func (m *manySubmits) submit(ctx context.Context, l line) lineResult {
	r := lineResult{line: l, err: l.err}
	if r.err != nil {
		return r
	}
	s, err := parseLine(l.text, &m.vars)
	if err != nil {
		r.err = err
		return r
	}
	r.task, r.err = m.queue.Submit(ctx, s.taskType, s.input, s.options()...)
	if r.err != nil && affectsAll(r.err) {
		m.hopeless.Store(true)
	}
	return r
}

// report tells one result, in the order of the lines.
func (m *manySubmits) report(r lineResult) {
	m.last = r.number
	switch {
	case r.err != nil:
		m.failed++
	case m.existedBefore(r.task):
		m.existed++
	default:
		m.submitted++
	}
	switch {
	case r.err != nil && affectsAll(r.err):
		if m.stopped == nil {
			m.stopped = r.err
		}
	case r.err != nil:
		m.complain("line %d: %s", r.number, describe(r.err))
	}
	switch {
	case m.json:
		m.out.printf("%s\n", m.shown(r.document()))
		_ = m.out.flush() // the error stays, and is reported at the end
	case m.quiet && r.err == nil:
		m.out.printf("%s\n", r.task.ID)
		_ = m.out.flush()
	}
	m.progress(r.read)
}

// existedBefore tells of a keyed task whether it was submitted before, by an earlier line or
// an earlier run.
func (m *manySubmits) existedBefore(t task.Task) bool {
	if t.IdempotencyKey == "" {
		return false
	}
	existed := m.ids[t.ID] || t.CreatedAt.Before(m.started)
	m.ids[t.ID] = true
	return existed
}

// progress shows how far it is, ten times a second at most.
func (m *manySubmits) progress(read int64) {
	const pause = 100 * time.Millisecond
	if now := time.Now(); now.Sub(m.shownAt) >= pause {
		m.shownAt = now
		text := m.counts()
		if m.size > 0 {
			text += fmt.Sprintf(" (%d%%)", 100*read/m.size)
		}
		m.err.showProgress("%s", text)
	}
}

func (m *manySubmits) counts() string {
	text := fmt.Sprintf("%d submitted", m.submitted)
	if m.existed > 0 {
		text += fmt.Sprintf(", %d known already", m.existed)
	}
	if m.failed > 0 {
		text += fmt.Sprintf(", %d failed", m.failed)
	}
	return text
}

func (m *manySubmits) conclude(ctx context.Context) error {
	for _, name := range m.vars.unused() {
		m.note("--var %s was not used: no line has {{%s}} inside a string", name, name)
	}
	switch {
	case ctx.Err() != nil:
		m.note("%s; stopped after line %d, what follows it was not submitted", m.counts(), m.last)
		return ctx.Err()
	case m.stopped != nil:
		return fmt.Errorf("stopped after line %d (%s): %w", m.last, m.counts(), m.stopped)
	case !m.json && !m.quiet:
		m.out.printf("%s\n", m.counts())
	}
	if m.failed > 0 {
		return errReported
	}
	return nil
}
