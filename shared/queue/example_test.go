//nolint:gocritic // log.Fatal leaves a cloud in memory behind, that is all right
package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/localstack/stack"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/worker"
)

// Mail is the input of the examples.
type Mail struct {
	To string `json:"to"`
}

// start makes a queue on a cloud in memory, whose claim function sends mail.
// On AWS it is queue.New(config, bucket).
func start() (_ *queue.Queue, stop func()) {
	var failures atomic.Int64
	mux := worker.NewMux()
	worker.Handle(mux, "mail", func(_ context.Context, m Mail) (string, error) {
		if m.To == "nobody" && failures.Add(1) == 1 {
			return "", worker.Fail(errors.New("no such mailbox"))
		}
		return "sent to " + m.To, nil
	})
	c := cloud.New(cloud.Options{})
	s, err := stack.Deploy(context.Background(), c, stack.Options{Claim: func(env map[string]string) lambdaemu.Runtime {
		return lambdaemu.Func(func(ctx context.Context, payload []byte) ([]byte, error) {
			engine, err := worker.FromEnvironment(c.Config(), mux, func(name string) string { return env[name] })
			if err != nil {
				return nil, err
			}
			engine.Log = slog.New(slog.DiscardHandler)
			return nil, engine.Handle(ctx, json.RawMessage(payload))
		})
	}})
	if err != nil {
		log.Fatal(err)
	}
	return queue.New(c.Config(), s.Bucket), func() {
		if err := c.Close(); err != nil {
			log.Print(err)
		}
	}
}

func Example() {
	q, stop := start()
	defer stop()
	ctx := context.Background()

	t, err := q.Submit(ctx, "mail", Mail{To: "ada"})
	if err != nil {
		log.Fatal(err) // it was not accepted
	}
	t, err = q.Wait(ctx, t.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.Status, string(t.Output))
	// Output: completed "sent to ada"
}

func ExampleQueue_Submit() {
	q, stop := start()
	defer stop()

	t, err := q.Submit(context.Background(), "mail", Mail{To: "ada"},
		queue.MaxRetries(5),           // failures that lead to another attempt
		queue.MaxReschedules(100),     // sleeps that the handler may ask for
		queue.Timeout(time.Minute),    // of one run
		queue.ExpiresIn(24*time.Hour), // if it is still pending then
		queue.Tag("campaign", "welcome"),
	)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.Status, t.MaxRetries, *t.MaxReschedules, t.TimeoutSeconds, t.ExpiresAt.Sub(t.CreatedAt), t.Tags)
	// Output: pending 5 100 60 24h0m0s map[campaign:welcome]
}

func ExampleIn() {
	q, stop := start()
	defer stop()

	t, err := q.Submit(context.Background(), "mail", Mail{To: "ada"}, queue.In(time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.AvailableAt.Sub(t.CreatedAt))
	// Output: 1h0m0s
}

func ExampleAt() {
	q, stop := start()
	defer stop()

	t, err := q.Submit(context.Background(), "mail", Mail{To: "ada"}, queue.At(time.Date(2099, 12, 31, 23, 59, 0, 0, time.UTC)))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.AvailableAt)
	// Output: 2099-12-31 23:59:00 +0000 UTC
}

