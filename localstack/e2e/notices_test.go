package e2e_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/sluice-dev/sluice/shared/notice"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/task"
)

// The end of tasks is told to a queue, by whichever claim function they end in.
func testNotices(t *testing.T, s *target) {
	completes := s.submit(t, `{"name":"Ada"}`, queue.Tag("tenant", "acme"))
	fails, err := s.queue.Submit(t.Context(), "http.request", map[string]any{"url": "http://nowhere.invalid/"}, queue.MaxRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]task.Status{completes.ID: task.Completed, fails.ID: task.Failed}
	client := sqs.NewFromConfig(s.config)
	for deadline := time.Now().Add(patience); len(want) > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("not told of: %v", want)
		}
		out, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
			QueueUrl: &s.noticesURL, MaxNumberOfMessages: 10, WaitTimeSeconds: 5,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range out.Messages { // those of other tests' tasks, too
			var n notice.Notice
			if err := json.Unmarshal([]byte(aws.ToString(m.Body)), &n); err != nil {
				t.Errorf("%s: %v", aws.ToString(m.Body), err)
			}
			if status, ours := want[n.TaskID]; ours {
				delete(want, n.TaskID)
				got := s.wait(t, n.TaskID) // it has ended when it is told of
				if n.Status != status || n.Status != got.Status || n.Revision != got.Revision || n.TaskType != got.Type {
					t.Errorf("notice %s of %s", aws.ToString(m.Body), got.Encode())
				}
			}
			if _, err := client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &s.noticesURL, ReceiptHandle: m.ReceiptHandle}); err != nil {
				t.Error(err)
			}
		}
	}
}
