package reset_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/wakeup"
)

// sleepers is what a round comes to.
type sleepers struct {
	round *dynamolimit.Round
	err   error
}

func (s *sleepers) PullForward(context.Context, limit.Patience, func(context.Context, string, time.Time) error) (*dynamolimit.Round, error) {
	return s.round, s.err
}

func TestARunTellsHowManyTasksAreParkedOnEachPolicy(t *testing.T) {
	t.Parallel()
	requests := limit.Policy{Name: "requests", Group: "llm", Rate: limit.PerSecond(1)}
	tokens := limit.Policy{Name: "tokens", Group: "llm", Rate: limit.PerSecond(1)}
	b := setup(t, requests, tokens, window, hourly)
	b.resetter.Wakeups = &wakeup.Armer{}
	for _, c := range []struct {
		name  string
		found *sleepers
		want  map[string]float64 // "" is all
	}{
		{"policies of a group have the number of their line",
			&sleepers{&dynamolimit.Round{Waiting: 7, Counted: true, Parked: map[string]int{"llm": 5, "window": 2}}, nil},
			map[string]float64{"": 7, "requests": 5, "tokens": 5, "window": 2}},
		{"a policy whose last task has left is told for some runs",
			&sleepers{&dynamolimit.Round{Waiting: 1, Counted: true, Parked: map[string]int{"llm": 1, "window": 0}}, nil},
			map[string]float64{"": 1, "requests": 1, "tokens": 1, "window": 0}},
		{"nobody is parked",
			&sleepers{&dynamolimit.Round{Counted: true}, nil},
			map[string]float64{"": 0}},
		{"a group whose policies are gone counts, too",
			&sleepers{&dynamolimit.Round{Waiting: 3, Counted: true, Parked: map[string]int{"gone": 3}}, nil},
			map[string]float64{"": 3}},
		{"a wake-up that can't be asked for does not change the numbers",
			&sleepers{&dynamolimit.Round{Waiting: 3, Counted: true, Parked: map[string]int{"window": 3}}, errors.New("throttled")},
			map[string]float64{"": 3, "window": 3}},
		{"what is not known is not told",
			&sleepers{&dynamolimit.Round{Waiting: 3, Parked: map[string]int{"window": 3}}, errors.New("no answer")},
			map[string]float64{}},
	} {
		b.resetter.Sleepers = c.found
		b.log.Reset()
		if _, err := b.resetter.Handle(t.Context()); !errors.Is(err, c.found.err) {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := parkedMetrics(t, b.log); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// parkedMetrics returns the values of the metric by policy, the one of all under "".
func parkedMetrics(t *testing.T, log *bytes.Buffer) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	for line := range strings.Lines(log.String()) {
		var l struct {
			Policy      string
			TasksParked *float64
			AWS         struct {
				CloudWatchMetrics []struct{ Dimensions [][]string }
			} `json:"_aws"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l.TasksParked == nil {
			continue
		}
		if by := l.AWS.CloudWatchMetrics[0].Dimensions[0][0]; (by == "Policy") != (l.Policy != "") {
			t.Errorf("%s is by %s", line, by)
		}
		values[l.Policy] = *l.TasksParked
	}
	return values
}
