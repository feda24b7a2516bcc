package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"

	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/wakeup"
	"github.com/sluice-dev/sluice/shared/worker"
)

// The benchmarks measure what a task takes of the claim function's CPU and memory: the
// engine, the adapters and the AWS SDK, over a transport that answers at once. They say
// nothing of the network, and the handler does nothing.

func BenchmarkPlainTask(b *testing.B)   { benchmarkTask(b, "plain", throughSDK) }
func BenchmarkLimitedTask(b *testing.B) { benchmarkTask(b, "limited", throughSDK) }

// BenchmarkPlainTaskWithoutSDK leaves out what the AWS SDK takes to make a request of a call
// and a result of a response: the rest is ours.
func BenchmarkPlainTaskWithoutSDK(b *testing.B) { benchmarkTask(b, "plain", withoutSDK) }

// BenchmarkSleep is a task that sleeps once and completes: beyond a plain one it shows what
// a sleep and the run after it take.
func BenchmarkSleep(b *testing.B) {
	mux := worker.NewMux()
	worker.Handle(mux, "nap", func(ctx context.Context, _ int) (int, error) {
		if t, _ := worker.TaskFrom(ctx); t.RescheduleCount == 0 {
			return 0, worker.Reschedule(time.Hour)
		}
		return 1, nil
	})
	bench := newEngineBench(b, mux, throughSDK)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		id := bench.submit(i, "nap")
		bench.handle(b, inboxEvent(id))
		bench.clock = bench.clock.Add(time.Hour)
		bench.handle(b, fmt.Appendf(nil, `{"task_id":%q,"second":%d}`, id, bench.clock.Unix()))
		bench.finished(b, id)
	}
}

// Ways to the bucket.
func throughSDK(_ bucket, config aws.Config) s3store.API { return s3store.NewClient(config) }
func withoutSDK(b bucket, _ aws.Config) s3store.API      { return direct{bucket: b} }

func benchmarkTask(b *testing.B, taskType string, way func(bucket, aws.Config) s3store.API) {
	policy := limit.Policy{Name: "vendor", Window: limit.Days("UTC"), Max: limit.MaxUnits}
	mux := worker.NewMux()
	handler := func(_ context.Context, n int) (int, error) { return n, nil }
	worker.Handle(mux, "plain", handler)
	worker.Handle(mux, "limited", handler, worker.WithLimits(limit.Global[int](policy)))
	bench := newEngineBench(b, mux, way, policy)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		id := bench.submit(i, taskType)
		bench.handle(b, inboxEvent(id))
		bench.finished(b, id)
	}
}

func inboxEvent(id string) []byte {
	return fmt.Appendf(nil, `{"Records":[{"eventName":"ObjectCreated:Put","s3":{"object":{"key":%q}}}]}`, s3store.InboxKey(id))
}

// engineBench is a claim engine on a bucket in memory.
type engineBench struct {
	engine *worker.Engine
	bucket bucket
	clock  time.Time
}

func newEngineBench(b *testing.B, mux *worker.Mux, way func(bucket, aws.Config) s3store.API, policies ...limit.Policy) *engineBench {
	b.Helper()
	limiter, err := limit.NewMemory(policies...)
	if err != nil {
		b.Fatal(err)
	}
	bench := &engineBench{bucket: bucket{}, clock: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}
	config := aws.Config{
		Region:       "us-east-1",
		BaseEndpoint: aws.String("http://127.0.0.1"),
		Credentials:  credentials.NewStaticCredentialsProvider("bench", "bench", ""),
		HTTPClient:   &http.Client{Transport: bench.bucket},
	}
	bench.engine = worker.NewEngine(worker.Config{
		Store:   s3store.New(way(bench.bucket, config), "bench"),
		Wakeups: wakeup.New(scheduler.NewFromConfig(config), wakeup.Config{Group: "bench", RoleARN: "role", TargetARN: "claim"}),
		Mux:     mux,
		Limiter: limiter,
		Log:     slog.New(slog.NewJSONHandler(io.Discard, nil)), //nolint:sloglint // writing the lines is part of what is measured
		Now:     func() time.Time { return bench.clock },
	})
	return bench
}

// submit puts a submission where a producer would, without the SDK: it is the function that
// is measured.
func (e *engineBench) submit(i int, taskType string) (id string) {
	id = "task-" + strconv.Itoa(i)
	e.bucket["/bench/"+s3store.InboxKey(id)] = fmt.Appendf(nil, `{"schema":1,"id":%q,"task_type":%q,"input":%d}`, id, taskType, i)
	return id
}

func (e *engineBench) handle(b *testing.B, event json.RawMessage) {
	b.Helper()
	if err := e.engine.Handle(context.Background(), event); err != nil {
		b.Fatal(err)
	}
}

// finished checks that the task has completed, and forgets it.
func (e *engineBench) finished(b *testing.B, id string) {
	b.Helper()
	record := "/bench/" + s3store.TaskKey(id)
	if _, left := e.bucket["/bench/"+s3store.InboxKey(id)]; left || !bytes.Contains(e.bucket[record], []byte(`"status":"completed"`)) {
		b.Fatalf("the task has not completed: %s", e.bucket[record])
	}
	delete(e.bucket, record)
}

// bucket is an S3 that keeps objects by path and looks at no condition, and a Scheduler that
// takes everything.
type bucket map[string][]byte

func (o bucket) RoundTrip(r *http.Request) (*http.Response, error) {
	status, answer := http.StatusOK, []byte(nil)
	switch {
	case strings.HasPrefix(r.URL.Path, "/schedules/"):
		answer = []byte(`{"ScheduleArn":"arn:aws:scheduler:us-east-1:000000000000:schedule/bench/one"}`)
	case r.Method == http.MethodPut:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		o[r.URL.Path] = body
	case r.Method == http.MethodDelete:
		delete(o, r.URL.Path)
		status = http.StatusNoContent
	case o[r.URL.Path] != nil:
		answer = o[r.URL.Path]
	default:
		status, answer = http.StatusNotFound, []byte(`<Error><Code>NoSuchKey</Code></Error>`)
	}
	return &http.Response{
		StatusCode:    status,
		Header:        http.Header{"Etag": {`"e"`}, "X-Amz-Version-Id": {"v"}, "Content-Type": {"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(answer)),
		ContentLength: int64(len(answer)),
		Request:       r,
	}, nil
}

// direct is the bucket as the store calls it.
type direct struct {
	s3store.API // what it has no method for is not called

	bucket bucket
}

func (d direct) PutObject(_ context.Context, in *s3.PutObjectInput, _ ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	body, err := io.ReadAll(in.Body)
	d.bucket["/bench/"+*in.Key] = body
	return &s3.PutObjectOutput{ETag: aws.String("e"), VersionId: aws.String("v")}, err
}

func (d direct) GetObject(_ context.Context, in *s3.GetObjectInput, _ ...func(*s3.Options)) (*s3.GetObjectOutput, error) {
	body, found := d.bucket["/bench/"+*in.Key]
	if !found {
		return nil, &types.NoSuchKey{}
	}
	return &s3.GetObjectOutput{
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: aws.Int64(int64(len(body))),
		ETag: aws.String("e"), VersionId: aws.String("v"),
	}, nil
}

func (d direct) DeleteObject(_ context.Context, in *s3.DeleteObjectInput, _ ...func(*s3.Options)) (*s3.DeleteObjectOutput, error) {
	delete(d.bucket, "/bench/"+*in.Key)
	return &s3.DeleteObjectOutput{}, nil
}
