package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/sluice-dev/sluice/localstack/cloud"
)

// tally is a number of requests by verb. HEAD, LIST, COPY and everything else is other.
type tally struct {
	put, get, del, schedule, dynamodb, other float64
}

// tallyOf sorts requests by their verb.
func tallyOf(c cloud.Counts) tally {
	t := tally{
		put:      float64(c.Of(cloud.S3, "PutObject")),
		get:      float64(c.Of(cloud.S3, "GetObject")),
		del:      float64(c.Of(cloud.S3, "DeleteObject")),
		schedule: float64(c.Of(cloud.Scheduler, "CreateSchedule")),
		dynamodb: float64(c.Of(cloud.DynamoDB)),
	}
	t.other = float64(c.Total()) - t.put - t.get - t.del - t.schedule - t.dynamodb
	return t
}

// each is the share of one of n.
func (t tally) each(n float64) tally {
	return tally{t.put / n, t.get / n, t.del / n, t.schedule / n, t.dynamodb / n, t.other / n}
}

// beyond is what there is of t beyond that of another.
func (t tally) beyond(o tally) tally {
	return tally{t.put - o.put, t.get - o.get, t.del - o.del, t.schedule - o.schedule, t.dynamodb - o.dynamodb, t.other - o.other}
}

// figure prints a figure. What is -0 by rounding is 0.
func figure(name string, value float64) {
	if value < 0.005 && value > -0.005 {
		value = 0
	}
	fmt.Printf("figure %s = %.2f\n", name, value)
}

func printTask(name string, t tally) {
	figure("requests_per_task case="+name+" verb=put", t.put)
	figure("requests_per_task case="+name+" verb=get", t.get)
	figure("requests_per_task case="+name+" verb=delete", t.del)
	figure("requests_per_task case="+name+" verb=other", t.other+t.schedule)
}

func printSleep(name string, t tally) {
	figure(name+" verb=put", t.put)
	figure(name+" verb=get", t.get)
	figure(name+" verb=schedule", t.schedule)
	figure(name+" verb=other", t.other+t.del+t.dynamodb)
}

// logMeter measures what functions log, each line with its end.
type logMeter struct{ bytes atomic.Int64 }

func (m *logMeter) add(_, _, line string) { m.bytes.Add(int64(len(line)) + 1) }

// sorted lists the operations that there were requests of.
func sorted(c cloud.Counts) []cloud.Operation {
	return slices.SortedFunc(maps.Keys(c), func(a, b cloud.Operation) int { return cmp.Compare(a.String(), b.String()) })
}
