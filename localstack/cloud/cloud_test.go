package cloud_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	schedulertypes "github.com/aws/aws-sdk-go-v2/service/scheduler/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/localstack/cloud/s3emu"
)

// overTCP has the cloud listen and returns a configuration for clients that
// use the network.
func overTCP(t *testing.T, c *cloud.Cloud) aws.Config {
	t.Helper()
	url, err := c.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := c.Config(cloud.Label("network"))
	cfg.BaseEndpoint = aws.String(url)
	network := &http.Transport{}
	t.Cleanup(network.CloseIdleConnections)
	cfg.HTTPClient = &http.Client{Transport: network}
	return cfg
}

func countEvents(n *atomic.Int32) func(s3emu.Event) { return func(s3emu.Event) { n.Add(1) } }

// watch registers a function that is told of all new objects.
func watch(t *testing.T, b *bundle) *payloads {
	t.Helper()
	seen := &payloads{}
	b.register(t, seen.function("watch"))
	if err := b.NotifyOnCreate(bucket, "", "watch"); err != nil {
		t.Fatal(err)
	}
	return seen
}

func TestRequestsReachTheirServiceAndAreCountedByOperation(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, b *bundle, cfg aws.Config) {
		t.Helper()
		b.register(t, (&payloads{}).function("f"))
		steps := []func(context.Context) error{
			func(ctx context.Context) error { return s3Steps(ctx, s3.NewFromConfig(cfg)) },
			func(ctx context.Context) error { return dynamoSteps(ctx, dynamodb.NewFromConfig(cfg)) },
			func(ctx context.Context) error { return schedulerSteps(ctx, scheduler.NewFromConfig(cfg)) },
			func(ctx context.Context) error { return lambdaSteps(ctx, lambda.NewFromConfig(cfg)) },
			func(ctx context.Context) error { return sqsSteps(ctx, sqs.NewFromConfig(cfg)) },
		}
		for _, step := range steps {
			if err := step(t.Context()); err != nil {
				t.Error(err)
			}
		}
		const want = "dynamodb.CreateTable=1 dynamodb.DescribeTable=1 dynamodb.ListTables=1 " +
			"lambda.GetFunction=1 lambda.Invoke=2 lambda.ListFunctions=1 " +
			"s3.CopyObject=1 s3.CreateBucket=2 s3.DeleteObject=1 s3.DeleteObjects=1 s3.GetBucketVersioning=1 s3.GetObject=1 " +
			"s3.GetObjectTagging=1 s3.HeadBucket=1 s3.HeadObject=1 s3.ListBuckets=1 s3.ListObjectVersions=1 s3.ListObjectsV2=1 " +
			"s3.PutBucketVersioning=1 s3.PutObject=2 s3.PutObjectTagging=1 " +
			"scheduler.CreateSchedule=1 scheduler.CreateScheduleGroup=1 scheduler.DeleteSchedule=1 scheduler.DeleteScheduleGroup=1 " +
			"scheduler.GetSchedule=1 scheduler.ListScheduleGroups=1 scheduler.ListSchedules=1 " +
			"sqs.CreateQueue=1 sqs.GetQueueAttributes=1 sqs.GetQueueUrl=1 sqs.SendMessage=1"
		if got := b.Requests().Snapshot().String(); got != want {
			t.Errorf("counted\n%s\nwant\n%s", got, want)
		}
	}
	t.Run("in memory", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := setup(t, cloud.Options{})
			check(t, b, b.Config())
		})
	})
	t.Run("over TCP", func(t *testing.T) {
		t.Parallel()
		b := setup(t, cloud.Options{})
		check(t, b, overTCP(t, b.Cloud))
	})
}

