package s3emu_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sluice-dev/sluice/localstack/cloud/s3emu"
)

// Everything said about an object at put is given back.
func TestGetGivesBackWhatWasPut(t *testing.T) {
	t.Parallel()
	b := setup(t, "", s3emu.Options{})
	out := b.put(t, "k", "hello", func(in *s3.PutObjectInput) {
		in.ContentType, in.CacheControl, in.ContentEncoding = aws.String("application/json"), aws.String("no-store"), aws.String("identity")
		in.Metadata = map[string]string{"Task-Type": "call llm"}
		in.Tagging = aws.String("state=done&note=a%20b%2Bc")
	})
	const etag = `"5d41402abc4b2a76b9719d911017c592"`
	if aws.ToString(out.ETag) != etag {
		t.Errorf("ETag %s", aws.ToString(out.ETag))
	}
	_, got, err := b.tryGet(t, "k", "")
	if err != nil {
		t.Fatal(err)
	}
	if *got.ETag != etag || *got.ContentType != "application/json" || *got.CacheControl != "no-store" || *got.ContentEncoding != "identity" ||
		got.Metadata["task-type"] != "call llm" || *got.TagCount != 2 || *got.ContentLength != 5 || got.ServerSideEncryption != types.ServerSideEncryptionAes256 {
		t.Errorf("%+v", got)
	}
	head := must(b.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String(bucket), Key: aws.String("k")}))(t)
	if *head.ETag != etag || *head.ContentLength != 5 || head.Metadata["task-type"] != "call llm" {
		t.Errorf("%+v", head)
	}
	b.put(t, "plain", "")
	if _, got, _ := b.tryGet(t, "plain", ""); *got.ContentType != "application/octet-stream" && *got.ContentType != "binary/octet-stream" {
		t.Errorf("content type %s", *got.ContentType)
	}
	_, err = b.tryPut(t, "k", "x", func(in *s3.PutObjectInput) { in.Metadata = map[string]string{"a": strings.Repeat("x", 2048)} })
	expect(t, "too much metadata", err, "400 MetadataTooLarge")
}

func TestRanges(t *testing.T) {
	t.Parallel()
	b := setup(t, "", s3emu.Options{})
	b.put(t, "k", "0123456789")
	b.put(t, "empty", "")
	for _, c := range []struct{ key, header, want, contentRange string }{
		{"k", "bytes=0-0", "0", "bytes 0-0/10"},
		{"k", "bytes=2-4", "234", "bytes 2-4/10"},
		{"k", "bytes=7-", "789", "bytes 7-9/10"},
		{"k", "bytes=7-99", "789", "bytes 7-9/10"},
		{"k", "bytes=-3", "789", "bytes 7-9/10"},
		{"k", "bytes=-99", "0123456789", "bytes 0-9/10"},
		{"k", "bytes=0-1,3-4", "0123456789", ""},
		{"k", "lines=0-1", "0123456789", ""},
		{"k", "bytes=4-2", "0123456789", ""},
		{"k", "bytes=10-", "416 InvalidRange", ""},
		{"k", "bytes=-0", "416 InvalidRange", ""},
		{"empty", "bytes=0-", "416 InvalidRange", ""},
	} {
		body, out, err := b.tryGet(t, c.key, "", func(in *s3.GetObjectInput) { in.Range = aws.String(c.header) })
		if err != nil {
			body = outcome(err)
		} else if got := aws.ToString(out.ContentRange); got != c.contentRange {
			t.Errorf("%s: Content-Range %q, want %q", c.header, got, c.contentRange)
		}
		if body != c.want {
			t.Errorf("%s: %q, want %q", c.header, body, c.want)
		}
	}
}

