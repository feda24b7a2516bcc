package queue_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
)

func TestPurgeLeavesNothingOfATaskAndAllOfOthers(t *testing.T) {
	for name, events := range map[string][]task.Event{
		"submitted": nil,
		"asleep":    {claim(), task.Reschedule{Delay: time.Hour}},
		"completed": {claim(), task.Success{}},
		"failed":    {claim(), task.Failure{Permanent: true}},
		"cancelled": {task.Cancel{}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bundle) {
				neighbors := []string{"a", "a-", "a-b", "a-bc", "a-b-c", "b", "a-b_json"}
				for _, id := range neighbors {
					b.submit(large("x"), queue.ID(id))
					b.apply(id, slices.Concat([]task.Event{claim(), task.Reschedule{}}, events)...)
				}
				b.put(s3store.InboxKey("a-b")+"x", "odd")
				before := slices.DeleteFunc(b.versions(""), func(key string) bool {
					return strings.HasSuffix(key, "/a-b.json") || strings.Contains(key, "/a-b/")
				})
				if err := b.Purge(t.Context(), "a-b"); err != nil {
					t.Fatal(err)
				}
				if after := b.versions(""); !slices.Equal(after, before) {
					t.Errorf("left:\n%s\nwant:\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
				}
				if err := b.Purge(t.Context(), "a-b"); !errors.Is(err, queue.ErrNotFound) {
					t.Errorf("purged twice: %v", err)
				}
				if _, err := b.Get(t.Context(), "a-b"); !errors.Is(err, queue.ErrNotFound) {
					t.Errorf("get: %v", err)
				}
			})
		})
	}
}

func TestAPurgedKeyIsFreeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		first := b.submit(1, queue.IdempotencyKey("k"))
		b.complete(first.ID)
		if err := b.Purge(t.Context(), first.ID); err != nil {
			t.Fatal(err)
		}
		if again := b.submit(2, queue.IdempotencyKey("k")); again.ID != first.ID || again.Status != task.Pending || string(again.Input) != "2" {
			t.Errorf("task = %s", again.Encode())
		}
	})
}

func TestThousandsOfVersionsAreDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		made := task.New("old", "job", time.Now())
		for i := range 2100 {
			made.Status, made.Revision = task.Completed, int64(i+1)
			b.fill(s3store.TaskKey("old"), made.Encode())
		}
		if err := b.Purge(t.Context(), "old"); err != nil {
			t.Fatal(err)
		}
		if left := b.versions(""); len(left) > 0 {
			t.Errorf("%d versions are left", len(left))
		}
	})
}

func TestDeleteMarkersArePurgedToo(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		id := b.submit(large("x")).ID
		b.apply(id, claim(), task.Success{})
		for _, key := range []string{s3store.InboxKey(id), s3store.TaskKey(id), b.versions("payloads/")[0]} {
			if _, err := b.client.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &b.bucket, Key: &key}); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Purge(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if left := b.versions(""); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

func TestARunningTaskIsPurgedOnlyByForce(t *testing.T) {
	alive(t, func(t *testing.T, l *live) {
		id := l.Submit("job", "10m").ID
		synctest.Wait()
		err := l.Queue.Purge(t.Context(), id)
		var denied *task.TransitionError
		if !errors.As(err, &denied) || denied.Status != task.Running || !strings.Contains(err.Error(), "cannot purge task "+id+": it is running, cancel it and wait, or force the purge") {
			t.Fatalf("error = %v", err)
		}
		if got := l.Get(id); got.Status != task.Running || got.CancelRequested {
			t.Errorf("the refused purge left %s", got.Encode())
		}
		if err := l.Queue.Purge(t.Context(), id, queue.Force()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour) // the handler is told to stop, its outcome is dropped, and nothing comes back
		if left := versions(t, s3store.NewClient(l.Config("test")), l.Bucket, ""); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		if l.runs[id] != 1 {
			t.Errorf("%d runs", l.runs[id])
		}
	})
}

func TestWhatCannotBeReadIsPurgedOnlyByForce(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		b.submit(1, queue.ID("damaged"))
		b.put(s3store.TaskKey("damaged"), "{")
		b.put(s3store.InboxKey("invalid"), "{")
		for _, id := range []string{"damaged", "invalid"} {
			if err := b.Purge(t.Context(), id); err == nil || !strings.Contains(err.Error(), "force the purge to delete it unread") {
				t.Errorf("error = %v", err)
			}
			if err := b.Purge(t.Context(), id, queue.Force()); err != nil {
				t.Error(err)
			}
		}
		if left := b.versions(""); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// However far a purge came before its process died, it can be repeated.
func TestAPurgeMayDieAtAnyRequest(t *testing.T) {
	for name, fault := range map[string]cloud.Fault{"before": cloud.Unreachable, "after": cloud.LostAnswer} {
		for at := 1; ; at++ {
			died := false
			t.Run(fmt.Sprintf("%s request %d", name, at), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := setup(t)
					id := b.submit(large("x")).ID
					b.apply(id, claim(), task.Reschedule{Delay: time.Hour})
					seen := 0
					b.cloud.SetFault(func(r *cloud.Request) cloud.Fault {
						if !r.From("producer") {
							return cloud.Fault{}
						}
						if seen++; seen < at {
							return cloud.Fault{}
						} else if seen == at {
							died = true
							return fault
						}
						return cloud.Unreachable
					})
					err := b.Purge(t.Context(), id)
					b.cloud.SetFault(nil)
					if died && err == nil {
						t.Error("no error though it died")
					}
					if err := b.Purge(t.Context(), id); err != nil && !errors.Is(err, queue.ErrNotFound) {
						t.Error(err)
					}
					if left := b.versions(""); len(left) > 0 {
						t.Errorf("left: %v", left)
					}
				})
			})
			if !died {
				if at < 15 {
					t.Errorf("died only %d times", at-1)
				}
				break
			}
		}
	}
}

