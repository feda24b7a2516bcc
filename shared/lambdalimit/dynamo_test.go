package lambdalimit_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/sluice-dev/sluice/localstack/cloud/dynamodbemu"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/lambdalimit"
	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/limit/limittest"
)

// tableConfig is a DynamoDB of its own with the table "limits".
func tableConfig(t *testing.T) aws.Config {
	t.Helper()
	emulated := dynamodbemu.New(dynamodbemu.Options{})
	config := aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String("http://dynamodb.invalid"),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient: clientFunc(func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			emulated.ServeHTTP(w, r)
			return w.Result(), nil
		}),
	}
	if _, err := dynamodb.NewFromConfig(config).CreateTable(t.Context(), dynamolimit.Table("limits")); err != nil {
		t.Fatal(err)
	}
	return config
}

type clientFunc func(*http.Request) (*http.Response, error)

func (f clientFunc) Do(r *http.Request) (*http.Response, error) { return f(r) }

// The function as deployed: a client of it over DynamoDB conforms.
func TestTheClientConformsOverDynamoDB(t *testing.T) {
	t.Parallel()
	limittest.Suite{Start: func(t *testing.T, clock func() time.Time) limittest.Subject {
		t.Helper()
		l := dynamolimit.New(dynamodb.NewFromConfig(tableConfig(t)), "limits",
			dynamolimit.WithClock(clock), dynamolimit.WithTrustedClock(), dynamolimit.WithCacheFor(0), dynamolimit.WithLog(slog.New(slog.DiscardHandler)))
		return limittest.Subject{
			Limiter: lambdalimit.NewClient(function(&lambdalimit.Handler{Limiter: l}), "limiter"),
			Declare: l.Declare,
			ResetDue: func(ctx context.Context) error {
				_, err := l.ResetDue(ctx, "cron")
				return err
			},
		}
	}}.Run(t)
}

// The first instance of the function charges and its answer is lost; the second one is
// asked again.
func TestALostAnswerDoesNotChargeTwiceOnAnotherInstance(t *testing.T) {
	t.Parallel()
	config := tableConfig(t)
	instance := func() *dynamolimit.Limiter {
		return dynamolimit.New(dynamodb.NewFromConfig(config), "limits", dynamolimit.WithLog(slog.New(slog.DiscardHandler)))
	}
	p := limit.Policy{Name: "p", Rate: limit.Per(4, limit.MaxPeriod)}
	if err := instance().Declare(t.Context(), 1, p); err != nil {
		t.Fatal(err)
	}
	calls := 0
	api := invoker(func(ctx context.Context, in *lambda.InvokeInput, _ ...func(*lambda.Options)) (*lambda.InvokeOutput, error) {
		calls++
		out, err := function(&lambdalimit.Handler{Limiter: instance()})(ctx, in)
		if calls == 1 {
			return nil, errReset
		}
		return out, err
	})
	c := lambdalimit.NewClient(api, "limiter")
	r, err := c.Acquire(t.Context(), p.Key("a").Cost(4)) // all there is
	if err != nil || calls != 2 {
		t.Fatalf("%v after %d calls", err, calls)
	}
	if r, err := c.Inspect(t.Context(), p.Key("a")); err != nil || r.Used != 4 {
		t.Errorf("%+v, %v", r, err)
	}
	if err := r.Settle(t.Context(), p.Key("a").Cost(5)); err != nil {
		t.Error(err)
	}
	if r, err := c.Inspect(t.Context(), p.Key("a")); err != nil || r.Used != 5 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestTheFunctionIsMadeFromItsEnvironment(t *testing.T) {
	t.Parallel()
	config := tableConfig(t)
	if _, err := lambdalimit.FromEnvironment(config, func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), "SLUICE_TABLE") {
		t.Errorf("%v", err)
	}
	h, err := lambdalimit.FromEnvironment(config, func(name string) string {
		return map[string]string{"SLUICE_TABLE": "limits"}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := h.Invoke(t.Context(), []byte(`{"op":"policies"}`)); err != nil || string(answer) != `{"policies":[]}` {
		t.Errorf("%s, %v", answer, err)
	}
	_, err = lambdalimit.NewClient(function(h), "limiter").Acquire(t.Context(), limit.Policy{Name: "nobody"}.Global())
	if err == nil || !strings.Contains(err.Error(), "deploy a version that declares it") {
		t.Errorf("%v", err)
	}
}

// Each request says how it was decided and what it took.
func TestDecisionsAndRequestsAreMetrics(t *testing.T) {
	t.Parallel()
	l := dynamolimit.New(dynamodb.NewFromConfig(tableConfig(t)), "limits", dynamolimit.WithLog(slog.New(slog.DiscardHandler)))
	if err := l.Declare(t.Context(), 1, limit.Policy{Name: "once", Manual: limit.ByOperator, Max: 1}); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	h := &lambdalimit.Handler{Limiter: l, Log: slog.New(slog.NewJSONHandler(&log, nil)), FunctionName: "limiter"}
	for _, want := range []string{
		`"FunctionName":"limiter","LimiterAdmitted":1,"LimiterRequests":1,`,
		`"FunctionName":"limiter","LimiterDenied":1,"LimiterRequests":1,`,
	} {
		log.Reset()
		if _, err := h.Invoke(t.Context(), []byte(`{"op":"acquire","tiers":[{"policy":"once"}]}`)); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(log.String(), want) || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("log = %s, want %s in it", log.String(), want)
		}
	}
}
