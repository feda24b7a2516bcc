package lambdalimit_test

import (
	"context"
	"errors"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/smithy-go"

	"github.com/sluice-dev/sluice/shared/lambdalimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

func (b *bundle) client() *lambdalimit.Client { return lambdalimit.NewClient(b, "limiter") }

func TestTheClientIsALimiter(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c, ctx := b.client(), t.Context()
	r, err := c.Acquire(ctx, vendor.Key("acme").Cost(4), tokens.Key("acme").Cost(600))
	if err != nil {
		t.Fatal(err)
	}
	if charges := r.Receipt().Charges; len(charges) != 2 || charges[1].Units != 600 || charges[1].Key != "acme" {
		t.Errorf("charged %v", charges)
	}
	_, err = c.Acquire(ctx, tokens.Key("acme").Cost(500), daily.Global())
	var denied *limit.Denied
	if !errors.As(err, &denied) {
		t.Fatalf("%v", err)
	}
	want := limit.Blocked{Policy: "tpm", Key: "acme", Cost: 500, Available: 400, Verdict: limit.Later, Wait: 100 * time.Second}
	if denied.RetryAfter != 100*time.Second || denied.Never || !slices.Equal(denied.Blocked, []limit.Blocked{want}) {
		t.Errorf("%+v", denied)
	}
	if err := r.Settle(ctx, tokens.Key("acme").Cost(100)); err != nil {
		t.Fatal(err)
	}
	if err := r.Refund(ctx); err != nil { // closed: does nothing
		t.Fatal(err)
	}
	reading, err := c.Inspect(ctx, tokens.Key("acme").Cost(901))
	if err != nil || reading.Available != 900 || !reading.FullAt.Equal(start.Add(100*time.Second)) || reading.Blocked == nil || reading.Blocked.Wait != time.Second {
		t.Errorf("%+v, %v", reading, err)
	}
	if reading, err := c.Inspect(ctx, vendor.Key("acme")); err != nil || reading.Used != 4 || reading.Blocked != nil {
		t.Errorf("%+v, %v", reading, err)
	}
}

func TestTheClientOperates(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c, ctx, tier := b.client(), t.Context(), vendor.Key("acme")
	steps := []error{
		c.Grant(ctx, tier, -7),
		c.Grant(ctx, tier, 2),
		c.Hold(ctx, tier, start.Add(time.Minute)),
	}
	if err := errors.Join(steps...); err != nil {
		t.Fatal(err)
	}
	if r, err := c.Inspect(ctx, tier); err != nil || r.Available != 5 || !r.HeldUntil.Equal(start.Add(time.Minute)) {
		t.Errorf("%+v, %v", r, err)
	}
	if err := c.Release(ctx, tier); err != nil {
		t.Fatal(err)
	}
	at, err := c.SetOverride(ctx, "vendor", limit.Override{Max: new(int64(20)), Refill: new(int64(2)), Interval: new(time.Minute), Expires: start.Add(time.Hour), By: "ada"})
	if err != nil || !at.Equal(start) {
		t.Errorf("%v, %v", at, err)
	}
	entries, err := c.Policies(ctx)
	if err != nil || len(entries) != 4 {
		t.Fatalf("%v, %v", entries, err)
	}
	if e := entries[3]; !e.Policy.Equal(vendor) || e.Override == nil || *e.Override.Max != 20 || *e.Override.Interval != time.Minute || !e.Override.Expires.Equal(start.Add(time.Hour)) || e.Override.By != "ada" {
		t.Errorf("%+v", e)
	}
	if _, err := c.ClearOverride(ctx, "vendor", "ada"); err != nil {
		t.Error(err)
	}
	if _, err := c.Reset(ctx, "vendor", "ada"); err != nil {
		t.Error(err)
	}
	if r, err := c.Inspect(ctx, tier); err != nil || r.Available != 10 || r.HeldUntil != (time.Time{}) {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestNoTiersAskNobody(t *testing.T) {
	t.Parallel()
	c := lambdalimit.NewClient(nil, "limiter")
	r, err := c.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Refund(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTheClientsErrorsAreThoseOfPackageLimit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c, ctx := b.client(), t.Context()
	var request *limit.InvalidRequestError
	var policy *limit.InvalidPolicyError
	if _, err := c.Acquire(ctx, limit.Policy{Name: "nobody"}.Global()); !errors.Is(err, limit.ErrUnknownPolicy) {
		t.Error(err)
	}
	for _, tier := range []limit.Tier{vendor.Key("\xff"), vendor.Key(strings.Repeat("k", 1025)), vendor.Key("a").Cost(-1), vendor.Key("a").Cost(math.MaxInt64)} {
		if _, err := c.Acquire(ctx, tier); !errors.As(err, &request) {
			t.Errorf("%v: %v", tier, err)
		}
		if tier.Units == 1 && (!errors.As(c.Hold(ctx, tier, start), &request) || !errors.As(c.Grant(ctx, tier, 1), &request)) {
			t.Errorf("%v is taken", tier)
		}
	}
	if err := c.Grant(ctx, vendor.Key("a"), math.MinInt64); !errors.As(err, &request) {
		t.Error(err)
	}
	if _, err := c.SetOverride(ctx, "daily", limit.Override{Refill: new(int64(1))}); !errors.As(err, &policy) || policy.Policy != "daily" || policy.Fields[0].Field != "refill" {
		t.Errorf("%v", err)
	}
	if _, err := c.SetOverride(ctx, "vendor", limit.Override{Interval: new(time.Microsecond)}); !errors.As(err, &policy) {
		t.Errorf("%v", err)
	}
	for _, want := range []error{limit.ErrStoreBusy, limit.ErrStoreDown, limit.ErrStoreDenied} {
		b.limiter.fail = want
		if _, err := c.Acquire(ctx, vendor.Key("a")); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	b.limiter.fail, b.limiter.panics = nil, true
	if _, err := c.Acquire(ctx, vendor.Key("a")); !errors.Is(err, limit.ErrStoreDown) || strings.Contains(err.Error(), "boom") {
		t.Errorf("a fault of the function: %v", err)
	}
}

// line is a connection to the function on which some invocations go wrong.
type line struct {
	*bundle

	faults []fault // of the first invocations, one each
	calls  int
}

type fault func(context.Context, *line, *lambda.InvokeInput) (*lambda.InvokeOutput, error)

func (l *line) Invoke(ctx context.Context, in *lambda.InvokeInput, o ...func(*lambda.Options)) (*lambda.InvokeOutput, error) {
	l.calls++
	if n := l.calls - 1; n < len(l.faults) {
		return l.faults[n](ctx, l, in)
	}
	return l.bundle.Invoke(ctx, in, o...)
}

var errReset = errors.New("read: connection reset by peer")

// lost is an invocation whose answer does not arrive.
func lost(ctx context.Context, l *line, in *lambda.InvokeInput) (*lambda.InvokeOutput, error) {
	if _, err := l.bundle.Invoke(ctx, in); err != nil {
		return nil, err
	}
	return nil, errReset
}

// crash is an invocation in which the function ends after it has asked.
func crash(ctx context.Context, l *line, in *lambda.InvokeInput) (*lambda.InvokeOutput, error) {
	if _, err := l.bundle.Invoke(ctx, in); err != nil {
		return nil, err
	}
	return &lambda.InvokeOutput{FunctionError: aws.String("Unhandled"), Payload: []byte(`{"errorMessage":"Task timed out"}`)}, nil
}

func refuse(code string) fault {
	return func(context.Context, *line, *lambda.InvokeInput) (*lambda.InvokeOutput, error) {
		return nil, &smithy.GenericAPIError{Code: code, Message: "no"}
	}
}

func reply(payload string) fault {
	return func(context.Context, *line, *lambda.InvokeInput) (*lambda.InvokeOutput, error) {
		return &lambda.InvokeOutput{Payload: []byte(payload)}, nil
	}
}

func TestALostAnswerDoesNotChargeTwice(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{"lost": lost, "crash": crash} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setup(t)
				l := &line{bundle: b, faults: []fault{f, f}}
				c, ctx := lambdalimit.NewClient(l, "limiter"), t.Context()
				r, err := c.Acquire(ctx, vendor.Key("a").Cost(4))
				if err != nil || l.calls != 3 {
					t.Fatalf("%v after %d calls", err, l.calls)
				}
				used(t, b, 4)
				l.calls, l.faults = 0, []fault{f}
				if err := r.Settle(ctx, vendor.Key("a").Cost(6)); err != nil || l.calls != 2 {
					t.Fatalf("%v after %d calls", err, l.calls)
				}
				used(t, b, 6)
			})
		})
	}
}

