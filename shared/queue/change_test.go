package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
)

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		for name, call := range map[string]func(id string) error{
			"get":     func(id string) error { _, err := b.Get(t.Context(), id); return err },
			"history": func(id string) error { _, err := b.History(t.Context(), id); return err },
			"cancel":  func(id string) error { _, err := b.Cancel(t.Context(), id); return err },
			"replay":  func(id string) error { _, err := b.Replay(t.Context(), id); return err },
			"wait":    func(id string) error { _, err := b.Wait(t.Context(), id); return err },
			"purge":   func(id string) error { return b.Purge(t.Context(), id) },
		} {
			if err := call("nobody"); !errors.Is(err, queue.ErrNotFound) || !strings.Contains(err.Error(), "nobody") || !strings.Contains(err.Error(), "bucket tasks") {
				t.Errorf("%s: %v", name, err)
			}
			if err := call("../x"); err == nil || !strings.Contains(err.Error(), "is not valid") {
				t.Errorf("%s of an id that is none: %v", name, err)
			}
		}
	})
}

func TestWhatCancelDoes(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		for name, tt := range map[string]struct {
			events []task.Event
			status task.Status
			denied bool
		}{
			"submitted":   {nil, task.Cancelled, false},
			"asleep":      {[]task.Event{claim(), task.Reschedule{Delay: time.Hour}}, task.Cancelled, false},
			"throttled":   {[]task.Event{task.Throttle{Policy: "p", Until: time.Now().Add(time.Hour)}}, task.Cancelled, false},
			"running":     {[]task.Event{claim()}, task.Running, false},
			"completed":   {[]task.Event{claim(), task.Success{}}, task.Completed, true},
			"failed":      {[]task.Event{claim(), task.Failure{Permanent: true}}, task.Failed, true},
			"cancelled":   {[]task.Event{task.Cancel{}}, task.Cancelled, false},
			"was running": {[]task.Event{claim(), task.Cancel{}, task.Success{}}, task.Cancelled, false},
		} {
			id := b.submit(name).ID
			b.apply(id, tt.events...)
			for range 2 { // twice is no error
				got, err := b.Cancel(t.Context(), id)
				var denied *task.TransitionError
				if errors.As(err, &denied) != tt.denied || !tt.denied && err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if tt.denied && !strings.Contains(err.Error(), "cannot cancel task "+id+": it is "+string(tt.status)) {
					t.Errorf("%s: %v", name, err)
				}
				if got.Status != tt.status || got.ID != id || got.CancelRequested != (name == "running" || name == "was running") {
					t.Errorf("%s: %s", name, got.Encode())
				}
			}
			if left := b.versions(s3store.InboxKey(id)); tt.status.Terminal() == (len(left) > 0) {
				t.Errorf("%s: in the inbox %v", name, left)
			}
		}
	})
}

// The task may be claimed, and may end, between any two requests of a cancel:
// it is either cancelled and does not run, or runs and is asked to stop, or it has ended and the
// cancel says so.
func TestACancelRacesAClaim(t *testing.T) {
	for _, input := range []string{"ok", "1m"} {
		for at := 1; at <= 6; at++ {
			for _, when := range []string{"before", "after"} {
				t.Run(fmt.Sprintf("of %s, %s request %d", input, when, at), func(t *testing.T) {
					alive(t, func(t *testing.T, l *live) {
						l.Cloud.SetDelivery(cloud.S3Events, cloud.Delivery{Drop: 1})
						id := l.Submit("job", input).ID
						interfere(l, at, when, func() {
							if input == "ok" {
								l.visit(t, id)
								return
							}
							go l.invoke(id) // it runs on
							time.Sleep(time.Second)
						})
						got, err := l.Queue.Cancel(t.Context(), id)
						l.Cloud.SetFault(nil)
						end := l.Wait(id)
						l.nothingLeft(t, id)
						var late *task.TransitionError
						switch {
						case errors.As(err, &late):
							if end.Status != task.Completed || l.runs[id] != 1 {
								t.Errorf("cancel said %v, the task is %s after %d runs", err, end.Encode(), l.runs[id])
							}
						case err != nil:
							t.Errorf("cancel: %v", err)
						case got.Status == task.Running:
							if end.Status != task.Cancelled || l.runs[id] != 1 {
								t.Errorf("a running task ended %s after %d runs", end.Encode(), l.runs[id])
							}
						default:
							if end.Status != task.Cancelled || l.runs[id] != 0 {
								t.Errorf("a pending task ended %s after %d runs", end.Encode(), l.runs[id])
							}
						}
					})
				})
			}
		}
	}
}

