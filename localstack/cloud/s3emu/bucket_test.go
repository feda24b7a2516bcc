package s3emu_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sluice-dev/sluice/localstack/cloud/s3emu"
)

func TestBuckets(t *testing.T) {
	t.Parallel()
	b := setup(t, "Enabled", s3emu.Options{})
	create := func(name string) error {
		_, err := b.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(name)})
		return err
	}
	expect(t, "the same name", create(bucket), "409 BucketAlreadyOwnedByYou")
	for _, name := range []string{"ab", "Upper", "under_score", "dots..dots", "-dash", strings.Repeat("a", 64)} {
		expect(t, "name "+name, create(name), "400 InvalidBucketName")
	}
	expect(t, "another", create("schedules"), "ok")
	_, err := b.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("elsewhere"), CreateBucketConfiguration: &types.CreateBucketConfiguration{
		LocationConstraint: types.BucketLocationConstraintEuWest3}})
	expect(t, "in another Region", err, "ok")
	location := must(b.GetBucketLocation(t.Context(), &s3.GetBucketLocationInput{Bucket: aws.String("elsewhere")}))(t)
	home := must(b.GetBucketLocation(t.Context(), &s3.GetBucketLocationInput{Bucket: aws.String(bucket)}))(t)
	if location.LocationConstraint != "eu-west-3" || home.LocationConstraint != "" {
		t.Errorf("locations %q and %q", location.LocationConstraint, home.LocationConstraint)
	}
	var names []string
	for pages := s3.NewListBucketsPaginator(b, &s3.ListBucketsInput{MaxBuckets: aws.Int32(2)}); pages.HasMorePages(); {
		for _, listed := range must(pages.NextPage(t.Context()))(t).Buckets {
			names = append(names, *listed.Name)
		}
	}
	if !slices.Equal(names, []string{"elsewhere", "schedules", bucket}) {
		t.Errorf("listed %q", names)
	}
	head := must(b.HeadBucket(t.Context(), &s3.HeadBucketInput{Bucket: aws.String("elsewhere")}))(t)
	if *head.BucketRegion != "eu-west-3" {
		t.Errorf("region %s", *head.BucketRegion)
	}
	remove := func(name string) error {
		_, err := b.DeleteBucket(t.Context(), &s3.DeleteBucketInput{Bucket: aws.String(name)})
		return err
	}
	marker := b.delete(t, "k", "")
	expect(t, "DeleteBucket with a delete marker in it", remove(bucket), "409 BucketNotEmpty")
	b.delete(t, "k", *marker.VersionId)
	expect(t, "DeleteBucket", remove(bucket), "ok")
	expect(t, "again", remove(bucket), "404 NoSuchBucket")
	_, err = b.HeadBucket(t.Context(), &s3.HeadBucketInput{Bucket: aws.String(bucket)})
	expect(t, "HeadBucket", err, "404 NotFound")
	_, err = b.tryPut(t, "k", "x")
	expect(t, "PutObject", err, "404 NoSuchBucket")
	_, _, err = b.tryGet(t, "k", "")
	expect(t, "GetObject", err, "404 NoSuchBucket")
	_, err = b.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String(bucket)})
	expect(t, "ListObjectsV2", err, "404 NoSuchBucket")
	_, err = b.HeadBucket(t.Context(), &s3.HeadBucketInput{Bucket: aws.String("schedules"), ExpectedBucketOwner: aws.String("111111111111")})
	expect(t, "HeadBucket of another owner", err, "403 Forbidden")
}

