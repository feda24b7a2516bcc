package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/sluice-dev/sluice/localstack/sluicetest"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/worker"
)

func large(letter string) json.RawMessage {
	return json.RawMessage(`"` + strings.Repeat(letter, s3store.InlineBytes) + `"`)
}

// kept lists the payloads that do not expire.
func kept(t *testing.T, s *sluicetest.Stack) []string {
	t.Helper()
	client := s3store.NewClient(s.Config("test"))
	var kept []string
	for _, key := range keys(t, s, "payloads/") {
		tags, err := client.GetObjectTagging(t.Context(), &s3.GetObjectTaggingInput{Bucket: &s.Bucket, Key: &key})
		if err != nil {
			t.Fatal(err)
		}
		if len(tags.TagSet) == 0 {
			kept = append(kept, key)
		}
	}
	return kept
}

func TestThePayloadsOfATaskAreKeptWhileItLives(t *testing.T) {
	handle := func(ctx context.Context, in json.RawMessage) (any, error) {
		if got, _ := worker.TaskFrom(ctx); got.RescheduleCount == 0 {
			return nil, worker.Reschedule(time.Hour)
		}
		return in, nil
	}
	run(t, handle, func(t *testing.T, s *sluicetest.Stack) {
		id := s.Submit("job", large("a"), queue.In(time.Hour)).ID
		for range 2 { // delayed, then asleep
			time.Sleep(30 * time.Minute)
			if got := kept(t, s); len(got) != 1 {
				t.Errorf("kept %v, want the input", got)
			}
			time.Sleep(30*time.Minute + 5*time.Second)
		}
		if got := s.Wait(id); string(got.Output) != string(large("a")) {
			t.Errorf("%d bytes of output", len(got.Output))
		}
		if got := kept(t, s); len(got) != 0 {
			t.Errorf("kept %v of a finished task", got)
		}
	})
}

func TestAReplayKeepsTheInputAgain(t *testing.T) {
	run(t, script(worker.Fail(errors.New("boom")), worker.Reschedule(time.Hour), nil), func(t *testing.T, s *sluicetest.Stack) {
		id := s.Submit("job", large("a")).ID
		s.Wait(id)
		time.Sleep(time.Second)
		if got := kept(t, s); len(got) != 0 {
			t.Errorf("kept %v of a finished task", got)
		}
		if _, err := s.Queue.Replay(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := kept(t, s); len(got) != 1 {
			t.Errorf("kept %v, want the input", got)
		}
		s.Wait(id)
	})
}

func TestARefusedSubmitLeavesThePayloadsOfTheTaskAlone(t *testing.T) {
	run(t, script(worker.Reschedule(time.Hour), nil), func(t *testing.T, s *sluicetest.Stack) {
		id := s.Submit("job", large("a"), queue.IdempotencyKey("k")).ID
		synctest.Wait()
		before := kept(t, s)
		again := func(status string) {
			if got, err := s.Queue.Submit(t.Context(), "job", large("a"), queue.IdempotencyKey("k")); err != nil || got.ID != id {
				t.Errorf("%s, the same input: %s, %v", status, got.ID, err)
			}
			if _, err := s.Queue.Submit(t.Context(), "job", large("b"), queue.IdempotencyKey("k")); !errors.Is(err, queue.ErrKeyReused) {
				t.Errorf("%s, another input: %v, want ErrKeyReused", status, err)
			}
			time.Sleep(time.Minute)
		}
		again("asleep")
		if after := kept(t, s); len(before) != 1 || len(after) != 1 || before[0] != after[0] {
			t.Errorf("kept %v, then %v", before, after)
		}
		s.Wait(id)
		again("completed")
		if got := kept(t, s); len(got) != 0 {
			t.Errorf("kept %v of a finished task", got)
		}
	})
}

func TestATaskWhosePayloadIsGoneEndsAndLeavesTheInbox(t *testing.T) {
	run(t, script(nil), func(t *testing.T, s *sluicetest.Stack) {
		id := s.Submit("job", large("a"), queue.In(time.Hour), queue.MaxRetries(1)).ID
		synctest.Wait()
		key := keys(t, s, "payloads/")[0]
		client := s3store.NewClient(s.Config("test"))
		versions, err := client.ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: &s.Bucket, Prefix: &key})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range versions.Versions {
			if _, err := client.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &s.Bucket, Key: &key, VersionId: v.VersionId}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Hour)
		rec, err := s.Store("test").Record(t.Context(), id)
		if err != nil || rec.Task.Status != task.Failed || !strings.Contains(rec.Task.LastError, aws.ToString(&key)) {
			t.Errorf("task = %s, %v", rec.Task.Encode(), err)
		}
	})
}
