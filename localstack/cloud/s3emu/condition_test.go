package s3emu_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sluice-dev/sluice/localstack/cloud/s3emu"
)

// What a conditional write answers, by what is under the key before it.
func TestConditionalWrites(t *testing.T) {
	t.Parallel()
	const (
		etag  = `"5d41402abc4b2a76b9719d911017c592"` // of "hello"
		other = `"00000000000000000000000000000000"`
	)
	present := func(t *testing.T, b *bundle) { b.put(t, "k", "hello") }
	absent := func(t *testing.T, b *bundle) {}
	deleted := func(t *testing.T, b *bundle) { b.put(t, "k", "hello"); b.delete(t, "k", "") }
	restored := func(t *testing.T, b *bundle) {
		b.put(t, "k", "hello")
		b.delete(t, "k", aws.ToString(b.delete(t, "k", "").VersionId))
	}
	for _, c := range []struct {
		name                 string
		before               func(*testing.T, *bundle)
		ifMatch, ifNoneMatch string
		conflict             bool
		put, remove          string // remove is "" where no delete has the condition
	}{
		{"if-none-match and the key exists", present, "", "*", false, "412 PreconditionFailed", ""},
		{"if-none-match and the key is absent", absent, "", "*", false, "ok", ""},
		{"if-none-match and the current version is a delete marker", deleted, "", "*", false, "ok", ""},
		{"if-none-match and the delete marker was deleted", restored, "", "*", false, "412 PreconditionFailed", ""},
		{"if-none-match racing with a delete", absent, "", "*", true, "409 ConditionalRequestConflict", ""},
		{"if-none-match with an etag", present, "", etag, false, "501 NotImplemented", ""},
		{"if-match and the etag is the current one", present, etag, "", false, "ok", "ok"},
		{"if-match without quotes", present, strings.Trim(etag, `"`), "", false, "ok", "ok"},
		{"if-match any", present, "*", "", false, "ok", "ok"},
		{"if-match mismatch", present, other, "", false, "412 PreconditionFailed", "412 PreconditionFailed"},
		{"if-match and the key is absent", absent, etag, "", false, "404 NoSuchKey", "404 NoSuchKey"},
		{"if-match and the key is deleted", deleted, etag, "", false, "404 NoSuchKey", "404 NoSuchKey"},
		{"if-match any and the key is deleted", deleted, "*", "", false, "404 NoSuchKey", "404 NoSuchKey"},
		{"if-match racing with another writer", present, etag, "", true, "409 ConditionalRequestConflict", "409 ConditionalRequestConflict"},
	} {
		for _, versioning := range []string{"", "Enabled", "Suspended"} {
			if versioning == "" && c.name == "if-none-match and the delete marker was deleted" {
				continue
			}
			if versioning == "Suspended" && c.name == "if-none-match and the delete marker was deleted" {
				continue // the marker took the place of the only version
			}
			start := func(t *testing.T) *bundle {
				racing := false
				b := setup(t, versioning, s3emu.Options{Conflict: func(s3emu.ConditionalRequest) bool { return racing }})
				c.before(t, b)
				racing = c.conflict
				return b
			}
			name := c.name + "/" + versioning
			t.Run("put/"+name, func(t *testing.T) {
				t.Parallel()
				_, err := start(t).tryPut(t, "k", "new", func(in *s3.PutObjectInput) { in.IfMatch, in.IfNoneMatch = set(c.ifMatch), set(c.ifNoneMatch) })
				expect(t, "PutObject", err, c.put)
			})
			t.Run("copy/"+name, func(t *testing.T) {
				t.Parallel()
				b := start(t)
				b.put(t, "source", "copied")
				_, err := b.CopyObject(t.Context(), &s3.CopyObjectInput{
					Bucket: aws.String(bucket), Key: aws.String("k"), CopySource: aws.String(bucket + "/source"),
					IfMatch: set(c.ifMatch), IfNoneMatch: set(c.ifNoneMatch),
				})
				expect(t, "CopyObject", err, c.put)
			})
			t.Run("multipart/"+name, func(t *testing.T) {
				t.Parallel()
				b := start(t)
				upload, parts := b.uploadParts(t, "k", "one part")
				_, err := b.CompleteMultipartUpload(t.Context(), &s3.CompleteMultipartUploadInput{
					Bucket: aws.String(bucket), Key: aws.String("k"), UploadId: upload, MultipartUpload: parts,
					IfMatch: set(c.ifMatch), IfNoneMatch: set(c.ifNoneMatch),
				})
				expect(t, "CompleteMultipartUpload", err, c.put)
			})
			if c.remove == "" {
				continue
			}
			t.Run("delete/"+name, func(t *testing.T) {
				t.Parallel()
				_, err := start(t).tryDelete(t, "k", "", c.ifMatch)
				expect(t, "DeleteObject", err, c.remove)
			})
			t.Run("delete several/"+name, func(t *testing.T) {
				t.Parallel()
				out, err := start(t).DeleteObjects(t.Context(), &s3.DeleteObjectsInput{Bucket: aws.String(bucket), Delete: &types.Delete{
					Objects: []types.ObjectIdentifier{{Key: aws.String("k"), ETag: aws.String(c.ifMatch)}},
				}})
				if err != nil {
					t.Fatal(err)
				}
				got := "ok"
				for _, e := range out.Errors {
					got = aws.ToString(e.Code)
				}
				if !strings.HasSuffix(c.remove, got) {
					t.Errorf("DeleteObjects: %s, want %s", got, c.remove)
				}
			})
		}
	}
}

