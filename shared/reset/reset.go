// Package reset is the limiter's clockwork, run by a cron every minute: it resets
// manual policies at the times of their cron, wakes parked tasks that can run earlier than
// they thought, and counts what is in the registry.
//
// Fixed windows need none of it, since every caller computes them. A manual policy is
// reset by one write to its registry entry, however many keys it has. The entry says
// which time of the cron was served last, and is written on the condition that nothing
// has changed since it was read: so a reset happens once per time of the cron, when two
// runs meet as well, and late rather than never after runs that were missed, of which
// any number make one reset.
package reset

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/wakeup"
)

// By is who the log of changes names for a reset.
const By = "cron"

// Registry is where the policies are.
type Registry interface {
	// Policies returns the entries. With an error they are those that could be read.
	Policies(ctx context.Context) ([]limit.Entry, error)

	// ResetDue replaces each entry that [limit.Entry.ResetDue] finds due by what
	// that makes of it, on the condition that nobody has changed it meanwhile, and
	// returns the names of the policies that it has reset, also with an error.
	ResetDue(ctx context.Context, by string) ([]string, error)
}

// Config is what a [Resetter] is made of. Only Registry is required.
type Config struct {
	Registry Registry

	// Sleepers and Wakeups wake parked tasks earlier. Without one of them, they sleep on.
	Sleepers Sleepers
	Wakeups  *wakeup.Armer

	// FunctionName is the dimension of the metrics. Defaults to "sluice-reset".
	FunctionName string
	// Log takes one line per run, which holds its metrics in the embedded metric
	// format, and one per reset. Defaults to JSON on standard output.
	Log *slog.Logger
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
}

// A Resetter does the work of the function.
type Resetter struct{ Config }

// New returns a Resetter.
func New(c Config) *Resetter {
	if c.FunctionName == "" {
		c.FunctionName = "sluice-reset"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.NewJSONHandler(os.Stdout, nil))
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Resetter{c}
}

// Report says what a run found and did.
type Report struct {
	Policies  int      `json:"policies"`  // registered
	Overrides int      `json:"overrides"` // in force
	Resets    []string `json:"resets"`    // policies that this run has reset
	Waiting   int      `json:"waiting"`   // tasks parked under places
	Pulled    int      `json:"pulled"`    // of them woken earlier by this run

	// Parked is Waiting by policy, nil if that is not known. A policy on which no task is
	// parked any more is in it with 0 for some runs. Policies of a group have the same
	// number.
	Parked map[string]int `json:"parked,omitzero"`
}

// Handle is the function: one run. A policy that can't be reset does not stop the
// others; the error then names it, and the next run tries again.
func (r *Resetter) Handle(ctx context.Context) (Report, error) {
	resets, resetErr := r.Registry.ResetDue(ctx, By)
	for _, policy := range resets {
		r.Log.InfoContext(ctx, "reset", "policy", policy)
	}
	entries, err := r.Registry.Policies(ctx)
	now := r.Now()
	report := Report{Policies: len(entries), Resets: append([]string{}, resets...)}
	for _, e := range entries {
		if o := e.Override; o != nil && (o.Expires.IsZero() || o.Expires.After(now)) {
			report.Overrides++
		}
	}
	if resetErr != nil {
		resetErr = fmt.Errorf("reset the policies that are due: %w", resetErr)
	}
	if err != nil {
		err = fmt.Errorf("read the policies: %w", err)
	}
	round, pullErr := r.pullForward(ctx)
	if round != nil {
		report.Waiting, report.Pulled = round.Waiting, round.Pulled
		report.Parked = parkedOn(entries, round)
	}
	err = errors.Join(resetErr, err, pullErr)
	r.emit(ctx, now, report, round, err)
	return report, err
}
