package s3emu_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sluice-dev/sluice/localstack/cloud/s3emu"
)

// versions lists a bucket's versions in pages, as "key:body" or "key:deleted",
// with a star at the latest.
func (b *bundle) versions(t *testing.T, pageSize int32, change ...func(*s3.ListObjectVersionsInput)) []string {
	t.Helper()
	in := &s3.ListObjectVersionsInput{Bucket: aws.String(bucket)}
	if pageSize > 0 {
		in.MaxKeys = aws.Int32(pageSize)
	}
	for _, c := range change {
		c(in)
	}
	var got []string
	for pages := s3.NewListObjectVersionsPaginator(b, in); pages.HasMorePages(); {
		page := must(pages.NextPage(t.Context()))(t)
		if n := len(page.Versions) + len(page.DeleteMarkers) + len(page.CommonPrefixes); pageSize > 0 && n > int(pageSize) {
			t.Errorf("a page of %d", n)
		}
		got = append(got, b.describeVersions(t, page)...)
	}
	return got
}

// describeVersions merges what the SDK keeps apart: within a key the server's
// order is by age, and the latest is first.
func (b *bundle) describeVersions(t *testing.T, page *s3.ListObjectVersionsOutput) []string {
	t.Helper()
	star := map[bool]string{true: "*"}
	var got []string
	for _, v := range page.Versions {
		got = append(got, *v.Key+":"+b.get(t, *v.Key, *v.VersionId)+star[*v.IsLatest])
	}
	for _, m := range page.DeleteMarkers {
		got = append(got, *m.Key+":deleted"+star[*m.IsLatest])
	}
	for _, p := range page.CommonPrefixes {
		got = append(got, *p.Prefix)
	}
	return got
}

// What puts and deletes leave behind in the three states of versioning.
func TestVersions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		steps string // put a body, "-" delete, "-null" delete the null version, or Enabled/Suspended
		want  []string
	}{
		{"unversioned", "a b", []string{"k:b*"}},
		{"unversioned delete", "a -", nil},
		{"unversioned delete of nothing", "-", nil},
		{"enabled", "Enabled a b c", []string{"k:c*", "k:b", "k:a"}},
		{"enabled delete", "Enabled a -", []string{"k:a", "k:deleted*"}},
		{"enabled delete of nothing", "Enabled -", []string{"k:deleted*"}},
		{"enabled delete twice", "Enabled a - -", []string{"k:a", "k:deleted*", "k:deleted"}},
		{"enabled later", "a Enabled b", []string{"k:b*", "k:a"}},
		{"suspended overwrites the null version only", "Enabled a Suspended b c", []string{"k:c*", "k:a"}},
		{"suspended replaces what was there before", "a Enabled b Suspended c", []string{"k:c*", "k:b"}},
		{"suspended delete", "Enabled a Suspended b -", []string{"k:a", "k:deleted*"}},
		{"suspended put after delete", "Enabled a Suspended - b", []string{"k:b*", "k:a"}},
		{"null version deleted by name", "a Enabled b -null", []string{"k:b*"}},
		{"enabled again", "Enabled a Suspended b Enabled c", []string{"k:c*", "k:b", "k:a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, "", s3emu.Options{})
			for step := range strings.FieldsSeq(c.steps) {
				switch step {
				case "Enabled", "Suspended":
					b.setVersioning(t, step)
				case "-":
					b.delete(t, "k", "")
				case "-null":
					b.delete(t, "k", "null")
				default:
					b.put(t, "k", step)
				}
			}
			if got := b.versions(t, 0); !slices.Equal(got, c.want) {
				t.Errorf("%s leaves %q, want %q", c.steps, got, c.want)
			}
		})
	}
}

