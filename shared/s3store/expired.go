package s3store

import (
	"bytes"
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// retentionCursorKey is where the removal of expired records remembers how far it has come.
const retentionCursorKey = "sweep/retention.json"

// ExpiredRecords goes through the versions of all records and removes those of records
// that are deleted: whose newest version is a delete marker. S3's lifecycle puts one on the record of a
// finished task when its retention is over, and leaves the versions below it.
type ExpiredRecords struct {
	store *Store
	after string // the last key that is done

	nextKey, nextVersion *string
	// marker is the delete marker of the key that the last page broke off in.
	marker *types.ObjectIdentifier
}

// ExpiredRecords starts behind a key, from the start if it is empty.
func (s *Store) ExpiredRecords(after string) *ExpiredRecords {
	x := &ExpiredRecords{store: s, after: after}
	if after != "" {
		x.nextKey = &after
	}
	return x
}

// After is the key behind which to go on another time.
func (x *ExpiredRecords) After() string { return x.after }

// Next looks at the next thousand versions, delete markers included, and removes what is expired.
// More says that there are others. After an error it can be called again.
func (x *ExpiredRecords) Next(ctx context.Context) (listed, removed int, more bool, err error) {
	s := x.store
	page, err := s.api.ListObjectVersions(ctx, &s3.ListObjectVersionsInput{
		Bucket: &s.bucket, Prefix: aws.String(tasksPrefix), KeyMarker: x.nextKey, VersionIdMarker: x.nextVersion,
	})
	if err != nil {
		return 0, 0, false, fmt.Errorf("list the versions of %s: %w", tasksPrefix, s.explain(err))
	}
	more = aws.ToBool(page.IsTruncated)
	doomed, markers := x.expiredOn(page)
	var unfinished *types.ObjectIdentifier
	for key, marker := range markers {
		// While a version is left its marker stays, so that what failed half-way is found again.
		if more && key == aws.ToString(page.NextKeyMarker) {
			unfinished = &marker
			continue
		}
		doomed = append(doomed, marker)
	}
	if err := s.deleteVersions(ctx, doomed); err != nil {
		return 0, 0, false, fmt.Errorf("remove the versions of expired records: %w", err)
	}
	x.marker = unfinished
	x.after = lastDone(page, x.after)
	x.nextKey, x.nextVersion = page.NextKeyMarker, page.NextVersionIdMarker
	return len(page.Versions) + len(page.DeleteMarkers), len(doomed), more, nil
}

// expiredOn returns the versions on a page that are below a delete marker, and those
// markers by their keys. S3 lists the newest version of a key first.
func (x *ExpiredRecords) expiredOn(page *s3.ListObjectVersionsOutput) (below []types.ObjectIdentifier, markers map[string]types.ObjectIdentifier) {
	markers = make(map[string]types.ObjectIdentifier)
	if x.marker != nil {
		markers[*x.marker.Key] = *x.marker
	}
	for _, m := range page.DeleteMarkers {
		if aws.ToBool(m.IsLatest) {
			markers[*m.Key] = types.ObjectIdentifier{Key: m.Key, VersionId: m.VersionId}
		}
	}
	add := func(key, version *string) {
		marker, expired := markers[*key]
		if expired && *marker.VersionId != *version {
			below = append(below, types.ObjectIdentifier{Key: key, VersionId: version})
		}
	}
	for _, v := range page.Versions {
		add(v.Key, v.VersionId)
	}
	for _, m := range page.DeleteMarkers {
		add(m.Key, m.VersionId)
	}
	return below, markers
}

// lastDone is the last key of which this page or an earlier one holds the end.
func lastDone(page *s3.ListObjectVersionsOutput, after string) string {
	see := func(key string) {
		open := aws.ToBool(page.IsTruncated) && key == aws.ToString(page.NextKeyMarker)
		if !open && key > after {
			after = key
		}
	}
	for _, v := range page.Versions {
		see(aws.ToString(v.Key))
	}
	for _, m := range page.DeleteMarkers {
		see(aws.ToString(m.Key))
	}
	return after
}

// RetentionCursor reads what [Store.SetRetentionCursor] wrote last. [ErrNotFound] means that there is none.
func (s *Store) RetentionCursor(ctx context.Context) ([]byte, error) {
	out, err := s.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: aws.String(retentionCursorKey)})
	if err != nil {
		return nil, s.readError(err, "read %s", retentionCursorKey)
	}
	data, err := readAll(out.Body)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", retentionCursorKey, err)
	}
	return data, nil
}

// SetRetentionCursor writes the cursor.
func (s *Store) SetRetentionCursor(ctx context.Context, data []byte) error {
	_, err := s.api.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &s.bucket, Key: aws.String(retentionCursorKey), Body: bytes.NewReader(data), ContentType: aws.String(contentType),
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", retentionCursorKey, s.explain(err))
	}
	return nil
}
