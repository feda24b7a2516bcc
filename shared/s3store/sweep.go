package s3store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sluice-dev/sluice/shared/awserr"
)

// sweepCursorKey is where the sweep remembers how far it has come.
const sweepCursorKey = "sweep/cursor.json"

// InboxPrefix is what the key of every inbox object starts with.
const InboxPrefix = inboxPrefix

// ErrCursorMoved means that another sweep has written the cursor since it was read.
var ErrCursorMoved = errors.New("another sweep has moved the cursor")

// Entry is an object under inbox/, whatever its name.
type Entry struct {
	Key string
	// ID is the task that the key names, empty for a key that names none.
	ID string
	// ModifiedAt is when the object was written, in whole seconds.
	ModifiedAt time.Time
}

// ScanInbox lists up to limit (at most 1,000) objects under inbox/ in the order of their keys, which is
// shard by shard, from behind the key after; an empty one means from the start. Nothing is left out:
// keys that name no task are listed too. More says that the listing goes on.
func (s *Store) ScanInbox(ctx context.Context, after string, limit int) (entries []Entry, more bool, err error) {
	listed, err := s.listKeys(ctx, inboxPrefix, after, limit)
	if err != nil {
		return nil, false, err
	}
	for i := range listed.Entries {
		e := &listed.Entries[i]
		if id, err := InboxID(e.Key); err == nil {
			e.ID = id
		}
	}
	return listed.Entries, listed.More, nil
}

// keyPage is one page of all keys below a prefix.
type keyPage struct {
	Entries []Entry // without IDs
	More    bool
}

// listKeys lists the objects below a prefix in the order of their keys, from
// behind the key after (empty: from the start).
func (s *Store) listKeys(ctx context.Context, prefix, after string, limit int) (keyPage, error) {
	in := &s3.ListObjectsV2Input{
		Bucket: &s.bucket, Prefix: &prefix, MaxKeys: aws.Int32(int32(min(limit, 1000))),
		// A key may hold characters that XML can't: unless they are encoded, one such key makes the whole page unreadable.
		EncodingType: types.EncodingTypeUrl,
	}
	if after != "" {
		in.StartAfter = &after
	}
	out, err := s.api.ListObjectsV2(ctx, in)
	if err != nil {
		return keyPage{}, fmt.Errorf("list %s: %w", prefix, s.explain(err))
	}
	page := keyPage{More: aws.ToBool(out.IsTruncated) && len(out.Contents) > 0, Entries: make([]Entry, 0, len(out.Contents))}
	for _, object := range out.Contents {
		entry := Entry{Key: aws.ToString(object.Key), ModifiedAt: aws.ToTime(object.LastModified)}
		if out.EncodingType == types.EncodingTypeUrl {
			if key, err := url.QueryUnescape(entry.Key); err == nil {
				entry.Key = key
			}
		}
		page.Entries = append(page.Entries, entry)
	}
	return page, nil
}

// SweepCursor reads what [Store.SetSweepCursor] wrote last, and its ETag. [ErrNotFound] means that there is
// none.
func (s *Store) SweepCursor(ctx context.Context) (data []byte, etag string, err error) {
	out, err := s.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: aws.String(sweepCursorKey)})
	if err != nil {
		return nil, "", s.readError(err, "read %s", sweepCursorKey)
	}
	if data, err = readAll(out.Body); err != nil {
		return nil, "", fmt.Errorf("read %s: %w", sweepCursorKey, err)
	}
	return data, aws.ToString(out.ETag), nil
}

// SetSweepCursor writes the sweep's cursor over the one of the ETag, or as the first one if it is
// empty, and returns the new ETag. [ErrCursorMoved] means that somebody else wrote it meanwhile.
func (s *Store) SetSweepCursor(ctx context.Context, data []byte, etag string) (string, error) {
	in := &s3.PutObjectInput{
		Bucket: &s.bucket, Key: aws.String(sweepCursorKey), Body: bytes.NewReader(data), ContentType: aws.String(contentType),
	}
	if etag != "" {
		in.IfMatch = &etag
	} else {
		in.IfNoneMatch = aws.String("*")
	}
	out, err := s.api.PutObject(ctx, in)
	switch {
	case awserr.IsPreconditionFailed(err), awserr.IsConflict(err), awserr.IsNotFound(err):
		return "", fmt.Errorf("write %s: %w", sweepCursorKey, ErrCursorMoved)
	case err != nil:
		return "", fmt.Errorf("write %s: %w", sweepCursorKey, s.explain(err))
	}
	return aws.ToString(out.ETag), nil
}
