package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// emptyBucket removes every version and delete marker of a bucket. A bucket that is not there is empty.
func emptyBucket(ctx context.Context, bucket string) error {
	settings, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return fmt.Errorf("emptying %s: %w", bucket, err)
	}
	client := s3.NewFromConfig(settings, func(o *s3.Options) { o.UsePathStyle = o.BaseEndpoint != nil })

	pages := s3.NewListObjectVersionsPaginator(client, &s3.ListObjectVersionsInput{Bucket: &bucket})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if missing := (*types.NoSuchBucket)(nil); errors.As(err, &missing) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("emptying %s: %w", bucket, err)
		}
		if err := deleteVersions(ctx, client, bucket, page); err != nil {
			return fmt.Errorf("emptying %s: %w", bucket, err)
		}
	}

	return nil
}

// deleteVersions removes what one page of the listing holds: at most 1,000, as many as one request takes.
func deleteVersions(ctx context.Context, client *s3.Client, bucket string, page *s3.ListObjectVersionsOutput) error {
	var doomed []types.ObjectIdentifier
	for _, version := range page.Versions {
		doomed = append(doomed, types.ObjectIdentifier{Key: version.Key, VersionId: version.VersionId})
	}
	for _, marker := range page.DeleteMarkers {
		doomed = append(doomed, types.ObjectIdentifier{Key: marker.Key, VersionId: marker.VersionId})
	}
	if len(doomed) == 0 {
		return nil
	}
	result, err := client.DeleteObjects(ctx, &s3.DeleteObjectsInput{
		Bucket: &bucket,
		Delete: &types.Delete{Objects: doomed, Quiet: aws.Bool(true)},
	})
	if err != nil {
		return err
	}
	if len(result.Errors) > 0 {
		first := result.Errors[0]

		return fmt.Errorf("%d objects stay, %s among them: %s", len(result.Errors), aws.ToString(first.Key), aws.ToString(first.Message))
	}

	return nil
}