// A key makes a submit safe to repeat, and two producers of one thing one task.
func ExampleIdempotencyKey() {
	q, stop := start()
	defer stop()
	ctx := context.Background()

	first, err := q.Submit(ctx, "mail", Mail{To: "ada"}, queue.IdempotencyKey("welcome ada"))
	if err != nil {
		log.Fatal(err)
	}
	again, err := q.Submit(ctx, "mail", Mail{To: "ada"}, queue.IdempotencyKey("welcome ada"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(again.ID == first.ID)

	_, err = q.Submit(ctx, "mail", Mail{To: "bob"}, queue.IdempotencyKey("welcome ada"))
	fmt.Println(errors.Is(err, queue.ErrKeyReused))
	// Output:
	// true
	// true
}

// Keys count within their task type. A scope shares them between types, or
// keeps those of one customer apart from another's.
func ExampleScope() {
	q, stop := start()
	defer stop()
	ctx := context.Background()

	acme, err := q.Submit(ctx, "mail", Mail{To: "ada"}, queue.IdempotencyKey("1"), queue.Scope("acme"))
	if err != nil {
		log.Fatal(err)
	}
	initech, err := q.Submit(ctx, "mail", Mail{To: "ada"}, queue.IdempotencyKey("1"), queue.Scope("initech"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(acme.ID == initech.ID)
	// Output: false
}

// A limit that is named at submit holds beside those that the handler declares. It takes a
// claim function with a limiter, which has the policy.
func ExampleLimit() {
	q, stop := start()
	defer stop()

	t, err := q.Submit(context.Background(), "mail", Mail{To: "ada"}, queue.In(time.Hour), queue.Limit("provider", "acme", 1))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%+v\n", t.Limits)
	// Output: [{Policy:provider Key:acme Cost:1}]
}

func ExampleQueue_SubmitMany() {
	q, stop := start()
	defer stop()

	var requests []queue.Request
	for _, to := range []string{"ada", "bob", "eve"} {
		requests = append(requests, queue.Request{Type: "mail", Input: Mail{To: to}, Options: []queue.Option{queue.Tag("batch", "7")}})
	}
	accepted := 0
	q.SubmitMany(context.Background(), requests, func(r queue.Result) {
		if r.Err != nil {
			log.Printf("request %d was refused: %v", r.Index, r.Err)
			return
		}
		accepted++
	})
	fmt.Println(accepted, "accepted")
	// Output: 3 accepted
}

func ExampleQueue_List() {
	q, stop := start()
	defer stop()
	ctx := context.Background()

	for _, to := range []string{"ada", "bob", "eve"} {
		if _, err := q.Submit(ctx, "mail", Mail{To: to}, queue.In(time.Hour), queue.ID("mail-to-"+to)); err != nil {
			log.Fatal(err)
		}
	}
	options := queue.ListOptions{Statuses: []task.Status{task.Pending}, Type: "mail", Limit: 2}
	for {
		page, err := q.List(ctx, options)
		if err != nil {
			log.Fatal(err)
		}
		for _, t := range page.Tasks {
			fmt.Println(t.ID, t.Status)
		}
		if page.Cursor == "" {
			break
		}
		options.Cursor = page.Cursor // in a web service this goes to the client and comes back
		fmt.Println("next page")
	}
	// Output:
	// mail-to-ada pending
	// mail-to-bob pending
	// next page
	// mail-to-eve pending
}

func ExampleQueue_All() {
	q, stop := start()
	defer stop()
	ctx := context.Background()

	for i, to := range []string{"ada", "bob", "eve"} {
		if _, err := q.Submit(ctx, "mail", Mail{To: to}, queue.In(time.Hour), queue.Tag("even", strconv.FormatBool(i%2 == 0))); err != nil {
			log.Fatal(err)
		}
	}
	for t, err := range q.All(ctx, queue.ListOptions{Tags: map[string]string{"even": "true"}}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(t.Input))
	}
	// Output:
	// {"to":"ada"}
	// {"to":"eve"}
}

func ExampleQueue_Get() {
	q, stop := start()
	defer stop()

	_, err := q.Get(context.Background(), "nobody")
	fmt.Println(errors.Is(err, queue.ErrNotFound))
	// Output: true
}

func ExampleQueue_History() {
	q, stop := start()
	defer stop()
	ctx := context.Background()

	t, err := q.Submit(ctx, "mail", Mail{To: "ada"}, queue.In(time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := q.Cancel(ctx, t.ID); err != nil {
		log.Fatal(err)
	}
	entries, err := q.History(ctx, t.ID)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range entries {
		fmt.Println(e)
	}
	// Output:
	// Version 1: pending (created)
	// Version 2: cancelled
}

// A pending task is cancelled at once, a running one is asked to stop. One that has ended can't
// be cancelled any more.
func ExampleQueue_Cancel() {
	q, stop := start()
	defer stop()
	ctx := context.Background()

	later, err := q.Submit(ctx, "mail", Mail{To: "ada"}, queue.In(time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	later, err = q.Cancel(ctx, later.ID)
	fmt.Println(later.Status, err)

	now, err := q.Submit(ctx, "mail", Mail{To: "bob"}, queue.ID("mail-to-bob"))
	if err != nil {
		log.Fatal(err)
	}
	if now, err = q.Wait(ctx, now.ID); err != nil {
		log.Fatal(err)
	}
	_, err = q.Cancel(ctx, now.ID)
	var late *task.TransitionError
	fmt.Println(errors.As(err, &late), err)
	// Output:
	// cancelled <nil>
	// true cannot cancel task mail-to-bob: it is completed
}

func ExampleQueue_Replay() {
	q, stop := start()
	defer stop()
	ctx := context.Background()

	t, err := q.Submit(ctx, "mail", Mail{To: "nobody"})
	if err != nil {
		log.Fatal(err)
	}
	if t, err = q.Wait(ctx, t.ID); err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.Status, t.LastError)

	if t, err = q.Replay(ctx, t.ID); err != nil { // the mailbox was made meanwhile
		log.Fatal(err)
	}
	if t, err = q.Wait(ctx, t.ID); err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.Status, string(t.Output))
	// Output:
	// failed no such mailbox
	// completed "sent to nobody"
}

func ExampleQueue_Wait() {
	q, stop := start()
	defer stop()

	t, err := q.Submit(context.Background(), "mail", Mail{To: "ada"}, queue.In(time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err = q.Wait(ctx, t.ID)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

// Purge deletes what there is of a task, be it that its input must not be
// kept, or that its idempotency key is to be free again.
func ExampleQueue_Purge() {
	q, stop := start()
	defer stop()
	ctx := context.Background()

	t, err := q.Submit(ctx, "mail", Mail{To: "ada"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := q.Wait(ctx, t.ID); err != nil {
		log.Fatal(err)
	}
	if err := q.Purge(ctx, t.ID); err != nil {
		log.Fatal(err)
	}
	_, err = q.Get(ctx, t.ID)
	fmt.Println(errors.Is(err, queue.ErrNotFound))
	// Output: true
}
