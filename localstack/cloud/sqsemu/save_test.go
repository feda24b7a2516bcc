package sqsemu_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/sluice-dev/sluice/localstack/cloud/sqsemu"
)

func TestSavedQueuesGoOnWhereTheyWere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		before := setup(t)
		before.send(t, "one")
		before.send(t, "two")
		taken := before.receive(t, sqs.ReceiveMessageInput{VisibilityTimeout: 60})
		if len(taken) != 1 {
			t.Fatal("nothing was received")
		}
		if _, err := before.server.Send("dead", "three", map[string]sqsemu.Attribute{"A": sqsemu.Text("b")}); err != nil {
			t.Fatal(err)
		}
		var file bytes.Buffer
		if err := before.server.Save(&file); err != nil {
			t.Fatal(err)
		}

		b := setup(t)
		b.send(t, "goes away")
		if err := b.server.Load(&file); err != nil {
			t.Fatal(err)
		}
		got := b.receive(t, sqs.ReceiveMessageInput{MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"}})
		if text := strings.Join(bodies(got), " "); text != "two three" || *got[1].MessageAttributes["A"].StringValue != "b" {
			t.Errorf("received %q, want two three: the first one is in flight", text)
		}
		time.Sleep(time.Minute)
		got = b.receive(t, sqs.ReceiveMessageInput{MaxNumberOfMessages: 10, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"}})
		if len(got) == 0 || *got[0].Body != "one" || got[0].Attributes["ApproximateReceiveCount"] != "2" {
			t.Errorf("received %v, want the message that was in flight, a second time", bodies(got))
		}
		if err := b.server.Load(strings.NewReader("{")); err == nil {
			t.Error("damage was loaded")
		}
	})
}
