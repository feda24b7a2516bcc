package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/localstack/stack"
)

// counts are the measured requests of one task, one sleep and one idle hour.
type counts struct {
	plain, limited, sleep requests
	// decisions are the requests to the limiter's table per limited task.
	decisions float64
	idle      struct {
		list, get, query float64
		// sweeps and resets are the runs of the crons.
		sweeps, resets float64
	}
}

type requests struct{ put, get, del, schedule float64 }

// countsFrom reads the lines "figure NAME = VALUE" that bench/ops prints. A request that it has
// counted and that has no price here is an error: the table would be wrong.
func countsFrom(text string) (counts, error) {
	figures := make(map[string]float64)
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "figure "), " = ")
		if !ok {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return counts{}, fmt.Errorf("the figure %s is %q: want a number", name, value)
		}
		figures[name] = number
	}
	var c counts
	var missing []string
	for name, into := range c.names() {
		value, ok := figures[name]
		if !ok {
			missing = append(missing, name)
		}
		*into = value
	}
	if len(missing) > 0 {
		return counts{}, fmt.Errorf("no figure %s: want what bench/ops prints", strings.Join(missing, ", "))
	}
	for _, name := range []string{
		"requests_per_task case=plain verb=other", "requests_per_task case=limited verb=other",
		"requests_per_sleep verb=other", "dynamodb_requests_per_task case=plain", "requests_per_idle_hour",
	} {
		if figures[name] != 0 {
			return counts{}, fmt.Errorf("the figure %s is %v: such requests have no price here", name, figures[name])
		}
	}
	if known, all := c.idle.list+c.idle.get+c.idle.query, figures["requests_per_idle_hour of=sweep"]+figures["requests_per_idle_hour of=reset"]; known != all {
		return counts{}, fmt.Errorf("reset and sweep make %v requests per hour, of which %v have a price here", all, known)
	}
	c.idle.sweeps = float64(time.Hour / stack.SweepEvery)
	c.idle.resets = float64(time.Hour / stack.ResetEvery)
	return c, nil
}

// names are the figures that are used.
func (c *counts) names() map[string]*float64 {
	return map[string]*float64{
		"requests_per_task case=plain verb=put":                      &c.plain.put,
		"requests_per_task case=plain verb=get":                      &c.plain.get,
		"requests_per_task case=plain verb=delete":                   &c.plain.del,
		"requests_per_task case=limited verb=put":                    &c.limited.put,
		"requests_per_task case=limited verb=get":                    &c.limited.get,
		"dynamodb_requests_per_task case=limited":                    &c.decisions,
		"requests_per_sleep verb=put":                                &c.sleep.put,
		"requests_per_sleep verb=get":                                &c.sleep.get,
		"requests_per_sleep verb=schedule":                           &c.sleep.schedule,
		"requests_per_idle_hour of=sweep operation=s3.ListObjectsV2": &c.idle.list,
		"requests_per_idle_hour of=sweep operation=s3.GetObject":     &c.idle.get,
		"requests_per_idle_hour of=reset operation=dynamodb.Query":   &c.idle.query,
	}
}