// interfere does something around the n-th request of the producer.
func interfere(l *live, n int, when string, do func()) {
	var mu sync.Mutex
	seen := 0
	l.Cloud.SetFault(func(r *cloud.Request) cloud.Fault {
		if !r.From("producer") {
			return cloud.Fault{}
		}
		mu.Lock()
		seen++
		now := seen == n
		mu.Unlock()
		switch {
		case !now:
			return cloud.Fault{}
		case when == "before":
			do()
			return cloud.Fault{}
		}
		return cloud.Fault{Then: do}
	})
}

func TestARunningTaskIsToldToStop(t *testing.T) {
	alive(t, func(t *testing.T, l *live) {
		id := l.Submit("job", "10m").ID
		synctest.Wait()
		asked := time.Now()
		if got, err := l.Queue.Cancel(t.Context(), id); err != nil || got.Status != task.Running || !got.CancelRequested {
			t.Errorf("%s, %v", got.Encode(), err)
		}
		if end, err := l.Queue.Wait(t.Context(), id); err != nil || end.Status != task.Cancelled || time.Since(asked) > 15*time.Second {
			t.Errorf("%s, %v, after %s", end.Encode(), err, time.Since(asked))
		}
		l.nothingLeft(t, id)
	})
}

func TestWhatReplayDoes(t *testing.T) {
	alive(t, func(t *testing.T, l *live) {
		end := func(input string, opts ...queue.Option) task.Task {
			id := l.Submit("job", input, opts...).ID
			return l.Wait(id)
		}
		cancelled := l.Submit("job", large("x"), queue.In(time.Hour), queue.IdempotencyKey("k"), queue.Tag("a", "b"))
		if _, err := l.Queue.Cancel(t.Context(), cancelled.ID); err != nil {
			t.Fatal(err)
		}
		for name, ended := range map[string]task.Task{
			"failed":    end("fail"),
			"cancelled": l.Get(cancelled.ID),
			"expired":   end("ok", queue.In(time.Hour), queue.ExpiresIn(time.Minute)),
		} {
			got, err := l.Queue.Replay(t.Context(), ended.ID)
			if err != nil || got.ID != ended.ID || got.Attempt > 1 || name != "failed" && got.LastError != "" || got.Revision <= ended.Revision {
				t.Errorf("%s: %s, %v", name, got.Encode(), err)
			}
			again := l.Wait(ended.ID)
			want := task.Completed
			if name == "failed" {
				want = task.Failed
			}
			if again.Status != want || again.Attempt != 1 || !again.CreatedAt.Equal(ended.CreatedAt) || string(again.Input) != string(ended.Input) || again.Tags["a"] != ended.Tags["a"] {
				t.Errorf("%s: %.300s", name, again.Encode())
			}
			l.nothingLeft(t, ended.ID)
			if !slices.ContainsFunc(l.History(ended.ID), func(line string) bool { return strings.HasSuffix(line, "pending (replayed)") }) {
				t.Errorf("%s: history %q", name, l.History(ended.ID))
			}
		}
	})
}