func TestALostAnswerDoesNotGiveTwice(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := &line{bundle: b}
	c, ctx := lambdalimit.NewClient(l, "limiter"), t.Context()
	r, err := c.Acquire(ctx, vendor.Key("a").Cost(6))
	if err != nil {
		t.Fatal(err)
	}
	l.calls, l.faults = 0, []fault{lost}
	if err := r.Refund(ctx); err != nil || l.calls != 1 {
		t.Errorf("%v after %d calls, want it taken as made", err, l.calls)
	}
	if err := r.Refund(ctx); err != nil || l.calls != 1 {
		t.Errorf("%v after %d calls, want it closed", err, l.calls)
	}
	for what, do := range map[string]func() error{
		"grant": func() error { return c.Grant(ctx, vendor.Key("a"), 1) },
		"reset": func() error { _, err := c.Reset(ctx, "vendor", "ada"); return err },
	} {
		l.calls, l.faults = 0, []fault{lost}
		if err := do(); !errors.Is(err, limit.ErrStoreDown) || !strings.Contains(err.Error(), "may have been carried out") || l.calls != 1 {
			t.Errorf("%s: %v after %d calls", what, err, l.calls)
		}
	}
}

func TestWhatWasNotCarriedOutIsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{
		"throttled": refuse("TooManyRequestsException"),
		"no connection": func(context.Context, *line, *lambda.InvokeInput) (*lambda.InvokeOutput, error) {
			return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := &line{bundle: setup(t), faults: []fault{f, f}}
				if err := lambdalimit.NewClient(l, "limiter").Grant(t.Context(), vendor.Key("a"), 1); err != nil || l.calls != 3 {
					t.Errorf("%v after %d calls", err, l.calls)
				}
			})
		})
	}
}

