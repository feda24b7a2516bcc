package s3emu_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sluice-dev/sluice/localstack/cloud/s3emu"
)

// reload is a server of its own that loads what the bundle's server saves.
func (b *bundle) reload(t *testing.T) *bundle {
	t.Helper()
	var file bytes.Buffer
	if err := b.server.Save(&file); err != nil {
		t.Fatal(err)
	}
	log := &eventLog{}
	server := s3emu.New(s3emu.Options{OnEvent: log.add})
	if err := server.Load(&file); err != nil {
		t.Fatal(err)
	}
	if n := len(log.all()); n > 0 {
		t.Errorf("loading told of %d events", n)
	}
	return &bundle{server: server, events: log, Client: newClient("http://s3.test", inMemory{server})}
}

func TestASavedServerGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	b := setup(t, "Enabled", s3emu.Options{})
	first := b.put(t, "inbox/a ü", "one", func(in *s3.PutObjectInput) {
		in.ContentType, in.Metadata, in.Tagging = aws.String("text/x"), map[string]string{"reason": "caf\xe9"}, aws.String("state=new")
	})
	second := b.put(t, "inbox/a ü", "two")
	b.put(t, "gone", "x")
	b.delete(t, "gone", "")
	must(b.PutBucketLifecycleConfiguration(t.Context(), &s3.PutBucketLifecycleConfigurationInput{
		Bucket: aws.String(bucket),
		LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: []types.LifecycleRule{{
			ID: aws.String("r"), Status: types.ExpirationStatusEnabled, Filter: &types.LifecycleRuleFilter{Prefix: aws.String("x/")},
			Expiration: &types.LifecycleExpiration{Days: aws.Int32(1)},
		}}},
	}))(t)
	upload := must(b.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: aws.String(bucket), Key: aws.String("big")}))(t)
	part := must(b.UploadPart(t.Context(), &s3.UploadPartInput{
		Bucket: aws.String(bucket), Key: aws.String("big"), UploadId: upload.UploadId, PartNumber: aws.Int32(1), Body: strings.NewReader("part"),
	}))(t)

	b = b.reload(t).reload(t)

	if got := b.get(t, "inbox/a ü", *first.VersionId); got != "one" {
		t.Errorf("the first version is %q", got)
	}
	got, out, err := b.tryGet(t, "inbox/a ü", "")
	if err != nil || got != "two" || *out.VersionId != *second.VersionId || *out.ETag != *second.ETag {
		t.Errorf("the current version is %q, %v, error %v", got, out, err)
	}
	if _, out, _ := b.tryGet(t, "inbox/a ü", *first.VersionId); *out.ContentType != "text/x" || *out.TagCount != 1 || len(out.Metadata) != 1 {
		t.Errorf("content type, tags and metadata are %v, %v, %v", *out.ContentType, *out.TagCount, out.Metadata)
	}
	_, _, err = b.tryGet(t, "gone", "")
	expect(t, "an object under a delete marker", err, "404 NoSuchKey")
	_, err = b.tryPut(t, "inbox/a ü", "three", func(in *s3.PutObjectInput) { in.IfMatch = first.ETag })
	expect(t, "a write over an older version", err, "412 PreconditionFailed")
	b.put(t, "inbox/a ü", "three", func(in *s3.PutObjectInput) { in.IfMatch = second.ETag })

	versions := must(b.ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: aws.String(bucket)}))(t)
	if len(versions.Versions) != 4 || len(versions.DeleteMarkers) != 1 {
		t.Errorf("%d versions and %d delete markers, want 4 and 1", len(versions.Versions), len(versions.DeleteMarkers))
	}
	rules := must(b.GetBucketLifecycleConfiguration(t.Context(), &s3.GetBucketLifecycleConfigurationInput{Bucket: aws.String(bucket)}))(t)
	if len(rules.Rules) != 1 {
		t.Errorf("lifecycle rules: %v", rules.Rules)
	}
	must(b.CompleteMultipartUpload(t.Context(), &s3.CompleteMultipartUploadInput{
		Bucket: aws.String(bucket), Key: aws.String("big"), UploadId: upload.UploadId,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: []types.CompletedPart{{PartNumber: aws.Int32(1), ETag: part.ETag}}},
	}))(t)
	if got := b.get(t, "big", ""); got != "part" {
		t.Errorf("the finished upload is %q", got)
	}
	events := b.events.all()
	if len(events) != 2 || events[0].Sequencer <= "000000000000000002" {
		t.Errorf("events since: %v; sequencers go on growing", events)
	}
}

func TestASaveIsOfOneMoment(t *testing.T) {
	t.Parallel()
	b := setup(t, "Enabled", s3emu.Options{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 200 {
			b.put(t, "a", "x") // a is always written before b
			b.put(t, "b", "x")
		}
	}()
	for range 20 {
		again := b.reload(t)
		count := func(key string) int {
			return len(must(again.ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: aws.String(bucket), Prefix: aws.String(key)}))(t).Versions)
		}
		if a, b := count("a"), count("b"); a-b < 0 || a-b > 1 {
			t.Errorf("%d versions of a and %d of b", a, b)
		}
	}
	<-done
}

func TestLoadRefusesWhatIsDamaged(t *testing.T) {
	t.Parallel()
	b := setup(t, "Enabled", s3emu.Options{})
	b.put(t, "a", "x")
	for _, damaged := range []string{"", "{", "[]", `{"VersionKey":"AA=="}`, `{"Buckets":[{"Name":"b","Keys":[{"Key":"k"}]}],"VersionKey":"AAAAAAAAAAAAAAAAAAAAAA=="}`} {
		if err := b.server.Load(strings.NewReader(damaged)); err == nil {
			t.Errorf("%q was loaded", damaged)
		}
	}
	if got := b.get(t, "a", ""); got != "x" {
		t.Errorf("after a load that failed the object is %q", got)
	}
}