// Configurations are given back as they were put, and a code of its own says
// that there is none.
func TestConfigurations(t *testing.T) {
	t.Parallel()
	b := setup(t, "", s3emu.Options{})
	name := aws.String(bucket)
	versioning := must(b.GetBucketVersioning(t.Context(), &s3.GetBucketVersioningInput{Bucket: name}))(t)
	if versioning.Status != "" {
		t.Errorf("versioning %q", versioning.Status)
	}
	b.setVersioning(t, "Enabled")
	if v := must(b.GetBucketVersioning(t.Context(), &s3.GetBucketVersioningInput{Bucket: name}))(t); v.Status != "Enabled" {
		t.Errorf("versioning %q", v.Status)
	}

	_, err := b.GetBucketLifecycleConfiguration(t.Context(), &s3.GetBucketLifecycleConfigurationInput{Bucket: name})
	expect(t, "no lifecycle", err, "404 NoSuchLifecycleConfiguration")
	must(b.PutBucketLifecycleConfiguration(t.Context(), &s3.PutBucketLifecycleConfigurationInput{Bucket: name, LifecycleConfiguration: &types.BucketLifecycleConfiguration{
		Rules: []types.LifecycleRule{{ID: aws.String("finished"), Status: types.ExpirationStatusEnabled, Expiration: &types.LifecycleExpiration{Days: aws.Int32(30)},
			Filter: &types.LifecycleRuleFilter{Tag: &types.Tag{Key: aws.String("state"), Value: aws.String("done")}}}},
	}}))(t)
	lifecycle := must(b.GetBucketLifecycleConfiguration(t.Context(), &s3.GetBucketLifecycleConfigurationInput{Bucket: name}))(t)
	if len(lifecycle.Rules) != 1 || *lifecycle.Rules[0].Expiration.Days != 30 || *lifecycle.Rules[0].Filter.Tag.Value != "done" {
		t.Errorf("%+v", lifecycle.Rules)
	}
	must(b.DeleteBucketLifecycle(t.Context(), &s3.DeleteBucketLifecycleInput{Bucket: name}))(t)
	_, err = b.GetBucketLifecycleConfiguration(t.Context(), &s3.GetBucketLifecycleConfigurationInput{Bucket: name})
	expect(t, "a deleted lifecycle", err, "404 NoSuchLifecycleConfiguration")

	encryption := must(b.GetBucketEncryption(t.Context(), &s3.GetBucketEncryptionInput{Bucket: name}))(t)
	if encryption.ServerSideEncryptionConfiguration.Rules[0].ApplyServerSideEncryptionByDefault.SSEAlgorithm != types.ServerSideEncryptionAes256 {
		t.Errorf("%+v", encryption)
	}
	_, err = b.GetPublicAccessBlock(t.Context(), &s3.GetPublicAccessBlockInput{Bucket: name})
	expect(t, "no public access block", err, "404 NoSuchPublicAccessBlockConfiguration")
	must(b.PutPublicAccessBlock(t.Context(), &s3.PutPublicAccessBlockInput{Bucket: name,
		PublicAccessBlockConfiguration: &types.PublicAccessBlockConfiguration{BlockPublicAcls: aws.Bool(true)}}))(t)
	block := must(b.GetPublicAccessBlock(t.Context(), &s3.GetPublicAccessBlockInput{Bucket: name}))(t)
	if !aws.ToBool(block.PublicAccessBlockConfiguration.BlockPublicAcls) {
		t.Errorf("%+v", block)
	}
	_, err = b.GetBucketTagging(t.Context(), &s3.GetBucketTaggingInput{Bucket: name})
	expect(t, "no tags", err, "404 NoSuchTagSet")
	must(b.PutBucketTagging(t.Context(), &s3.PutBucketTaggingInput{Bucket: name, Tagging: &types.Tagging{TagSet: []types.Tag{{Key: aws.String("a"), Value: aws.String("1")}}}}))(t)
	if tags := must(b.GetBucketTagging(t.Context(), &s3.GetBucketTaggingInput{Bucket: name}))(t); len(tags.TagSet) != 1 {
		t.Errorf("%+v", tags)
	}
	_, err = b.GetBucketPolicy(t.Context(), &s3.GetBucketPolicyInput{Bucket: name})
	expect(t, "no policy", err, "404 NoSuchBucketPolicy")
	must(b.PutBucketPolicy(t.Context(), &s3.PutBucketPolicyInput{Bucket: name, Policy: aws.String(`{"Statement":[]}`)}))(t)
	if policy := must(b.GetBucketPolicy(t.Context(), &s3.GetBucketPolicyInput{Bucket: name}))(t); *policy.Policy != `{"Statement":[]}` {
		t.Errorf("%s", *policy.Policy)
	}
}