// Which version id answers name.
func TestVersionIDs(t *testing.T) {
	t.Parallel()
	b := setup(t, "", s3emu.Options{})
	if id := b.put(t, "k", "a").VersionId; id != nil {
		t.Errorf("unversioned: %s", *id)
	}
	b.setVersioning(t, "Enabled")
	seen := map[string]bool{}
	for range 100 {
		id := aws.ToString(b.put(t, "k", "b").VersionId)
		if len(id) != 32 || seen[id] {
			t.Fatalf("version id %q", id)
		}
		seen[id] = true
	}
	b.setVersioning(t, "Suspended")
	if id := aws.ToString(b.put(t, "k", "c").VersionId); id != "null" {
		t.Errorf("suspended: %q", id)
	}
}

// Reads of what is deleted tell a delete marker from nothing.
func TestDeleteMarkers(t *testing.T) {
	t.Parallel()
	b := setup(t, "Enabled", s3emu.Options{})
	first := aws.ToString(b.put(t, "k", "a").VersionId)
	marker := b.delete(t, "k", "")
	if !aws.ToBool(marker.DeleteMarker) || aws.ToString(marker.VersionId) == "" {
		t.Fatalf("%+v", marker)
	}
	_, _, err := b.tryGet(t, "k", "")
	expect(t, "the current version", err, "404 NoSuchKey")
	_, _, err = b.tryGet(t, "k", *marker.VersionId)
	expect(t, "the marker by name", err, "405 MethodNotAllowed")
	_, err = b.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String(bucket), Key: aws.String("k")})
	expect(t, "HeadObject", err, "404 NotFound")
	if body := b.get(t, "k", first); body != "a" {
		t.Errorf("the old version holds %q", body)
	}
	objects := must(b.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String(bucket)}))(t)
	if len(objects.Contents) != 0 {
		t.Errorf("listed: %+v", objects.Contents)
	}
	gone := b.delete(t, "k", *marker.VersionId)
	if !aws.ToBool(gone.DeleteMarker) || *gone.VersionId != *marker.VersionId {
		t.Errorf("%+v", gone)
	}
	if body := b.get(t, "k", ""); body != "a" {
		t.Errorf("without its marker the object holds %q", body)
	}
	gone = b.delete(t, "k", first)
	if gone.DeleteMarker != nil || *gone.VersionId != first {
		t.Errorf("%+v", gone)
	}
	b.delete(t, "k", first) // what is not there is deleted
	_, _, err = b.tryGet(t, "k", first)
	expect(t, "a version that is gone", err, "404 NoSuchVersion")
	for _, odd := range []string{"nope", strings.Repeat("a", 31), strings.Repeat("a", 33)} {
		_, _, err = b.tryGet(t, "k", odd)
		expect(t, "version "+odd, err, "400 InvalidArgument")
		_, err = b.tryDelete(t, "k", odd, "")
		expect(t, "delete of version "+odd, err, "400 InvalidArgument")
	}
	_, _, err = b.tryGet(t, "k", strings.Repeat("a", 32))
	expect(t, "a version never given", err, "404 NoSuchVersion")
}

// Pages of versions meet each version once, in order.
func TestListVersionsInPages(t *testing.T) {
	t.Parallel()
	b := setup(t, "Enabled", s3emu.Options{})
	var want []string
	for _, key := range []string{"a", "b/1", "b/2", "c"} {
		for i := range 5 {
			b.put(t, key, strconv.Itoa(i))
		}
		for i := 4; i >= 0; i-- {
			star := ""
			if i == 4 {
				star = "*"
			}
			want = append(want, fmt.Sprint(key, ":", i, star))
		}
	}
	for _, size := range []int32{0, 1, 2, 3, 5, 7, 20} {
		if got := b.versions(t, size); !slices.Equal(got, want) {
			t.Errorf("in pages of %d: %q", size, got)
		}
		got := b.versions(t, size, func(in *s3.ListObjectVersionsInput) { in.Prefix = aws.String("b/") })
		if !slices.Equal(got, want[5:15]) {
			t.Errorf("under a prefix, in pages of %d: %q", size, got)
		}
	}
	grouped := append(append(slices.Clone(want[:5]), "b/"), want[15:]...)
	slices.Sort(grouped) // the SDK keeps prefixes apart from versions
	for _, size := range []int32{1, 2, 4} {
		got := b.versions(t, size, func(in *s3.ListObjectVersionsInput) { in.Delimiter = aws.String("/") })
		slices.Sort(got)
		if !slices.Equal(got, grouped) {
			t.Errorf("grouped, in pages of %d: %q", size, got)
		}
	}
	_, err := b.ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: aws.String(bucket), VersionIdMarker: aws.String("null")})
	expect(t, "a version marker alone", err, "400 InvalidArgument")
}

