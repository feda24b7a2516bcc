package worker_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"

	"github.com/sluice-dev/sluice/localstack/sluicetest"
	"github.com/sluice-dev/sluice/shared/s3store"
)

// keys lists the objects below a prefix.
func keys(t *testing.T, s *sluicetest.Stack, prefix string) []string {
	t.Helper()
	out, err := s3store.NewClient(s.Config("test")).ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &s.Bucket, Prefix: &prefix})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, object := range out.Contents {
		keys = append(keys, aws.ToString(object.Key))
	}
	return keys
}

// assertNothingLeft waits until every wake-up has fired and then looks for what
// a finished task must not leave behind.
func assertNothingLeft(t *testing.T, s *sluicetest.Stack) {
	t.Helper()
	time.Sleep(2 * time.Hour)
	if left := keys(t, s, "inbox/"); len(left) > 0 {
		t.Errorf("left in the inbox: %v", left)
	}
	versions, err := s3store.NewClient(s.Config("test")).ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: &s.Bucket})
	if err != nil {
		t.Fatal(err)
	}
	for _, marker := range versions.DeleteMarkers {
		t.Errorf("left a delete marker: %s", aws.ToString(marker.Key))
	}
	schedules, err := scheduler.NewFromConfig(s.Config("test")).ListSchedules(t.Context(), &scheduler.ListSchedulesInput{GroupName: &s.ScheduleGroup})
	if err != nil {
		t.Fatal(err)
	}
	for _, schedule := range schedules.Schedules {
		t.Errorf("left a schedule: %s", aws.ToString(schedule.Name))
	}
	for _, m := range s.Cloud.SQS().Messages(s.DeadLetters) {
		t.Errorf("left a dead letter: %s", m.Body)
	}
}