func TestNotifications(t *testing.T) {
	t.Parallel()
	b := setup(t, "", s3emu.Options{})
	const arn = "arn:aws:lambda:us-east-1:000000000000:function:claim"
	if n := b.server.Notifications(bucket); n != nil {
		t.Errorf("%+v", n)
	}
	must(b.PutBucketNotificationConfiguration(t.Context(), &s3.PutBucketNotificationConfigurationInput{Bucket: aws.String(bucket),
		NotificationConfiguration: &types.NotificationConfiguration{LambdaFunctionConfigurations: []types.LambdaFunctionConfiguration{{
			Id: aws.String("inbox"), LambdaFunctionArn: aws.String(arn), Events: []types.Event{types.EventS3ObjectCreated},
			Filter: &types.NotificationConfigurationFilter{Key: &types.S3KeyFilter{FilterRules: []types.FilterRule{
				{Name: types.FilterRuleNamePrefix, Value: aws.String("inbox/")}, {Name: types.FilterRuleNameSuffix, Value: aws.String(".json")}}}},
		}}},
	}))(t)
	out := must(b.GetBucketNotificationConfiguration(t.Context(), &s3.GetBucketNotificationConfigurationInput{Bucket: aws.String(bucket)}))(t)
	if len(out.LambdaFunctionConfigurations) != 1 || *out.LambdaFunctionConfigurations[0].LambdaFunctionArn != arn {
		t.Errorf("%+v", out)
	}
	got := b.server.Notifications(bucket)
	if len(got) != 1 || got[0].ID != "inbox" || got[0].ARN != arn || got[0].Prefix != "inbox/" || got[0].Suffix != ".json" {
		t.Fatalf("%+v", got)
	}
	for _, c := range []struct {
		event s3emu.Event
		want  bool
	}{
		{s3emu.Event{Name: s3emu.EventPut, Key: "inbox/a.json"}, true},
		{s3emu.Event{Name: s3emu.EventCopy, Key: "inbox/a.json"}, true},
		{s3emu.Event{Name: s3emu.EventDelete, Key: "inbox/a.json"}, false},
		{s3emu.Event{Name: s3emu.EventPut, Key: "tasks/a.json"}, false},
		{s3emu.Event{Name: s3emu.EventPut, Key: "inbox/a.txt"}, false},
	} {
		if got[0].Matches(c.event) != c.want {
			t.Errorf("%+v: %v", c.event, !c.want)
		}
	}
}

// What is told of each mutation.
func TestEvents(t *testing.T) {
	t.Parallel()
	b := setup(t, "Enabled", s3emu.Options{})
	first := *b.put(t, "in box/a+é.json", "hello").VersionId
	marker := *b.delete(t, "in box/a+é.json", "").VersionId
	b.delete(t, "in box/a+é.json", first)
	b.delete(t, "in box/a+é.json", first) // not there any more: no event
	told := b.events.all()
	var got []string
	for i, e := range told {
		got = append(got, fmt.Sprintf("%s %s %d %s", e.Name, e.VersionID, e.Size, e.ETag))
		if i > 0 && e.Sequencer <= told[i-1].Sequencer {
			t.Errorf("sequencer %s after %s", e.Sequencer, told[i-1].Sequencer)
		}
	}
	want := []string{
		"ObjectCreated:Put " + first + " 5 5d41402abc4b2a76b9719d911017c592",
		"ObjectRemoved:DeleteMarkerCreated " + marker + " 0 ",
		"ObjectRemoved:Delete " + first + " 0 ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}

	var parsed events.S3Event
	if err := json.Unmarshal(s3emu.NotificationJSON("inbox", told...), &parsed); err != nil {
		t.Fatal(err)
	}
	record := parsed.Records[0]
	if record.S3.Object.Key != "in+box/a%2B%C3%A9.json" || record.S3.Object.URLDecodedKey != "in box/a+é.json" ||
		record.S3.Object.VersionID != first || record.S3.Object.Size != 5 || record.S3.Object.ETag != "5d41402abc4b2a76b9719d911017c592" ||
		record.EventSource != "aws:s3" || record.EventName != "ObjectCreated:Put" || record.S3.Bucket.Name != bucket ||
		record.S3.Bucket.Arn != "arn:aws:s3:::"+bucket || record.S3.ConfigurationID != "inbox" || record.AWSRegion != "us-east-1" ||
		!record.EventTime.Equal(told[0].Time.Truncate(time.Millisecond)) || len(parsed.Records) != 3 {
		t.Errorf("%+v", record)
	}
	var test events.S3TestEvent
	if err := json.Unmarshal(s3emu.TestEventJSON(bucket, time.Now()), &test); err != nil || test.Event != "s3:TestEvent" || test.Bucket != bucket {
		t.Errorf("%+v, %v", test, err)
	}
}

// Every answer has its own request id.
func TestRequestIDs(t *testing.T) {
	t.Parallel()
	b := setup(t, "", s3emu.Options{})
	seen := map[string]bool{}
	transport := inMemory{b.server}
	for range 1000 {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://s3.test/"+bucket+"/none", nil)
		response, err := transport.RoundTrip(r) //nolint:bodyclose // it is in memory
		if err != nil {
			t.Fatal(err)
		}
		id := response.Header.Get("X-Amz-Request-Id")
		if len(id) != 16 || seen[id] || response.Header.Get("X-Amz-Id-2") == "" {
			t.Fatalf("request id %q", id)
		}
		seen[id] = true
	}
}
