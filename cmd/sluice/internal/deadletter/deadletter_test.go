package deadletter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/sluice-dev/sluice/cmd/sluice/internal/deadletter"
	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/sluicetest"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/worker"
)

// inBox runs a test on a deployed queue, without the sweep: nobody else looks at what was not delivered.
func inBox(t *testing.T, test func(t *testing.T, s *sluicetest.Stack, box *deadletter.Box)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mux := worker.NewMux()
		worker.Handle(mux, "job", func(_ context.Context, in json.RawMessage) (any, error) { return in, nil })
		s := sluicetest.Start(t, mux, sluicetest.NoSweep())
		config := s.Config("operator")
		box := &deadletter.Box{Messages: sqs.NewFromConfig(config), Functions: lambda.NewFromConfig(config), ClaimFunction: s.Function}
		if err := box.FindQueue(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		test(t, s, box)
	})
}

// take takes letters, and fails the test if that fails.
func take(t *testing.T, box *deadletter.Box, before time.Time, most int) []deadletter.Letter {
	t.Helper()
	var letters []deadletter.Letter
	for l, err := range box.Take(t.Context(), before, most) {
		if err != nil {
			t.Fatal(err)
		}
		letters = append(letters, l)
	}
	return letters
}

func TestATaskThatWasNotDeliveredIsFinishedOnceItsLetterIsRedriven(t *testing.T) {
	inBox(t, func(t *testing.T, s *sluicetest.Stack, box *deadletter.Box) {
		// S3 is down for the claim function until Lambda gives up: three tries, of three each.
		s.Cloud.SetFault(func(r *cloud.Request) cloud.Fault {
			if r.From("claim") {
				return cloud.InternalError
			}
			return cloud.Fault{}
		})
		id := s.Submit("job", 1).ID
		time.Sleep(20 * time.Minute)
		s.Cloud.SetFault(nil)

		letters := take(t, box, time.Time{}, 0)
		if len(letters) != 1 {
			t.Fatalf("letters: %+v", letters)
		}
		l := letters[0]
		if l.Kind != deadletter.Event || len(l.TaskIDs) != 1 || l.TaskIDs[0] != id || l.Reason != "RetriesExhausted" || l.Tries != 3 || l.Error == "" {
			t.Errorf("letter: %+v", l)
		}
		if got := s.Get(id); got.Status != task.Pending {
			t.Errorf("the task is %s", got.Status)
		}
		if err := box.Redrive(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		if got := s.Wait(id); got.Status != task.Completed || got.RetryCount != 0 {
			t.Errorf("task: %s", got.Encode())
		}
		if left := s.Cloud.SQS().Messages(s.DeadLetters); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	})
}

func TestALetterStaysUntilLambdaHasTakenItsTasks(t *testing.T) {
	inBox(t, func(t *testing.T, s *sluicetest.Stack, box *deadletter.Box) {
		send(t, s, `{"task_id":"a","second":1}`)
		l := take(t, box, time.Time{}, 0)[0]
		s.Cloud.SetFault(func(r *cloud.Request) cloud.Fault {
			if r.From("operator") && r.Service == cloud.Lambda {
				return cloud.Fault{Status: 429, Code: "TooManyRequestsException"}
			}
			return cloud.Fault{}
		})
		if err := box.Redrive(t.Context(), l); err == nil {
			t.Error("no error")
		}
		if err := box.PutBack(t.Context(), l); err != nil {
			t.Error(err)
		}
		if again := take(t, box, time.Time{}, 0); len(again) != 1 || again[0].ID != l.ID {
			t.Errorf("letters: %+v", again)
		}
	})
}

func TestAllLettersAreTakenOnceAndThoseThatArePutBackAreSeenAgain(t *testing.T) {
	inBox(t, func(t *testing.T, s *sluicetest.Stack, box *deadletter.Box) {
		const all = 45 // several receives
		for n := range all {
			send(t, s, fmt.Sprintf(`{"task_ids":["t%d"]}`, n))
		}
		seen := map[string]bool{}
		letters := take(t, box, time.Time{}, 0)
		for _, l := range letters {
			seen[l.TaskIDs[0]] = true
		}
		if len(letters) != all || len(seen) != all {
			t.Errorf("%d letters about %d tasks, want %d", len(letters), len(seen), all)
		}
		if hidden := take(t, box, time.Time{}, 0); len(hidden) != 0 {
			t.Errorf("others see %d", len(hidden))
		}
		if err := box.PutBack(t.Context(), letters[:12]...); err != nil {
			t.Error(err)
		}
		if again := take(t, box, time.Time{}, 11); len(again) != 11 {
			t.Errorf("%d are seen again, want 11", len(again))
		}
		time.Sleep(3 * time.Minute) // this process died
		if again := take(t, box, time.Time{}, 0); len(again) != all {
			t.Errorf("%d came back, want %d", len(again), all)
		}
	})
}

// Or a redrive would go on for ever where the function still fails.
func TestLettersThatComeUpMeanwhileAreLeftAlone(t *testing.T) {
	inBox(t, func(t *testing.T, s *sluicetest.Stack, box *deadletter.Box) {
		send(t, s, `{"task_id":"old"}`)
		time.Sleep(time.Minute)
		before := time.Now()
		time.Sleep(time.Minute)
		send(t, s, `{"task_id":"new"}`)
		if got := take(t, box, before, 0); len(got) != 1 || got[0].TaskIDs[0] != "old" {
			t.Errorf("letters: %+v", got)
		}
		if got := take(t, box, time.Time{}, 0); len(got) != 1 || got[0].TaskIDs[0] != "new" {
			t.Errorf("others do not see the new one: %+v", got)
		}
	})
}

func TestWhatIsNoneOfOursIsNotRedriven(t *testing.T) {
	for _, body := range []string{"text", `[]`, `{}`, `{"requestPayload":"x"}`, `{"requestPayload":{"a":1}}`} {
		t.Run(body, func(t *testing.T) {
			inBox(t, func(t *testing.T, s *sluicetest.Stack, box *deadletter.Box) {
				send(t, s, body)
				l := take(t, box, time.Time{}, 0)[0]
				if err := box.Redrive(t.Context(), l); l.Kind != deadletter.Unknown || !errors.Is(err, deadletter.ErrUnknown) {
					t.Errorf("letter %+v, error %v", l, err)
				}
			})
		})
	}
}

func send(t *testing.T, s *sluicetest.Stack, body string) {
	t.Helper()
	if _, err := s.Cloud.SQS().Send(s.DeadLetters, body, nil); err != nil {
		t.Fatal(err)
	}
}
