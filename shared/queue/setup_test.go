package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/localstack/sluicetest"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/worker"
)

// bundle is a queue on a bucket of its own, from which no event comes.
type bundle struct {
	*queue.Queue
	t      *testing.T
	cloud  *cloud.Cloud
	store  *s3store.Store
	client *s3.Client
	bucket string
}

// inBubble tests in virtual time, so that retries wait for nothing.
func inBubble(t *testing.T, test func(t *testing.T, b *bundle)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, setup(t)) })
}

func setup(t *testing.T) *bundle {
	t.Helper()
	c := cloud.New(cloud.Options{})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &bundle{t: t, cloud: c, client: s3store.NewClient(c.Config(cloud.Label("test"))), bucket: "tasks"}
	b.store = s3store.New(b.client, b.bucket)
	b.Queue = queue.New(c.Config(cloud.Label("producer")), b.bucket)
	if _, err := b.client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &b.bucket}); err != nil {
		t.Fatal(err)
	}
	_, err := b.client.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{
		Bucket: &b.bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// submit submits a task of type "job".
func (b *bundle) submit(input any, opts ...queue.Option) task.Task {
	b.t.Helper()
	t, err := b.Submit(b.t.Context(), "job", input, opts...)
	if err != nil {
		b.t.Fatal(err)
	}
	return t
}

func (b *bundle) get(id string) task.Task {
	b.t.Helper()
	t, err := b.Get(b.t.Context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return t
}

// apply writes what the events make of a task, as a claim function would.
func (b *bundle) apply(id string, events ...task.Event) task.Task {
	b.t.Helper()
	rec, err := b.store.Find(b.t.Context(), id)
	for _, event := range events {
		if err != nil {
			b.t.Fatal(err)
		}
		var next task.Task
		if next, _, err = task.Apply(rec.Task, event, time.Now()); err == nil {
			rec, err = b.store.Write(b.t.Context(), rec, next)
		}
	}
	if err == nil && rec.Task.Status.Terminal() {
		err = b.store.Remove(b.t.Context(), id, rec.Task.InboxVersion)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return rec.Task
}

func claim() task.Event {
	return task.Claim{LeaseID: "lease", WorkerID: "worker-1", LeaseExpiresAt: time.Now().Add(15 * time.Minute)}
}

// complete runs a task to its end.
func (b *bundle) complete(id string) task.Task {
	b.t.Helper()
	return b.apply(id, claim(), task.Success{Output: json.RawMessage(`"done"`)})
}

func (b *bundle) put(key, body string) {
	b.t.Helper()
	_, err := b.client.PutObject(b.t.Context(), &s3.PutObjectInput{Bucket: &b.bucket, Key: &key, Body: strings.NewReader(body)})
	if err != nil {
		b.t.Fatal(err)
	}
}

// versions lists every version and delete marker below a prefix, as
// "key" or "key (delete marker)".
func (b *bundle) versions(prefix string) []string { return versions(b.t, b.client, b.bucket, prefix) }

func versions(t *testing.T, client *s3.Client, bucket, prefix string) []string {
	t.Helper()
	var all []string
	pages := s3.NewListObjectVersionsPaginator(client, &s3.ListObjectVersionsInput{Bucket: &bucket, Prefix: &prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range page.Versions {
			all = append(all, aws.ToString(v.Key))
		}
		for _, m := range page.DeleteMarkers {
			all = append(all, aws.ToString(m.Key)+" (delete marker)")
		}
	}
	slices.Sort(all)
	return all
}

// large is an input that is kept as an object of its own.
func large(fill string) string { return strings.Repeat(fill, s3store.InlineBytes) }

// live is a whole Sluice whose handler of "job" counts its runs per task.
type live struct {
	*sluicetest.Stack
	runs map[string]int
}

// alive tests in virtual time with a claim function. The handler does what
// its input says: "ok", "fail", or sleep for a duration such as "1h".
func alive(t *testing.T, test func(t *testing.T, s *live), opts ...sluicetest.Option) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &live{runs: map[string]int{}}
		var busy = make(chan struct{}, 1)
		mux := worker.NewMux()
		worker.Handle(mux, "job", func(ctx context.Context, in string) (string, error) {
			current, _ := worker.TaskFrom(ctx)
			busy <- struct{}{}
			l.runs[current.ID]++
			<-busy
			if in == "fail" {
				return "", worker.Fail(errors.New("told to"))
			}
			if d, err := time.ParseDuration(in); err == nil {
				select {
				case <-time.After(d):
				case <-ctx.Done():
					return "", ctx.Err()
				}
			}
			return in, nil
		})
		l.Stack = sluicetest.Start(t, mux, opts...)
		test(t, l)
	})
}

// visit has the claim function look at a task now, and returns when it has.
func (l *live) visit(t *testing.T, id string) {
	t.Helper()
	if err := l.invoke(id); err != nil {
		t.Fatal(err)
	}
}

func (l *live) invoke(id string) error {
	_, err := l.Cloud.Lambda().Invoke(context.Background(), l.Function, []byte(`{"task_ids":["`+id+`"]}`), lambdaemu.InvokeOptions{})
	return err
}

// nothingLeft asserts that a task leaves nothing in the inbox and no delete
// marker, once every wake-up has fired.
func (l *live) nothingLeft(t *testing.T, id string) {
	t.Helper()
	time.Sleep(2 * time.Hour)
	client := s3store.NewClient(l.Config("test"))
	if left := versions(t, client, l.Bucket, s3store.InboxKey(id)); len(left) > 0 {
		t.Errorf("left in the inbox: %v", left)
	}
	for _, v := range versions(t, client, l.Bucket, "") {
		if strings.HasSuffix(v, "(delete marker)") {
			t.Errorf("left: %s", v)
		}
	}
}
