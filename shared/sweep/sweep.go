// Package sweep finds tasks that nobody is going to look at any more, and has
// the claim function look at them.
//
// A task moves on because something wakes the claim function: the event of its
// submission, its wake-up, or the end of a lease. Each of these can be lost: S3 and Lambda may
// drop an event, a schedule may end in the dead-letter queue, a worker may die. The sweep
// is what makes that a delay instead of a loss. It runs every few minutes, lists inbox/, where every
// live task has an object, and re-drives what has been due for longer than a grace period.
// Nothing else is needed for that every task ends, and nothing else scans.
//
// A re-drive is a hint, as every event is: the claim function looks at the task
// and does what is due. A task that is re-driven twice, or for no reason, costs a read.
//
// What a run may cost is bounded, and it goes on where the one before stopped. A queue
// that idles costs two requests per run.
package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-dev/sluice/shared/retention"
	"github.com/sluice-dev/sluice/shared/s3store"
)

// Config is what a [Sweeper] is made of. Store, Lambda and ClaimFunction are
// required, the zero values of the others work.
type Config struct {
	Store *s3store.Store
	// Lambda invokes the claim function.
	Lambda Invoker
	// ClaimFunction is the name or ARN of the claim function.
	ClaimFunction string

	// Grace is for how long a task must have been due, or its lease over,
	// before it is re-driven. It exceeds the 15 minutes for which Lambda keeps an event that it can't
	// deliver: until then the event may still come. A shorter one is wasteful, not wrong. Defaults
	// to [DefaultGrace].
	Grace time.Duration
	// MaxRequests bounds the requests to S3 and Lambda of one run; those that the
	// SDK repeats after a failure are not counted. Tasks that are older than the grace period cost one
	// request each (two if never claimed), others only their thousandth part of a listing. A
	// run that reaches the bound stops, and the next one goes on there. Defaults to
	// [DefaultMaxRequests], at least [LeastRequests].
	MaxRequests int
	// MaxTasks bounds the tasks that one run re-drives, and with them what it
	// adds to the load of the claim function. Defaults to [DefaultMaxTasks].
	MaxTasks int
	// BatchSize is the number of tasks that one invocation of the claim function
	// is asked to look at. It looks at them one after the other: more make fewer invocations, less
	// make slow tasks run side by side. Defaults to [DefaultBatchSize], at most [MaxBatchSize].
	BatchSize int

	// Retention removes what is left of expired records, in the time that a run leaves. Optional.
	Retention *retention.Remover

	// FunctionName is the dimension of the metrics. Defaults to "sluice-sweep".
	FunctionName string
	// Log takes one line per run, which holds its metrics in the embedded metric
	// format, and one per trouble. Defaults to JSON on standard output.
	Log *slog.Logger
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
}

// Defaults and bounds of a [Config].
const (
	DefaultGrace       = 20 * time.Minute
	DefaultMaxRequests = 10_000
	DefaultMaxTasks    = 10_000
	DefaultBatchSize   = 25
	// MaxBatchSize keeps the event of a batch well below the 256 KB that an asynchronous
	// invocation takes.
	MaxBatchSize = 1000
	// LeastRequests is what a run needs that looks at one task: reading and
	// writing the cursor, a listing, and what the task itself may cost.
	LeastRequests = 10
)

// Sweeper is the sweep. Use [New].
type Sweeper struct {
	config Config
}

// New returns a Sweeper. An error names the setting that can't work.
func New(c Config) (*Sweeper, error) {
	if c.Store == nil || c.Lambda == nil || c.ClaimFunction == "" {
		return nil, errors.New("sweep: Store, Lambda and ClaimFunction are required")
	}
	for _, setting := range []struct {
		name         string
		value        *int
		usual        int
		least, limit int
	}{
		{"MaxRequests", &c.MaxRequests, DefaultMaxRequests, LeastRequests, 0},
		{"MaxTasks", &c.MaxTasks, DefaultMaxTasks, 1, 0},
		{"BatchSize", &c.BatchSize, DefaultBatchSize, 1, MaxBatchSize},
	} {
		switch v := *setting.value; {
		case v == 0:
			*setting.value = setting.usual
		case v < setting.least:
			return nil, fmt.Errorf("sweep: %s is %d: it must be at least %d, or 0 for %d", setting.name, v, setting.least, setting.usual)
		case setting.limit > 0 && v > setting.limit:
			return nil, fmt.Errorf("sweep: %s is %d: it must be at most %d", setting.name, v, setting.limit)
		}
	}
	if c.Grace < 0 {
		return nil, fmt.Errorf("sweep: Grace is %s: it must not be negative", c.Grace)
	}
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	if c.FunctionName == "" {
		c.FunctionName = "sluice-sweep"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.NewJSONHandler(os.Stdout, nil))
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Sweeper{config: c}, nil
}