// s3Steps works on buckets that are named like paths of other services.
func s3Steps(ctx context.Context, c *s3.Client) error {
	const name = "schedules"
	var errs []error
	add := func(_ any, err error) { errs = append(errs, err) }
	add(c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String(name)}))
	add(c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String("2015-03-31")}))
	add(c.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: aws.String(name)}))
	add(c.ListBuckets(ctx, &s3.ListBucketsInput{}))
	add(c.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{Bucket: aws.String(name),
		VersioningConfiguration: &s3types.VersioningConfiguration{Status: s3types.BucketVersioningStatusEnabled}}))
	add(c.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: aws.String(name)}))
	add(c.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String(name), Key: aws.String("k"), Body: strings.NewReader("1")}))
	add(c.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("2015-03-31"), Key: aws.String("functions/f"), Body: strings.NewReader("1")}))
	add(c.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(name), Key: aws.String("k")}))
	add(c.HeadObject(ctx, &s3.HeadObjectInput{Bucket: aws.String(name), Key: aws.String("k")}))
	add(c.CopyObject(ctx, &s3.CopyObjectInput{Bucket: aws.String(name), Key: aws.String("k2"), CopySource: aws.String(name + "/k")}))
	add(c.PutObjectTagging(ctx, &s3.PutObjectTaggingInput{Bucket: aws.String(name), Key: aws.String("k"),
		Tagging: &s3types.Tagging{TagSet: []s3types.Tag{{Key: aws.String("a"), Value: aws.String("1")}}}}))
	add(c.GetObjectTagging(ctx, &s3.GetObjectTaggingInput{Bucket: aws.String(name), Key: aws.String("k")}))
	add(c.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String(name)}))
	add(c.ListObjectVersions(ctx, &s3.ListObjectVersionsInput{Bucket: aws.String(name)}))
	add(c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: aws.String(name), Key: aws.String("k")}))
	add(c.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: aws.String(name),
		Delete: &s3types.Delete{Objects: []s3types.ObjectIdentifier{{Key: aws.String("k2")}}}}))
	return errors.Join(errs...)
}

func dynamoSteps(ctx context.Context, c *dynamodb.Client) error {
	_, err := c.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:            aws.String("table"),
		BillingMode:          types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}},
	})
	_, err2 := c.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String("table")})
	_, err3 := c.ListTables(ctx, nil)
	return errors.Join(err, err2, err3)
}

func schedulerSteps(ctx context.Context, c *scheduler.Client) error {
	_, err1 := c.CreateScheduleGroup(ctx, &scheduler.CreateScheduleGroupInput{Name: aws.String("g")})
	err2 := schedule(ctx, c, "g", "s", time.Now().Add(time.Hour), "arn:aws:lambda:us-east-1:000000000000:function:f", "")
	_, err3 := c.GetSchedule(ctx, &scheduler.GetScheduleInput{Name: aws.String("s"), GroupName: aws.String("g")})
	_, err4 := c.ListSchedules(ctx, nil)
	_, err5 := c.ListScheduleGroups(ctx, nil)
	_, err6 := c.DeleteSchedule(ctx, &scheduler.DeleteScheduleInput{Name: aws.String("s"), GroupName: aws.String("g")})
	_, err7 := c.DeleteScheduleGroup(ctx, &scheduler.DeleteScheduleGroupInput{Name: aws.String("g")})
	return errors.Join(err1, err2, err3, err4, err5, err6, err7)
}

// schedule arms a one-shot schedule that deletes itself and is retried once.
func schedule(ctx context.Context, c *scheduler.Client, group, name string, at time.Time, target, deadLetters string) error {
	in := &scheduler.CreateScheduleInput{
		Name: aws.String(name), GroupName: aws.String(group),
		ScheduleExpression:    aws.String("at(" + at.UTC().Format("2006-01-02T15:04:05") + ")"),
		FlexibleTimeWindow:    &schedulertypes.FlexibleTimeWindow{Mode: schedulertypes.FlexibleTimeWindowModeOff},
		ActionAfterCompletion: schedulertypes.ActionAfterCompletionDelete,
		Target: &schedulertypes.Target{
			Arn: aws.String(target), RoleArn: aws.String("arn:aws:iam::000000000000:role/r"), Input: aws.String(`{"task_id":"` + name + `"}`),
			RetryPolicy: &schedulertypes.RetryPolicy{MaximumRetryAttempts: aws.Int32(1)},
		},
	}
	if deadLetters != "" {
		in.Target.DeadLetterConfig = &schedulertypes.DeadLetterConfig{Arn: aws.String(deadLetters)}
	}
	_, err := c.CreateSchedule(ctx, in)
	return err
}

func lambdaSteps(ctx context.Context, c *lambda.Client) error {
	_, err1 := c.Invoke(ctx, &lambda.InvokeInput{FunctionName: aws.String("f"), Payload: []byte("1")})
	_, err2 := c.Invoke(ctx, &lambda.InvokeInput{FunctionName: aws.String("arn:aws:lambda:us-east-1:000000000000:function:f")})
	_, err3 := c.GetFunction(ctx, &lambda.GetFunctionInput{FunctionName: aws.String("f")})
	_, err4 := c.ListFunctions(ctx, nil)
	return errors.Join(err1, err2, err3, err4)
}

func sqsSteps(ctx context.Context, c *sqs.Client) error {
	_, err := c.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("q")})
	url, err2 := c.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("q")})
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	_, err = c.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: url.QueueUrl, MessageBody: aws.String("m")})
	_, err2 = c.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: url.QueueUrl})
	return errors.Join(err, err2)
}

func TestCountersTellClientsAndPeriodsApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, cloud.Options{})
		other := &bundle{Cloud: b.Cloud, s3: s3.NewFromConfig(b.Config(cloud.Label("other")))}
		b.mustPut(t, "a", "1")
		before := b.Requests().Snapshot()
		other.mustPut(t, "b", "1")
		if _, err := other.get(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		for got, want := range map[string]string{
			before.String(): "s3.PutObject=1",
			b.Requests().Snapshot().Diff(before).String():   "s3.GetObject=1 s3.PutObject=1",
			b.Requests().Snapshot("other", "none").String(): "s3.GetObject=1 s3.PutObject=1",
			b.Requests().Snapshot("test", "other").String(): "s3.GetObject=1 s3.PutObject=2",
		} {
			if got != want {
				t.Errorf("counted %q, want %q", got, want)
			}
		}
		if n := b.Requests().Snapshot().Total(); n != 3 {
			t.Errorf("%d requests, want 3", n)
		}
		b.Requests().Reset()
		if got := b.Requests().Snapshot().String(); got != "" {
			t.Errorf("after Reset: %q", got)
		}
	})
}

func TestBodiesAreStreamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, cloud.Options{})
		large := strings.Repeat("0123456789abcdef", 1<<16)
		b.mustPut(t, "k", large)
		if body, err := b.get(t.Context(), "k"); err != nil || body != large {
			t.Errorf("got %d bytes (%v), want %d", len(body), err, len(large))
		}
	})
}

func TestCloseEndsAStreamThatNobodyReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, cloud.Options{})
		b.mustPut(t, "k", strings.Repeat("x", 1<<20))
		out, err := b.s3.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String(bucket), Key: aws.String("k")})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, out.Body); err == nil {
			t.Error("the rest could be read from a closed cloud")
		}
		_ = out.Body.Close()
		if err := b.put(t.Context(), "k", "1"); err == nil {
			t.Error("a closed cloud takes requests")
		}
	})
}

func TestBucketsInTheHostName(t *testing.T) {
	t.Parallel()
	b := setup(t, cloud.Options{})
	b.mustPut(t, "a b", "body")
	client := &http.Client{Transport: b.Transport("x")}
	for _, url := range []string{"http://127.0.0.1/bucket/a%20b", "http://bucket.localhost:4566/a%20b", "http://bucket.s3.localhost/a%20b"} {
		response, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if string(body) != "body" {
			t.Errorf("%s: %s", url, body)
		}
	}
}

func TestFunctionsThatAreProcessesUseTheCloud(t *testing.T) {
	t.Parallel()
	path, err := buildFunction()
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 100)
	opts := cloud.Options{}
	opts.Lambda.LogSink = func(_, _, line string) { lines <- line }
	written := make(chan s3emu.Event, 10)
	opts.S3.OnEvent = func(e s3emu.Event) { written <- e }
	b := setup(t, opts)
	b.register(t, lambdaemu.Function{Name: "copy", Timeout: time.Minute, Runtime: lambdaemu.Process{Path: path}})
	if err := b.NotifyOnCreate(bucket, "in/", "copy"); err != nil {
		t.Fatal(err)
	}
	b.mustPut(t, "in/a b+ü", "body")
	for _, want := range []string{"in/a b+ü", "out/a b+ü"} {
		select {
		case e := <-written:
			if e.Key != want {
				t.Errorf("written: %s, want %s", e.Key, want)
			}
		case line := <-lines:
			t.Fatalf("the function says: %s", line)
		}
	}
	if body, err := b.get(t.Context(), "out/a b+ü"); err != nil || body != "body" {
		t.Errorf("got %q, %v", body, err)
	}
	if got := b.Requests().Snapshot("copy").String(); got != "s3.GetObject=1 s3.PutObject=1" {
		t.Errorf("requests of the function: %q", got)
	}
}

func TestRequestsWithoutASignature(t *testing.T) {
	t.Parallel()
	b := setup(t, cloud.Options{})
	client := &http.Client{Transport: b.Transport("x")}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://localhost:4566/bucket/k", bytes.NewReader([]byte("body")))
	if err != nil {
		t.Fatal(err)
	}
	for _, request := range []*http.Request{r, get(t, "http://localhost:4566/schedules"), get(t, "http://localhost:4566/2015-03-31/functions/")} {
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("%s %s: status %d", request.Method, request.URL, response.StatusCode)
		}
	}
	if got := b.Requests().Snapshot("x").String(); got != "lambda.ListFunctions=1 s3.PutObject=1 scheduler.ListSchedules=1" {
		t.Errorf("counted %q", got)
	}
}

func get(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
