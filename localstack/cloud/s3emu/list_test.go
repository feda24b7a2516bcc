package s3emu_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"pgregory.net/rapid"

	"github.com/sluice-dev/sluice/localstack/cloud/s3emu"
)

func (b *bundle) list(t *testing.T, in s3.ListObjectsV2Input) (keys, prefixes []string) {
	t.Helper()
	in.Bucket = aws.String(bucket)
	for pages := s3.NewListObjectsV2Paginator(b, &in); pages.HasMorePages(); {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(page.Contents) + len(page.CommonPrefixes); n != int(*page.KeyCount) || n > int(*page.MaxKeys) || n > 1000 {
			t.Errorf("a page of %d, it says %d of %d", n, *page.KeyCount, *page.MaxKeys)
		}
		for _, o := range page.Contents {
			keys = append(keys, *o.Key)
		}
		for _, p := range page.CommonPrefixes {
			prefixes = append(prefixes, *p.Prefix)
		}
	}
	return keys, prefixes
}

// 2,345 objects: each listed exactly once, whatever the page size.
func TestListPastOneThousand(t *testing.T) {
	t.Parallel()
	b := setup(t, "", s3emu.Options{})
	var want []string
	for i := range 2345 {
		key := fmt.Sprintf("inbox/%x/%04d.json", i%16, i)
		want = append(want, key)
		b.fill(t, key)
	}
	slices.Sort(want)
	for _, size := range []int32{0, 999, 5000} {
		in := s3.ListObjectsV2Input{Prefix: aws.String("inbox/")}
		if size > 0 {
			in.MaxKeys = aws.Int32(size)
		}
		if keys, _ := b.list(t, in); !slices.Equal(keys, want) {
			t.Errorf("in pages of %d: %d keys", size, len(keys))
		}
	}
	keys, _ := b.list(t, s3.ListObjectsV2Input{StartAfter: aws.String(want[1234])})
	if !slices.Equal(keys, want[1235:]) {
		t.Errorf("after key 1234: %d keys", len(keys))
	}
	_, prefixes := b.list(t, s3.ListObjectsV2Input{Prefix: aws.String("inbox/"), Delimiter: aws.String("/"), MaxKeys: aws.Int32(5)})
	if len(prefixes) != 16 || prefixes[15] != "inbox/f/" {
		t.Errorf("prefixes %q", prefixes)
	}
	var v1 []string
	in := &s3.ListObjectsInput{Bucket: aws.String(bucket)}
	for more := true; more; {
		page := must(b.ListObjects(t.Context(), in))(t)
		for _, o := range page.Contents {
			v1 = append(v1, *o.Key)
		}
		more = *page.IsTruncated
		in.Marker = aws.String(v1[len(v1)-1])
	}
	if !slices.Equal(v1, want) {
		t.Errorf("ListObjects: %d keys", len(v1))
	}
}

// Listings agree with a filter over a sorted list, for any keys and
// parameters.
func TestListingAgreesWithAModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		server := s3emu.New(s3emu.Options{})
		b := &bundle{server: server, Client: newClient("http://s3.test", inMemory{server})}
		if _, err := b.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(bucket)}); err != nil {
			rt.Fatal(err)
		}
		text := rapid.StringMatching(`[ab/]{0,3}`)
		keys := rapid.SliceOfNDistinct(rapid.StringMatching(`[ab/]{1,4}`), 0, 20, rapid.ID[string]).Draw(rt, "keys")
		for _, key := range keys {
			b.fill(t, key)
		}
		prefix, after := text.Draw(rt, "prefix"), text.Draw(rt, "after")
		delimiter := rapid.SampledFrom([]string{"", "/", "ab"}).Draw(rt, "delimiter")
		size := rapid.Int32Range(1, 5).Draw(rt, "size")
		gotKeys, gotPrefixes := b.list(t, s3.ListObjectsV2Input{
			Prefix: set(prefix), StartAfter: set(after), Delimiter: set(delimiter), MaxKeys: &size,
		})
		wantKeys, wantPrefixes := model(keys, prefix, after, delimiter)
		if !slices.Equal(gotKeys, wantKeys) || !slices.Equal(gotPrefixes, wantPrefixes) {
			rt.Fatalf("got %q %q, want %q %q", gotKeys, gotPrefixes, wantKeys, wantPrefixes)
		}
	})
}

func model(keys []string, prefix, after, delimiter string) (plain, prefixes []string) {
	sorted := slices.Clone(keys)
	sort.Strings(sorted)
	for _, key := range sorted {
		if !strings.HasPrefix(key, prefix) || key <= after {
			continue
		}
		i := -1
		if delimiter != "" {
			i = strings.Index(key[len(prefix):], delimiter)
		}
		if i < 0 {
			plain = append(plain, key)
			continue
		}
		common := key[:len(prefix)+i+len(delimiter)]
		if common != after && !slices.Contains(prefixes, common) {
			prefixes = append(prefixes, common)
		}
	}
	return plain, prefixes
}

