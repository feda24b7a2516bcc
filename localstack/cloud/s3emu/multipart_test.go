package s3emu_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sluice-dev/sluice/localstack/cloud/s3emu"
)

// uploadParts starts a multipart upload and sends its parts.
func (b *bundle) uploadParts(t *testing.T, key string, parts ...string) (*string, *types.CompletedMultipartUpload) {
	t.Helper()
	upload := must(b.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{
		Bucket: aws.String(bucket), Key: aws.String(key), Metadata: map[string]string{"kind": "large"},
	}))(t)
	list := &types.CompletedMultipartUpload{}
	for i, body := range parts {
		out := must(b.UploadPart(t.Context(), &s3.UploadPartInput{
			Bucket: aws.String(bucket), Key: aws.String(key), UploadId: upload.UploadId,
			PartNumber: aws.Int32(int32(i + 1)), Body: strings.NewReader(body),
		}))(t)
		list.Parts = append(list.Parts, types.CompletedPart{
			PartNumber: aws.Int32(int32(i + 1)), ETag: out.ETag, ChecksumCRC32: out.ChecksumCRC32,
		})
	}
	return upload.UploadId, list
}

func (b *bundle) complete(t *testing.T, key string, upload *string, parts *types.CompletedMultipartUpload) (*s3.CompleteMultipartUploadOutput, error) {
	return b.CompleteMultipartUpload(t.Context(), &s3.CompleteMultipartUploadInput{
		Bucket: aws.String(bucket), Key: aws.String(key), UploadId: upload, MultipartUpload: parts,
	})
}

const fiveMiB = 5 << 20

func TestMultipartUpload(t *testing.T) {
	t.Parallel()
	b := setup(t, "Enabled", s3emu.Options{})
	first, last := strings.Repeat("a", fiveMiB), "the end"
	upload, parts := b.uploadParts(t, "big", first, last)

	listed := must(b.ListParts(t.Context(), &s3.ListPartsInput{Bucket: aws.String(bucket), Key: aws.String("big"), UploadId: upload}))(t)
	if len(listed.Parts) != 2 || aws.ToInt64(listed.Parts[1].Size) != int64(len(last)) {
		t.Errorf("ListParts: %+v", listed.Parts)
	}
	uploads := must(b.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: aws.String(bucket)}))(t)
	if len(uploads.Uploads) != 1 || *uploads.Uploads[0].UploadId != *upload {
		t.Errorf("ListMultipartUploads: %+v", uploads.Uploads)
	}
	_, err := b.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String(bucket), Key: aws.String("big")})
	expect(t, "HeadObject before the end", err, "404 NotFound")

	out := must(b.complete(t, "big", upload, parts))(t)
	if !strings.HasSuffix(aws.ToString(out.ETag), `-2"`) || aws.ToString(out.VersionId) == "" {
		t.Errorf("CompleteMultipartUpload: ETag %s, version %s", aws.ToString(out.ETag), aws.ToString(out.VersionId))
	}
	if body := b.get(t, "big", ""); body != first+last {
		t.Errorf("the object has %d bytes, want %d", len(body), len(first+last))
	}
	body, part, err := b.tryGet(t, "big", "", func(in *s3.GetObjectInput) { in.PartNumber = aws.Int32(2) })
	if err != nil || body != last || aws.ToInt32(part.PartsCount) != 2 || part.Metadata["kind"] != "large" {
		t.Errorf("part 2: %q, %v", body, err)
	}
	_, err = b.complete(t, "big", upload, parts)
	expect(t, "completing twice", err, "404 NoSuchUpload")
	events := b.events.all()
	if len(events) != 1 || events[0].Name != s3emu.EventCompleteMultipartUpload || events[0].Size != int64(len(first+last)) {
		t.Errorf("events: %+v", events)
	}
}

func TestMultipartUploadRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		parts  []string
		change func(*types.CompletedMultipartUpload)
		want   string
	}{
		{"a part too small", []string{"small", "last"}, func(*types.CompletedMultipartUpload) {}, "400 EntityTooSmall"},
		{"parts out of order", []string{strings.Repeat("a", fiveMiB), "last"}, func(u *types.CompletedMultipartUpload) {
			u.Parts[0], u.Parts[1] = u.Parts[1], u.Parts[0]
		}, "400 InvalidPartOrder"},
		{"another etag", []string{"last"}, func(u *types.CompletedMultipartUpload) { u.Parts[0].ETag = aws.String("x") }, "400 InvalidPart"},
		{"a part never sent", []string{"last"}, func(u *types.CompletedMultipartUpload) { u.Parts[0].PartNumber = aws.Int32(7) }, "400 InvalidPart"},
		{"no parts", nil, func(u *types.CompletedMultipartUpload) {}, "400 MalformedXML"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, "", s3emu.Options{})
			upload, parts := b.uploadParts(t, "k", c.parts...)
			c.change(parts)
			_, err := b.complete(t, "k", upload, parts)
			expect(t, "CompleteMultipartUpload", err, c.want)
			in := &s3.AbortMultipartUploadInput{Bucket: aws.String(bucket), Key: aws.String("k"), UploadId: upload}
			must(b.AbortMultipartUpload(t.Context(), in))(t)
			_, err = b.AbortMultipartUpload(t.Context(), in)
			expect(t, "aborting twice", err, "404 NoSuchUpload")
		})
	}
}
