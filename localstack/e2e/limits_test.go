package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/lambdalimit"
	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/limit/limittest"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/task"
)

// limiter is a limiter of this process on the deployed table. It is patient: an emulator that is busy with two
// hundred requests at once may take its time with each.
func (s *target) limiter(options ...dynamolimit.Option) *dynamolimit.Limiter {
	options = append(options, dynamolimit.WithAttemptTimeout(patience/2), dynamolimit.WithDeadline(patience))
	return dynamolimit.New(dynamodb.NewFromConfig(s.config), s.table, options...)
}

// declare registers a policy under a name of this run.
func (s *target) declare(t *testing.T, p limit.Policy) limit.Policy {
	t.Helper()
	p.Name = run + "-" + p.Name
	if err := s.limiter().Declare(t.Context(), 1, p); err != nil {
		t.Fatal(err)
	}
	return p
}

// run tells the policies of this run apart from those of others on the same table.
var run = "e2e" + strconv.FormatInt(time.Now().UnixMilli(), 36)

// The limiter's rules hold on the deployed table, whose clock the suite can move: the time is the caller's.
func testTableConforms(t *testing.T, s *target) {
	limittest.Suite{Prefix: run, Start: func(t *testing.T, clock func() time.Time) limittest.Subject {
		t.Helper()
		l := s.limiter(dynamolimit.WithClock(clock), dynamolimit.WithTrustedClock())
		return limittest.Subject{
			Limiter: l,
			Declare: l.Declare,
			ResetDue: func(ctx context.Context) error {
				_, err := l.ResetDue(ctx, "cron")
				return err
			},
		}
	}}.Run(t)
}

// A client of the deployed limiter function is a limiter.
func testLimiterFunction(t *testing.T, s *target) {
	client := lambdalimit.NewClient(lambda.NewFromConfig(s.config), s.limiterFunction)
	p := s.declare(t, limit.Policy{Name: "by-function", Manual: limit.ByOperator, Max: 3})
	key := p.Key("acme")

	first, err := client.Acquire(t.Context(), key.Cost(2))
	if err != nil {
		t.Fatal(err)
	}
	var denied *limit.Denied
	if _, err := client.Acquire(t.Context(), key.Cost(2)); !errors.As(err, &denied) || denied.Blocked[0].Verdict != limit.UntilChanged {
		t.Errorf("with 1 of 3 left, cost 2: %v", err)
	}
	for _, step := range []struct {
		what string
		do   func() error
		left int64
	}{
		{"refund", func() error { return first.Refund(t.Context()) }, 3},
		{"drain", func() error { return client.Grant(t.Context(), key, -2) }, 1},
		{"grant", func() error { return client.Grant(t.Context(), key, 1) }, 2},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if r, err := client.Inspect(t.Context(), key); err != nil || r.Available != step.left {
			t.Errorf("after the %s: %d available, %v, want %d", step.what, r.Available, err, step.left)
		}
	}
	if _, err := client.Acquire(t.Context(), limit.Policy{Name: run + "-unknown"}.Key("acme")); !errors.Is(err, limit.ErrUnknownPolicy) {
		t.Errorf("a policy that nobody has declared: %v", err)
	}
}

// The clock starts the reset function, which resets what is due.
func testResetByTheClock(t *testing.T, s *target) {
	p := s.declare(t, limit.Policy{Name: "each-minute", Manual: limit.ResetOn("* * * * *", "UTC"), Max: 1})
	limiter := s.limiter()
	if _, err := limiter.Acquire(t.Context(), p.Key("acme")); err != nil {
		t.Fatal(err)
	}
	s.eventually(t, "the policy is reset", func() bool {
		r, err := limiter.Inspect(t.Context(), p.Key("acme"))
		if err != nil {
			t.Fatal(err)
		}
		return r.Used == 0
	})
}