// The SDK computes and verifies checksums in both of its modes, with every
// algorithm it knows.
func TestChecksumModes(t *testing.T) {
	t.Parallel()
	server := s3emu.New(s3emu.Options{})
	for i, mode := range []aws.RequestChecksumCalculation{aws.RequestChecksumCalculationWhenSupported, aws.RequestChecksumCalculationWhenRequired} {
		validation := []aws.ResponseChecksumValidation{aws.ResponseChecksumValidationWhenSupported, aws.ResponseChecksumValidationWhenRequired}[i]
		b := &bundle{server: server, Client: newClient("http://s3.test", inMemory{server}, func(o *s3.Options) {
			o.RequestChecksumCalculation, o.ResponseChecksumValidation = mode, validation
		})}
		if i == 0 {
			must(b.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(bucket)}))(t)
		}
		for _, algorithm := range append([]types.ChecksumAlgorithm{""}, types.ChecksumAlgorithm("").Values()...) {
			if strings.HasPrefix(string(algorithm), "XX") || algorithm == "MD5" || algorithm == "SHA512" {
				continue // values the SDK takes but does not compute
			}
			key := fmt.Sprint(i, algorithm)
			b.put(t, key, "hello "+key, func(in *s3.PutObjectInput) { in.ChecksumAlgorithm = algorithm })
			body, _, err := b.tryGet(t, key, "", func(in *s3.GetObjectInput) { in.ChecksumMode = types.ChecksumModeEnabled })
			if err != nil || body != "hello "+key {
				t.Errorf("%s: %q, %v", key, body, err)
			}
			// A stream of unknown content: aws-chunked with a trailer over HTTPS.
			secure := newClient("https://s3.test", inMemory{server}, func(o *s3.Options) { o.RequestChecksumCalculation = mode })
			must(secure.PutObject(t.Context(), &s3.PutObjectInput{
				Bucket: aws.String(bucket), Key: aws.String(key), Body: onlyReader{strings.NewReader("streamed")},
				ContentLength: aws.Int64(8), ChecksumAlgorithm: algorithm,
			}, s3.WithAPIOptions(unsignedPayload)))(t)
			if body := b.get(t, key, ""); body != "streamed" {
				t.Errorf("%s streamed: %q", key, body)
			}
			b.delete(t, key, "")
		}
		out := must(b.DeleteObjects(t.Context(), &s3.DeleteObjectsInput{Bucket: aws.String(bucket), Delete: &types.Delete{
			Objects: []types.ObjectIdentifier{{Key: aws.String("k")}}}}))(t)
		if len(out.Errors) != 0 {
			t.Errorf("%+v", out.Errors)
		}
	}
}

type onlyReader struct{ io.Reader }

// Digests that do not fit the body, and bodies that do not fit their headers.
func TestBadBodies(t *testing.T) {
	t.Parallel()
	const unsignedTrailer, signed = "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
	for _, c := range []struct {
		name, body string
		header     map[string]string
		want       string // error code, or the body stored
	}{
		{"right CRC32", "hello", map[string]string{"x-amz-checksum-crc32": "NhCmhg=="}, "hello"},
		{"wrong CRC32", "hello", map[string]string{"x-amz-checksum-crc32": "AAAAAA=="}, "BadDigest"},
		{"CRC32 that is none", "hello", map[string]string{"x-amz-checksum-crc32": "x"}, "InvalidRequest"},
		{"two checksums", "hello", map[string]string{"x-amz-checksum-crc32": "NhCmhg==", "x-amz-checksum-crc32c": "mnG7TA=="}, "InvalidRequest"},
		{"right CRC64NVME", "hello", map[string]string{"x-amz-checksum-crc64nvme": "M3eFcAZSQlc="}, "hello"},
		{"right MD5", "hello", map[string]string{"Content-MD5": "XUFAKrxLKna5cZ2REBfFkg=="}, "hello"},
		{"wrong MD5", "hello", map[string]string{"Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA=="}, "BadDigest"},
		{"MD5 that is none", "hello", map[string]string{"Content-MD5": "hello"}, "InvalidDigest"},
		{"wrong SHA-256 of the payload", "hello", map[string]string{"x-amz-content-sha256": strings.Repeat("0", 64)}, "XAmzContentSHA256Mismatch"},
		{"chunks with a trailer", "3\r\nhel\r\n2\r\nlo\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n",
			map[string]string{"x-amz-content-sha256": unsignedTrailer, "x-amz-trailer": "x-amz-checksum-crc32", "x-amz-decoded-content-length": "5"}, "hello"},
		{"chunks with a wrong trailer", "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n",
			map[string]string{"x-amz-content-sha256": unsignedTrailer, "x-amz-trailer": "x-amz-checksum-crc32", "x-amz-decoded-content-length": "5"}, "BadDigest"},
		{"chunks without the trailer announced", "5\r\nhello\r\n0\r\n\r\n",
			map[string]string{"x-amz-content-sha256": unsignedTrailer, "x-amz-trailer": "x-amz-checksum-crc32", "x-amz-decoded-content-length": "5"}, "MalformedTrailerError"},
		{"signed chunks", "5;chunk-signature=abc\r\nhello\r\n0;chunk-signature=def\r\n\r\n",
			map[string]string{"x-amz-content-sha256": signed, "x-amz-decoded-content-length": "5"}, "hello"},
		{"signed chunks with signed trailer", "5;chunk-signature=abc\r\nhello\r\n0;chunk-signature=def\r\nx-amz-checksum-crc32:NhCmhg==\r\nx-amz-trailer-signature:abc\r\n\r\n",
			map[string]string{"x-amz-content-sha256": signed + "-TRAILER", "x-amz-trailer": "x-amz-checksum-crc32", "x-amz-decoded-content-length": "5"}, "hello"},
		{"chunks shorter than said", "3\r\nhel\r\n0\r\n\r\n", map[string]string{"x-amz-content-sha256": unsignedTrailer, "x-amz-decoded-content-length": "5"}, "IncompleteBody"},
		{"chunks longer than said", "5\r\nhello\r\n0\r\n\r\n", map[string]string{"x-amz-content-sha256": unsignedTrailer, "x-amz-decoded-content-length": "3"}, "IncompleteBody"},
		{"chunks cut off", "5\r\nhel", map[string]string{"x-amz-content-sha256": unsignedTrailer, "x-amz-decoded-content-length": "5"}, "IncompleteBody"},
		{"no chunks at all", "hello\r\n", map[string]string{"Content-Encoding": "aws-chunked", "x-amz-decoded-content-length": "5"}, "InvalidRequest"},
		{"more than 5 GiB", "hello", map[string]string{"Content-Encoding": "aws-chunked", "x-amz-decoded-content-length": "5368709121"}, "EntityTooLarge"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, "", s3emu.Options{})
			r := httptest.NewRequest(http.MethodPut, "/"+bucket+"/k", strings.NewReader(c.body))
			for name, value := range c.header {
				r.Header.Set(name, value)
			}
			recorder := httptest.NewRecorder()
			b.server.ServeHTTP(recorder, r)
			if recorder.Code == http.StatusOK {
				if body := b.get(t, "k", ""); body != c.want {
					t.Errorf("stored %q, want %q", body, c.want)
				}
				if _, out, _ := b.tryGet(t, "k", ""); out.ContentEncoding != nil {
					t.Errorf("Content-Encoding %s", *out.ContentEncoding)
				}
				return
			}
			if !strings.Contains(recorder.Body.String(), "<Code>"+c.want+"</Code>") {
				t.Errorf("%d %s, want %s", recorder.Code, recorder.Body, c.want)
			}
			_, _, err := b.tryGet(t, "k", "")
			expect(t, "after the failure", err, "404 NoSuchKey")
		})
	}
}

