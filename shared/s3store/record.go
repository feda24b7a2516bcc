package s3store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/uuid"

	"github.com/sluice-dev/sluice/shared/awserr"
	"github.com/sluice-dev/sluice/shared/task"
)

// Record is a task's record as it stands in the bucket. Without an ETag it is
// not there yet: the task has only been submitted.
type Record struct {
	Task      task.Task
	ETag      string
	VersionID string
}

// Stored reports whether the record is in the bucket.
func (r Record) Stored() bool { return r.ETag != "" }

// ConflictError says that a conditional write lost: somebody else wrote the
// record first. Current is what they wrote.
type ConflictError struct{ Current Record }

func (e *ConflictError) Error() string {
	t := e.Current.Task
	return fmt.Sprintf("task %s was changed by somebody else: it is %s at revision %d", t.ID, t.Status, t.Revision)
}

// Record reads a task's record. [ErrNotFound] means that there is none.
func (s *Store) Record(ctx context.Context, id string) (Record, error) {
	return s.recordVersion(ctx, id, nil)
}

func (s *Store) recordVersion(ctx context.Context, id string, version *string) (Record, error) {
	out, err := s.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: aws.String(TaskKey(id)), VersionId: version})
	if err != nil {
		return Record{}, s.readError(err, "read the record of task %s", id)
	}
	data, err := readAll(out.Body)
	if err != nil {
		return Record{}, fmt.Errorf("read the record of task %s: %w", id, err)
	}
	t, err := task.Decode(data)
	if err != nil {
		return Record{}, fmt.Errorf("task %s: %w: %w", id, ErrDamaged, err)
	}
	if t.ID != id {
		return Record{}, fmt.Errorf("task %s: %w: it names the task %q", id, ErrDamaged, t.ID)
	}
	return Record{Task: t, ETag: aws.ToString(out.ETag), VersionID: aws.ToString(out.VersionId)}, nil
}

// Write stores the next state of a task over the one that was read: it creates
// the record if prev is not stored, and replaces it otherwise. It succeeds only
// if nobody wrote in between, and then once: a write of our own whose response was
// lost is recognized by its write id. Otherwise the error is a
// [*ConflictError] with what stands there, or [ErrGone]; any other error leaves open
// whether the write took place.
func (s *Store) Write(ctx context.Context, prev Record, next task.Task) (Record, error) {
	next.WriteID = uuid.NewString()
	const tries = 5
	var err error
	for try := range tries {
		var out *s3.PutObjectOutput
		out, err = s.api.PutObject(ctx, s.putInput(prev, next))
		if err == nil {
			return Record{Task: next, ETag: aws.ToString(out.ETag), VersionID: aws.ToString(out.VersionId)}, nil
		}
		if prev.Stored() && awserr.IsNotFound(err) {
			return Record{}, fmt.Errorf("write the record of task %s: %w", next.ID, ErrGone)
		}
		current, again, failed := s.afterFailedWrite(ctx, prev, next, err)
		if !again {
			return current, failed
		}
		if failed = pause(ctx, try); failed != nil {
			return Record{}, failed
		}
	}
	return Record{}, fmt.Errorf("write the record of task %s: %w", next.ID, err)
}

func (s *Store) putInput(prev Record, next task.Task) *s3.PutObjectInput {
	in := &s3.PutObjectInput{
		Bucket:      &s.bucket,
		Key:         aws.String(TaskKey(next.ID)),
		Body:        bytes.NewReader(next.Encode()),
		ContentType: aws.String(contentType),
	}
	if prev.Stored() {
		in.IfMatch = aws.String(prev.ETag)
	} else {
		in.IfNoneMatch = aws.String("*")
	}
	if next.Status.Terminal() {
		in.Tagging = aws.String(FinishedTag)
	}
	return in
}

// afterFailedWrite reads what stands after a write failed. It says to try again when nothing
// stands in the way of another try.
func (s *Store) afterFailedWrite(ctx context.Context, prev Record, next task.Task, writeErr error) (_ Record, again bool, _ error) {
	lost := awserr.IsPreconditionFailed(writeErr)
	raced := awserr.IsConflict(writeErr)
	current, err := s.Record(ctx, next.ID)
	switch {
	case err == nil && current.Task.WriteID == next.WriteID:
		return current, false, nil
	case err == nil && current.ETag != prev.ETag:
		return Record{}, false, &ConflictError{Current: current}
	case errors.Is(err, ErrNotFound) && prev.Stored():
		return Record{}, false, fmt.Errorf("write the record of task %s: %w", next.ID, ErrGone)
	case raced && (err == nil || errors.Is(err, ErrNotFound)):
		return Record{}, true, nil
	case lost && (err == nil || errors.Is(err, ErrNotFound)):
		// What stood in the way is gone again, or an old answer came late.
		return Record{}, true, nil
	case errors.Is(err, ErrDamaged):
		return Record{}, false, err
	}
	return Record{}, false, fmt.Errorf("write the record of task %s: %w", next.ID, writeErr)
}

// Versions reads every stored version of a task's record, oldest first.
// [ErrNotFound] means that there is none.
func (s *Store) Versions(ctx context.Context, id string) ([]Record, error) {
	ids, err := s.versionIDs(ctx, TaskKey(id))
	if err != nil {
		return nil, fmt.Errorf("list the versions of task %s: %w", id, err)
	}
	records := make([]Record, 0, len(ids))
	for i := len(ids) - 1; i >= 0; i-- { // S3 lists the newest first
		rec, err := s.recordVersion(ctx, id, &ids[i])
		if errors.Is(err, ErrNotFound) { // expired since it was listed
			continue
		}
		if err != nil {
			return nil, err
		}
		records = append(records, rec)
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("list the versions of task %s: %w", id, ErrNotFound)
	}
	return records, nil
}

// versionIDs lists the versions of exactly this key, newest first.
func (s *Store) versionIDs(ctx context.Context, key string) ([]string, error) {
	var ids []string
	pages := s3.NewListObjectVersionsPaginator(s.api, &s3.ListObjectVersionsInput{Bucket: &s.bucket, Prefix: &key})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, s.explain(err)
		}
		for _, v := range page.Versions {
			if aws.ToString(v.Key) == key {
				ids = append(ids, aws.ToString(v.VersionId))
			}
		}
	}
	return ids, nil
}

// readError words a failed read and makes a missing object [ErrNotFound].
func (s *Store) readError(err error, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	if awserr.IsNotFound(err) || awserr.IsDeleteMarker(err) {
		return fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	return fmt.Errorf("%s: %w", what, s.explain(err))
}

// explain adds what the user can do about a bucket that does not exist or may not be used.
func (s *Store) explain(err error) error {
	switch {
	case awserr.IsNoSuchBucket(err):
		return fmt.Errorf("the bucket %s does not exist here, check its name, the region and the endpoint: %w", s.bucket, err)
	case awserr.IsAccessDenied(err):
		return fmt.Errorf("access to the bucket %s is denied, check the credentials and their policy (reading a missing object needs s3:ListBucket): %w", s.bucket, err)
	}
	return err
}

func readAll(body io.ReadCloser) ([]byte, error) {
	defer body.Close()
	return io.ReadAll(body)
}

// pause waits a little longer with every try.
func pause(ctx context.Context, try int) error {
	timer := time.NewTimer(20 * time.Millisecond << try)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
