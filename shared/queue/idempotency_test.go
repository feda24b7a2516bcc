package queue_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/sluicetest"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/task"
)

func TestTenSubmittersOfOneKeyAreOneTask(t *testing.T) {
	for name, latency := range map[string]time.Duration{"at once": 0, "slowly": 200 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			alive(t, func(t *testing.T, l *live) {
				l.Cloud.SetLatency(cloud.S3, latency)
				const submitters = 10
				var got [submitters]task.Task
				var all sync.WaitGroup
				for i := range submitters {
					all.Go(func() {
						time.Sleep(time.Duration(i) * latency / 3)
						var err error
						if got[i], err = l.Queue.Submit(t.Context(), "job", "ok", queue.IdempotencyKey("order 7")); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				id := task.DeriveID("job", "order 7")
				for _, one := range got {
					if one.ID != id || string(one.Input) != `"ok"` {
						t.Errorf("submitted %s", one.Encode())
					}
				}
				if end := l.Wait(id); end.Status != task.Completed || end.Attempt != 1 {
					t.Errorf("task = %s", end.Encode())
				}
				l.nothingLeft(t, id)
				if l.runs[id] != 1 || len(l.runs) != 1 {
					t.Errorf("runs: %v", l.runs)
				}
			})
		})
	}
}

func TestAKeyStandsForItsFirstTaskAllItsLife(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		first := b.submit(map[string]any{"n": 1, "m": 2}, queue.IdempotencyKey("k"))
		check := func(state task.Status) {
			t.Helper()
			time.Sleep(time.Minute)
			for _, same := range []any{map[string]int{"m": 2, "n": 1}, json.RawMessage(`{ "m" : 2, "n" : 1 }`)} {
				got, err := b.Submit(t.Context(), "job", same, queue.IdempotencyKey("k"), queue.MaxRetries(9))
				if err != nil || got.ID != first.ID || got.Status != state || got.MaxRetries != first.MaxRetries || !got.CreatedAt.Equal(first.CreatedAt) {
					t.Errorf("%s: %s, %v", state, got.Encode(), err)
				}
			}
			for _, other := range []any{nil, map[string]int{"m": 2}, json.RawMessage(`{"m":2,"n":1.0}`), large("x")} {
				got, err := b.Submit(t.Context(), "job", other, queue.IdempotencyKey("k"))
				if !errors.Is(err, queue.ErrKeyReused) || errors.Is(err, queue.ErrExists) {
					t.Errorf("%s, another input: %s, %v", state, got.Encode(), err)
				}
			}
			submissions := 1
			if state.Terminal() {
				submissions = 0
			}
			if n := len(b.versions("inbox/")); n != submissions {
				t.Errorf("%s: %d submissions", state, n)
			}
		}
		check(task.Pending)
		b.apply(first.ID, claim())
		check(task.Running)
		b.apply(first.ID, task.Reschedule{Delay: time.Hour})
		check(task.Pending)
		time.Sleep(time.Hour)
		b.complete(first.ID)
		check(task.Completed)
	})
}

func TestAKeyStandsForItsTaskHoweverItEnded(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		failed := b.submit(1, queue.IdempotencyKey("failed"))
		b.apply(failed.ID, claim(), task.Failure{Error: "boom", Permanent: true})
		cancelled := b.submit(1, queue.IdempotencyKey("cancelled"))
		if _, err := b.Cancel(t.Context(), cancelled.ID); err != nil {
			t.Fatal(err)
		}
		for key, status := range map[string]task.Status{"failed": task.Failed, "cancelled": task.Cancelled} {
			if got := b.submit(1, queue.IdempotencyKey(key)); got.Status != status {
				t.Errorf("%s: %s", key, got.Encode())
			}
		}
	})
}

func TestAKeyCountsWithinItsScope(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		submit := func(taskType string, opts ...queue.Option) (string, error) {
			got, err := b.Submit(t.Context(), taskType, 1, append(opts, queue.IdempotencyKey("k"))...)
			return got.ID, err
		}
		ids := make(map[string]bool)
		for _, s := range []struct {
			taskType string
			opts     []queue.Option
		}{{"mail", nil}, {"bill", nil}, {"mail", []queue.Option{queue.Scope("queue")}}, {"mail", []queue.Option{queue.Scope("acme")}}} {
			id, err := submit(s.taskType, s.opts...)
			if err != nil || ids[id] {
				t.Errorf("%+v: %s, %v", s, id, err)
			}
			ids[id] = true
		}
		// Within one scope a key is one task, so another type is another input.
		if _, err := submit("bill", queue.Scope("queue")); !errors.Is(err, queue.ErrKeyReused) {
			t.Errorf("error = %v", err)
		}
		// A scope that spells out the task type is the default one.
		if id, err := submit("mail", queue.Scope("mail")); err != nil || id != task.DeriveID("mail", "k") {
			t.Errorf("%s, %v", id, err)
		}
	})
}

func TestALargeInputUnderAKey(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		first := b.submit(large("x"), queue.IdempotencyKey("k"))
		if again := b.submit(large("x"), queue.IdempotencyKey("k")); again.ID != first.ID || string(again.Input) != string(first.Input) {
			t.Error("the same input is not the same task")
		}
		for _, other := range []string{large("y"), "x"} {
			if _, err := b.Submit(t.Context(), "job", other, queue.IdempotencyKey("k")); !errors.Is(err, queue.ErrKeyReused) {
				t.Errorf("error = %v", err)
			}
		}
		if got := b.get(first.ID); string(got.Input) != string(first.Input) {
			t.Error("the refused submits changed the input")
		}
	})
}