func set(value string) *string {
	if value == "" {
		return nil
	}
	return &value
}

// A failed condition changes nothing and tells nobody.
func TestFailedConditionChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, "Enabled", s3emu.Options{})
	b.put(t, "k", "first")
	_, err := b.tryPut(t, "k", "second", func(in *s3.PutObjectInput) { in.IfNoneMatch = aws.String("*") })
	expect(t, "PutObject", err, "412 PreconditionFailed")
	if body := b.get(t, "k", ""); body != "first" {
		t.Errorf("the object holds %q", body)
	}
	if events := b.events.all(); len(events) != 1 {
		t.Errorf("%d events, want that of the first put", len(events))
	}
}

// Of many writers that all saw the same version, one wins.
func TestOneOfManyConditionalWritersWins(t *testing.T) {
	t.Parallel()
	b := setup(t, "Enabled", s3emu.Options{})
	const writers, rounds = 8, 20
	for round := range rounds {
		in := func(in *s3.PutObjectInput) { in.IfNoneMatch = aws.String("*") }
		if round > 0 {
			_, current, err := b.tryGet(t, "k", "")
			if err != nil {
				t.Fatal(err)
			}
			in = func(in *s3.PutObjectInput) { in.IfMatch = current.ETag }
		}
		var wg sync.WaitGroup
		outcomes := make([]string, writers)
		for w := range writers {
			wg.Go(func() {
				_, err := b.tryPut(t, "k", fmt.Sprint(round, " ", w), in)
				outcomes[w] = outcome(err)
			})
		}
		wg.Wait()
		count := map[string]int{}
		for _, o := range outcomes {
			count[o]++
		}
		if count["ok"] != 1 || count["412 PreconditionFailed"] != writers-1 {
			t.Fatalf("round %d: %v", round, count)
		}
	}
	if events := b.events.all(); len(events) != rounds {
		t.Errorf("%d events, want %d", len(events), rounds)
	}
}

// What a conditional read answers.
func TestConditionalReads(t *testing.T) {
	t.Parallel()
	b := setup(t, "", s3emu.Options{})
	etag := aws.ToString(b.put(t, "k", "hello").ETag)
	for _, c := range []struct {
		name                 string
		ifMatch, ifNoneMatch string
		want                 string
	}{
		{"the same, wanted", etag, "", "ok"},
		{"another, wanted", `"x"`, "", "412 PreconditionFailed"},
		{"the same, unwanted", "", etag, "304"},
		{"another, unwanted", "", `"x"`, "ok"},
	} {
		_, _, err := b.tryGet(t, "k", "", func(in *s3.GetObjectInput) { in.IfMatch, in.IfNoneMatch = set(c.ifMatch), set(c.ifNoneMatch) })
		if got := outcome(err); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
