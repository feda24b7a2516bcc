package s3store_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
)

// bundle is a store on an embedded bucket of its own.
type bundle struct {
	*s3store.Store
	cloud  *cloud.Cloud
	client *s3.Client
}

func setup(t *testing.T) bundle {
	t.Helper()
	c := cloud.New(cloud.Options{})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	client := s3store.NewClient(c.Config())
	bucket := aws.String("tasks")
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: bucket}); err != nil {
		t.Fatal(err)
	}
	_, err := client.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{
		Bucket: bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
	})
	if err != nil {
		t.Fatal(err)
	}
	return bundle{Store: s3store.New(client, *bucket), cloud: c, client: client}
}

// inBubble tests in virtual time, so that retries wait for nothing.
func inBubble(t *testing.T, test func(t *testing.T, b bundle)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, setup(t)) })
}

func puts(key string) func(*cloud.Request) bool {
	return func(r *cloud.Request) bool {
		return r.Operation == "PutObject" && strings.Contains(r.HTTP.URL.Path, key)
	}
}

// created is a stored record of a running task.
func created(t *testing.T, b bundle) s3store.Record {
	t.Helper()
	rec, err := b.Write(t.Context(), s3store.Record{}, next(t, task.New("t1", "job", time.Now())))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// next is the task after its next claim or sleep.
func next(t *testing.T, from task.Task) task.Task {
	t.Helper()
	var event task.Event = task.Claim{LeaseID: "l", WorkerID: "w", LeaseExpiresAt: from.AvailableAt.Add(time.Hour)}
	if from.Status == task.Running {
		event = task.Reschedule{}
	}
	to, _, err := task.Apply(from, event, from.AvailableAt)
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func TestWriteCreatesOnceAndThenReplacesWhatWasRead(t *testing.T) {
	inBubble(t, func(t *testing.T, b bundle) {
		first := created(t, b)
		second, err := b.Write(t.Context(), first, next(t, first.Task))
		if err != nil {
			t.Fatal(err)
		}
		read, err := b.Record(t.Context(), "t1")
		if err != nil || read.ETag != second.ETag || read.Task.Revision != 2 || read.Task.WriteID != second.Task.WriteID {
			t.Errorf("record = %+v, %v", read, err)
		}
	})
}

func TestAWriteThatLostSaysWhatStandsThere(t *testing.T) {
	inBubble(t, func(t *testing.T, b bundle) {
		first := created(t, b)
		winner, err := b.Write(t.Context(), first, next(t, first.Task))
		if err != nil {
			t.Fatal(err)
		}
		for name, prev := range map[string]s3store.Record{"a replace": first, "a create": {}} {
			_, err := b.Write(t.Context(), prev, next(t, first.Task))
			var lost *s3store.ConflictError
			if !errors.As(err, &lost) || lost.Current.ETag != winner.ETag {
				t.Errorf("%s: %v, want a conflict with the winner", name, err)
			}
		}
	})
}

func TestAWriteWhoseAnswerWasLostIsRecognizedAsOurOwn(t *testing.T) {
	faults := map[string]cloud.Fault{
		"the connection broke":             cloud.LostAnswer,
		"a 500 although it was done":       {Status: http.StatusInternalServerError, Code: "InternalError", After: true},
		"a 503 although it was done":       {Status: http.StatusServiceUnavailable, Code: "SlowDown", After: true},
		"done twice on the way":            {Repeat: true},
		"a 409 although it was done":       {Status: http.StatusConflict, Code: "ConditionalRequestConflict", After: true},
		"refused with 409 at first":        cloud.Conflict,
		"the connection broke before that": cloud.Unreachable,
		"throttled at first":               cloud.SlowDown,
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b bundle) {
				b.cloud.FailNext(1, fault, puts("tasks/"))
				first := created(t, b)
				b.cloud.FailNext(1, fault, puts("tasks/"))
				second, err := b.Write(t.Context(), first, next(t, first.Task))
				if err != nil {
					t.Fatal(err)
				}
				versions, err := b.Versions(t.Context(), "t1")
				if err != nil || len(versions) != 2 || versions[1].Task.WriteID != second.Task.WriteID {
					t.Errorf("%d versions, %v", len(versions), err)
				}
			})
		})
	}
}

func TestAWriteThatCanNotBeDoneIsAnErrorAndNoConflict(t *testing.T) {
	inBubble(t, func(t *testing.T, b bundle) {
		first := created(t, b)
		b.cloud.SetFault(func(r *cloud.Request) cloud.Fault {
			if puts("tasks/")(r) {
				return cloud.InternalError
			}
			return cloud.Fault{}
		})
		_, err := b.Write(t.Context(), first, next(t, first.Task))
		var lost *s3store.ConflictError
		if err == nil || errors.As(err, &lost) || errors.Is(err, s3store.ErrGone) {
			t.Errorf("err = %v", err)
		}
	})
}

func TestARecordThatIsGoneIsNotMadeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, b bundle) {
		first := created(t, b)
		if _, err := b.client.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: aws.String("tasks"), Key: aws.String(s3store.TaskKey("t1"))}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Write(t.Context(), first, next(t, first.Task)); !errors.Is(err, s3store.ErrGone) {
			t.Errorf("err = %v, want ErrGone", err)
		}
		if _, err := b.Record(t.Context(), "t1"); !errors.Is(err, s3store.ErrNotFound) {
			t.Errorf("the record is there again: %v", err)
		}
	})
}

func TestSubmitAcceptsAnIDOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, b bundle) {
		made := task.New("t1", "job", time.Now())
		version, err := b.Submit(t.Context(), made)
		if err != nil || version == "" {
			t.Fatalf("Submit = %q, %v", version, err)
		}
		if _, err := b.Submit(t.Context(), made); !errors.Is(err, s3store.ErrExists) {
			t.Errorf("second submit: %v, want ErrExists", err)
		}
		if err := b.Remove(t.Context(), "t1", version); err != nil {
			t.Fatal(err)
		}
		if err := b.Remove(t.Context(), "t1", version); err != nil {
			t.Errorf("removed twice: %v", err)
		}
		out, err := b.client.ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: aws.String("tasks")})
		if err != nil || len(out.Versions)+len(out.DeleteMarkers) != 0 {
			t.Errorf("left %d versions and %d markers, %v", len(out.Versions), len(out.DeleteMarkers), err)
		}
	})
}

func TestQuarantineIsRepeatable(t *testing.T) {
	inBubble(t, func(t *testing.T, b bundle) {
		key := s3store.InboxKey("t1")
		if _, err := b.client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("tasks"), Key: &key, Body: strings.NewReader("junk é")}); err != nil {
			t.Fatal(err)
		}
		sub, err := b.Submitted(t.Context(), "t1")
		if err != nil || sub.Problem == nil {
			t.Fatalf("problem = %v, %v", sub.Problem, err)
		}
		for range 2 {
			if err := b.Quarantine(t.Context(), sub); err != nil {
				t.Fatal(err)
			}
		}
		got, err := b.client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("tasks"), Key: aws.String(s3store.QuarantineKey(key, sub.VersionID))})
		if err != nil || !strings.Contains(got.Metadata["sluice-reason"], "not a task document") || got.Metadata["sluice-key"] != key {
			t.Errorf("metadata = %v, %v", got, err)
		}
		if _, err := b.Submitted(t.Context(), "t1"); !errors.Is(err, s3store.ErrNotFound) {
			t.Errorf("still in the inbox: %v", err)
		}
	})
}

func TestFindLooksOnceMoreForATaskThatMoved(t *testing.T) {
	inBubble(t, func(t *testing.T, b bundle) {
		made := task.New("t1", "job", time.Now())
		version, err := b.Submit(t.Context(), made)
		if err != nil {
			t.Fatal(err)
		}
		// While the record is looked for, the task is claimed, runs and leaves the inbox.
		b.cloud.FailNext(1, cloud.Fault{Then: func() {
			if _, err := b.Write(context.Background(), s3store.Record{}, next(t, made)); err != nil {
				t.Error(err)
			}
			if err := b.Remove(context.Background(), "t1", version); err != nil {
				t.Error(err)
			}
		}}, func(r *cloud.Request) bool { return r.Operation == "GetObject" })
		rec, err := b.Find(t.Context(), "t1")
		if err != nil || !rec.Stored() {
			t.Errorf("Find = %+v, %v", rec, err)
		}
	})
}

func TestErrorsOfTheBucketSayWhatToDo(t *testing.T) {
	inBubble(t, func(t *testing.T, b bundle) {
		_, err := s3store.New(b.client, "elsewhere").Record(t.Context(), "t1")
		if err == nil || errors.Is(err, s3store.ErrNotFound) || !strings.Contains(err.Error(), "the bucket elsewhere does not exist") {
			t.Errorf("err = %v", err)
		}
		b.cloud.SetFault(func(*cloud.Request) cloud.Fault {
			return cloud.Fault{Status: http.StatusForbidden, Code: "AccessDenied"}
		})
		if _, err := b.Record(t.Context(), "t1"); err == nil || !strings.Contains(err.Error(), "s3:ListBucket") {
			t.Errorf("err = %v", err)
		}
	})
}

func TestAPayloadIsCheckedAgainstItsHash(t *testing.T) {
	inBubble(t, func(t *testing.T, b bundle) {
		ref := s3store.NewPayloadRef("t1", "input", []byte(`"large"`))
		if err := b.PutPayload(t.Context(), ref, []byte(`"large"`)); err != nil {
			t.Fatal(err)
		}
		if got, err := b.Payload(t.Context(), ref); err != nil || string(got) != `"large"` {
			t.Errorf("Payload = %s, %v", got, err)
		}
		other := *ref
		other.SHA256 = strings.Repeat("0", 64)
		if _, err := b.Payload(t.Context(), &other); err == nil {
			t.Error("a payload with another hash was accepted")
		}
	})
}

func TestInboxIDTellsKeysApart(t *testing.T) {
	t.Parallel()
	if id, err := s3store.InboxID(s3store.InboxKey("order-7")); err != nil || id != "order-7" {
		t.Errorf("InboxID = %q, %v", id, err)
	}
	for _, key := range []string{"inbox/", "inbox/x.json", "inbox/0/.json", "tasks/0/a.json", "inbox/0/a b.json", "inbox/zz/a.json", "inbox/0/a/b.json", s3store.InboxKey("a") + "x"} {
		if id, err := s3store.InboxID(key); err == nil {
			t.Errorf("InboxID(%q) = %q, want an error", key, id)
		}
	}
}