// A limited task sleeps until its tokens are due. How soon the machine is there does not matter: a bucket
// that has refilled meanwhile proves nothing, and a slower one is tried.
func testLimited(t *testing.T, s *target) {
	for _, interval := range []time.Duration{10 * time.Second, 40 * time.Second, 100 * time.Second} {
		p := s.declare(t, limit.Policy{Name: fmt.Sprintf("every-%v", interval), Rate: limit.Per(1, interval)})
		if _, err := s.limiter().Acquire(t.Context(), p.Key("acme")); err != nil {
			t.Fatal(err)
		}
		got := s.wait(t, s.submit(t, `{"name":"Ada"}`, queue.Limit(p.Name, "acme", 1)).ID)
		expect(t, got, task.Completed, 1)
		if got.RetryCount != 0 || got.RescheduleCount != 0 {
			t.Errorf("a throttle has spent something: %s", got.Encode())
		}
		if got.ThrottleCount == 0 {
			continue
		}
		history, err := s.queue.History(t.Context(), got.ID)
		if err != nil || len(history) < 2 || !strings.Contains(history[1].Text, "throttled") {
			t.Errorf("history = %v, %v", history, err)
		}
		return
	}
	t.Error("never throttled")
}

// What can never be admitted fails, and says so.
func testNeverAdmitted(t *testing.T, s *target) {
	p := s.declare(t, limit.Policy{Name: "small", Rate: limit.PerSecond(5)})
	got := s.wait(t, s.submit(t, `{}`, queue.Limit(p.Name, "acme", 6)).ID)
	expect(t, got, task.Failed, 0)
	if !strings.Contains(got.LastError, "never") {
		t.Errorf("last_error = %q", got.LastError)
	}
	got = s.wait(t, s.submit(t, `{}`, queue.Limit(run+"-unknown", "acme", 1)).ID)
	expect(t, got, task.Failed, 0)
	if !strings.Contains(got.LastError, run+"-unknown") {
		t.Errorf("last_error = %q", got.LastError)
	}
}

// A handler in Python asks the deployed limiter function: it sleeps while its key is held, as after a 429, and
// runs then. How soon the machine is there does not matter, as above.
func testPythonAsksTheLimiter(t *testing.T, s *target) {
	if s.limiterPython == "" {
		t.Skip("not run: there is no Python with boto3")
	}
	doc, err := os.ReadFile(filepath.Join("..", "..", "examples", "limiter-python", "policies.json"))
	if err != nil {
		t.Fatal(err)
	}
	var policies []limit.Policy
	if err := json.Unmarshal(doc, &policies); err != nil {
		t.Fatal(err)
	}
	limiter := s.limiter()
	if err := limiter.Declare(t.Context(), 1, policies...); err != nil {
		t.Fatal(err)
	}
	ask := func(t *testing.T, customer string, mostTokens int) task.Task {
		t.Helper()
		input := fmt.Sprintf(`{"function":%q,"payload":{"customer":%q,"prompt":"the quick brown fox","max_tokens":%d}}`, s.limiterPython, customer, mostTokens)
		made, err := s.queue.Submit(t.Context(), "lambda.invoke", rawJSON(input))
		if err != nil {
			t.Fatal(err)
		}
		return s.wait(t, made.ID)
	}
	t.Run("and is told never", func(t *testing.T) {
		t.Parallel()
		got := ask(t, run+"-greedy", 1_000_000)
		expect(t, got, task.Failed, 1)
		if !strings.Contains(got.LastError, "can ever hold") {
			t.Errorf("task = %s", got.Encode())
		}
	})
	t.Run("and sleeps until it is admitted", func(t *testing.T) {
		t.Parallel()
		for _, hold := range []time.Duration{10 * time.Second, 40 * time.Second, 100 * time.Second} {
			customer := fmt.Sprintf("%s-%v", run, hold)
			if err := limiter.Hold(t.Context(), policies[0].Key(customer), time.Now().Add(hold)); err != nil {
				t.Fatal(err)
			}
			got := ask(t, customer, 500)
			if got.Status != task.Completed || !strings.Contains(string(got.Output), "THE QUICK BROWN FOX") {
				t.Fatalf("task = %s", got.Encode())
			}
			if got.RescheduleCount > 0 {
				return
			}
		}
		t.Error("never denied")
	})
}
