package stack

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sluice-dev/sluice/shared/s3store"
)

// Retention of the deployed stack unless configured otherwise, in days.
const (
	retention = 30
	oneDay    = 1
	// keptVersions of a record outlive the retention, the newest ones.
	keptVersions = 100
)

// lifecycle are the rules that the stack on AWS has. The embedded S3 keeps them and does not
// act on them: nothing expires on this machine.
func lifecycle() *types.BucketLifecycleConfiguration {
	key, value, _ := strings.Cut(s3store.FinishedTag, "=")
	finished := types.Tag{Key: &key, Value: &value}
	expireFinished := func(id, prefix string) types.LifecycleRule {
		return types.LifecycleRule{
			ID: &id, Status: types.ExpirationStatusEnabled, Expiration: &types.LifecycleExpiration{Days: aws.Int32(retention)},
			Filter: &types.LifecycleRuleFilter{And: &types.LifecycleRuleAndOperator{Prefix: &prefix, Tags: []types.Tag{finished}}},
		}
	}
	expireOld := func(id, prefix string, days int32, kept *int32) types.LifecycleRule {
		return types.LifecycleRule{
			ID: &id, Status: types.ExpirationStatusEnabled, Filter: &types.LifecycleRuleFilter{Prefix: &prefix},
			NoncurrentVersionExpiration: &types.NoncurrentVersionExpiration{NoncurrentDays: &days, NewerNoncurrentVersions: kept},
		}
	}
	quarantine := expireOld("quarantine", "quarantine/", oneDay, nil)
	quarantine.Expiration = &types.LifecycleExpiration{Days: aws.Int32(retention)}
	return &types.BucketLifecycleConfiguration{Rules: []types.LifecycleRule{
		expireFinished("finished-tasks", "tasks/"),
		expireOld("old-versions-of-records", "tasks/", retention, aws.Int32(keptVersions)),
		expireFinished("payloads-of-finished-tasks", "payloads/"),
		expireOld("old-versions-of-payloads", "payloads/", oneDay, nil),
		expireOld("old-versions-of-submissions", s3store.InboxPrefix, retention, nil),
		quarantine,
		expireOld("old-versions-of-the-sweep", "sweep/", oneDay, nil),
		{
			ID: aws.String("unfinished-uploads"), Status: types.ExpirationStatusEnabled, Filter: &types.LifecycleRuleFilter{Prefix: aws.String("")},
			AbortIncompleteMultipartUpload: &types.AbortIncompleteMultipartUpload{DaysAfterInitiation: aws.Int32(oneDay)},
		},
		{
			ID: aws.String("bare-delete-markers"), Status: types.ExpirationStatusEnabled, Filter: &types.LifecycleRuleFilter{Prefix: aws.String("")},
			Expiration: &types.LifecycleExpiration{ExpiredObjectDeleteMarker: aws.Bool(true)},
		},
	}}
}
