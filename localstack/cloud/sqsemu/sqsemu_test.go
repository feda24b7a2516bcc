package sqsemu_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	"go.uber.org/goleak"

	"github.com/sluice-dev/sluice/localstack/cloud/sqsemu"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inMemory is a transport that calls a handler.
type inMemory struct{ handler http.Handler }

func (t inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	t.handler.ServeHTTP(recorder, r)
	return recorder.Result(), nil
}

// bundle is a server with one queue and a client.
type bundle struct {
	*sqs.Client

	server *sqsemu.Server
	url    string
}

func setup(t *testing.T) *bundle {
	t.Helper()
	server := sqsemu.New(sqsemu.Options{})
	b := &bundle{server: server, Client: sqs.New(sqs.Options{
		Region:           "us-east-1",
		BaseEndpoint:     aws.String("http://127.0.0.1:4566"),
		Credentials:      credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient:       &http.Client{Transport: inMemory{server}},
		RetryMaxAttempts: 1,
	})}
	out, err := b.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("dead")})
	if err != nil {
		t.Fatal(err)
	}
	b.url = *out.QueueUrl
	return b
}

func (b *bundle) send(t *testing.T, body string) {
	t.Helper()
	if _, err := b.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &b.url, MessageBody: &body}); err != nil {
		t.Fatal(err)
	}
}

func (b *bundle) receive(t *testing.T, in sqs.ReceiveMessageInput) []types.Message {
	t.Helper()
	in.QueueUrl = &b.url
	out, err := b.ReceiveMessage(t.Context(), &in)
	if err != nil {
		t.Fatal(err)
	}
	return out.Messages
}

func bodies(messages []types.Message) []string {
	all := make([]string, 0, len(messages))
	for _, m := range messages {
		all = append(all, *m.Body)
	}
	return all
}

func (b *bundle) attributes(t *testing.T) map[string]string {
	t.Helper()
	out, err := b.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &b.url, AttributeNames: []types.QueueAttributeName{"All"}})
	if err != nil {
		t.Fatal(err)
	}
	return out.Attributes
}

func TestAReceivedMessageIsHiddenUntilItIsDeletedOrItsTimeIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.send(t, "one")
		first := b.receive(t, sqs.ReceiveMessageInput{})
		if !slices.Equal(bodies(first), []string{"one"}) {
			t.Fatalf("received %q", bodies(first))
		}
		if again := b.receive(t, sqs.ReceiveMessageInput{}); len(again) != 0 {
			t.Errorf("received twice: %q", bodies(again))
		}
		time.Sleep(30 * time.Second)
		second := b.receive(t, sqs.ReceiveMessageInput{MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"}})
		if len(second) != 1 || second[0].Attributes["ApproximateReceiveCount"] != "2" {
			t.Fatalf("after 30 s: %+v", second)
		}
		for _, message := range append(first, second...) { // the old receipt deletes nothing
			before := len(b.server.Messages("dead"))
			if _, err := b.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &b.url, ReceiptHandle: message.ReceiptHandle}); err != nil {
				t.Error(err)
			}
			if *message.ReceiptHandle == *first[0].ReceiptHandle && len(b.server.Messages("dead")) != before {
				t.Error("an old receipt deleted the message")
			}
		}
		if left := b.server.Messages("dead"); len(left) != 0 {
			t.Errorf("left: %+v", left)
		}
	})
}

func TestVisibilityCanBeChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.send(t, "one")
		message := b.receive(t, sqs.ReceiveMessageInput{VisibilityTimeout: 600})[0]
		if got := b.attributes(t); got["ApproximateNumberOfMessages"] != "0" || got["ApproximateNumberOfMessagesNotVisible"] != "1" {
			t.Errorf("attributes %v", got)
		}
		if _, err := b.ChangeMessageVisibility(t.Context(), &sqs.ChangeMessageVisibilityInput{
			QueueUrl: &b.url, ReceiptHandle: message.ReceiptHandle, VisibilityTimeout: 0}); err != nil {
			t.Fatal(err)
		}
		if again := b.receive(t, sqs.ReceiveMessageInput{}); len(again) != 1 {
			t.Errorf("received %q", bodies(again))
		}
	})
}

func TestLongPollingEndsWithAMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		start := time.Now()
		if got := b.receive(t, sqs.ReceiveMessageInput{WaitTimeSeconds: 20}); len(got) != 0 || time.Since(start) != 20*time.Second {
			t.Errorf("received %q after %v", bodies(got), time.Since(start))
		}
		start = time.Now()
		time.AfterFunc(7*time.Second, func() { _, _ = b.server.Send("dead", "one", nil) })
		if got := b.receive(t, sqs.ReceiveMessageInput{WaitTimeSeconds: 20, VisibilityTimeout: 5}); len(got) != 1 || time.Since(start) != 7*time.Second {
			t.Errorf("received %q after %v", bodies(got), time.Since(start))
		}
		if got := b.receive(t, sqs.ReceiveMessageInput{WaitTimeSeconds: 20}); len(got) != 1 || time.Since(start) != 12*time.Second {
			t.Errorf("received %q after %v, want the message again when it is visible", bodies(got), time.Since(start))
		}
	})
}

func TestBatchesAndAttributesOfMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		sent, err := b.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &b.url, Entries: []types.SendMessageBatchRequestEntry{
			{Id: aws.String("a"), MessageBody: aws.String("one"), MessageAttributes: map[string]types.MessageAttributeValue{
				"text":  {DataType: aws.String("String"), StringValue: aws.String("ü")},
				"bytes": {DataType: aws.String("Binary"), BinaryValue: []byte{0, 1}},
			}},
			{Id: aws.String("b"), MessageBody: aws.String("")},
			{Id: aws.String("c"), MessageBody: aws.String("later"), DelaySeconds: 60},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if len(sent.Successful) != 2 || len(sent.Failed) != 1 || *sent.Failed[0].Id != "b" {
			t.Errorf("sent %+v", sent)
		}
		got := b.receive(t, sqs.ReceiveMessageInput{MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"}})
		if len(got) == 1 && len(got[0].Attributes) != 0 {
			t.Errorf("attributes that were not asked for: %v", got[0].Attributes)
		}
		if len(got) != 1 || *got[0].MessageAttributes["text"].StringValue != "ü" || !bytes.Equal(got[0].MessageAttributes["bytes"].BinaryValue, []byte{0, 1}) {
			t.Fatalf("received %+v", got)
		}
		if attributes := b.attributes(t); attributes["ApproximateNumberOfMessagesDelayed"] != "1" {
			t.Errorf("attributes %v", attributes)
		}
		deleted, err := b.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: &b.url, Entries: []types.DeleteMessageBatchRequestEntry{
			{Id: aws.String("x"), ReceiptHandle: got[0].ReceiptHandle}}})
		if err != nil || len(deleted.Successful) != 1 {
			t.Errorf("deleted %+v, %v", deleted, err)
		}
		if _, err := b.PurgeQueue(t.Context(), &sqs.PurgeQueueInput{QueueUrl: &b.url}); err != nil {
			t.Error(err)
		}
		if left := b.server.Messages(b.server.ARN("dead")); len(left) != 0 {
			t.Errorf("left: %+v", left)
		}
	})
}

func TestQueuesAreFoundByNameURLAndARN(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		for _, ref := range []string{"dead", b.url, b.server.ARN("dead")} {
			if _, err := b.server.Send(ref, ref, nil); err != nil {
				t.Errorf("%s: %v", ref, err)
			}
		}
		url, err := b.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("dead")})
		if err != nil || *url.QueueUrl != b.url {
			t.Errorf("url %v, %v", url, err)
		}
		list, err := b.ListQueues(t.Context(), &sqs.ListQueuesInput{QueueNamePrefix: aws.String("de")})
		if err != nil || !slices.Equal(list.QueueUrls, []string{b.url}) {
			t.Errorf("list %v, %v", list, err)
		}
		if got := b.attributes(t)["QueueArn"]; got != b.server.ARN("dead") {
			t.Errorf("ARN %s", got)
		}
		if _, err := b.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: &b.url}); err != nil {
			t.Error(err)
		}
		if names := b.server.Queues(); len(names) != 0 {
			t.Errorf("left: %v", names)
		}
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		large := strings.Repeat("x", 1<<20+1)
		_, absent := b.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("absent")})
		_, fifo := b.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("a.fifo")})
		_, other := b.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("dead"), Attributes: map[string]string{"VisibilityTimeout": "7"}})
		_, tooLarge := b.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &b.url, MessageBody: &large})
		_, tooMany := b.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &b.url, MaxNumberOfMessages: 11})
		_, unknown := b.ListDeadLetterSourceQueues(t.Context(), &sqs.ListDeadLetterSourceQueuesInput{QueueUrl: &b.url})
		for name, tt := range map[string]struct {
			err  error
			code string
		}{
			"absent": {absent, "AWS.SimpleQueueService.NonExistentQueue"}, "FIFO": {fifo, "InvalidParameterValue"}, "other attributes": {other, "QueueAlreadyExists"},
			"too large": {tooLarge, "InvalidParameterValue"}, "too many": {tooMany, "InvalidParameterValue"}, "unknown operation": {unknown, "UnsupportedOperation"},
		} {
			var api smithy.APIError
			if !errors.As(tt.err, &api) || api.ErrorCode() != tt.code {
				t.Errorf("%s: %v, want %s", name, tt.err, tt.code)
			}
		}
		if _, typed := errors.AsType[*types.QueueDoesNotExist](absent); !typed {
			t.Errorf("not the typed error: %v", absent)
		}
	})
}

func TestAPollThatIsCancelledReceivesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := sqsemu.New(sqsemu.Options{})
		if _, err := server.CreateQueue("dead"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(`{"QueueUrl":"dead","WaitTimeSeconds":20}`))
		r.Header.Set("X-Amz-Target", "AmazonSQS.ReceiveMessage")
		func() {
			defer func() {
				if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // the value that net/http looks for
					t.Errorf("recovered %v", p)
				}
			}()
			server.ServeHTTP(httptest.NewRecorder(), r)
		}()
		if _, err := server.Send("dead", "one", nil); err != nil {
			t.Fatal(err)
		}
	})
}