func TestOnlyWhatEndedWithoutSuccessIsReplayed(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		for status, events := range map[task.Status][]task.Event{
			task.Pending: nil, task.Running: {claim()}, task.Completed: {claim(), task.Success{}},
		} {
			id := b.submit(status).ID
			before := b.apply(id, events...)
			got, err := b.Replay(t.Context(), id)
			var denied *task.TransitionError
			if !errors.As(err, &denied) || denied.Status != status || got.Status != status {
				t.Errorf("%s: %s, %v", status, got.Encode(), err)
			}
			if after := b.get(id); after.Revision != before.Revision {
				t.Errorf("%s: changed to %s", status, after.Encode())
			}
		}
	})
}

// Between any two requests of a replay the claim function may come and do it
// first, another producer may replay or cancel, and either may happen with the answer lost: the
// task runs once for it.
func TestAReplayRaces(t *testing.T) {
	rivals := map[string]func(t *testing.T, l *live, id string){
		"a claim": func(t *testing.T, l *live, id string) { l.visit(t, id) },
		"a replay": func(t *testing.T, l *live, id string) {
			_, err := queue.Over(l.Store("rival")).Replay(t.Context(), id)
			var late *task.TransitionError
			if err != nil && !errors.As(err, &late) {
				t.Error(err)
			}
		},
		"a replay and a claim": func(t *testing.T, l *live, id string) {
			_, _ = queue.Over(l.Store("rival")).Replay(t.Context(), id)
			l.visit(t, id)
		},
	}
	for name, rival := range rivals {
		for at := 1; at <= 6; at++ {
			for _, when := range []string{"before", "after"} {
				t.Run(fmt.Sprintf("%s, %s request %d", name, when, at), func(t *testing.T) {
					alive(t, func(t *testing.T, l *live) {
						id := l.Submit("job", "ok", queue.In(time.Hour)).ID
						if _, err := l.Queue.Cancel(t.Context(), id); err != nil {
							t.Fatal(err)
						}
						l.Cloud.SetDelivery(cloud.S3Events, cloud.Delivery{Drop: 1})
						interfere(l, at, when, func() { rival(t, l, id) })
						got, err := l.Queue.Replay(t.Context(), id)
						l.Cloud.SetFault(nil)
						var late *task.TransitionError
						if err != nil && !errors.As(err, &late) {
							t.Errorf("%s, %v", got.Encode(), err)
						}
						if end := l.Wait(id); end.Status != task.Completed {
							t.Errorf("task = %s", end.Encode())
						}
						l.nothingLeft(t, id)
						if l.runs[id] != 1 {
							t.Errorf("%d runs: %q", l.runs[id], l.History(id))
						}
					})
				})
			}
		}
	}
}

