package s3store_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
)

// refusing is an S3 that answers 200 to DeleteObjects and has errors in the
// answer, as S3 has when single versions can't be deleted.
type refusing struct {
	s3store.API

	code string
}

func (r refusing) DeleteObjects(_ context.Context, in *s3.DeleteObjectsInput, _ ...func(*s3.Options)) (*s3.DeleteObjectsOutput, error) {
	first := in.Delete.Objects[0]
	return &s3.DeleteObjectsOutput{Errors: []types.Error{
		{Key: first.Key, VersionId: first.VersionId, Code: &r.code, Message: aws.String("locked until 2030")},
	}}, nil
}

func TestAVersionThatIsNotDeletedIsAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, b bundle) {
		version, err := b.Submit(t.Context(), task.New("t1", "job", task.MaxTime))
		if err != nil {
			t.Fatal(err)
		}
		_, err = s3store.New(refusing{b.client, "AccessDenied"}, b.Bucket()).PurgeInbox(t.Context(), "t1")
		if err == nil || !strings.Contains(err.Error(), "version "+version+" of "+s3store.InboxKey("t1")+": AccessDenied: locked until 2030") {
			t.Errorf("error = %v", err)
		}
		if n, err := s3store.New(refusing{b.client, "NoSuchVersion"}, b.Bucket()).PurgeInbox(t.Context(), "t1"); err != nil || n != 1 {
			t.Errorf("one that is gone already: %d, %v", n, err)
		}
	})
}

// plain is an S3-compatible store that does not know encoding-type and sends
// keys as they are.
type plain struct{ s3store.API }

func (p plain) ListObjectsV2(ctx context.Context, in *s3.ListObjectsV2Input, opts ...func(*s3.Options)) (*s3.ListObjectsV2Output, error) {
	unencoded := *in
	unencoded.EncodingType = ""
	return p.API.ListObjectsV2(ctx, &unencoded, opts...)
}

func TestTheInboxIsListedWithEveryKey(t *testing.T) {
	inBubble(t, func(t *testing.T, b bundle) {
		keys := []string{
			"inbox/", "inbox/" + task.Shard("a-b") + "/a-b.json", "inbox/" + task.Shard("a") + "/a.json", "inbox/0/a+b%20c d.json", "inbox/é.json", "inbox/zz/x.json",
		}
		slices.Sort(keys)
		for _, key := range append(keys, "inboxes/x", "tasks/0/x.json") {
			_, err := b.client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String(b.Bucket()), Key: &key, Body: strings.NewReader("{}")})
			if err != nil {
				t.Fatal(err)
			}
		}
		for name, store := range map[string]*s3store.Store{"encoded": b.Store, "as they are": s3store.New(plain{b.client}, b.Bucket())} {
			for _, limit := range []int{1, 2, 1000} {
				var got, ids []string
				for after, more := "", true; more; {
					entries, goesOn, err := store.ScanInbox(t.Context(), after, limit)
					if err != nil {
						t.Fatal(err)
					}
					for _, e := range entries {
						got, after = append(got, e.Key), e.Key
						if e.ID != "" {
							ids = append(ids, e.ID)
						}
					}
					more = goesOn
				}
				slices.Sort(ids)
				if !slices.Equal(got, keys) || !slices.Equal(ids, []string{"a", "a-b"}) {
					t.Errorf("%s, %d a page: %q, ids %q", name, limit, got, ids)
				}
			}
		}
	})
}