// Between any two requests of a keyed submit the claim function may take the
// first task, run it and clean up behind it: the submit returns that task, which runs
// once, and nothing is left.
func TestAKeyedSubmitRacesAClaim(t *testing.T) {
	before := map[string]func(t *testing.T, l *live, id string){
		"nothing":     func(*testing.T, *live, string) {},
		"a submitted": func(t *testing.T, l *live, _ string) { l.Submit("job", "ok", queue.IdempotencyKey("k")) },
		"a sleeping": func(t *testing.T, l *live, id string) {
			l.Submit("job", "ok", queue.IdempotencyKey("k"), queue.In(time.Millisecond))
			l.visit(t, id)
			time.Sleep(time.Millisecond)
		},
		"a completed": func(t *testing.T, l *live, id string) {
			l.Submit("job", "ok", queue.IdempotencyKey("k"))
			l.visit(t, id)
		},
		"a leftover": func(t *testing.T, l *live, id string) { // completed, its clean-up failed
			l.Cloud.FailNext(3, cloud.InternalError, func(r *cloud.Request) bool { return r.Is(cloud.S3, "DeleteObject") })
			l.Submit("job", "ok", queue.IdempotencyKey("k"))
			l.visit(t, id)
		},
	}
	for state, prepare := range before {
		for at := 1; at <= 6; at++ {
			for _, when := range []string{"before", "after"} {
				t.Run(fmt.Sprintf("over %s task, %s request %d", state, when, at), func(t *testing.T) {
					alive(t, func(t *testing.T, l *live) {
						l.Cloud.SetDelivery(cloud.S3Events, cloud.Delivery{Drop: 1})
						id := task.DeriveID("job", "k")
						prepare(t, l, id)
						n := 0
						l.Cloud.SetFault(func(r *cloud.Request) cloud.Fault {
							if !r.From("producer") {
								return cloud.Fault{}
							}
							if n++; n != at {
								return cloud.Fault{}
							}
							if when == "before" {
								l.visit(t, id)
								return cloud.Fault{}
							}
							return cloud.Fault{Then: func() { l.visit(t, id) }}
						})
						got, err := l.Queue.Submit(t.Context(), "job", "ok", queue.IdempotencyKey("k"))
						l.Cloud.SetFault(nil)
						if err != nil || got.ID != id {
							t.Errorf("%s, %v", got.Encode(), err)
						}
						if end := l.Wait(id); end.Status != task.Completed || end.Attempt != 1 {
							t.Errorf("task = %s", end.Encode())
						}
						l.nothingLeft(t, id)
						if l.runs[id] != 1 {
							t.Errorf("%d runs", l.runs[id])
						}
					})
				})
			}
		}
	}
}

// A producer that dies at any request of a keyed submit, and tries again, gets
// one task.
func TestAKeyedSubmitMayDieAtAnyRequest(t *testing.T) {
	for completed := range 2 {
		for at := 1; at <= 4; at++ {
			for name, fault := range map[string]cloud.Fault{"before": cloud.Unreachable, "after": cloud.LostAnswer} {
				t.Run(fmt.Sprintf("completed %d, %s request %d", completed, name, at), func(t *testing.T) {
					alive(t, func(t *testing.T, l *live) {
						if completed == 1 {
							l.Submit("job", "ok", queue.IdempotencyKey("k"))
							synctest.Wait()
						}
						n := 0
						l.Cloud.SetFault(func(r *cloud.Request) cloud.Fault {
							if !r.From("producer") {
								return cloud.Fault{}
							}
							switch n++; {
							case n < at:
								return cloud.Fault{}
							case n == at:
								return fault
							}
							return cloud.Unreachable
						})
						_, _ = l.Queue.Submit(t.Context(), "job", "ok", queue.IdempotencyKey("k")) // it dies
						l.Cloud.SetFault(nil)
						time.Sleep(time.Hour)
						id := task.DeriveID("job", "k")
						if got := l.Submit("job", "ok", queue.IdempotencyKey("k")); got.ID != id {
							t.Errorf("task = %s", got.Encode())
						}
						l.Wait(id)
						l.nothingLeft(t, id)
						if l.runs[id] != 1 {
							t.Errorf("%d runs", l.runs[id])
						}
					})
				})
			}
		}
	}
}

// Producers in other languages put the object themselves, without the look at
// the record that ends a keyed submit here: the claim function makes it.
func TestAKeyedSubmitByOnePutAfterCompletionDoesNotRunAgain(t *testing.T) {
	alive(t, func(t *testing.T, l *live) {
		first := l.Submit("job", "ok", queue.IdempotencyKey("k"))
		synctest.Wait()
		again := first
		again.CreatedAt = time.Now().Add(time.Hour)
		time.Sleep(time.Hour)
		if _, err := l.Store("test").Submit(t.Context(), again); err != nil {
			t.Fatal(err)
		}
		l.nothingLeft(t, first.ID)
		if l.runs[first.ID] != 1 {
			t.Errorf("%d runs", l.runs[first.ID])
		}
	}, sluicetest.NoSweep())
}