func TestBodyLargerThanFiveGiB(t *testing.T) {
	t.Parallel()
	b := setup(t, "", s3emu.Options{})
	r := httptest.NewRequest(http.MethodPut, "/"+bucket+"/k", strings.NewReader("x"))
	r.ContentLength = 5<<30 + 1
	recorder := httptest.NewRecorder()
	b.server.ServeHTTP(recorder, r)
	if recorder.Code != http.StatusBadRequest || !strings.Contains(recorder.Body.String(), "<Code>EntityTooLarge</Code>") {
		t.Errorf("%d %s", recorder.Code, recorder.Body)
	}
}

func TestObjectTagging(t *testing.T) {
	t.Parallel()
	b := setup(t, "Enabled", s3emu.Options{})
	first := b.put(t, "k", "1", func(in *s3.PutObjectInput) { in.Tagging = aws.String("a=1") }).VersionId
	b.put(t, "k", "2")
	tags := func(version *string) string {
		out := must(b.GetObjectTagging(t.Context(), &s3.GetObjectTaggingInput{Bucket: aws.String(bucket), Key: aws.String("k"), VersionId: version}))(t)
		var all []string
		for _, tag := range out.TagSet {
			all = append(all, *tag.Key+"="+*tag.Value)
		}
		return strings.Join(all, " ")
	}
	put := func(version *string, tags ...types.Tag) error {
		_, err := b.PutObjectTagging(t.Context(), &s3.PutObjectTaggingInput{
			Bucket: aws.String(bucket), Key: aws.String("k"), VersionId: version, Tagging: &types.Tagging{TagSet: tags}})
		return err
	}
	tag := func(key, value string) types.Tag { return types.Tag{Key: &key, Value: &value} }
	if got := tags(first) + "," + tags(nil); got != "a=1," {
		t.Errorf("after the puts: %s", got)
	}
	expect(t, "PutObjectTagging", put(nil, tag("state", "done"), tag("x", "ü <>")), "ok")
	expect(t, "of the first version", put(first, tag("b", "2")), "ok")
	if got := tags(first) + "," + tags(nil); got != "b=2,state=done x=ü <>" {
		t.Errorf("after the changes: %s", got)
	}
	must(b.DeleteObjectTagging(t.Context(), &s3.DeleteObjectTaggingInput{Bucket: aws.String(bucket), Key: aws.String("k")}))(t)
	if got := tags(nil); got != "" {
		t.Errorf("after the delete: %s", got)
	}
	expect(t, "a key twice", put(nil, tag("a", "1"), tag("a", "2")), "400 InvalidTag")
	expect(t, "a long key", put(nil, tag(strings.Repeat("a", 129), "1")), "400 InvalidTag")
	_, err := b.tryPut(t, "k", "3", func(in *s3.PutObjectInput) { in.Tagging = aws.String("a=1&b=2&c=3&d=4&e=5&f=6&g=7&h=8&i=9&j=10&k=11") })
	expect(t, "11 tags", err, "400 BadRequest")
	b.delete(t, "k", "")
	_, err = b.GetObjectTagging(t.Context(), &s3.GetObjectTaggingInput{Bucket: aws.String(bucket), Key: aws.String("k")})
	expect(t, "tags of a deleted key", err, "404 NoSuchKey")
	if versions := len(b.versions(t, 0)); versions != 3 {
		t.Errorf("%d versions: tagging makes none", versions)
	}
}

