package main

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/sluice-dev/sluice/shared/awserr"
	"github.com/sluice-dev/sluice/shared/s3store"
)

// emptyBucket removes every version and delete marker of a bucket. A bucket that is not there is empty.
func emptyBucket(ctx context.Context, bucket string) error {
	settings, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return fmt.Errorf("emptying %s: %w", bucket, err)
	}
	_, err = s3store.New(s3store.NewClient(settings), bucket).Empty(ctx, nil)
	if awserr.IsNoSuchBucket(err) {
		return nil
	}

	return err
}
