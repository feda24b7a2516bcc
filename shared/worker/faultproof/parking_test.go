package faultproof_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/reset"
	"github.com/sluice-dev/sluice/shared/task"
)

// resetClient is the reset function's.
const resetClient = "reset"

// Policies under which tasks are parked: each claim is a while apart from the next, or
// none comes before an operator grants it.
var (
	slow    = limit.Policy{Name: "slow", Rate: limit.Per(1, 20*time.Second), Max: 1}
	granted = limit.Policy{Name: "granted", Manual: limit.ByOperator, Max: 20}
)

// slowGap is how far apart claims under slow are, at least: the admissions, less what a
// request may be under way. With right clocks and without a fault it is slowFine.
const (
	slowGap  = 9 * time.Second
	slowFine = 19900 * time.Millisecond
)

// works completes after the function was at work for some time.
func works(d time.Duration) handler {
	return func(ctx context.Context, _ *world, _ task.Task) (any, error) { return "fine", sleep(ctx, d) }
}

// crowd submits tasks t1, t2, … one after the other.
func (w *world) crowd(tasks int, opts ...queue.Option) (ids []string) {
	w.t.Helper()
	for n := range tasks {
		id := "t" + string(rune('1'+n))
		w.submit(id, 1, opts...)
		ids = append(ids, id)
		time.Sleep(time.Second) // so that they come in this order
	}
	return ids
}

func all(ids []string, w want) map[string]want {
	wants := map[string]want{}
	for _, id := range ids {
		wants[id] = w
	}
	return wants
}

func threeFine() map[string]want {
	return all([]string{"t1", "t2", "t3"}, want{status: task.Completed, output: "fine"})
}

// with replaces what one task is wanted to be.
func with(wants map[string]want, id string, w want) map[string]want {
	wants[id] = w
	return wants
}

// cancelIfLive cancels a task, unless it has ended before that.
func (w *world) cancelIfLive(id string) {
	w.t.Helper()
	w.produce("cancel", func(ctx context.Context, q *queue.Queue, _ int) error {
		_, err := q.Cancel(ctx, id)
		if errors.As(err, new(*task.TransitionError)) {
			return nil
		}
		return err
	})
}

// operator is a limiter of the table without faults.
func (w *world) operator() *dynamolimit.Limiter {
	return dynamolimit.New(dynamodb.NewFromConfig(w.config(auditClient, nil)), w.stack.Table, dynamolimit.WithLog(slog.New(slog.DiscardHandler)))
}

// grant adds to the quota of parked tasks, or takes out of it.
func (w *world) grant(units int64) {
	w.t.Helper()
	w.granted += units
	w.must(w.operator().Grant(context.Background(), granted.Key(""), units))
}

// hold holds the key of those who are parked for some time, until it is released early.
func (w *world) hold(d time.Duration) {
	w.t.Helper()
	key, from := slow.Key(""), time.Now()
	w.must(w.operator().Hold(context.Background(), key, from.Add(6*time.Hour)))
	time.Sleep(d)
	w.mu.Lock()
	underWay := slowGap
	if len(w.plan) == 0 {
		underWay = time.Second
	}
	for _, claim := range w.claims {
		if claim.Sub(from) > underWay {
			w.complain("a claim %s after the key was held", claim.Sub(from))
		}
	}
	w.mu.Unlock()
	w.must(w.operator().Release(context.Background(), key))
}

// demand complains of what has to be so in lives without a fault.
func (w *world) demand(what string, so bool) {
	if so || len(w.plan) > 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.complain("it is not so that %s", what)
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Helper()
		w.t.Fatal(err)
	}
}

// round is a minute of the reset function, in a process of its own, which may meet faults
// and is not tried again.
func (w *world) round(client string) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i := w.newInstance(client, runtime.Goexit)
		config := w.config(auditClient, nil)
		if client != auditClient {
			config = w.config(client, i)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		r, err := reset.FromEnvironment(config, func(name string) string { return w.environment[name] })
		if err == nil {
			r.Log, r.Now = slog.New(slog.DiscardHandler), i.now
			_, err = r.Handle(ctx)
		}
		if err != nil && client == auditClient {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.complain("the reset function: %v", err)
		}
	}()
	<-ended
}

// rounds runs the reset function for some minutes.
func (w *world) rounds(client string, minutes int) {
	for range minutes {
		time.Sleep(time.Minute)
		w.round(client)
	}
}