func TestCopyObject(t *testing.T) {
	t.Parallel()
	b := setup(t, "Enabled", s3emu.Options{})
	first := *b.put(t, "k", "old", func(in *s3.PutObjectInput) {
		in.Metadata, in.Tagging = map[string]string{"m": "1"}, aws.String("a=1")
	}).VersionId
	b.put(t, "k", "new")
	copied := func(source string, change ...func(*s3.CopyObjectInput)) (*s3.CopyObjectOutput, error) {
		in := &s3.CopyObjectInput{Bucket: aws.String(bucket), Key: aws.String("to"), CopySource: aws.String(source)}
		for _, c := range change {
			c(in)
		}
		return b.CopyObject(t.Context(), in)
	}
	out := must(copied(bucket + "/k?versionId=" + first))(t)
	if *out.CopySourceVersionId != first || out.VersionId == nil || *out.CopyObjectResult.ETag == "" {
		t.Errorf("%+v", out)
	}
	body, got, err := b.tryGet(t, "to", "")
	if err != nil || body != "old" || got.Metadata["m"] != "1" || *got.TagCount != 1 {
		t.Errorf("%q %+v %v", body, got, err)
	}
	must(copied("/"+bucket+"/k", func(in *s3.CopyObjectInput) {
		in.MetadataDirective, in.Metadata = types.MetadataDirectiveReplace, map[string]string{"m": "2"}
		in.TaggingDirective, in.Tagging = types.TaggingDirectiveReplace, aws.String("b=2&c=3")
	}))(t)
	if body, got, err := b.tryGet(t, "to", ""); err != nil || body != "new" || got.Metadata["m"] != "2" || *got.TagCount != 2 {
		t.Errorf("%q %+v %v", body, got, err)
	}
	for _, c := range []struct{ source, want string }{
		{bucket + "/none", "404 NoSuchKey"},
		{"nobucket/k", "404 NoSuchBucket"},
		{bucket, "400 InvalidArgument"},
		{bucket + "/to", "400 InvalidRequest"}, // onto itself, unchanged
	} {
		_, err := copied(c.source)
		expect(t, "copy of "+c.source, err, c.want)
	}
	_, err = copied(bucket+"/k", func(in *s3.CopyObjectInput) { in.CopySourceIfMatch = aws.String("x") })
	expect(t, "copy if the source is another", err, "412 PreconditionFailed")
	if events := b.events.all(); events[2].Name != s3emu.EventCopy || events[2].Key != "to" {
		t.Errorf("%+v", events[2])
	}
}

