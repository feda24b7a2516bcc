package sweep_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/sluice-dev/sluice/localstack/sluicetest"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/sweep"
	"github.com/sluice-dev/sluice/shared/worker"
)

func TestTheFunctionRemovesWhatIsLeftOfExpiredRecords(t *testing.T) {
	t.Parallel()
	s := sluicetest.Start(t, worker.NewMux(), sluicetest.NoSweep())
	client := s3store.NewClient(s.Config("lifecycle"))
	key := s3store.TaskKey("finished")
	if _, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &s.Bucket, Key: &key, Body: strings.NewReader("{}")}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &s.Bucket, Key: &key}); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{sweep.EnvBucket: s.Bucket, sweep.EnvClaimARN: s.Function}
	sweeper, err := sweep.FromEnvironment(s.Config("sweep"), func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	report, err := sweeper.Handle(t.Context(), json.RawMessage("{}"))
	if err != nil || report.Retention == nil || report.Retention.Removed != 2 {
		t.Errorf("report = %+v, %v", report, err)
	}
	left, err := client.ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: &s.Bucket, Prefix: aws.String("tasks/")})
	if err != nil || len(left.Versions)+len(left.DeleteMarkers) != 0 {
		t.Errorf("left are %v %v, %v", left.Versions, left.DeleteMarkers, err)
	}
}

func TestAnUnusableTimeBetweenRemovalsIsRefused(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"daily", "0s", "-1h"} {
		env := map[string]string{sweep.EnvBucket: "b", sweep.EnvClaimARN: "f", sweep.EnvRetentionEvery: value}
		_, err := sweep.FromEnvironment(aws.Config{}, func(name string) string { return env[name] })
		if err == nil || !strings.Contains(err.Error(), sweep.EnvRetentionEvery) {
			t.Errorf("%s: %v", value, err)
		}
	}
}
