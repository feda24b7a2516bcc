package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/localstack/sluicetest"
	"github.com/sluice-dev/sluice/localstack/stack"
	"github.com/sluice-dev/sluice/shared/notice"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/worker"
)

const ends = "ends"

// noticed deploys a queue for notices of the types.
func noticed(types ...string) sluicetest.Option {
	notices := make(map[string]string)
	for _, taskType := range types {
		notices[taskType] = ends
	}
	return sluicetest.Deployment(stack.Options{Notices: notices})
}

// notices are those that were sent, oldest first.
func notices(t *testing.T, s *sluicetest.Stack) []notice.Notice {
	t.Helper()
	var all []notice.Notice
	for _, m := range s.Cloud.SQS().Messages(ends) {
		var n notice.Notice
		if err := json.Unmarshal([]byte(m.Body), &n); err != nil {
			t.Fatalf("%s: %v", m.Body, err)
		}
		if m.Attributes["task_type"].StringValue != n.TaskType || m.Attributes["status"].StringValue != string(n.Status) {
			t.Errorf("the attributes of %s are %v", m.Body, m.Attributes)
		}
		all = append(all, n)
	}
	return all
}

func sends(r *cloud.Request) bool { return r.Operation == "SendMessage" && r.From("claim") }

func TestTheEndOfATaskIsToldOnceAndWithoutWhatItHolds(t *testing.T) {
	handle := func(context.Context, json.RawMessage) (any, error) { return marker, nil }
	run(t, handle, func(t *testing.T, s *sluicetest.Stack) {
		got := s.Wait(s.Submit("job", marker, queue.Tag("tenant", "acme")).ID)
		time.Sleep(time.Minute)
		sent := notices(t, s)
		if len(sent) != 1 {
			t.Fatalf("notices: %+v", sent)
		}
		n := sent[0]
		if n.TaskID != got.ID || n.TaskType != "job" || n.Status != task.Completed || n.Revision != got.Revision || n.Attempt != 1 ||
			!n.CreatedAt.Equal(got.CreatedAt) || !n.CompletedAt.Equal(aws.ToTime(got.CompletedAt)) || n.Tags["tenant"] != "acme" {
			t.Errorf("notice %+v of %s", n, got.Encode())
		}
		if body := s.Cloud.SQS().Messages(ends)[0].Body; strings.Contains(body, marker) {
			t.Errorf("the notice holds what is secret: %s", body)
		}
	}, noticed("job"))
}

func TestNothingIsSentForTypesThatNobodyAskedFor(t *testing.T) {
	run(t, script(nil), func(t *testing.T, s *sluicetest.Stack) {
		s.Wait(s.Submit("job", nil).ID)
		if sent := notices(t, s); len(sent) != 0 {
			t.Errorf("notices: %+v", sent)
		}
	}, noticed("another"))
}

func TestEveryWayToEndInAClaimFunctionIsTold(t *testing.T) {
	handle := func(_ context.Context, in json.RawMessage) (any, error) {
		switch string(in) {
		case `"fails"`:
			return nil, worker.Fail(errors.New(marker))
		case `"is cancelled"`:
			time.Sleep(time.Minute)
		}
		return nil, nil
	}
	run(t, handle, func(t *testing.T, s *sluicetest.Stack) {
		want := map[string]task.Status{
			s.Submit("job", "completes").ID: task.Completed,
			s.Submit("job", "fails").ID:     task.Failed,
			s.Submit("job", "expires", queue.In(time.Hour), queue.ExpiresIn(time.Minute)).ID: task.Expired,
		}
		running := s.Submit("job", "is cancelled").ID
		want[running] = task.Cancelled
		time.Sleep(time.Second)
		if _, err := s.Queue.Cancel(t.Context(), running); err != nil {
			t.Fatal(err)
		}
		// Whoever cancels a task before it runs has ended it, and needs no notice.
		pending := s.Submit("job", "is cancelled before it runs", queue.In(time.Hour)).ID
		time.Sleep(time.Second)
		if _, err := s.Queue.Cancel(t.Context(), pending); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		for _, n := range notices(t, s) {
			if want[n.TaskID] != n.Status {
				t.Errorf("notice %+v", n)
			}
			delete(want, n.TaskID)
		}
		if len(want) > 0 {
			t.Errorf("without a notice: %v", want)
		}
	}, noticed(notice.OtherTypes))
}