// Without s3:ListBucket a missing key cannot be told from a forbidden one.
func TestWithoutListPermission(t *testing.T) {
	t.Parallel()
	allowed := true
	b := setup(t, "Enabled", s3emu.Options{CanList: func(*http.Request) bool { return allowed }})
	version := *b.put(t, "deleted", "x").VersionId
	b.delete(t, "deleted", "")
	b.put(t, "k", "x")
	allowed = false
	if body := b.get(t, "k", ""); body != "x" {
		t.Errorf("k holds %q", body)
	}
	if body := b.get(t, "deleted", version); body != "x" {
		t.Errorf("the version holds %q", body)
	}
	_, _, err := b.tryGet(t, "none", "")
	expect(t, "GetObject", err, "403 AccessDenied")
	_, _, err = b.tryGet(t, "deleted", "")
	expect(t, "GetObject of a deleted key", err, "403 AccessDenied")
	_, err = b.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String(bucket), Key: aws.String("none")})
	expect(t, "HeadObject", err, "403 Forbidden")
	_, err = b.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String(bucket)})
	expect(t, "ListObjectsV2", err, "403 AccessDenied")
	_, err = b.ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: aws.String(bucket)})
	expect(t, "ListObjectVersions", err, "403 AccessDenied")
	_, err = b.tryPut(t, "none", "x", func(in *s3.PutObjectInput) { in.IfNoneMatch = aws.String("*") })
	expect(t, "PutObject", err, "ok")
	b.delete(t, "never there", "")
}

// Many writers and readers of a few keys, for the race detector; afterwards
// every write is a version.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	b := setup(t, "Enabled", s3emu.Options{})
	const workers, rounds = 8, 10
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range rounds {
				key := fmt.Sprint("k", i%3)
				b.put(t, key, fmt.Sprint(w, " ", i))
				if _, _, err := b.tryGet(t, key, ""); err != nil {
					t.Error(err)
				}
				_, err := b.ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: aws.String(bucket), MaxKeys: aws.Int32(10)})
				expect(t, "ListObjectVersions", err, "ok")
				_, err = b.PutObjectTagging(t.Context(), &s3.PutObjectTaggingInput{Bucket: aws.String(bucket), Key: &key, Tagging: &types.Tagging{
					TagSet: []types.Tag{{Key: aws.String("w"), Value: aws.String(strconv.Itoa(w))}}}})
				expect(t, "PutObjectTagging", err, "ok")
			}
		})
	}
	wg.Wait()
	if n := len(b.versions(t, 0)); n != workers*rounds {
		t.Errorf("%d versions, want %d", n, workers*rounds)
	}
	last := map[string]string{}
	sequencers := map[string]bool{}
	for _, e := range b.events.all() {
		last[e.Key] = max(last[e.Key], e.Sequencer)
		sequencers[e.Sequencer] = true
	}
	if len(sequencers) != workers*rounds || len(last) != 3 {
		t.Errorf("%d sequencers for %d keys", len(sequencers), len(last))
	}
}

// The same over a socket, with the SDK's default options.
func TestOverTCP(t *testing.T) {
	t.Parallel()
	b := setup(t, "Enabled", s3emu.Options{})
	listener := httptest.NewServer(b.server)
	defer listener.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	b.Client = newClient(listener.URL, transport)
	for _, key := range oddKeys {
		b.put(t, key, "of "+key)
		if body := b.get(t, key, ""); body != "of "+key {
			t.Errorf("%q holds %q", key, body)
		}
	}
	large := strings.Repeat("0123456789abcdef", 1<<14)
	b.put(t, "large", large)
	if body := b.get(t, "large", ""); body != large {
		t.Errorf("the large object holds %d bytes", len(body))
	}
	_, err := b.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String(bucket), Key: aws.String("none")})
	expect(t, "HeadObject", err, "404 NotFound")
	_, err = b.tryPut(t, "large", "x", func(in *s3.PutObjectInput) { in.IfNoneMatch = aws.String("*") })
	expect(t, "PutObject", err, "412 PreconditionFailed")
	signed := must(s3.NewPresignClient(b.Client).PresignGetObject(t.Context(), &s3.GetObjectInput{
		Bucket: aws.String(bucket), Key: aws.String("a b"), ResponseContentType: aws.String("text/x"),
	}))(t)
	response, err := (&http.Client{Transport: transport}).Get(signed.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	if !bytes.Equal(body, []byte("of a b")) || response.Header.Get("Content-Type") != "text/x" {
		t.Errorf("presigned: %q %s", body, response.Header.Get("Content-Type"))
	}
}

// Times are those of the bubble the server runs in.
func TestVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "", s3emu.Options{})
		time.Sleep(1000 * time.Hour)
		b.put(t, "k", "x")
		_, out, err := b.tryGet(t, "k", "")
		if err != nil || !out.LastModified.Equal(time.Now()) {
			t.Errorf("modified %v, it is %v (%v)", out.LastModified, time.Now(), err)
		}
		if e := b.events.all()[0]; !e.Time.Equal(time.Now()) {
			t.Errorf("event at %v", e.Time)
		}
	})
}
