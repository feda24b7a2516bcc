package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

const table = "limits"

var everySecond = limit.Policy{Name: "every-second", Rate: limit.PerSecond(1)}

// limiterOf makes the limiter of a function with these environment variables, with a
// table of its own in the cloud.
func limiterOf(t *testing.T, c *cloud.Cloud, env map[string]string, log *slog.Logger) Parker {
	t.Helper()
	config := c.Config()
	if _, err := dynamodb.NewFromConfig(config).CreateTable(t.Context(), dynamolimit.Table(table)); err != nil {
		t.Fatal(err)
	}
	mux := NewMux()
	Handle(mux, "job", func(context.Context, int) (int, error) { return 0, nil }, WithLimits(limit.Global[int](everySecond)))
	limiter, err := limiterFrom(config, mux, func(name string) string {
		if name == EnvTable {
			return table
		}
		return env[name]
	}, log)
	if err != nil {
		t.Fatal(err)
	}
	parker, ok := limiter.(Parker)
	if !ok {
		t.Fatalf("%T gives no places", limiter)
	}
	return parker
}

// inCloud runs a test in virtual time.
func inCloud(t *testing.T, test func(t *testing.T, c *cloud.Cloud)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := cloud.New(cloud.Options{})
		defer func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		test(t, c)
	})
}

// A task waits in the function for a second if there is room for that, and sleeps if the
// function runs one invocation at a time.
func TestTheConcurrencyOfTheFunctionBoundsHowLongTasksWaitInIt(t *testing.T) {
	t.Parallel()
	for concurrency, want := range map[string]limit.Action{"": limit.ToWait, "20": limit.ToWait, "1": limit.ToPark} {
		t.Run("SLUICE_CONCURRENCY="+concurrency, func(t *testing.T) {
			t.Parallel()
			inCloud(t, func(t *testing.T, c *cloud.Cloud) {
				limiter := limiterOf(t, c, map[string]string{EnvConcurrency: concurrency}, slog.New(slog.DiscardHandler))
				tiers := []limit.Tier{everySecond.Key("a")}
				patience := limit.Patience{Wait: TurnWait, Rest: newcomerWait}
				if turn, err := limiter.Arrive(t.Context(), dynamolimit.Task{ID: "first"}, tiers, patience); err != nil || turn.Action != limit.ToRun {
					t.Fatalf("the first task: %+v, %v", turn, err)
				}
				turn, err := limiter.Arrive(t.Context(), dynamolimit.Task{ID: "second"}, tiers, patience)
				if err != nil || turn.Action != want {
					t.Errorf("the second task: %v, %v, want it to %s", turn, err, want)
				}
			})
		})
	}
}

func TestAConcurrencyThatIsNoNumberIsRefused(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"-1", "many", "1.5"} {
		_, err := countFrom(func(string) string { return value }, EnvConcurrency)
		if err == nil {
			t.Errorf("%s is accepted", value)
		}
	}
}

// What the limiter warns of is in the function's log, as lines of JSON like all others.
func TestTheLimiterWarnsInTheLogOfTheFunction(t *testing.T) {
	t.Parallel()
	inCloud(t, func(t *testing.T, c *cloud.Cloud) {
		var log bytes.Buffer
		limiter := limiterOf(t, c, map[string]string{EnvRelease: "1"}, slog.New(slog.NewJSONHandler(&log, nil)))
		// Another function has declared another policy under this name, in the same release.
		another := everySecond
		another.Rate = limit.PerSecond(2)
		other := dynamolimit.New(dynamodb.NewFromConfig(c.Config()), table, dynamolimit.WithPolicies(1, another))
		if _, err := other.Acquire(t.Context(), another.Key("a")); err != nil {
			t.Fatal(err)
		}
		if _, err := limiter.Arrive(t.Context(), dynamolimit.Task{ID: "a"}, []limit.Tier{everySecond.Key("a")}, limit.Patience{}); err == nil {
			t.Error("both are in force")
		}
		var line struct{ Level, Msg, Policy string }
		if err := json.Unmarshal(log.Bytes(), &line); err != nil || line.Level != "ERROR" || line.Policy != "every-second" {
			t.Errorf("logged %q: %v", log.String(), err)
		}
	})
}