// The claim function may come between any two requests of a purge: the task
// either runs, and the purge says so, or it does not, and nothing is left.
func TestAPurgeRacesAClaim(t *testing.T) {
	for _, input := range []string{"ok", "1m"} {
		for at := 1; at <= 16; at++ {
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
							go l.invoke(id)
							time.Sleep(time.Second)
						})
						err := l.Queue.Purge(t.Context(), id)
						l.Cloud.SetFault(nil)
						if _, running := errors.AsType[*task.TransitionError](err); running {
							if end := l.Wait(id); end.Status != task.Completed || l.runs[id] != 1 {
								t.Errorf("refused, but the task is %s after %d runs", end.Encode(), l.runs[id])
							}
							err = l.Queue.Purge(t.Context(), id)
						}
						if err != nil {
							t.Error(err)
						}
						time.Sleep(2 * time.Hour)
						if left := versions(t, s3store.NewClient(l.Config("test")), l.Bucket, ""); len(left) > 0 {
							t.Errorf("left: %v", left)
						}
						if l.runs[id] > 1 {
							t.Errorf("%d runs", l.runs[id])
						}
					})
				})
			}
		}
	}
}

// A replay may come between any two requests of a purge, and the other way
// round: the task is gone, or it was replayed as a whole.
func TestAPurgeRacesAReplay(t *testing.T) {
	for at := 1; at <= 16; at++ {
		for _, when := range []string{"before", "after"} {
			for _, inside := range []string{"purge", "replay"} {
				t.Run(fmt.Sprintf("%s request %d of the %s", when, at, inside), func(t *testing.T) {
					alive(t, func(t *testing.T, l *live) {
						id := l.Submit("job", "ok", queue.In(time.Hour)).ID
						if _, err := l.Queue.Cancel(t.Context(), id); err != nil {
							t.Fatal(err)
						}
						l.Cloud.SetDelivery(cloud.S3Events, cloud.Delivery{Drop: 1})
						rival := queue.Over(l.Store("rival"))
						purge := func(q *queue.Queue) {
							err := q.Purge(t.Context(), id)
							if _, running := errors.AsType[*task.TransitionError](err); !running && err != nil && !errors.Is(err, queue.ErrNotFound) {
								t.Error("purge:", err)
							}
						}
						replay := func(q *queue.Queue) {
							_, err := q.Replay(t.Context(), id)
							if _, late := errors.AsType[*task.TransitionError](err); !late && err != nil && !errors.Is(err, queue.ErrNotFound) {
								t.Error("replay:", err)
							}
						}
						if inside == "purge" {
							interfere(l, at, when, func() { replay(rival) })
							purge(l.Queue)
						} else {
							interfere(l, at, when, func() { purge(rival) })
							replay(l.Queue)
						}
						l.Cloud.SetFault(nil)
						time.Sleep(3 * time.Hour)
						got, err := l.Queue.Get(t.Context(), id)
						switch {
						case errors.Is(err, queue.ErrNotFound):
							if left := versions(t, s3store.NewClient(l.Config("test")), l.Bucket, ""); len(left) > 0 {
								t.Errorf("left: %v", left)
							}
						case err != nil:
							t.Error(err)
						case got.Status != task.Completed:
							t.Errorf("task = %s", got.Encode())
						default:
							l.nothingLeft(t, id)
						}
						if l.runs[id] > 1 {
							t.Errorf("%d runs", l.runs[id])
						}
					})
				})
			}
		}
	}
}

func TestAPurgeThatIsDeniedSaysWhatToDo(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		id := b.submit(1).ID
		b.cloud.SetFault(func(r *cloud.Request) cloud.Fault {
			if r.From("producer") && r.Is(cloud.S3, "DeleteObjects") {
				return cloud.Fault{Status: 403, Code: "AccessDenied"}
			}
			return cloud.Fault{}
		})
		if err := b.Purge(t.Context(), id); err == nil || !strings.Contains(err.Error(), "check the credentials and their policy") {
			t.Errorf("error = %v", err)
		}
		if got := b.get(id); got.Status != task.Cancelled {
			t.Errorf("a purge that failed leaves the task %s, not cancelled", got.Status)
		}
	})
}
