package s3emu_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	"github.com/sluice-dev/sluice/localstack/cloud/s3emu"
)

// inMemory is a transport that calls a handler: no socket, no goroutine.
type inMemory struct{ handler http.Handler }

func (t inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	t.handler.ServeHTTP(recorder, r)
	if r.Body != nil {
		r.Body.Close()
	}
	response := recorder.Result()
	response.Request = r
	return response, nil
}

const bucket = "tasks-bucket"

// bundle is a server with one bucket and a client of it.
type bundle struct {
	*s3.Client

	server *s3emu.Server
	events *eventLog
}

type eventLog struct {
	mu     sync.Mutex
	events []s3emu.Event
}

func (l *eventLog) add(e s3emu.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

func (l *eventLog) all() []s3emu.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]s3emu.Event(nil), l.events...)
}

// setup starts a server with a bucket whose versioning is "", "Enabled" or
// "Suspended".
func setup(t *testing.T, versioning string, options s3emu.Options) *bundle {
	t.Helper()
	log := &eventLog{}
	if options.OnEvent == nil {
		options.OnEvent = log.add
	}
	server := s3emu.New(options)
	b := &bundle{server: server, events: log, Client: newClient("http://s3.test", inMemory{server})}
	must(b.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(bucket)}))(t)
	b.setVersioning(t, versioning)
	return b
}

func newClient(endpoint string, transport http.RoundTripper, options ...func(*s3.Options)) *s3.Client {
	return s3.New(s3.Options{
		Region:           "us-east-1",
		BaseEndpoint:     aws.String(endpoint),
		UsePathStyle:     true,
		Credentials:      credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient:       &http.Client{Transport: transport},
		RetryMaxAttempts: 1,
	}, options...)
}

func (b *bundle) setVersioning(t *testing.T, status string) {
	t.Helper()
	if status == "" {
		return
	}
	must(b.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{
		Bucket:                  aws.String(bucket),
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatus(status)},
	}))(t)
}

// must fails the test on an error: must(call())(t).
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func (b *bundle) put(t *testing.T, key, body string, change ...func(*s3.PutObjectInput)) *s3.PutObjectOutput {
	t.Helper()
	return must(b.tryPut(t, key, body, change...))(t)
}

func (b *bundle) tryPut(t *testing.T, key, body string, change ...func(*s3.PutObjectInput)) (*s3.PutObjectOutput, error) {
	t.Helper()
	in := &s3.PutObjectInput{Bucket: aws.String(bucket), Key: aws.String(key), Body: bytes.NewReader([]byte(body))}
	for _, c := range change {
		c(in)
	}
	return b.PutObject(t.Context(), in)
}

func (b *bundle) tryGet(t *testing.T, key, versionID string, change ...func(*s3.GetObjectInput)) (string, *s3.GetObjectOutput, error) {
	t.Helper()
	in := &s3.GetObjectInput{Bucket: aws.String(bucket), Key: aws.String(key)}
	if versionID != "" {
		in.VersionId = aws.String(versionID)
	}
	for _, c := range change {
		c(in)
	}
	out, err := b.GetObject(t.Context(), in)
	if err != nil {
		return "", nil, err
	}
	defer out.Body.Close()
	body, err := io.ReadAll(out.Body)
	return string(body), out, err
}

func (b *bundle) get(t *testing.T, key, versionID string) string {
	t.Helper()
	body, _, err := b.tryGet(t, key, versionID)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func (b *bundle) delete(t *testing.T, key, versionID string) *s3.DeleteObjectOutput {
	t.Helper()
	return must(b.tryDelete(t, key, versionID, ""))(t)
}

func (b *bundle) tryDelete(t *testing.T, key, versionID, ifMatch string) (*s3.DeleteObjectOutput, error) {
	t.Helper()
	in := &s3.DeleteObjectInput{Bucket: aws.String(bucket), Key: aws.String(key)}
	if versionID != "" {
		in.VersionId = aws.String(versionID)
	}
	if ifMatch != "" {
		in.IfMatch = aws.String(ifMatch)
	}
	return b.DeleteObject(t.Context(), in)
}

// outcome is an answer in short: "200", or status and error code.
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	var status interface{ HTTPStatusCode() int }
	var api smithy.APIError
	if !errors.As(err, &status) {
		return err.Error()
	}
	if !errors.As(err, &api) {
		return strconv.Itoa(status.HTTPStatusCode())
	}
	return fmt.Sprint(status.HTTPStatusCode(), " ", api.ErrorCode())
}

func expect(t *testing.T, what string, err error, want string) {
	t.Helper()
	if got := outcome(err); got != want {
		t.Errorf("%s: %s, want %s (%v)", what, got, want, err)
	}
}

// unsignedPayload makes the SDK send a body it cannot rewind.
func unsignedPayload(stack *middleware.Stack) error {
	return v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware(stack)
}

// fill stores an object without the SDK, for tests of many.
func (b *bundle) fill(tb testing.TB, key string) {
	tb.Helper()
	recorder := httptest.NewRecorder()
	b.server.ServeHTTP(recorder, httptest.NewRequest(http.MethodPut, "/"+bucket+"/"+key, strings.NewReader("x")))
	if recorder.Code != http.StatusOK {
		tb.Fatalf("put of %s: %d %s", key, recorder.Code, recorder.Body)
	}
}
