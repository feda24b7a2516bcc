package main

import (
	"time"

	"github.com/sluice-dev/sluice/localstack/stack"
)

// The ways to sleep durably.
const (
	sluice        = "Sluice"
	stepFunctions = "Step Functions"
	durableLambda = "Lambda durable functions"
	delayQueue    = "SQS delay queue"
	buquet        = "buquet"
)

var systems = []string{sluice, stepFunctions, durableLambda, delayQueue, buquet}

// row is one thing that is paid for, by system. A system that does not offer it has no bill.
type row struct {
	name  string
	bills map[string]bill
}

// month is the month of all monthly numbers.
const month = 730 * time.Hour

// Assumptions about what is not measured here.
const (
	// cronSeconds is how long a run of reset or sweep takes that finds nothing to do, and memoryGB
	// what functions have.
	cronSeconds = 0.1
	memoryGB    = 0.25
	// Step Functions runs the task in one state. To sleep it enters a Wait state and the first one
	// again. Durable functions start an execution and complete a step; to sleep they begin a wait
	// and complete another step.
	transitionsPerTask, transitionsPerSleep = 1, 2
	operationsPerTask, operationsPerSleep   = 2, 2
	// A message is sent, received and deleted, one by one. It can be delayed for 15 minutes at most.
	callsPerMessage = 3
	longestDelay    = 15 * time.Minute
	// Lambda polls an idle queue with five connections, each of which asks every 20 seconds.
	pollers, pollEvery = 5, 20 * time.Second
	// A worker of buquet finds tasks by listing the bucket, idle or not. Its machine is not counted.
	buquetListsPerHour          = 57_600
	buquetPuts, buquetGets      = 5, 3 // per task
	buquetSleepPuts, sleepReads = 4, 2 // per sleep and re-run
)

// rows are all that is compared.
func rows(c counts) []row {
	message := bill{{callsPerMessage, queueCall}, {1, invocation}}
	const day = 24 * time.Hour
	return []row{
		{"a million tasks that run at once", map[string]bill{
			sluice:        {{c.plain.put, s3Put}, {c.plain.get, s3Get}, {c.plain.del, s3Delete}, {1, invocation}},
			stepFunctions: {{transitionsPerTask, transition}, {1, invocation}},
			durableLambda: {{operationsPerTask, durable}, {1, invocation}},
			delayQueue:    message,
			buquet:        {{buquetPuts, s3Put}, {buquetGets, s3Get}},
		}},
		{"a million tasks under a limit, admitted at once", map[string]bill{
			sluice: {{c.limited.put, s3Put}, {c.limited.get, s3Get}, {c.decisions, tableWrite}, {1, invocation}},
		}},
		{"a million sleeps of a quarter of an hour, each with the run after it", map[string]bill{
			sluice:        sleepBill(c),
			stepFunctions: {{transitionsPerSleep, transition}, {1, invocation}},
			durableLambda: {{operationsPerSleep, durable}, {1, invocation}},
			delayQueue:    message,
			buquet:        {{buquetSleepPuts, s3Put}, {sleepReads, s3Get}},
		}},
		{"a million sleeps of a day, each with the run after it", map[string]bill{
			sluice:        sleepBill(c),
			stepFunctions: {{transitionsPerSleep, transition}, {1, invocation}},
			durableLambda: {{operationsPerSleep, durable}, {1, invocation}},
			delayQueue:    message.times(float64(day / longestDelay)),
			buquet:        {{buquetSleepPuts, s3Put}, {sleepReads, s3Get}},
		}},
		{"a month in which nothing happens", map[string]bill{
			sluice:        idleBill(c),
			stepFunctions: {},
			durableLambda: {},
			delayQueue:    {{millions(pollers * float64(month/pollEvery)), queueCall}},
			buquet:        {{millions(buquetListsPerHour * month.Hours()), s3List}},
		}},
	}
}

func sleepBill(c counts) bill {
	return bill{{c.sleep.put, s3Put}, {c.sleep.get, s3Get}, {c.sleep.schedule, schedule}, {1, invocation}}
}

// idleBill is what the crons cost in a month.
func idleBill(c counts) bill {
	const runs = float64(month/stack.SweepEvery + month/stack.ResetEvery)
	return append(
		c.idle.times(millions(month.Hours())),
		item{millions(runs), invocation},
		item{millions(runs * cronSeconds * memoryGB), gbSecond},
	)
}

func millions(n float64) float64 { return n / 1e6 }