func TestListParameters(t *testing.T) {
	t.Parallel()
	b := setup(t, "", s3emu.Options{})
	b.put(t, "k", "x")
	none := must(b.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String(bucket), MaxKeys: aws.Int32(0)}))(t)
	if len(none.Contents) != 0 || *none.IsTruncated {
		t.Errorf("no keys wanted: %+v", none)
	}
	for name, in := range map[string]s3.ListObjectsV2Input{
		"a negative size": {MaxKeys: aws.Int32(-1)},
		"an odd token":    {ContinuationToken: aws.String("odd")},
		"an odd encoding": {EncodingType: types.EncodingType("base64")},
	} {
		in.Bucket = aws.String(bucket)
		_, err := b.ListObjectsV2(t.Context(), &in)
		expect(t, name, err, "400 InvalidArgument")
	}
}

var oddKeys = []string{
	"a b", "a+b", "a%20b", "a%2Fb", "ключ", "é", "e\u0301", "日本/語", "a//b", "a/../b", "./a", "/leading", "trailing/",
	"a&b=c?d#e", `q"uo'te`, "<tag>", "emoji😀", "a;b:c@d,e$f", "~tilde*star", "new\nline", "versions", "lifecycle",
}

// Keys come back as they went in, from every operation.
func TestOddKeys(t *testing.T) {
	t.Parallel()
	b := setup(t, "Enabled", s3emu.Options{})
	for i, key := range oddKeys {
		b.put(t, key, strconv.Itoa(i))
	}
	want := slices.Sorted(slices.Values(oddKeys))
	for i, key := range oddKeys {
		if body := b.get(t, key, ""); body != strconv.Itoa(i) {
			t.Errorf("%q holds %q", key, body)
		}
	}
	if keys, _ := b.list(t, s3.ListObjectsV2Input{MaxKeys: aws.Int32(2)}); !slices.Equal(keys, want) {
		t.Errorf("listed %q, want %q", keys, want)
	}
	for _, e := range b.events.all() {
		if !slices.Contains(oddKeys, e.Key) {
			t.Errorf("an event tells of %q", e.Key)
		}
	}
	for _, key := range oddKeys {
		copied := "copies/" + key
		_, err := b.CopyObject(t.Context(), &s3.CopyObjectInput{Bucket: aws.String(bucket), Key: &copied, CopySource: aws.String(bucket + "/" + pathEscape(key))})
		expect(t, "copy of "+key, err, "ok")
		b.delete(t, key, "")
		_, _, err = b.tryGet(t, key, "")
		expect(t, "after the delete of "+key, err, "404 NoSuchKey")
	}
	_, err := b.tryPut(t, strings.Repeat("é", 513), "too long")
	expect(t, "a key of 1,026 bytes", err, "400 KeyTooLongError")
	b.put(t, strings.Repeat("é", 512), "just right")
}

func pathEscape(key string) string {
	var b strings.Builder
	for _, c := range []byte(key) {
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

// On request keys are listed URL-encoded, as the command line asks for.
func TestListURLEncoded(t *testing.T) {
	t.Parallel()
	b := setup(t, "", s3emu.Options{})
	b.put(t, "in box/a b+c%é/x.json", "x")
	out := must(b.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{
		Bucket: aws.String(bucket), EncodingType: types.EncodingTypeUrl, Prefix: aws.String("in box/"),
	}))(t)
	if *out.Contents[0].Key != "in+box/a+b%2Bc%25%C3%A9/x.json" || *out.Prefix != "in+box/" {
		t.Errorf("key %s, prefix %s", *out.Contents[0].Key, *out.Prefix)
	}
}

// Names of subresources are no trap as keys, and unknown operations are
// refused rather than taken for others.
func TestUnknownOperations(t *testing.T) {
	t.Parallel()
	b := setup(t, "", s3emu.Options{})
	b.put(t, "k", "x")
	for _, target := range []string{"GET /" + bucket + "/k?acl", "PUT /" + bucket + "/k?retention", "POST /" + bucket + "/k", "GET /" + bucket + "?inventory", "POST /", "PATCH /" + bucket} {
		method, path, _ := strings.Cut(target, " ")
		recorder := httptest.NewRecorder()
		b.server.ServeHTTP(recorder, httptest.NewRequest(method, path, nil))
		if recorder.Code != http.StatusNotImplemented || !strings.Contains(recorder.Body.String(), "<Code>NotImplemented</Code>") {
			t.Errorf("%s: %d %s", target, recorder.Code, recorder.Body)
		}
	}
	if body := b.get(t, "k", ""); body != "x" {
		t.Errorf("the object holds %q", body)
	}
}

// A page costs the page, whatever the size of the bucket.
func BenchmarkPageOf200000(b *testing.B) {
	server := s3emu.New(s3emu.Options{})
	bench := &bundle{server: server}
	send := func(method, path string) {
		recorder := httptest.NewRecorder()
		server.ServeHTTP(recorder, httptest.NewRequest(method, path, nil))
		if recorder.Code != http.StatusOK {
			b.Fatalf("%s %s: %d", method, path, recorder.Code)
		}
	}
	send(http.MethodPut, "/"+bucket)
	for i := range 200_000 {
		bench.fill(b, fmt.Sprintf("inbox/%x/%06d.json", i%16, i))
	}
	for b.Loop() {
		send(http.MethodGet, "/"+bucket+"?list-type=2&prefix=inbox/&max-keys=100&start-after=inbox/7/100000")
	}
}
