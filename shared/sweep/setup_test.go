package sweep_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/sweep"
	"github.com/sluice-dev/sluice/shared/task"
)

const cursorKey = "sweep/cursor.json"

// bundle is a bucket whose inbox no event comes from, and a claim function
// that notes what it is asked to look at.
type bundle struct {
	*s3store.Store
	t      *testing.T
	cloud  *cloud.Cloud
	client *s3.Client
	bucket string
	claim  *notebook
}

type notebook struct {
	mu      sync.Mutex
	ids     map[string]int
	keys    map[string]int
	batches []int
}

func (n *notebook) take(_ context.Context, payload []byte) ([]byte, error) {
	var event struct {
		Records []struct {
			EventName string
			S3        struct{ Object struct{ Key string } }
		}
		TaskIDs []string `json:"task_ids"`
	}
	if err := json.Unmarshal(payload, &event); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range event.TaskIDs {
		n.ids[id]++
	}
	for _, record := range event.Records {
		key, err := url.QueryUnescape(record.S3.Object.Key)
		if err != nil || record.EventName != "ObjectCreated:Put" {
			return nil, fmt.Errorf("a strange record: %s", payload)
		}
		n.keys[key]++
	}
	n.batches = append(n.batches, len(event.TaskIDs)+len(event.Records))
	return nil, nil
}

// inBubble tests in virtual time.
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
	b := &bundle{
		t: t, cloud: c, client: s3store.NewClient(c.Config(cloud.Label("test"))), bucket: "tasks",
		claim: &notebook{ids: map[string]int{}, keys: map[string]int{}},
	}
	b.Store = s3store.New(b.client, b.bucket)
	if _, err := b.client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &b.bucket}); err != nil {
		t.Fatal(err)
	}
	_, err := b.client.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{
		Bucket: &b.bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Register(lambdaemu.Function{Name: "claim", Runtime: lambdaemu.Func(b.claim.take), RetryDelays: []time.Duration{}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sweeper is a new instance of the sweep function.
func (b *bundle) sweeper(changes ...func(*sweep.Config)) *sweep.Sweeper {
	b.t.Helper()
	config := b.cloud.Config(cloud.Label("sweep"))
	c := sweep.Config{
		Store: s3store.New(s3store.NewClient(config), b.bucket), Lambda: lambda.NewFromConfig(config), ClaimFunction: "claim",
		Log: slog.New(slog.DiscardHandler),
	}
	for _, change := range changes {
		change(&c)
	}
	s, err := sweep.New(c)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// run sweeps once.
func (b *bundle) run(changes ...func(*sweep.Config)) sweep.Report {
	b.t.Helper()
	report, err := b.sweeper(changes...).Run(b.t.Context())
	if err != nil {
		b.t.Fatalf("%v (report %+v)", err, report)
	}
	return report
}

// untilRound sweeps until the end of the inbox is reached.
func (b *bundle) untilRound(changes ...func(*sweep.Config)) {
	b.t.Helper()
	const most = 1000
	for range most {
		if b.run(changes...).Round {
			return
		}
	}
	b.t.Fatalf("the inbox has no end after %d runs", most)
}

// submit puts a task into the inbox that was due when it was submitted.
func (b *bundle) submit(id string, changes ...func(*task.Task)) task.Task {
	b.t.Helper()
	t := task.New(id, "job", time.Now())
	for _, change := range changes {
		change(&t)
	}
	version, err := b.Submit(b.t.Context(), t)
	if err != nil {
		b.t.Fatal(err)
	}
	t.InboxVersion = version
	return t
}

// submitMany submits many due tasks.
func (b *bundle) submitMany(n int) []string {
	b.t.Helper()
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("task-%05d", i)
		b.fill(s3store.InboxKey(ids[i]), task.New(ids[i], "job", time.Now()).EncodeSubmission())
	}
	return ids
}

// fill writes an object without the detour over a client.
func (b *bundle) fill(key string, body []byte) {
	b.t.Helper()
	answer := httptest.NewRecorder()
	b.cloud.S3().ServeHTTP(answer, httptest.NewRequest(http.MethodPut, "/"+b.bucket+"/"+key, bytes.NewReader(body)))
	if answer.Code != http.StatusOK {
		b.t.Fatal(answer.Body)
	}
}

// record writes what the events, at their times, make of a task.
func (b *bundle) record(t task.Task, steps ...step) {
	b.t.Helper()
	var rec s3store.Record
	for _, s := range steps {
		next, _, err := task.Apply(t, s.event, s.at)
		if err == nil {
			rec, err = b.Write(b.t.Context(), rec, next)
		}
		if err != nil {
			b.t.Fatal(err)
		}
		t = rec.Task
	}
}

type step struct {
	event task.Event
	at    time.Time
}

// put writes an object.
func (b *bundle) put(key, body string) {
	b.t.Helper()
	_, err := b.client.PutObject(b.t.Context(), &s3.PutObjectInput{Bucket: &b.bucket, Key: &key, Body: strings.NewReader(body)})
	if err != nil {
		b.t.Fatal(err)
	}
}

// drivenOnce asserts that just these tasks were re-driven, once each.
func (b *bundle) drivenOnce(want []string) {
	b.t.Helper()
	synctest.Wait()
	b.claim.mu.Lock()
	defer b.claim.mu.Unlock()
	for _, id := range want {
		if b.claim.ids[id] != 1 {
			b.t.Errorf("task %s was re-driven %d times, not once", id, b.claim.ids[id])
		}
	}
	if len(b.claim.ids) != len(want) {
		b.t.Errorf("%d tasks were re-driven, not %d", len(b.claim.ids), len(want))
	}
}

// driven asserts that just these tasks were re-driven, however often.
func (b *bundle) driven(want []string) {
	b.t.Helper()
	synctest.Wait()
	b.claim.mu.Lock()
	defer b.claim.mu.Unlock()
	for _, id := range want {
		if b.claim.ids[id] == 0 {
			b.t.Errorf("task %s was not re-driven", id)
		}
	}
	expected := make(map[string]bool, len(want))
	for _, id := range want {
		expected[id] = true
	}
	for id := range b.claim.ids {
		if !expected[id] {
			b.t.Errorf("task %s was re-driven for no reason", id)
		}
	}
}

func (b *bundle) storedCursor() string {
	b.t.Helper()
	data, _, err := b.SweepCursor(b.t.Context())
	if err != nil {
		return ""
	}
	return string(data)
}

// nothing is a Lambda that nobody asks.
type nothing struct{}

func (nothing) Invoke(context.Context, *lambda.InvokeInput, ...func(*lambda.Options)) (*lambda.InvokeOutput, error) {
	return nil, errors.New("not to be invoked")
}
