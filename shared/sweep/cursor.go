package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/sluice-dev/sluice/shared/s3store"
)

// cursor is how far the sweep has come. It is kept in the bucket, as an object
// of which nothing depends but where the next run begins: when it is lost or
// damaged, the sweep starts over.
type cursor struct {
	// After is the key behind which to go on, empty for the start.
	After string `json:"after"`
	// RoundStartedAt is when the current round through the inbox began.
	RoundStartedAt time.Time `json:"round_started_at"`
	// Run is fresh with every run that moves the cursor: it tells a write of our own whose
	// response was lost from that of another sweep.
	Run string `json:"run"`
}

// loadCursor reads where to begin.
func (r *run) loadCursor(ctx context.Context) error {
	r.requests.Add(1)
	data, etag, err := r.Store.SweepCursor(ctx)
	if err != nil && !errors.Is(err, s3store.ErrNotFound) {
		return err
	}
	r.stored.data, r.stored.etag = data, etag
	if err == nil {
		if r.cursor, err = decodeCursor(data); err != nil {
			r.Log.WarnContext(ctx, "the cursor is damaged, the sweep starts over", "error", err.Error())
			r.cursor = cursor{}
		}
	}
	if r.cursor.After == "" {
		r.cursor.RoundStartedAt = r.started.UTC()
	}
	return nil
}

func decodeCursor(data []byte) (cursor, error) {
	var c cursor
	if err := json.Unmarshal(data, &c, json.RejectUnknownMembers(true)); err != nil {
		return cursor{}, err
	}
	if c.After != "" && !strings.HasPrefix(c.After, s3store.InboxPrefix) {
		return cursor{}, fmt.Errorf("it points to %q, which is not under %s", c.After, s3store.InboxPrefix)
	}
	return c, nil
}

// saveCursor writes where the next run begins, if that is not what stands
// there. A missing cursor says to begin at the start, and is not made to say so.
func (r *run) saveCursor(ctx context.Context) error {
	if r.cursor.After == "" {
		r.cursor = cursor{} // of the next round nothing is known
		if r.stored.etag == "" {
			return nil
		}
	} else {
		r.cursor.Run = r.id
	}
	data, err := json.Marshal(r.cursor)
	if err != nil {
		return fmt.Errorf("write the sweep's cursor: %w", err)
	}
	if bytes.Equal(data, r.stored.data) {
		return nil
	}
	r.requests.Add(1)
	etag, err := r.Store.SetSweepCursor(ctx, data, r.stored.etag)
	if errors.Is(err, s3store.ErrCursorMoved) {
		etag, err = r.whoseCursor(ctx, data)
	}
	if err != nil {
		return err
	}
	r.stored.data, r.stored.etag = data, etag
	return nil
}

// whoseCursor tells apart who moved the cursor: this run, in a request whose response was
// lost, or another one.
func (r *run) whoseCursor(ctx context.Context, ours []byte) (etag string, err error) {
	r.requests.Add(1)
	data, etag, err := r.Store.SweepCursor(ctx)
	switch {
	case err != nil && !errors.Is(err, s3store.ErrNotFound):
		return "", err
	case err != nil || !bytes.Equal(data, ours):
		return "", errAnotherSweep
	}
	return etag, nil
}
