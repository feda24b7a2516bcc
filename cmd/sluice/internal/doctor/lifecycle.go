package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sluice-dev/sluice/shared/awserr"
	"github.com/sluice-dev/sluice/shared/s3store"
)

// The areas of the bucket that hold live tasks.
const (
	tasksArea    = "tasks/"
	payloadsArea = "payloads/"
)

// checkLifecycle asks whether finished tasks are removed some day, and live ones never.
func (e *examination) checkLifecycle(ctx context.Context) Finding {
	if !e.reachable {
		return notChecked(noBucket)
	}
	out, err := e.objects.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: &e.Bucket})
	switch {
	case awserr.Code(err) == "NoSuchLifecycleConfiguration":
		return failed(redeploy, "there are no rules: finished tasks are kept, and paid for, for ever")
	case err != nil:
		return e.unable(err, "s3:GetLifecycleConfiguration", redeploy)
	}
	if rule, area := losesLiveTasks(out.Rules); rule != "" {
		return failed("remove or narrow that rule: finished tasks have the tag "+s3store.FinishedTag,
			"the rule %q removes live tasks, it expires objects under %s whatever their tags", rule, area)
	}
	if missing := missingRules(out.Rules); len(missing) > 0 {
		return failed(redeploy, "%s", strings.Join(missing, "; "))
	}
	return ok("finished tasks are removed, live ones never")
}

// losesLiveTasks finds a rule that removes what is not finished.
func losesLiveTasks(rules []types.LifecycleRule) (rule, area string) {
	for _, r := range rules {
		if r.Status != types.ExpirationStatusEnabled || !expires(r) || hasFinishedTag(r) {
			continue
		}
		for _, area := range []string{s3store.InboxPrefix, tasksArea, payloadsArea} {
			if p := prefixOf(r); strings.HasPrefix(area, p) || strings.HasPrefix(p, area) {
				return aws.ToString(r.ID), area
			}
		}
	}
	return "", ""
}

// missingRules says what is kept for ever.
func missingRules(rules []types.LifecycleRule) (missing []string) {
	covers := func(area string, does func(types.LifecycleRule) bool) bool {
		for _, r := range rules {
			if r.Status == types.ExpirationStatusEnabled && strings.HasPrefix(area, prefixOf(r)) && does(r) {
				return true
			}
		}
		return false
	}
	finished := func(r types.LifecycleRule) bool { return expires(r) && hasFinishedTag(r) }
	replaced := func(r types.LifecycleRule) bool {
		return r.NoncurrentVersionExpiration != nil && aws.ToInt32(r.NoncurrentVersionExpiration.NoncurrentDays) > 0
	}
	for _, area := range []string{tasksArea, payloadsArea} {
		if !covers(area, finished) {
			missing = append(missing, fmt.Sprintf("no rule expires objects under %s with the tag %s", area, s3store.FinishedTag))
		}
		if !covers(area, replaced) {
			missing = append(missing, "no rule removes old versions under "+area)
		}
	}
	return missing
}

// expires tells whether a rule removes current versions.
func expires(r types.LifecycleRule) bool {
	return r.Expiration != nil && (aws.ToInt32(r.Expiration.Days) > 0 || r.Expiration.Date != nil)
}

func prefixOf(r types.LifecycleRule) string {
	switch f := r.Filter; {
	case f == nil:
		return aws.ToString(r.Prefix) //nolint:staticcheck // older rules have it
	case f.And != nil:
		return aws.ToString(f.And.Prefix)
	default:
		return aws.ToString(f.Prefix)
	}
}

// hasFinishedTag tells whether a rule is for objects of finished tasks only.
func hasFinishedTag(r types.LifecycleRule) bool {
	if r.Filter == nil {
		return false
	}
	var tags []types.Tag
	if r.Filter.Tag != nil {
		tags = append(tags, *r.Filter.Tag)
	}
	if r.Filter.And != nil {
		tags = append(tags, r.Filter.And.Tags...)
	}
	for _, t := range tags {
		if aws.ToString(t.Key)+"="+aws.ToString(t.Value) == s3store.FinishedTag {
			return true
		}
	}
	return false
}