// A purge that deletes each page before it asks for the next misses nothing.
func TestPurgeBetweenPages(t *testing.T) {
	t.Parallel()
	for _, versioning := range []string{"Enabled", "Suspended"} {
		b := setup(t, "Enabled", s3emu.Options{})
		for i := range 50 {
			b.put(t, fmt.Sprint("k", i%3), "x")
		}
		b.setVersioning(t, versioning)
		b.put(t, "k1", "perhaps the null version")
		for pages := s3.NewListObjectVersionsPaginator(b, &s3.ListObjectVersionsInput{Bucket: aws.String(bucket), MaxKeys: aws.Int32(7)}); pages.HasMorePages(); {
			page := must(pages.NextPage(t.Context()))(t)
			for _, v := range page.Versions {
				b.delete(t, *v.Key, *v.VersionId)
			}
		}
		if left := b.versions(t, 0); len(left) != 0 {
			t.Errorf("%s: left %q", versioning, left)
		}
		must(b.DeleteBucket(t.Context(), &s3.DeleteBucketInput{Bucket: aws.String(bucket)}))(t)
	}
}

func TestDeleteObjects(t *testing.T) {
	t.Parallel()
	b := setup(t, "Enabled", s3emu.Options{})
	first := aws.ToString(b.put(t, "a", "1").VersionId)
	b.put(t, "b <&> é", "2")
	out := must(b.DeleteObjects(t.Context(), &s3.DeleteObjectsInput{Bucket: aws.String(bucket), Delete: &types.Delete{Objects: []types.ObjectIdentifier{
		{Key: aws.String("a"), VersionId: aws.String(first)},
		{Key: aws.String("b <&> é")},
		{Key: aws.String("never there")},
		{Key: aws.String("a"), VersionId: aws.String("odd")},
	}}}))(t)
	if len(out.Deleted) != 3 || aws.ToString(out.Deleted[0].VersionId) != first || aws.ToBool(out.Deleted[0].DeleteMarker) ||
		!aws.ToBool(out.Deleted[1].DeleteMarker) || aws.ToString(out.Deleted[1].DeleteMarkerVersionId) == "" || *out.Deleted[1].Key != "b <&> é" {
		t.Errorf("deleted %+v", out.Deleted)
	}
	if len(out.Errors) != 1 || *out.Errors[0].Code != "InvalidArgument" {
		t.Errorf("errors %+v", out.Errors)
	}
	quiet := must(b.DeleteObjects(t.Context(), &s3.DeleteObjectsInput{Bucket: aws.String(bucket), Delete: &types.Delete{
		Quiet: aws.Bool(true), Objects: []types.ObjectIdentifier{{Key: aws.String("a")}},
	}}))(t)
	if len(quiet.Deleted) != 0 {
		t.Errorf("quiet: %+v", quiet.Deleted)
	}
	many := make([]types.ObjectIdentifier, 1001)
	for i := range many {
		many[i].Key = aws.String(strconv.Itoa(i))
	}
	_, err := b.DeleteObjects(t.Context(), &s3.DeleteObjectsInput{Bucket: aws.String(bucket), Delete: &types.Delete{Objects: many}})
	expect(t, "1,001 keys", err, "400 MalformedXML")
	must(b.DeleteObjects(t.Context(), &s3.DeleteObjectsInput{Bucket: aws.String(bucket), Delete: &types.Delete{Objects: many[:1000]}}))(t)
}
