package lambdaemu

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
)

// sdkClient talks to s as a user's program does.
func sdkClient(s *Server) *lambda.Client {
	return lambda.New(lambda.Options{
		Region:           "us-east-1",
		BaseEndpoint:     aws.String(s.Endpoint()),
		Credentials:      credentials.NewStaticCredentialsProvider("test", "test", ""),
		RetryMaxAttempts: 1,
	})
}

func TestInvocationTypesOverTheRESTAPI(t *testing.T) {
	t.Parallel()
	payloads := make(chan string, 10)
	s := serve(t, Options{}, Function{Name: "f", Runtime: Func(func(_ context.Context, payload []byte) ([]byte, error) {
		payloads <- string(payload)
		return payload, nil
	})})
	client := sdkClient(s)
	for _, tt := range []struct {
		kind   types.InvocationType
		status int32
		answer string
	}{
		{types.InvocationTypeDryRun, 204, ""},
		{types.InvocationTypeRequestResponse, 200, `"RequestResponse"`},
		{types.InvocationTypeEvent, 202, ""},
	} {
		out, err := client.Invoke(t.Context(), &lambda.InvokeInput{
			FunctionName: aws.String(s.ARN("f")), InvocationType: tt.kind, Payload: []byte(`"` + tt.kind + `"`)})
		if err != nil {
			t.Fatalf("%s: %v", tt.kind, err)
		}
		if out.StatusCode != tt.status || string(out.Payload) != tt.answer || out.FunctionError != nil {
			t.Errorf("%s: got %d %s, want %d %s", tt.kind, out.StatusCode, out.Payload, tt.status, tt.answer)
		}
	}
	if a, b := <-payloads, <-payloads; a != `"RequestResponse"` || b != `"Event"` {
		t.Errorf("the function saw %s and %s", a, b)
	}
}

func TestAFunctionErrorIsNoErrorOfTheCall(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{}, Function{Name: "f", Runtime: Func(func(context.Context, []byte) ([]byte, error) {
		return nil, errors.New("no luck")
	})})
	out, err := sdkClient(s).Invoke(t.Context(), &lambda.InvokeInput{FunctionName: aws.String("f")})
	if err != nil {
		t.Fatal(err)
	}
	if aws.ToString(out.FunctionError) != "Unhandled" || !strings.Contains(string(out.Payload), "no luck") {
		t.Errorf("got %q %s", aws.ToString(out.FunctionError), out.Payload)
	}
}

func TestRefusalsOverTheRESTAPI(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{}, Function{Name: "f", Concurrency: 1, Timeout: time.Minute, Runtime: Func(func(ctx context.Context, _ []byte) ([]byte, error) {
		<-ctx.Done()
		return nil, nil
	})})
	client := sdkClient(s)
	call := func(name, payload string, kind types.InvocationType) error {
		_, err := client.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: aws.String(name), Payload: []byte(payload), InvocationType: kind})
		return err
	}
	large := `"` + strings.Repeat("x", maxAsyncPayload) + `"`
	if err := call("f", "{}", types.InvocationTypeEvent); err != nil {
		t.Fatal(err)
	}
	var (
		notFound  *types.ResourceNotFoundException
		throttled *types.TooManyRequestsException
		notJSON   *types.InvalidRequestContentException
		tooLarge  *types.RequestTooLargeException
	)
	if err := call("g", "{}", ""); !errors.As(err, &notFound) {
		t.Errorf("absent function: %v", err)
	}
	if err := call("f", "{}", ""); !errors.As(err, &throttled) || throttled.Reason != types.ThrottleReasonReservedFunctionConcurrentInvocationLimitExceeded {
		t.Errorf("no free instance: %v", err)
	}
	if err := call("f", "{", ""); !errors.As(err, &notJSON) {
		t.Errorf("bad JSON: %v", err)
	}
	if err := call("f", large, types.InvocationTypeEvent); !errors.As(err, &tooLarge) {
		t.Errorf("1 MB asynchronously: %v", err)
	}
}

func TestGetAndListFunctions(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{}, Function{Name: "f", MemoryMB: 256, Timeout: time.Minute, Runtime: Func(echo), Env: map[string]string{"A": "1"}})
	register(t, s, Function{Name: "b", Runtime: Func(echo)})
	client := sdkClient(s)
	list, err := client.ListFunctions(t.Context(), &lambda.ListFunctionsInput{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Functions) != 2 || aws.ToString(list.Functions[0].FunctionName) != "b" {
		t.Errorf("list: %+v", list.Functions)
	}
	got, err := client.GetFunction(t.Context(), &lambda.GetFunctionInput{FunctionName: aws.String("f")})
	if err != nil {
		t.Fatal(err)
	}
	c := got.Configuration
	if aws.ToString(c.FunctionArn) != s.ARN("f") || aws.ToInt32(c.MemorySize) != 256 || aws.ToInt32(c.Timeout) != 60 || c.Environment.Variables["A"] != "1" {
		t.Errorf("configuration: %+v", c)
	}
	var notFound *types.ResourceNotFoundException
	if _, err := client.GetFunctionConfiguration(t.Context(), &lambda.GetFunctionConfigurationInput{FunctionName: aws.String("g")}); !errors.As(err, &notFound) {
		t.Errorf("absent function: %v", err)
	}
}
