package notice_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/sluice-dev/sluice/shared/notice"
	"github.com/sluice-dev/sluice/shared/task"
)

// recorder is an SQS that keeps what it is sent, and fails if it is told to.
type recorder struct {
	sent []*sqs.SendMessageInput
	err  error
}

func (r *recorder) SendMessage(_ context.Context, in *sqs.SendMessageInput, _ ...func(*sqs.Options)) (*sqs.SendMessageOutput, error) {
	r.sent = append(r.sent, in)
	return &sqs.SendMessageOutput{}, r.err
}

func finished() task.Task {
	created := time.Date(2027, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
	return task.Task{
		ID: "0197f0c2", Type: "send_mail", Status: task.Failed, Revision: 7, Attempt: 3, CreatedAt: created,
		CompletedAt: aws.Time(created.Add(time.Minute)), Input: []byte(`"secret"`), Output: []byte(`"secret"`), LastError: "secret",
		Tags: map[string]string{"tenant": "acme"},
	}
}

func TestANoticeSaysWhichTaskHasEndedAndHowAndNothingElse(t *testing.T) {
	t.Parallel()
	var sqsAPI recorder
	sender, err := notice.New(`{"send_mail":"https://sqs.example.com/1/ends"}`, func() notice.API { return &sqsAPI })
	if err == nil {
		err = sender.Send(t.Context(), finished())
	}
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"task_id":"0197f0c2","task_type":"send_mail","status":"failed","revision":7,"attempt":3,` +
		`"created_at":"2027-01-02T03:04:05.6Z","completed_at":"2027-01-02T03:05:05.6Z","tags":{"tenant":"acme"}}`
	in := sqsAPI.sent[0]
	if got := aws.ToString(in.MessageBody); got != want {
		t.Errorf("body\n%s, want\n%s", got, want)
	}
	if *in.QueueUrl != "https://sqs.example.com/1/ends" || *in.MessageAttributes["status"].StringValue != "failed" ||
		*in.MessageAttributes["task_type"].StringValue != "send_mail" || in.MessageGroupId != nil {
		t.Errorf("sent %+v", in)
	}
}

func TestTheQueueIsThatOfTheTypeOrElseTheOneForOthers(t *testing.T) {
	t.Parallel()
	const first, others = "https://sqs.example.com/1/first", "https://sqs.example.com/1/others"
	for variable, want := range map[string]string{
		`{"send_mail":"` + first + `","*":"` + others + `"}`: first,
		`{"render":"` + first + `","*":"` + others + `"}`:    others,
		`{"render":"` + first + `"}`:                         "",
	} {
		var sqsAPI recorder
		sender, err := notice.New(variable, func() notice.API { return &sqsAPI })
		if err == nil {
			err = sender.Send(t.Context(), finished())
		}
		got := ""
		if len(sqsAPI.sent) > 0 {
			got = *sqsAPI.sent[0].QueueUrl
		}
		if err != nil || got != want {
			t.Errorf("%s: sent to %q, want %q: %v", variable, got, want, err)
		}
	}
}

func TestAQueueThatKeepsTheOrderKeepsItByTaskAndDropsRepetitions(t *testing.T) {
	t.Parallel()
	var sqsAPI recorder
	sender, err := notice.New(`{"*":"https://sqs.example.com/1/ends.fifo"}`, func() notice.API { return &sqsAPI })
	if err == nil {
		err = sender.Send(t.Context(), finished())
	}
	if err != nil {
		t.Fatal(err)
	}
	if in := sqsAPI.sent[0]; *in.MessageGroupId != "0197f0c2" || *in.MessageDeduplicationId != "0197f0c2.7" {
		t.Errorf("group %s, deduplication %s", *in.MessageGroupId, *in.MessageDeduplicationId)
	}
}

func TestAnErrorNamesTheTaskAndTheQueueAndNothingOfTheTask(t *testing.T) {
	t.Parallel()
	sqsAPI := recorder{err: errors.New("no such queue")}
	sender, err := notice.New(`{"*":"https://sqs.example.com/1/ends"}`, func() notice.API { return &sqsAPI })
	if err != nil {
		t.Fatal(err)
	}
	err = sender.Send(t.Context(), finished())
	if !errors.Is(err, sqsAPI.err) || !strings.Contains(err.Error(), "0197f0c2") || !strings.Contains(err.Error(), "/ends") || strings.Contains(err.Error(), "secret") {
		t.Errorf("error: %v", err)
	}
}

func TestWithoutTheVariableThereIsNoSender(t *testing.T) {
	t.Parallel()
	if sender, err := notice.New("", nil); sender != nil || err != nil {
		t.Errorf("%v, %v", sender, err)
	}
}

func TestAVariableThatIsOfNoUseIsRefused(t *testing.T) {
	t.Parallel()
	for _, variable := range []string{`[]`, `{"a":1}`, `{"a":""}`, `{"a":"ends"}`, `{"":"https://sqs.example.com/1/ends"}`, `{"a":"https://x/1/a","a":"https://x/1/b"}`} {
		_, err := notice.New(variable, nil)
		if err == nil || !strings.Contains(err.Error(), notice.EnvNotices) {
			t.Errorf("%s: %v", variable, err)
		}
	}
}