func TestAReplayedTaskIsToldOfAgainWithAnotherRevision(t *testing.T) {
	run(t, script(worker.Fail(errors.New("no")), nil), func(t *testing.T, s *sluicetest.Stack) {
		id := s.Submit("job", nil).ID
		s.Wait(id)
		if _, err := s.Queue.Replay(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		s.Wait(id)
		time.Sleep(time.Minute)
		sent := notices(t, s)
		if len(sent) != 2 || sent[0].Status != task.Failed || sent[1].Status != task.Completed || sent[0].Revision >= sent[1].Revision {
			t.Errorf("notices: %+v", sent)
		}
	}, noticed("job"))
}

// dying is a notifier whose process dies, once, just before or after it sends.
type dying struct {
	worker.Notifier
	died       *atomic.Bool
	afterwards bool
}

func (d dying) Send(ctx context.Context, ended task.Task) error {
	if !d.afterwards && d.died.CompareAndSwap(false, true) {
		lambdaemu.Exit(ctx)
	}
	err := d.Notifier.Send(ctx, ended)
	if d.afterwards && d.died.CompareAndSwap(false, true) {
		lambdaemu.Exit(ctx)
	}
	return err
}

func TestACrashBetweenTheEndAndTheCleanUpRepeatsTheNotice(t *testing.T) {
	for name, c := range map[string]struct {
		afterwards bool
		notices    int
	}{"before it is sent": {false, 1}, "after it was sent": {true, 2}} {
		t.Run(name, func(t *testing.T) {
			var died atomic.Bool
			run(t, script(nil), func(t *testing.T, s *sluicetest.Stack) {
				got := s.Wait(s.Submit("job", nil).ID)
				time.Sleep(time.Hour)
				if sent := notices(t, s); !died.Load() || len(sent) != c.notices || sent[0].Revision != got.Revision {
					t.Errorf("%d notices, want %d: %+v", len(sent), c.notices, sent)
				}
			}, noticed("job"), sluicetest.Engine(func(config *worker.Config) {
				config.Notifier = dying{config.Notifier, &died, c.afterwards}
			}))
		})
	}
}

func TestANoticeThatCannotBeSentFailsTheInvocationSoThatLambdaRepeatsIt(t *testing.T) {
	var invoked atomic.Int64
	run(t, script(nil), func(t *testing.T, s *sluicetest.Stack) {
		const sdkTries = 3
		s.Cloud.FailNext(sdkTries, cloud.InternalError, sends)
		id := s.Submit("job", nil).ID
		time.Sleep(30 * time.Second)
		if got := s.Get(id); got.Status != task.Completed || len(keys(t, s, "inbox/")) != 1 || len(notices(t, s)) != 0 {
			t.Errorf("the submission is gone before the notice was sent: %s", got.Encode())
		}
		time.Sleep(10 * time.Minute)
		if sent := notices(t, s); len(sent) != 1 || invoked.Load() != 2 {
			t.Errorf("%d invocations, notices: %+v", invoked.Load(), sent)
		}
	}, noticed("job"), sluicetest.NoSweep(), invocations(&invoked, nil))
}

func TestWhoAsksForNoNoticesPaysForNone(t *testing.T) {
	run(t, script(nil), func(t *testing.T, s *sluicetest.Stack) {
		var asked atomic.Int64
		s.Cloud.SetFault(func(r *cloud.Request) cloud.Fault {
			if r.Service == cloud.SQS {
				asked.Add(1)
			}
			return cloud.Fault{}
		})
		s.Wait(s.Submit("job", nil).ID)
		if asked.Load() != 0 {
			t.Errorf("%d requests to SQS", asked.Load())
		}
	})
}

// At least once, whichever request of the claim function fails, with all that the SDK sends in its place.
func TestWhicheverRequestFailsTheEndIsTold(t *testing.T) {
	for name, fault := range map[string]cloud.Fault{"unreachable": cloud.Unreachable, "answer lost": cloud.LostAnswer, "refused": cloud.InternalError} {
		for first := range int64(6) { // a plain task takes five, and a sixth fails none
			t.Run(fmt.Sprintf("%s from request %d on", name, first+1), func(t *testing.T) {
				run(t, script(nil), func(t *testing.T, s *sluicetest.Stack) {
					const sdkTries = 3
					var requests atomic.Int64
					s.Cloud.SetFault(func(r *cloud.Request) cloud.Fault {
						if !r.From("claim") {
							return cloud.Fault{}
						}
						if n := requests.Add(1) - 1; n < first || n >= first+sdkTries {
							return cloud.Fault{}
						}
						return fault
					})
					id := s.Submit("job", nil).ID
					time.Sleep(2 * time.Hour)
					got := s.Get(id)
					sent := notices(t, s)
					if got.Status != task.Completed || len(sent) == 0 {
						t.Errorf("%d notices of %s", len(sent), got.Encode())
					}
					for _, n := range sent {
						if n.TaskID != id || n.Revision != got.Revision || n.Status != got.Status {
							t.Errorf("notice %+v of %s", n, got.Encode())
						}
					}
				}, noticed("job"))
			})
		}
	}
}
