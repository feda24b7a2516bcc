package cloud_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"github.com/sluice-dev/sluice/localstack/cloud"
)

// once makes a client that does not retry.
func once(cfg aws.Config) aws.Config {
	cfg.RetryMaxAttempts = 1
	return cfg
}

func isPut(r *cloud.Request) bool { return r.Is(cloud.S3, "PutObject") }

func TestFaultsOfOneRequest(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		fault   cloud.Fault
		code    string // of the error, "" for none, "-" for a broken connection
		written bool   // whether the object is there afterwards
		events  int    // how often S3 has told of it
	}{
		{"none", cloud.Fault{}, "", true, 1},
		{"unreachable", cloud.Unreachable, "-", false, 0},
		{"lost answer", cloud.LostAnswer, "-", true, 1},
		{"slow down", cloud.SlowDown, "SlowDown", false, 0},
		{"conflict", cloud.Conflict, "ConditionalRequestConflict", false, 0},
		{"repeated", cloud.Fault{Repeat: true}, "", true, 2},
		{"repeated, answer lost", cloud.Fault{Repeat: true, After: true}, "-", true, 2},
		{"carried out and refused", cloud.Fault{After: true, Status: 500, Code: "InternalError"}, "InternalError", true, 1},
		{"precondition", cloud.Fault{Status: 412, Code: "PreconditionFailed"}, "PreconditionFailed", false, 0},
	}
	for _, tt := range tests {
		check := func(t *testing.T, b *bundle, client *s3.Client, events func() int) {
			t.Helper()
			b.FailNext(1, tt.fault, isPut)
			_, err := client.PutObject(t.Context(), &s3.PutObjectInput{
				Bucket: aws.String(bucket), Key: aws.String("k"), Body: strings.NewReader("body")})
			if got := codeOf(err); got != tt.code {
				t.Errorf("answer %q (%v), want %q", got, err, tt.code)
			}
			body, err := b.get(t.Context(), "k")
			if written := err == nil && body == "body"; written != tt.written {
				t.Errorf("written: %v (%v), want %v", written, err, tt.written)
			}
			if got := events(); got != tt.events {
				t.Errorf("%d events, want %d", got, tt.events)
			}
		}
		t.Run(tt.name+" in memory", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, cloud.Options{})
				seen := watch(t, b)
				check(t, b, s3.NewFromConfig(once(b.Config())), func() int { synctest.Wait(); return len(seen.list()) })
			})
		})
		t.Run(tt.name+" over TCP", func(t *testing.T) {
			t.Parallel()
			var events atomic.Int32
			opts := cloud.Options{}
			opts.S3.OnEvent = countEvents(&events)
			b := setup(t, opts)
			cfg := overTCP(t, b.Cloud)
			check(t, b, s3.NewFromConfig(once(cfg)), func() int { return int(events.Load()) })
		})
	}
}

// codeOf is the code of an AWS error, "-" for any other error.
func codeOf(err error) string {
	var api smithy.APIError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &api):
		return api.ErrorCode()
	}
	return "-"
}

func TestFaultsSpeakTheLanguageOfTheService(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, cloud.Options{})
		cfg := once(b.Config())
		calls := map[string]func() error{
			"dynamodb": func() error {
				_, err := dynamodb.NewFromConfig(cfg).ListTables(t.Context(), nil)
				return err
			},
			"scheduler": func() error {
				_, err := scheduler.NewFromConfig(cfg).ListSchedules(t.Context(), nil)
				return err
			},
			"lambda": func() error {
				_, err := lambda.NewFromConfig(cfg).ListFunctions(t.Context(), nil)
				return err
			},
			"sqs": func() error {
				_, err := sqs.NewFromConfig(cfg).ListQueues(t.Context(), nil)
				return err
			},
			"s3": func() error {
				_, err := s3.NewFromConfig(cfg).ListBuckets(t.Context(), nil)
				return err
			},
		}
		for service, call := range calls {
			b.FailNext(1, cloud.Fault{Status: 400, Code: "SomethingWrong", Message: "told you"}, nil)
			err := call()
			var api smithy.APIError
			if !errors.As(err, &api) || api.ErrorCode() != "SomethingWrong" || api.ErrorMessage() != "told you" {
				t.Errorf("%s: %v", service, err)
			}
			if err := call(); err != nil {
				t.Errorf("%s, the next call: %v", service, err)
			}
		}
	})
}

func TestAFaultIsAimedAtAClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, cloud.Options{})
		b.SetFault(func(r *cloud.Request) cloud.Fault {
			if r.From("worker") && r.Is(cloud.S3, "GetObject") && r.Bucket == bucket && r.Key == "a b/ü" {
				return cloud.SlowDown
			}
			return cloud.Fault{}
		})
		b.mustPut(t, "a b/ü", "body")
		if _, err := b.get(t.Context(), "a b/ü"); err != nil {
			t.Errorf("another client: %v", err)
		}
		worker := &bundle{Cloud: b.Cloud, s3: s3.NewFromConfig(once(b.Config(cloud.Label("worker"))))}
		if _, err := worker.get(t.Context(), "a b/ü"); codeOf(err) != "SlowDown" {
			t.Errorf("the client aimed at: %v", err)
		}
		b.SetFault(nil)
		if _, err := worker.get(t.Context(), "a b/ü"); err != nil {
			t.Errorf("after the hook was removed: %v", err)
		}
	})
}

func TestTheSDKRetriesWhatCanBeRetried(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]cloud.Fault{
		"broken connection": cloud.Unreachable, "lost answer": cloud.LostAnswer, "slow down": cloud.SlowDown, "internal error": cloud.InternalError,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, cloud.Options{})
				b.FailNext(2, fault, isPut)
				b.mustPut(t, "k", "body")
				if n := b.Requests().Snapshot().Of(cloud.S3, "PutObject"); n != 3 {
					t.Errorf("%d requests, want 3", n)
				}
			})
		})
	}
}

func TestDelayAndLatencyTakeVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, cloud.Options{Latency: map[cloud.Service]time.Duration{cloud.S3: 20 * time.Millisecond}})
		b.FailNext(1, cloud.Fault{Delay: time.Hour}, isPut)
		start := time.Now()
		b.mustPut(t, "k", "body")
		if took := time.Since(start); took != time.Hour+20*time.Millisecond {
			t.Errorf("the first took %v", took)
		}
		b.SetLatency(cloud.S3, 0)
		start = time.Now()
		b.mustPut(t, "k", "body")
		if took := time.Since(start); took != 0 {
			t.Errorf("the second took %v", took)
		}
	})
}

func TestARequestIsCarriedOutAlthoughItsClientGaveUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, cloud.Options{Latency: map[cloud.Service]time.Duration{cloud.S3: time.Minute}})
		ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second) // the deed is done after 30 s
		defer cancel()
		if err := b.put(ctx, "k", "body"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if _, err := b.get(t.Context(), "k"); err != nil {
			t.Errorf("the object is not there: %v", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		if err := b.put(ctx, "k2", "body"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if _, err := b.get(t.Context(), "k2"); codeOf(err) != "NoSuchKey" {
			t.Errorf("a request that was cancelled on its way was carried out: %v", err)
		}
	})
}

func TestAHookCanHoldARequestAndActInBetween(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, cloud.Options{})
		b.mustPut(t, "k", "first")
		read := make(chan struct{})
		b.FailNext(1, cloud.Fault{Then: func() {
			close(read)
			if err := b.put(context.WithoutCancel(t.Context()), "k", "second"); err != nil {
				t.Error(err)
			}
		}}, func(r *cloud.Request) bool { return r.Is(cloud.S3, "GetObject") })
		if body, err := b.get(t.Context(), "k"); err != nil || body != "first" {
			t.Errorf("got %q, %v; want what was there before the write in between", body, err)
		}
		<-read
		if body, err := b.get(t.Context(), "k"); err != nil || body != "second" {
			t.Errorf("got %q, %v", body, err)
		}
	})
}

func TestAHookCanReadTheBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, cloud.Options{})
		var seen string
		b.SetFault(func(r *cloud.Request) cloud.Fault {
			if isPut(r) {
				seen = string(r.Body())
			}
			return cloud.Fault{}
		})
		b.mustPut(t, "k", "body")
		if body, err := b.get(t.Context(), "k"); seen != "body" || body != "body" || err != nil {
			t.Errorf("the hook saw %q, S3 stored %q (%v)", seen, body, err)
		}
	})
}

func TestUnknownServicesAreRefusedByName(t *testing.T) {
	t.Parallel()
	b := setup(t, cloud.Options{})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://any/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKID/20270101/us-east-1/sts/aws4_request, SignedHeaders=host, Signature=0")
	response, err := b.Transport("x").RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusNotImplemented {
		t.Errorf("status %d", response.StatusCode)
	}
}