// A producer that dies at any request of a replay leaves a task that is either
// as it was or replayed; trying again is never harmful.
func TestAReplayMayDieAtAnyRequest(t *testing.T) {
	for _, input := range []string{"ok", large("x")} {
		for at := 1; at <= 5; at++ {
			for name, fault := range map[string]cloud.Fault{"before": cloud.Unreachable, "after": cloud.LostAnswer} {
				t.Run(fmt.Sprintf("%d bytes, %s request %d", len(input), name, at), func(t *testing.T) {
					alive(t, func(t *testing.T, l *live) {
						id := l.Submit("job", input, queue.In(time.Hour)).ID
						if _, err := l.Queue.Cancel(t.Context(), id); err != nil {
							t.Fatal(err)
						}
						seen := 0
						l.Cloud.SetFault(func(r *cloud.Request) cloud.Fault {
							if !r.From("producer") {
								return cloud.Fault{}
							}
							if seen++; seen < at {
								return cloud.Fault{}
							} else if seen == at {
								return fault
							}
							return cloud.Unreachable
						})
						_, _ = l.Queue.Replay(t.Context(), id) // it dies
						l.Cloud.SetFault(nil)
						time.Sleep(time.Hour)
						if got := l.Get(id); got.Status == task.Cancelled {
							if _, err := l.Queue.Replay(t.Context(), id); err != nil {
								t.Error(err)
							}
						}
						if end := l.Wait(id); end.Status != task.Completed || len(end.Output) != len(input)+2 {
							t.Errorf("task = %.300s", end.Encode())
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

func TestWaitEndsWithTheTaskOrItsContext(t *testing.T) {
	alive(t, func(t *testing.T, l *live) {
		id := l.Submit("job", "1h").ID
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		got, err := l.Queue.Wait(ctx, id)
		if !errors.Is(err, context.DeadlineExceeded) || got.ID != id || !strings.Contains(err.Error(), "which is ") {
			t.Errorf("%s, %v", got.Encode(), err)
		}
		short := l.Submit("job", "30s")
		if got, err := l.Queue.Wait(t.Context(), short.ID); err != nil || got.Status != task.Completed || string(got.Output) != `"30s"` {
			t.Errorf("%s, %v", got.Encode(), err)
		}
	})
}

func TestWaitDoesNotReadTheInputAgainAndAgain(t *testing.T) {
	alive(t, func(t *testing.T, l *live) {
		id := l.Submit("job", large("x"), queue.In(time.Minute)).ID
		reads := 0
		l.Cloud.SetFault(func(r *cloud.Request) cloud.Fault {
			if r.From("producer") && strings.HasPrefix(r.Key, "payloads/") {
				reads++
			}
			return cloud.Fault{}
		})
		if got, err := l.Queue.Wait(t.Context(), id); err != nil || len(got.Input) != s3store.InlineBytes+2 || len(got.Output) != s3store.InlineBytes+2 {
			t.Errorf("%.300s, %v", got.Encode(), err)
		}
		if reads != 2 {
			t.Errorf("%d reads of payloads", reads)
		}
	})
}

func TestHistoryTellsATasksLife(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		start := time.Now()
		id := b.submit(1, queue.In(time.Second)).ID
		lines := func() []string {
			entries, err := b.History(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for i, e := range entries {
				if e.Version != i+1 || e.At.Before(start) {
					t.Errorf("entry %d: %+v", i, e)
				}
				lines = append(lines, e.String())
			}
			return lines
		}
		if got := lines(); !slices.Equal(got, []string{"Version 1: pending (created)"}) {
			t.Errorf("history of a new task: %q", got)
		}
		time.Sleep(time.Second)
		b.apply(id, claim(), task.Reschedule{Delay: time.Minute})
		time.Sleep(time.Minute)
		b.apply(id, claim(), task.Failure{Error: "boom", Jitter: 0.5})
		time.Sleep(time.Minute)
		b.apply(id, claim(), task.Cancel{}, task.Failure{Error: "context canceled"})
		if _, err := b.Replay(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		b.apply(id, claim(), task.Success{})
		want := []string{
			"Version 1: pending (created)",
			"Version 2: running (claimed by worker-1)",
			"Version 3: pending (rescheduled, available_at: +60s, count: 1)",
			"Version 4: running (claimed by worker-1)",
			"Version 5: pending (retry 1 of 3, available_at: +1s, error: boom)",
			"Version 6: running (claimed by worker-1)",
			"Version 7: running (cancel requested)",
			"Version 8: cancelled",
			"Version 9: pending (replayed)",
			"Version 10: running (claimed by worker-1)",
			"Version 11: completed",
		}
		if got := lines(); !slices.Equal(got, want) {
			t.Errorf("history:\n%s", strings.Join(got, "\n"))
		}
	})
}

func TestADamagedRecordIsAnErrorThatSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		id := b.submit(1).ID
		b.put(s3store.TaskKey(id), `{"id":"another","task_type":"job"}`)
		for name, call := range map[string]func() error{
			"get":    func() error { _, err := b.Get(t.Context(), id); return err },
			"cancel": func() error { _, err := b.Cancel(t.Context(), id); return err },
			"replay": func() error { _, err := b.Replay(t.Context(), id); return err },
			"purge":  func() error { return b.Purge(t.Context(), id) },
		} {
			if err := call(); !errors.Is(err, queue.ErrDamaged) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
