// Package retention removes what S3's lifecycle leaves of finished tasks.
//
// When the retention of a finished task is over, a lifecycle rule expires its record: it
// puts a delete marker on top of the record's versions. They themselves stay, because another rule keeps
// the newest hundred versions of every record, which are the history of tasks that sleep for
// years, and no rule can tell one from the other. So once a day all versions of records are listed,
// and those below a delete marker are removed, the marker with them.
//
// A thousand versions are listed by one request, and removing costs nothing. A bucket without tasks costs one
// request per day. Nothing depends on when this happens.
package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/sluice-dev/sluice/shared/s3store"
)

// Config is what a [Remover] is made of. Only Store is required.
type Config struct {
	Store *s3store.Store

	// Every is the time from the beginning of one round through all records to that of
	// the next. Defaults to [DefaultEvery].
	Every time.Duration
	// MaxPages bounds the listings of one run, of a thousand versions each. The next run goes on
	// where this one stopped. Defaults to [DefaultMaxPages].
	MaxPages int
	// Log takes one line per run that does something. Defaults to JSON on standard output.
	Log *slog.Logger
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
}

// Defaults of a [Config].
const (
	DefaultEvery    = 24 * time.Hour
	DefaultMaxPages = 1000
)

// A Remover removes the versions of expired records. Use [New].
type Remover struct{ config Config }

// New returns a Remover.
func New(c Config) (*Remover, error) {
	switch {
	case c.Store == nil:
		return nil, errors.New("retention: Store is required")
	case c.Every < 0:
		return nil, fmt.Errorf("retention: Every is %v: it must not be negative", c.Every)
	case c.MaxPages < 0:
		return nil, fmt.Errorf("retention: MaxPages is %d: it must not be negative", c.MaxPages)
	}
	if c.Every == 0 {
		c.Every = DefaultEvery
	}
	if c.MaxPages == 0 {
		c.MaxPages = DefaultMaxPages
	}
	if c.Log == nil {
		c.Log = slog.New(slog.NewJSONHandler(os.Stdout, nil))
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Remover{config: c}, nil
}

// Report says what a run did.
type Report struct {
	// Due says that a round was due or under way: without it nothing was done.
	Due bool `json:"due"`
	// Listed is the number of versions that were looked at.
	Listed int `json:"listed"`
	// Removed is the number of versions that were removed, delete markers included.
	Removed int `json:"removed"`
	// Round says that the run reached the end.
	Round bool `json:"round"`
}

// cursor is how far the removal has come, kept in the bucket. Two runs at once do each other's work again, which
// does no harm; nor does a cursor that is lost.
type cursor struct {
	// After is the key behind which to go on, empty between rounds.
	After string `json:"after"`
	// RoundStartedAt is when the last round began, or the present one.
	RoundStartedAt time.Time `json:"round_started_at"`
}

// Run goes on with the round that is under way, or begins one if it is due, until
// the end, the bound of the run, or shortly before the context's deadline.
func (r *Remover) Run(ctx context.Context) (Report, error) {
	var report Report
	c, err := r.load(ctx)
	if err != nil {
		return report, err
	}
	now := r.config.Now()
	if c.After == "" {
		if now.Before(c.RoundStartedAt.Add(r.config.Every)) {
			return report, nil
		}
		c.RoundStartedAt = now.UTC()
	}
	report.Due = true
	c.After, err = r.remove(ctx, c.After, &report)
	if report.Round || c.After != "" { // worth keeping, also after an error
		err = errors.Join(err, r.save(ctx, c))
	}
	r.log(ctx, report, err)
	return report, err
}

// remove works through pages and returns the key to go on behind, empty after the last.
func (r *Remover) remove(ctx context.Context, after string, report *Report) (string, error) {
	work, cancel := withReserve(ctx)
	defer cancel()
	records := r.config.Store.ExpiredRecords(after)
	for range r.config.MaxPages {
		listed, removed, more, err := records.Next(work)
		report.Listed += listed
		report.Removed += removed
		switch {
		case err != nil && work.Err() != nil && ctx.Err() == nil:
			return records.After(), nil // the time of this run is over
		case err != nil:
			return records.After(), err
		case !more:
			report.Round = true
			return "", nil
		}
	}
	return records.After(), nil
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

func (r *Remover) load(ctx context.Context) (cursor, error) {
	data, err := r.config.Store.RetentionCursor(ctx)
	switch {
	case errors.Is(err, s3store.ErrNotFound):
		return cursor{}, nil
	case err != nil:
		return cursor{}, err
	}
	var c cursor
	if err := json.Unmarshal(data, &c, json.RejectUnknownMembers(true)); err != nil {
		r.config.Log.WarnContext(ctx, "the cursor of retention is damaged, it starts over", "error", err.Error())
		return cursor{}, nil
	}
	return c, nil
}

func (r *Remover) save(ctx context.Context, c cursor) error {
	data, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("write the cursor of retention: %w", err)
	}
	return r.config.Store.SetRetentionCursor(ctx, data)
}

func (r *Remover) log(ctx context.Context, report Report, err error) {
	level := slog.LevelInfo
	attrs := []slog.Attr{slog.Int("listed", report.Listed), slog.Int("removed", report.Removed), slog.Bool("round", report.Round)}
	if err != nil {
		level = slog.LevelError
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	r.config.Log.LogAttrs(ctx, level, "retention", attrs...)
}
