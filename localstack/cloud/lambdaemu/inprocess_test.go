package lambdaemu

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"
)

// open makes a server that is closed at the end of the test.
func open(t *testing.T) *Server {
	t.Helper()
	s := New(Options{})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func echo(_ context.Context, payload []byte) ([]byte, error) { return payload, nil }

func TestInvokeReturnsWhatTheFunctionReturns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		register(t, s, Function{Name: "f", Runtime: Func(echo)})
		for _, ref := range []string{"f", s.ARN("f"), s.ARN("f") + ":$LATEST", "000000000000:function:f"} {
			if r := invoke(t, s, ref, `{"a":1}`); string(r.Payload) != `{"a":1}` || r.FunctionError != "" {
				t.Errorf("%s: got %s, %q", ref, r.Payload, r.FunctionError)
			}
		}
	})
}

func TestFunctionNames(t *testing.T) {
	t.Parallel()
	for ref, want := range map[string]string{
		"claim": "claim", "claim:$LATEST": "claim", "function": "function", "function:1": "function",
		"000000000000:function:claim": "claim", "000000000000:function:function:1": "function",
		"arn:aws:lambda:us-east-1:000000000000:function:claim":      "claim",
		"arn:aws:lambda:us-east-1:000000000000:function:claim:prod": "claim",
	} {
		if got := FunctionName(ref); got != want {
			t.Errorf("%s: %q, want %q", ref, got, want)
		}
	}
}

func TestFuncContextCarriesDeadlineAndIdentity(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		start := time.Now()
		register(t, s, Function{Name: "f", Timeout: time.Minute, Runtime: Func(func(ctx context.Context, _ []byte) ([]byte, error) {
			deadline, _ := ctx.Deadline()
			lc, _ := lambdacontext.FromContext(ctx)
			return json.Marshal([]string{deadline.Sub(start).String(), lc.AwsRequestID, lc.InvokedFunctionArn})
		})})
		r := invoke(t, s, "f", "")
		want, _ := json.Marshal([]string{"1m0s", r.RequestID, s.ARN("f")})
		if string(r.Payload) != string(want) {
			t.Errorf("got %s, want %s", r.Payload, want)
		}
	})
}

type customError struct{}

func (*customError) Error() string { return "custom" }

func TestFailuresOfAFunc(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, wantType, wantMessage string
		run                         Func
	}{
		{"error", "errorString", "no", func(context.Context, []byte) ([]byte, error) { return nil, errors.New("no") }},
		{"typed error", "customError", "custom", func(context.Context, []byte) ([]byte, error) { return nil, &customError{} }},
		{"panic", "string", "boom", func(context.Context, []byte) ([]byte, error) { panic("boom") }},
		{"panic with a number", "int", "42", func(context.Context, []byte) ([]byte, error) { panic(42) }},
		{"end of the goroutine", "Runtime.ExitError", "Runtime exited", func(context.Context, []byte) ([]byte, error) { runtime.Goexit(); return nil, nil }},
		{"exit", "Runtime.ExitError", "Runtime exited", func(ctx context.Context, _ []byte) ([]byte, error) { Exit(ctx); return nil, nil }},
		{"exit elsewhere", "Runtime.ExitError", "Runtime exited", func(ctx context.Context, _ []byte) ([]byte, error) {
			go Exit(ctx)
			<-ctx.Done()
			return nil, nil
		}},
		{"overrun", "Sandbox.Timedout", "Task timed out after 3.00 seconds", func(ctx context.Context, _ []byte) ([]byte, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			return []byte("1"), nil
		}},
		{"large response", "Function.ResponseSizeTooLarge", "6291456", func(context.Context, []byte) ([]byte, error) {
			return []byte(`"` + strings.Repeat("x", maxSyncPayload) + `"`), nil
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := open(t)
				register(t, s, Function{Name: "f", Runtime: tt.run})
				doc := errorDocument(t, invoke(t, s, "f", "{}"))
				if doc.Type != tt.wantType || !strings.Contains(doc.Message, tt.wantMessage) {
					t.Errorf("got %s: %s; want %s: …%s…", doc.Type, doc.Message, tt.wantType, tt.wantMessage)
				}
			})
		})
	}
}

func TestARefusedInvokeNamesTheReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		register(t, s, Function{Name: "f", Runtime: Func(echo)})
		large := []byte(`"` + strings.Repeat("x", maxAsyncPayload) + `"`)
		_, missing := s.Invoke(t.Context(), "g", nil, InvokeOptions{})
		_, notJSON := s.Invoke(t.Context(), "f", []byte("{}{}"), InvokeOptions{})
		_, tooLarge := s.InvokeAsync("f", large, InvokeOptions{})
		_, fits := s.Invoke(t.Context(), "f", large, InvokeOptions{})
		if fits != nil {
			t.Errorf("1 MB synchronously: %v", fits)
		}
		for code, err := range map[string]error{
			"ResourceNotFoundException":      missing,
			"InvalidRequestContentException": notJSON,
			"RequestTooLargeException":       tooLarge,
		} {
			var refusal *Error
			if !errors.As(err, &refusal) || refusal.Code != code {
				t.Errorf("got %v, want %s", err, code)
			}
		}
	})
}

func TestSyncInvokesBeyondConcurrencyAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		release := make(chan struct{})
		register(t, s, Function{Name: "f", Concurrency: 2, Runtime: Func(func(context.Context, []byte) ([]byte, error) {
			<-release
			return nil, nil
		})})
		for range 2 {
			go func() { _, _ = s.Invoke(t.Context(), "f", nil, InvokeOptions{}) }()
		}
		synctest.Wait()
		_, err := s.Invoke(t.Context(), "f", nil, InvokeOptions{})
		var refusal *Error
		if !errors.As(err, &refusal) || refusal.Code != "TooManyRequestsException" {
			t.Errorf("third invocation: %v, want TooManyRequestsException", err)
		}
		close(release)
		synctest.Wait()
		if _, err := s.Invoke(t.Context(), "f", nil, InvokeOptions{}); err != nil {
			t.Errorf("after the others: %v", err)
		}
	})
}

func TestInvokeEndsWithItsContextWhileTheFunctionRunsOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		var finished atomic.Bool
		register(t, s, Function{Name: "f", Timeout: time.Minute, Runtime: Func(func(context.Context, []byte) ([]byte, error) {
			time.Sleep(30 * time.Second)
			finished.Store(true)
			return nil, nil
		})})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Invoke(ctx, "f", nil, InvokeOptions{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		time.Sleep(time.Minute)
		if !finished.Load() {
			t.Error("the function was stopped with its caller")
		}
	})
}

func TestRegisterNamesEveryBadField(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	defer s.Close()
	err := s.Register(Function{Name: "a b", Timeout: time.Hour, Concurrency: -1, MaxRetries: -2, RetryDelays: []time.Duration{-1}})
	for _, field := range []string{"Name", "Runtime", "Timeout", "Concurrency", "MaxRetries", "RetryDelays"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("the error does not name %s: %v", field, err)
		}
	}
}

func TestADeploymentServesLaterAndWaitingEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		var first, second atomic.Int32
		register(t, s, Function{Name: "f", Concurrency: 1, Runtime: Func(func(context.Context, []byte) ([]byte, error) {
			time.Sleep(time.Second)
			first.Add(1)
			return nil, nil
		})})
		for range 3 {
			if _, err := s.InvokeAsync("f", nil, InvokeOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		register(t, s, Function{Name: "f", Concurrency: 1, Runtime: Func(func(context.Context, []byte) ([]byte, error) {
			second.Add(1)
			return nil, nil
		})})
		time.Sleep(time.Minute)
		if first.Load() != 1 || second.Load() != 2 {
			t.Errorf("old code ran %d, new code %d; want 1 and 2", first.Load(), second.Load())
		}
	})
}
