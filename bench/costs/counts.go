package main

import (
	"fmt"
	"strconv"
	"strings"
)

// counts are the measured requests of one task, one sleep and one idle hour.
type counts struct {
	plain, limited, sleep requests
	// decisions are the requests to the limiter's table per limited task.
	decisions float64
	// idle are the requests of the crons per hour.
	idle bill
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
	var err error
	c.idle, err = idleFrom(figures)
	return c, err
}

// operations are the prices of what the crons ask for.
var operations = map[string]price{
	"s3.GetObject": s3Get, "s3.PutObject": s3Put, "s3.ListObjectsV2": s3List, "s3.ListObjectVersions": s3List,
	"dynamodb.GetItem": tableRead, "dynamodb.Query": tableRead, "dynamodb.UpdateItem": tableWrite,
	"scheduler.CreateSchedule": schedule,
}

// idleFrom adds up the requests of the crons by their price.
func idleFrom(figures map[string]float64) (bill, error) {
	byPrice := make(map[price]float64)
	var named, all float64
	for figure, n := range figures {
		of, isCron := strings.CutPrefix(figure, "requests_per_idle_hour of=")
		cron, operation, isOperation := strings.Cut(of, " operation=")
		switch p, known := operations[operation]; {
		case !isCron:
		case !isOperation:
			all += n
		case !known:
			return nil, fmt.Errorf("%s asks for %s, which has no price here", cron, operation)
		default:
			byPrice[p] += n
			named += n
		}
	}
	if named != all || all == 0 {
		return nil, fmt.Errorf("the crons make %v requests per hour, and operations are named for %v", all, named)
	}
	var idle bill
	for _, p := range []price{s3Put, s3List, s3Get, tableWrite, tableRead, schedule} {
		if byPrice[p] > 0 {
			idle = append(idle, item{byPrice[p], p})
		}
	}
	return idle, nil
}

// names are the figures that are used.
func (c *counts) names() map[string]*float64 {
	return map[string]*float64{
		"requests_per_task case=plain verb=put":    &c.plain.put,
		"requests_per_task case=plain verb=get":    &c.plain.get,
		"requests_per_task case=plain verb=delete": &c.plain.del,
		"requests_per_task case=limited verb=put":  &c.limited.put,
		"requests_per_task case=limited verb=get":  &c.limited.get,
		"dynamodb_requests_per_task case=limited":  &c.decisions,
		"requests_per_sleep verb=put":              &c.sleep.put,
		"requests_per_sleep verb=get":              &c.sleep.get,
		"requests_per_sleep verb=schedule":         &c.sleep.schedule,
	}
}
