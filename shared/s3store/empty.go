package s3store

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// Empty deletes everything in the bucket, live tasks included: every version of every
// object, and every delete marker. It is for taking a queue down, since a bucket that is not empty
// can't be deleted. Progress, which may be nil, is told how many are gone so far.
func (s *Store) Empty(ctx context.Context, progress func(deleted int)) (deleted int, err error) {
	pages := s3.NewListObjectVersionsPaginator(s.api, &s3.ListObjectVersionsInput{Bucket: &s.bucket})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return deleted, fmt.Errorf("empty the bucket %s: %w", s.bucket, s.explain(err))
		}
		doomed := make([]types.ObjectIdentifier, 0, len(page.Versions)+len(page.DeleteMarkers))
		for _, v := range page.Versions {
			doomed = append(doomed, types.ObjectIdentifier{Key: v.Key, VersionId: v.VersionId})
		}
		for _, m := range page.DeleteMarkers {
			doomed = append(doomed, types.ObjectIdentifier{Key: m.Key, VersionId: m.VersionId})
		}
		if err := s.deleteVersions(ctx, doomed); err != nil {
			return deleted, fmt.Errorf("empty the bucket %s: %w", s.bucket, err)
		}
		deleted += len(doomed)
		if progress != nil {
			progress(deleted)
		}
	}
	return deleted, nil
}
