package retention_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/shared/retention"
	"github.com/sluice-dev/sluice/shared/s3store"
)

// bundle is a bucket with records and what removes them.
type bundle struct {
	*testing.T

	cloud  *cloud.Cloud
	client *s3.Client
	now    time.Time
}

const bucket = "tasks"

func setup(t *testing.T) *bundle {
	t.Helper()
	c := cloud.New(cloud.Options{})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &bundle{T: t, cloud: c, client: s3store.NewClient(c.Config(cloud.Label("test"))), now: time.Now()}
	_, err := b.client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(bucket)})
	if err == nil {
		_, err = b.client.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{
			Bucket:                  aws.String(bucket),
			VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// record writes versions of a record; expire does what S3's lifecycle does to it.
func (b *bundle) record(key string, versions int) {
	b.Helper()
	for i := range versions {
		_, err := b.client.PutObject(b.Context(), &s3.PutObjectInput{
			Bucket: aws.String(bucket), Key: &key, Body: strings.NewReader(fmt.Sprint(i)),
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func (b *bundle) expire(key string) {
	b.Helper()
	if _, err := b.client.DeleteObject(b.Context(), &s3.DeleteObjectInput{Bucket: aws.String(bucket), Key: &key}); err != nil {
		b.Fatal(err)
	}
}

// left counts versions and delete markers by key, all under a prefix.
func (b *bundle) left(prefix string) map[string]int {
	b.Helper()
	left := make(map[string]int)
	pages := s3.NewListObjectVersionsPaginator(b.client, &s3.ListObjectVersionsInput{Bucket: aws.String(bucket), Prefix: &prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		for _, v := range page.Versions {
			left[*v.Key]++
		}
		for _, m := range page.DeleteMarkers {
			left[*m.Key]++
		}
	}
	return left
}

func (b *bundle) remover(change func(*retention.Config)) *retention.Remover {
	b.Helper()
	c := retention.Config{
		Store: s3store.New(s3store.NewClient(b.cloud.Config(cloud.Label("retention"))), bucket),
		Log:   slog.New(slog.DiscardHandler),
		Now:   func() time.Time { return b.now },
	}
	if change != nil {
		change(&c)
	}
	r, err := retention.New(c)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func (b *bundle) run(r *retention.Remover) retention.Report {
	b.Helper()
	report, err := r.Run(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return report
}

func TestVersionsOfExpiredRecordsAreRemovedAndNoOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.record("tasks/0/expired.json", 3)
	b.expire("tasks/0/expired.json")
	b.record("tasks/0/live.json", 4)
	b.record("tasks/1/again.json", 2) // its id came back after it had expired
	b.expire("tasks/1/again.json")
	b.record("tasks/1/again.json", 1)
	b.record("tasks/f/last.json", 1)
	b.expire("tasks/f/last.json")
	b.expire("tasks/f/last.json") // two markers
	b.record("inbox/0/submission.json", 1)
	b.expire("inbox/0/submission.json")

	report := b.run(b.remover(nil))
	if want := (retention.Report{Due: true, Listed: 15, Removed: 7, Round: true}); report != want {
		t.Errorf("report = %+v, want %+v", report, want)
	}
	if got, want := fmt.Sprint(b.left("tasks/")), "map[tasks/0/live.json:4 tasks/1/again.json:4]"; got != want {
		t.Errorf("left are %s, want %s", got, want)
	}
	if got := b.left("inbox/"); len(got) != 1 {
		t.Errorf("left in the inbox are %v", got)
	}
}

func TestARoundIsDoneOncePerDay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.remover(nil)
	for _, step := range []struct {
		after time.Duration
		due   bool
	}{{0, true}, {5 * time.Minute, false}, {24*time.Hour - 5*time.Minute - 1, false}, {1, true}, {time.Hour, false}} {
		b.now = b.now.Add(step.after)
		before := b.cloud.Requests().Snapshot()
		if report := b.run(r); report.Due != step.due || report.Round != step.due {
			t.Errorf("after %v: %+v", step.after, report)
		}
		requests := b.cloud.Requests().Snapshot().Diff(before)
		if lists := requests.Of(cloud.S3, "ListObjectVersions"); (lists == 1) != step.due {
			t.Errorf("after %v: %d listings", step.after, lists)
		}
	}
}

func TestARoundGoesOnWhereTheRunBeforeStopped(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const tasks, versions = 400, 3 // two pages, with keys that are split between them
	for i := range tasks {
		key := fmt.Sprintf("tasks/%x/t%04d.json", i*16/tasks, i)
		b.record(key, versions)
		if i%2 == 0 {
			b.expire(key)
		}
	}
	r := b.remover(func(c *retention.Config) { c.MaxPages = 1 })
	total := retention.Report{}
	for runs := 1; ; runs++ {
		report := b.run(r)
		total.Removed += report.Removed
		if report.Round {
			break
		}
		if runs > 10 {
			t.Fatal("it does not end")
		}
	}
	if want := tasks / 2 * (versions + 1); total.Removed != want {
		t.Errorf("removed %d, want %d", total.Removed, want)
	}
	if left := b.left("tasks/"); len(left) != tasks/2 {
		t.Errorf("%d records are left, want %d", len(left), tasks/2)
	}
}

func TestARecordWithThousandsOfVersionsIsRemovedWhole(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.record("tasks/0/a.json", 1)
	b.record("tasks/0/slept-for-years.json", 1100)
	b.expire("tasks/0/slept-for-years.json")
	b.record("tasks/0/z.json", 1)
	b.run(b.remover(nil))
	if got, want := fmt.Sprint(b.left("tasks/")), "map[tasks/0/a.json:1 tasks/0/z.json:1]"; got != want {
		t.Errorf("left are %s, want %s", got, want)
	}
}

// What fails is found again: the delete marker goes last.
func TestAFailureIsMadeUpForByTheNextRun(t *testing.T) {
	t.Parallel()
	for _, action := range []string{"ListObjectVersions", "DeleteObjects", "PutObject", "GetObject"} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.record("tasks/0/expired.json", 3)
			b.expire("tasks/0/expired.json")
			r := b.remover(nil)
			b.cloud.FailNext(1, cloud.Fault{Status: 403, Code: "AccessDenied"}, func(r *cloud.Request) bool {
				return r.Client == "retention" && r.Operation == action
			})
			if _, err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "AccessDenied") {
				t.Fatalf("error = %v", err)
			}
			b.run(r)
			if left := b.left("tasks/"); len(left) != 0 {
				t.Errorf("left are %v", left)
			}
		})
	}
}

func TestADamagedCursorStartsOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.record("tasks/0/expired.json", 1)
	b.expire("tasks/0/expired.json")
	_, err := b.client.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: aws.String(bucket), Key: aws.String("sweep/retention.json"), Body: strings.NewReader(`{"after":`),
	})
	if err != nil {
		t.Fatal(err)
	}
	if report := b.run(b.remover(nil)); report.Removed != 2 {
		t.Errorf("report = %+v", report)
	}
}

func TestARunWhoseTimeIsOverIsNoError(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.record("tasks/0/expired.json", 1)
	b.cloud.SetLatency(cloud.S3, 300*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	report, err := b.remover(nil).Run(ctx)
	if report.Round || (err != nil && !slices.ContainsFunc([]string{"deadline", "canceled"}, func(s string) bool { return strings.Contains(err.Error(), s) })) {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestUnusableSettingsAreRefused(t *testing.T) {
	t.Parallel()
	store := s3store.New(nil, bucket)
	for _, c := range []retention.Config{{}, {Store: store, Every: -1}, {Store: store, MaxPages: -1}} {
		if _, err := retention.New(c); err == nil {
			t.Errorf("accepted: %+v", c)
		}
	}
}
