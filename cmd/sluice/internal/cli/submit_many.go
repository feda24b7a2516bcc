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
	"github.com/google/uuid"
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
line can succeed, as without the bucket.

--journal FILE makes it safe to run the command again, whatever ended it: Ctrl-C, a
crash, a lost connection, kill -9. Each line's id is chosen and written to FILE before the
line is submitted, and S3 accepts an id once; so the next run goes on where this one
stopped, and every line becomes exactly one task. That holds for as long as FILE is kept
and the tasks' records are retained. Lines that were refused are tried again. Between
two runs lines may be added or moved: a line is known by its text, and a text that is
there twice is two tasks. FILE is of one bucket and one set of --var; two commands at a
time can't use it. Lines with idempotency keys are safe to submit again without it.

--var NAME=VALUE puts VALUE in place of {{NAME}} inside strings.`

const submitManyExample = `  sluice submit-many tasks.ndjson
  sluice submit-many tasks.ndjson --journal tasks.journal   # again, to go on
  sluice submit-many tasks.ndjson --var HOST=localhost:8080 --quiet > ids.txt
  jq -c '.users[] | {task_type: "send_mail", input: {to: .email}, idempotency_key: .id}' users.json |
    sluice submit-many - --json`

type submitManyFlags struct {
	vars    pairsFlag
	journal textFlag
	quiet   bool
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
	cmd.Flags().Var(&f.journal, "journal", "remember in this `file` what was submitted, so that the command can be run again")
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "print only the ids")
	return cmd
}

// lineResult is what became of a line.
type lineResult struct {
	line

	task task.Task
	// known tells that it was submitted before, by an earlier line or an earlier run.
	known bool
	err   error
}

// document is the result line of --json.
func (r lineResult) document() []byte {
	type document struct {
		Line     int         `json:"line"`
		ID       string      `json:"id,omitempty"`
		TaskType string      `json:"task_type,omitempty"`
		Status   task.Status `json:"status,omitempty"`
		Known    bool        `json:"known,omitzero"`
		Error    string      `json:"error,omitempty"`
	}
	d := document{Line: r.number, ID: r.task.ID, TaskType: r.task.Type, Status: r.task.Status, Known: r.known}
	if r.err != nil {
		d = document{Line: r.number, Error: describe(r.err)}
	}
	// Only broken UTF-8 could fail, and that is replaced.
	data, _ := jsonv2.Marshal(d, jsontext.AllowInvalidUTF8(true))
	return data
}

func (a *app) submitMany(ctx context.Context, f *submitManyFlags, name string) (err error) {
	store, err := a.target.store(ctx)
	if err != nil {
		return err
	}
	file, size, err := a.open(name, "the tasks")
	if err != nil {
		return err
	}
	defer file.Close()
	m := &manySubmits{
		app: a, queue: queue.Over(store), quiet: f.quiet, vars: variables{values: f.vars.values},
		size: size, started: time.Now(), ids: make(map[string]bool),
	}
	if f.journal.value != "" {
		if m.journal, err = openJournal(f.journal.value, store.Bucket(), f.vars.values); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.journal.close()) }()
	}
	m.run(ctx, file)
	return m.conclude(ctx)
}

// manySubmits is one run of submit-many.
type manySubmits struct {
	*app
	queue *queue.Queue
	// journal is nil if none is kept.
	journal *journal
	quiet   bool
	vars    variables
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

// metLine is a line with what the journal knows of it, nil if none is kept.
type metLine struct {
	line

	entry *entry
}

// run submits line by line. An interrupt stops the reading, what is under way is
// finished, so that the outcome of every line is known.
func (m *manySubmits) run(ctx context.Context, file *os.File) {
	finish := context.WithoutCancel(ctx)
	inOrder(m.lines(ctx, file),
		func(l metLine) lineResult { return m.submit(finish, l) },
		m.report)
	m.err.clearProgress()
}

func (m *manySubmits) lines(ctx context.Context, file *os.File) iter.Seq[metLine] {
	return func(yield func(metLine) bool) {
		ch := lines(ctx, file)
		for !m.hopeless.Load() {
			select {
			case l, ok := <-ch:
				if !ok {
					return
				}
				met := metLine{line: l}
				if m.journal != nil && l.err == nil {
					met.entry = m.journal.meet(l.text)
				}
				if !yield(met) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

func (m *manySubmits) submit(ctx context.Context, l metLine) lineResult {
	r := lineResult{line: l.line, err: l.err}
	if r.err != nil {
		return r
	}
	s, err := parseLine(l.text, &m.vars)
	if err != nil {
		r.err = err
		return r
	}
	if l.entry != nil {
		r.task, r.known, r.err = m.submitOnce(ctx, l, s)
	} else {
		r.task, r.err = m.queue.Submit(ctx, s.taskType, s.input, s.options()...)
	}
	if r.err != nil && affectsAll(r.err) {
		m.hopeless.Store(true)
	}
	return r
}

// submitOnce submits a line under the id that the journal has for it. Known tells that it
// was accepted before.
func (m *manySubmits) submitOnce(ctx context.Context, l metLine, s *submission) (t task.Task, known bool, err error) {
	e, own := l.entry, s.id != ""
	if e.done {
		return task.Task{ID: e.id, Type: s.taskType}, true, nil
	}
	if s.key == "" {
		if s.id, err = m.idOf(l, s.id); err != nil {
			return task.Task{}, false, err
		}
	}
	t, err = m.queue.Submit(ctx, s.taskType, s.input, s.options()...)
	if errors.Is(err, queue.ErrExists) && e.earlier {
		// The earlier run submitted it and did not live to write that down.
		t, err = m.standing(ctx, s, own, err)
		known = err == nil
	}
	if err != nil {
		return task.Task{}, false, err
	}
	return t, known, m.journal.finish(e, l.number, t.ID)
}

// idOf is the id under which a line is submitted, by every run.
func (m *manySubmits) idOf(l metLine, own string) (string, error) {
	if l.entry.earlier {
		return l.entry.id, nil
	}
	if own == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return "", fmt.Errorf("make an id: %w", err)
		}
		own = id.String()
	}
	return own, m.journal.choose(l.entry, l.number, own)
}

// standing is the task that stands under the line's id. Under an id that the line chose
// itself it may be somebody else's.
func (m *manySubmits) standing(ctx context.Context, s *submission, own bool, taken error) (task.Task, error) {
	t, err := m.queue.Get(ctx, s.id)
	switch {
	case err != nil:
		return task.Task{}, err
	case own && (t.Type != s.taskType || !sameJSON(t.Input, s.input)):
		return task.Task{}, taken
	}
	return t, nil
}

// sameJSON compares JSON but for its white space and the order of names.
func sameJSON(a, b []byte) bool {
	canonical := func(data []byte) string {
		if len(data) == 0 {
			return "null"
		}
		v := jsontext.Value(data).Clone()
		if v.Canonicalize(anyJSON, jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)) != nil {
			return string(data)
		}
		return string(v)
	}
	return canonical(a) == canonical(b)
}

// report tells one result, in the order of the lines.
func (m *manySubmits) report(r lineResult) {
	m.last = r.number
	r.known = r.err == nil && (m.existedBefore(r.task) || r.known)
	switch {
	case r.err != nil:
		m.failed++
	case r.known:
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
		again := ""
		if m.journal != nil {
			again = ": run the command again to go on"
		}
		m.note("%s; stopped after line %d, what follows it was not submitted%s", m.counts(), m.last, again)
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