// Handle is the sweep function: what invokes it and with which event makes no
// difference. It returns the report of the run.
func (s *Sweeper) Handle(ctx context.Context, _ json.RawMessage) (Report, error) {
	report, err := s.Run(ctx)
	if s.config.Retention != nil && ctx.Err() == nil {
		removed, retentionErr := s.config.Retention.Run(ctx)
		report.Retention, err = &removed, errors.Join(err, retentionErr)
	}
	return report, err
}

// Run sweeps until every object under inbox/ was looked at, or until the
// run's bounds or the context's deadline are near. The next run goes on there. Two runs
// at once do no harm: when one finds that the other has moved the cursor, it stops.
//
// An error means that the run could not do its work, in whole or in part: what it did is in the
// report all the same.
func (s *Sweeper) Run(ctx context.Context) (Report, error) {
	r := &run{Config: s.config, id: uuid.NewString(), started: s.config.Now()}
	err := r.sweep(ctx)
	if err == nil && r.unreadable != nil {
		err = fmt.Errorf("%d tasks could not be looked at, among them: %w", r.report.Unreadable, r.unreadable)
	}
	r.report.Requests = int(r.requests.Load())
	r.emit(ctx, err)
	return r.report, err
}

// Why a run ends before it has seen all of the inbox.
var (
	errBudget       = errors.New("the run's budget is used up")
	errTime         = errors.New("the run's time is over")
	errAnotherSweep = errors.New("another sweep is at work")
)

// sweep goes through the inbox page by page, saving the position behind each that cost
// something.
func (r *run) sweep(ctx context.Context) error {
	work, cancel := withReserve(ctx)
	defer cancel()
	if err := r.loadCursor(work); err != nil {
		return err
	}
	for {
		spent := r.requests.Load()
		more, err := r.page(work)
		if err != nil {
			if ctx.Err() == nil && work.Err() != nil {
				err = errTime
			}
			return r.stop(err, r.saveCursor(ctx))
		}
		if !more {
			return r.endRound(ctx)
		}
		if r.requests.Load() > spent+1 {
			if err := r.saveCursor(ctx); err != nil {
				return r.stop(err, nil)
			}
		}
	}
}

// stop ends a run early: bounds are no errors.
func (r *run) stop(err, saveErr error) error {
	for reason, stop := range map[error]Stop{errBudget: StopBudget, errTime: StopTime, errAnotherSweep: StopAnotherSweep} {
		if errors.Is(err, reason) {
			r.report.Stop, err = stop, nil
			break
		}
	}
	if errors.Is(saveErr, errAnotherSweep) {
		saveErr = nil
	}
	return errors.Join(err, saveErr)
}

// endRound makes the next run start over.
func (r *run) endRound(ctx context.Context) error {
	r.report.Round = true
	r.report.RoundSeconds = r.Now().Sub(r.cursor.RoundStartedAt).Seconds()
	r.cursor = cursor{}
	return r.stop(r.saveCursor(ctx), nil)
}

// page looks at the next page of the inbox, as far as the budget reaches.
func (r *run) page(ctx context.Context) (more bool, err error) {
	if r.left() < 1 {
		return false, errBudget
	}
	r.requests.Add(1)
	entries, more, err := r.Store.ScanInbox(ctx, r.cursor.After, pageSize)
	if err != nil {
		return false, err
	}
	for len(entries) > 0 {
		old, passed := r.take(entries, r.affordable())
		if passed == 0 {
			return false, errBudget
		}
		findings, err := r.lookAt(ctx, old)
		if err != nil {
			return false, err
		}
		if err := r.redrive(ctx, findings); err != nil {
			return false, err
		}
		r.report.Listed += passed
		r.cursor.After = entries[passed-1].Key
		entries = entries[passed:]
	}
	return more, nil
}

const (
	// pageSize is the most that S3 lists at a time.
	pageSize = 1000
	// chunkSize is how many tasks are looked at before the position moves.
	chunkSize = 256
	// chunkCost is the most that one task of a chunk costs: reading its record, its
	// submission, and being re-driven alone.
	chunkCost = 3
	// cursorCost is kept for saving the position: writing it, and reading it
	// again if that did not seem to work.
	cursorCost = 2
)

// left is how many requests the run may make besides saving its position.
func (r *run) left() int { return r.MaxRequests - cursorCost - int(r.requests.Load()) }

// affordable is how many tasks can be looked at, whatever is found.
func (r *run) affordable() int {
	return max(0, min(chunkSize, r.left()/chunkCost, r.MaxTasks-r.report.Redriven))
}

// take passes entries until it has n that are older than the grace period.
// A younger object is a task that was submitted just now: its event is under way, and it
// is passed without a look.
func (r *run) take(entries []s3store.Entry, n int) (old []s3store.Entry, passed int) {
	before := r.Now().Add(-r.Grace)
	for _, e := range entries {
		if !e.ModifiedAt.After(before) {
			if len(old) == n {
				break
			}
			old = append(old, e)
		}
		passed++
	}
	return old, passed
}

// withReserve ends a little before the context does, so that there is time to
// save the position.
func withReserve(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	reserve := min(10*time.Second, time.Until(deadline)/4)
	return context.WithDeadline(ctx, deadline.Add(-reserve))
}