func used(t *testing.T, b *bundle, want int64) {
	t.Helper()
	if r, err := b.limiter.Inspect(t.Context(), vendor.Key("a")); err != nil || r.Used != want {
		t.Errorf("%d used, want %d (%v)", r.Used, want, err)
	}
}

func TestWhatLambdaAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		fault fault
		want  error
		calls int
	}{
		{"throttled", refuse("TooManyRequestsException"), limit.ErrStoreBusy, 4},
		{"in trouble", refuse("ServiceException"), limit.ErrStoreDown, 4},
		{"silent", lost, limit.ErrStoreDown, 4},
		{"not allowed", refuse("AccessDeniedException"), limit.ErrStoreDenied, 1},
		{"no such function", refuse("ResourceNotFoundException"), limit.ErrStoreDown, 1},
		{"another function", reply(`{"greeting":"hello"}`), limit.ErrStoreDown, 1},
		{"no answer", reply(`null`), limit.ErrStoreDown, 1},
		{"no JSON", reply(`oops`), limit.ErrStoreDown, 1},
		{"denied by nothing", reply(`{"admitted":false}`), limit.ErrStoreDown, 1},
		{"admitted without reservation", reply(`{"admitted":true}`), limit.ErrStoreDown, 1},
		{"a code of the future", reply(`{"error":{"code":"new","message":"no"}}`), limit.ErrStoreDown, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := &line{bundle: setup(t), faults: slices.Repeat([]fault{c.fault}, 10)}
				client := lambdalimit.NewClient(l, "limiter")
				_, err := client.Acquire(t.Context(), vendor.Key("a"))
				var denied *limit.Denied
				if !errors.Is(err, c.want) || errors.As(err, &denied) || l.calls != c.calls {
					t.Errorf("%v after %d calls, want %v after %d", err, l.calls, c.want, c.calls)
				}
				if err := client.Hold(t.Context(), vendor.Key("a"), start); !errors.Is(err, c.want) {
					t.Errorf("hold: %v, want %v", err, c.want)
				}
			})
		})
	}
}

func TestTheClientEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		l := &line{bundle: setup(t), faults: slices.Repeat([]fault{refuse("TooManyRequestsException")}, 10)}
		if _, err := lambdalimit.NewClient(l, "limiter").Acquire(ctx, vendor.Key("a")); !errors.Is(err, limit.ErrStoreBusy) {
			t.Errorf("%v", err)
		}
		waiting := func(context.Context, *line, *lambda.InvokeInput) (*lambda.InvokeOutput, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		l.calls, l.faults = 0, []fault{waiting}
		if _, err := lambdalimit.NewClient(l, "limiter").Acquire(ctx, vendor.Key("a")); !errors.Is(err, limit.ErrStoreDown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

func TestEachTryIsOneInvocationThatWaitsForTheAnswer(t *testing.T) {
	t.Parallel()
	var in *lambda.InvokeInput
	var o lambda.Options
	b := setup(t)
	api := invoker(func(ctx context.Context, input *lambda.InvokeInput, options ...func(*lambda.Options)) (*lambda.InvokeOutput, error) {
		in = input
		for _, f := range options {
			f(&o)
		}
		return b.Invoke(ctx, input)
	})
	if _, err := lambdalimit.NewClient(api, "arn:limiter").Acquire(t.Context(), vendor.Key("a")); err != nil {
		t.Fatal(err)
	}
	if *in.FunctionName != "arn:limiter" || in.InvocationType != types.InvocationTypeRequestResponse || o.RetryMaxAttempts != 1 {
		t.Errorf("%+v, %d attempts", in, o.RetryMaxAttempts)
	}
}

type invoker func(context.Context, *lambda.InvokeInput, ...func(*lambda.Options)) (*lambda.InvokeOutput, error)

func (f invoker) Invoke(ctx context.Context, in *lambda.InvokeInput, o ...func(*lambda.Options)) (*lambda.InvokeOutput, error) {
	return f(ctx, in, o...)
}

func TestWaitPacesThroughTheClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		began := time.Now()
		b.limiter.WithClock(time.Now)
		c := b.client()
		for range 12 {
			if _, err := limit.Wait(t.Context(), c, vendor.Key("a")); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("12 of a burst of 10 and 1 per second took %v", took)
		}
	})
}
