package faultproof_test

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"

	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
)

// audit looks at the cloud as it is, without faults.
type audit struct {
	w      *world
	client *s3.Client
}

func (w *world) audit() audit {
	return audit{w, s3store.NewClient(w.config(auditClient, nil))}
}

func (a audit) bucket() *string { return &a.w.stack.Bucket }

func (a audit) must(err error) {
	if err != nil {
		a.w.t.Helper()
		a.w.t.Fatal(err)
	}
}

func (a audit) put(key, document string) (version string) {
	out, err := a.client.PutObject(context.Background(), &s3.PutObjectInput{Bucket: a.bucket(), Key: &key, Body: strings.NewReader(document)})
	a.must(err)
	return aws.ToString(out.VersionId)
}

func (a audit) keys(prefix string) []string {
	out, err := a.client.ListObjectsV2(context.Background(), &s3.ListObjectsV2Input{Bucket: a.bucket(), Prefix: &prefix})
	a.must(err)
	keys := make([]string, 0, len(out.Contents))
	for _, object := range out.Contents {
		keys = append(keys, aws.ToString(object.Key))
	}
	return keys
}

func (a audit) tags(key string) string {
	out, err := a.client.GetObjectTagging(context.Background(), &s3.GetObjectTaggingInput{Bucket: a.bucket(), Key: &key})
	a.must(err)
	tags := make([]string, 0, len(out.TagSet))
	for _, tag := range out.TagSet {
		tags = append(tags, aws.ToString(tag.Key)+"="+aws.ToString(tag.Value))
	}
	return strings.Join(tags, ",")
}

func (a audit) get(id string) task.Task {
	t, err := queue.New(a.w.config(auditClient, nil), a.w.stack.Bucket).Get(context.Background(), id)
	a.must(err)
	return t
}

// left lists what must not be left behind: anything in these areas, delete
// markers, schedules.
func (a audit) left(areas ...string) []string {
	var left []string
	out, err := a.client.ListObjectVersions(context.Background(), &s3.ListObjectVersionsInput{Bucket: a.bucket()})
	a.must(err)
	for _, v := range out.Versions {
		in := func(area string) bool { return strings.HasPrefix(aws.ToString(v.Key), area) }
		if slices.ContainsFunc(areas, in) {
			left = append(left, aws.ToString(v.Key))
		}
	}
	for _, marker := range out.DeleteMarkers {
		left = append(left, "the delete marker of "+aws.ToString(marker.Key))
	}
	schedules, err := scheduler.NewFromConfig(a.w.config(auditClient, nil)).ListSchedules(context.Background(), &scheduler.ListSchedulesInput{GroupName: &a.w.stack.ScheduleGroup})
	a.must(err)
	for _, s := range schedules.Schedules {
		left = append(left, "schedule "+aws.ToString(s.Name))
	}
	return left
}
