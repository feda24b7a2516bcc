package reset_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/sluice-dev/sluice/localstack/cloud/dynamodbemu"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/reset"
)

// table is a DynamoDB with the table "limits", and counts its writes.
type table struct {
	config aws.Config
	puts   atomic.Int64
}

func newTable(t *testing.T) *table {
	t.Helper()
	b := &table{}
	emulated := dynamodbemu.New(dynamodbemu.Options{})
	b.config = aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String("http://dynamodb.invalid"),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient: clientFunc(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".PutItem") {
				b.puts.Add(1)
			}
			w := httptest.NewRecorder()
			emulated.ServeHTTP(w, r)
			return w.Result(), nil
		}),
	}
	if _, err := dynamodb.NewFromConfig(b.config).CreateTable(t.Context(), dynamolimit.Table("limits")); err != nil {
		t.Fatal(err)
	}
	return b
}

type clientFunc func(*http.Request) (*http.Response, error)

func (f clientFunc) Do(r *http.Request) (*http.Response, error) { return f(r) }

// limiter is that of one process, at a time.
func (b *table) limiter(at time.Time) *dynamolimit.Limiter {
	return dynamolimit.New(dynamodb.NewFromConfig(b.config), "limits",
		dynamolimit.WithClock(func() time.Time { return at }), dynamolimit.WithTrustedClock(), dynamolimit.WithLog(slog.New(slog.DiscardHandler)))
}

func (b *table) run(t *testing.T, at time.Time) reset.Report {
	t.Helper()
	report, err := reset.New(reset.Config{
		Registry: b.limiter(at), Now: func() time.Time { return at }, Log: slog.New(slog.DiscardHandler),
	}).Handle(t.Context())
	if err != nil {
		t.Error(err)
	}
	return report
}

// Runs of several processes that meet, after missed ones, reset a policy in one write.
func TestRunsThatMeetOnATableResetOnce(t *testing.T) {
	t.Parallel()
	b := newTable(t)
	if err := b.limiter(start).Declare(t.Context(), 1, hourly, byHand); err != nil {
		t.Fatal(err)
	}
	if _, err := b.limiter(start).Acquire(t.Context(), hourly.Key("a").Cost(4)); err != nil {
		t.Fatal(err)
	}
	for _, missed := range []int{1, 3} {
		at := start.Add(time.Duration(missed) * time.Hour)
		b.puts.Store(0)
		var resets atomic.Int64
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() { resets.Add(int64(len(b.run(t, at).Resets))) })
		}
		group.Wait()
		if resets.Load() != 1 {
			t.Errorf("after %d hours: %d of 4 runs have reset", missed, resets.Load())
		}
		if report := b.run(t, at); len(report.Resets) != 0 || report.Policies != 2 {
			t.Errorf("%+v", report)
		}
	}
	later := start.Add(3 * time.Hour)
	if r, err := b.limiter(later).Inspect(t.Context(), hourly.Key("a")); err != nil || r.Used != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	entries, err := b.limiter(later).Policies(t.Context())
	if err != nil || entries[1].Generation != 2 {
		t.Errorf("%+v, %v", entries, err)
	}
}

func TestNothingDueWritesNothing(t *testing.T) {
	t.Parallel()
	b := newTable(t)
	if err := b.limiter(start).Declare(t.Context(), 1, hourly, window); err != nil {
		t.Fatal(err)
	}
	b.puts.Store(0)
	b.run(t, start.Add(10*time.Minute))
	if n := b.puts.Load(); n != 0 {
		t.Errorf("%d writes", n)
	}
}

func TestTheFunctionIsMadeFromItsEnvironment(t *testing.T) {
	t.Parallel()
	b := newTable(t)
	none := func(string) string { return "" }
	if _, err := reset.FromEnvironment(b.config, none); err == nil || !strings.Contains(err.Error(), "SLUICE_TABLE") {
		t.Errorf("%v", err)
	}
	r, err := reset.FromEnvironment(b.config, func(name string) string {
		return map[string]string{"SLUICE_TABLE": "limits", "AWS_LAMBDA_FUNCTION_NAME": "the-reset"}[name]
	})
	if err != nil || r.FunctionName != "the-reset" {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := r.Handle(t.Context()); err != nil {
		t.Error(err)
	}
}
