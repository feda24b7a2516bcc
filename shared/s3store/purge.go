package s3store

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sluice-dev/sluice/shared/task"
)

// PurgeInbox deletes every version of a task's inbox object, delete markers
// included, and returns how many there were.
func (s *Store) PurgeInbox(ctx context.Context, id string) (int, error) {
	return s.purge(ctx, InboxKey(id))
}

// PurgeRecord deletes every version of a task's record, as [Store.PurgeInbox]
// does. The newest goes last: while there is something to read, it is the latest state.
func (s *Store) PurgeRecord(ctx context.Context, id string) (int, error) {
	return s.purge(ctx, TaskKey(id))
}

// PurgePayloads deletes every version of every payload of a task.
func (s *Store) PurgePayloads(ctx context.Context, id string) (int, error) {
	return s.purge(ctx, task.PayloadPrefix(id))
}

// purge deletes all versions of the object of this key; when it ends with a slash, of all
// objects below it.
func (s *Store) purge(ctx context.Context, key string) (int, error) {
	latest, older, err := s.everyVersion(ctx, key)
	if err != nil {
		return 0, fmt.Errorf("list the versions of %s: %w", key, s.explain(err))
	}
	for _, versions := range [][]types.ObjectIdentifier{older, latest} {
		if err := s.deleteVersions(ctx, versions); err != nil {
			return 0, fmt.Errorf("delete the versions of %s: %w", key, err)
		}
	}
	return len(latest) + len(older), nil
}

// everyVersion lists versions and delete markers, those that are current apart
// from the older ones.
func (s *Store) everyVersion(ctx context.Context, key string) (latest, older []types.ObjectIdentifier, err error) {
	add := func(k, version *string, isLatest *bool) {
		if below := key[len(key)-1] == '/'; !below && aws.ToString(k) != key {
			return
		}
		id := types.ObjectIdentifier{Key: k, VersionId: version}
		if aws.ToBool(isLatest) {
			latest = append(latest, id)
		} else {
			older = append(older, id)
		}
	}
	pages := s3.NewListObjectVersionsPaginator(s.api, &s3.ListObjectVersionsInput{Bucket: &s.bucket, Prefix: &key})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, nil, err
		}
		for _, v := range page.Versions {
			add(v.Key, v.VersionId, v.IsLatest)
		}
		for _, m := range page.DeleteMarkers {
			add(m.Key, m.VersionId, m.IsLatest)
		}
	}
	return latest, older, nil
}

// deleteVersions deletes versions, which leaves no delete markers. One that is
// gone already is no error.
func (s *Store) deleteVersions(ctx context.Context, versions []types.ObjectIdentifier) error {
	const atOnce = 1000 // the most that S3 takes
	for batch := range slices.Chunk(versions, atOnce) {
		out, err := s.api.DeleteObjects(ctx, &s3.DeleteObjectsInput{
			Bucket: &s.bucket, Delete: &types.Delete{Objects: batch, Quiet: aws.Bool(true)},
		})
		if err != nil {
			return s.explain(err)
		}
		for _, e := range out.Errors {
			if code := aws.ToString(e.Code); code != "NoSuchKey" && code != "NoSuchVersion" {
				return fmt.Errorf("%d versions could not be deleted, the first was version %s of %s: %s: %s",
					len(out.Errors), aws.ToString(e.VersionId), aws.ToString(e.Key), code, aws.ToString(e.Message))
			}
		}
	}
	return nil
}
