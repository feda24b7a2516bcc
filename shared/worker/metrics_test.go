package worker_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/sluicetest"
	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/worker"
)

// lockedBuffer is written by several instances.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// sums adds up the metrics of a log as CloudWatch does, by name, dimension and value.
func sums(t *testing.T, log *lockedBuffer) map[string]float64 {
	t.Helper()
	log.mu.Lock()
	defer log.mu.Unlock()
	sums := make(map[string]float64)
	for lines := bufio.NewScanner(bytes.NewReader(log.Bytes())); lines.Scan(); {
		var line map[string]any
		var directive struct {
			AWS struct {
				CloudWatchMetrics []struct {
					Dimensions [][]string
					Metrics    []struct{ Name string }
				}
			} `json:"_aws"`
		}
		if err := errors.Join(json.Unmarshal(lines.Bytes(), &line), json.Unmarshal(lines.Bytes(), &directive)); err != nil {
			t.Fatal(err)
		}
		for _, m := range directive.AWS.CloudWatchMetrics {
			by := m.Dimensions[0][0]
			for _, metric := range m.Metrics {
				sums[metric.Name+" "+by+"="+line[by].(string)] += line[metric.Name].(float64)
			}
		}
	}
	return sums
}

// What happens to tasks is counted in the log, and so is every request about limits.
func TestTheLogCarriesTheMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		perMinute := limit.Policy{Name: "per-minute", Rate: limit.PerMinute(1)}
		mux := worker.NewMux()
		worker.Handle(mux, "llm", func(ctx context.Context, p prompt) (any, error) {
			made, _ := worker.TaskFrom(ctx)
			switch {
			case p.Cost == 0:
				return nil, nil
			case made.Attempt == 1:
				return nil, worker.Reschedule(time.Hour)
			case made.Attempt == 2:
				return nil, errors.New("not yet")
			}
			return nil, nil
		}, worker.WithLimits(limit.By(perMinute, prompt.org)))
		var log lockedBuffer
		s := sluicetest.Start(t, mux, sluicetest.NoSweep(), sluicetest.Engine(func(c *worker.Config) {
			c.Log = slog.New(slog.NewJSONHandler(&log, nil))
			c.FunctionName = "claim"
		}))
		before := s.Cloud.Requests().Snapshot()
		s.Wait(s.Submit("llm", prompt{Org: "acme"}).ID)
		s.Wait(s.Submit("llm", prompt{Org: "acme", Cost: 1}).ID)
		time.Sleep(time.Hour) // wake-ups that are left
		synctest.Wait()

		got := sums(t, &log)
		for name, want := range map[string]float64{
			"TasksCompleted TaskType=llm": 2, "TasksRescheduled TaskType=llm": 1, "SleepTime TaskType=llm": 3600,
			"TasksRetried TaskType=llm": 1, "TasksThrottled TaskType=llm": 2, "Throttles Policy=per-minute": 2,
			"LimiterAdmitted FunctionName=claim": 4, "LimiterDenied FunctionName=claim": 2,
		} {
			if got[name] != want {
				t.Errorf("%s is %v, want %v", name, got[name], want)
			}
		}
		sent := float64(s.Cloud.Requests().Snapshot().Diff(before).Of(cloud.DynamoDB))
		if counted := got["LimiterRequests FunctionName=claim"]; counted != sent || sent == 0 {
			t.Errorf("%v requests are counted, %v were sent", counted, sent)
		}
		if got["HandlerTime TaskType=llm"] <= 0 || got["WakeLateness TaskType=llm"] < 0 {
			t.Errorf("times: %v", got)
		}
	})
}