// clearIndex lets the reset function find out that nobody waits any more. Of tasks that no
// passing of time makes due, entries that belong to nobody are found after a day.
func (w *world) clearIndex() {
	const roundsOfDay = 5
	entries, waiting := w.parked()
	if len(entries) > 3 {
		w.complain("%d places were taken that nobody came for", len(entries))
	}
	if len(w.plan) == 0 {
		w.demand("nobody is left in the index", len(entries) == 0)
		w.demand("nobody is counted", waiting == "" || waiting == "0")
	}
	if w.scenario.quota {
		w.grant(10) // entries that belong to nobody are found out when their turn has come
	}
	for range 2 {
		for range roundsOfDay {
			time.Sleep(3 * time.Minute)
			w.round(auditClient)
		}
		time.Sleep(25 * time.Hour)
	}
}

// parked returns what stands in the index of those who wait, and how many are counted.
func (w *world) parked() (entries []map[string]types.AttributeValue, waiting string) {
	out, err := dynamodb.NewFromConfig(w.config(auditClient, nil)).Scan(context.Background(), &dynamodb.ScanInput{TableName: &w.stack.Table})
	w.must(err)
	for _, i := range out.Items {
		if pk, ok := i["pk"].(*types.AttributeValueMemberS); ok && strings.HasPrefix(pk.Value, "sk:") {
			entries = append(entries, i)
		}
		if n, ok := i["w"].(*types.AttributeValueMemberN); ok {
			waiting = n.Value
		}
	}
	return entries, waiting
}

// checkParked holds what is left of parked tasks against the rules: when all have ended,
// the index is empty and nobody is counted. (A count below zero is nobody, too.)
func (w *world) checkParked() {
	entries, waiting := w.parked()
	for _, e := range entries {
		w.complain("left in the index: %v", e["sk"])
	}
	if waiting != "" && waiting != "0" && !strings.HasPrefix(waiting, "-") {
		w.complain("%s are counted as waiting", waiting)
	}
}

// parking are the lives of tasks that are parked.
var parking = []scenario{
	{
		name: "parked", handle: fine, limit: &slow, gap: slowGap, fine: slowFine, parks: true,
		life: func(w *world) { w.awaitEnd(w.crowd(3)...) },
		want: threeFine(),
	},
	{
		name: "parked-and-taken-along", handle: works(19500 * time.Millisecond), limit: &slow, gap: slowGap, fine: slowFine, parks: true,
		wakeDelay: 100 * time.Second,
		life:      func(w *world) { w.awaitEnd(w.crowd(3)...) },
		want:      threeFine(),
	},
	{
		name: "cancelled-while-parked", handle: works(2 * time.Second), limit: &slow, gap: slowGap, fine: slowFine, parks: true,
		life: func(w *world) {
			w.crowd(3)
			w.cancelIfLive("t3")
			w.awaitEnd("t1", "t2", "t3")
		},
		want: with(threeFine(), "t3", want{status: task.Cancelled, maybeClaimed: true, orElse: task.Completed}),
	},
	{
		name: "expired-while-parked", handle: works(2 * time.Second), limit: &slow, gap: slowGap, fine: slowFine, parks: true,
		life: func(w *world) {
			w.crowd(2)
			w.submit("t3", 1, queue.ExpiresIn(15*time.Second))
			w.awaitEnd("t1", "t2", "t3")
		},
		want: with(threeFine(), "t3", want{status: task.Expired, maybeClaimed: true, orElse: task.Completed}),
	},
	{
		name: "granted-while-parked", handle: fine, limit: &granted, quota: true, parks: true, resets: true,
		life: func(w *world) {
			w.must(w.operator().Declare(context.Background(), 1, granted))
			w.grant(-19)
			w.crowd(3)
			time.Sleep(time.Minute)
			w.grant(2)
			w.rounds(resetClient, 1)
			w.rounds(auditClient, 3)
			w.demand("who was granted its turn is woken within minutes", w.ended("t2", "t3"))
			for range 10 { // what a fault has cost is granted again
				w.rounds(auditClient, 3)
				if w.ended("t1", "t2", "t3") {
					break
				}
				w.grant(1)
			}
			w.awaitEnd("t1", "t2", "t3")
		},
		want: threeFine(),
	},
	{
		name: "held-while-parked", handle: fine, limit: &slow, gap: slowGap, fine: slowFine, parks: true, resets: true,
		life: func(w *world) {
			w.must(w.operator().Declare(context.Background(), 1, slow))
			w.crowd(3)
			time.Sleep(14 * time.Second) // the first of those who are parked waits for its turn now
			w.hold(3 * time.Minute)
			w.rounds(resetClient, 1)
			w.rounds(auditClient, 2)
			w.awaitEnd("t1", "t2", "t3")
		},
		want: threeFine(),
	},
}

// lives are all scenarios.
func lives() []scenario { return slices.Concat(scenarios, parking) }
