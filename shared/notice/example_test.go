package notice_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/aws/aws-lambda-go/events"

	"github.com/sluice-dev/sluice/shared/notice"
)

// A Lambda function that a queue of notices starts. What it does is safe to repeat, or
// remembers the task and revision it was done for: a notice can come twice.
func Example() {
	handle := func(_ context.Context, event events.SQSEvent) (events.SQSEventResponse, error) {
		var response events.SQSEventResponse
		for _, message := range event.Records {
			var n notice.Notice
			if err := json.Unmarshal([]byte(message.Body), &n); err != nil {
				// Only this message comes again, not its neighbors.
				response.BatchItemFailures = append(response.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: message.MessageId})
				continue
			}
			fmt.Printf("%s of tenant %s is %s, in revision %d\n", n.TaskID, n.Tags["tenant"], n.Status, n.Revision)
		}
		return response, nil
	}

	response, err := handle(context.Background(), events.SQSEvent{Records: []events.SQSMessage{
		{MessageId: "1", Body: `{"task_id":"order-1234","task_type":"charge","status":"completed","revision":4,"tags":{"tenant":"acme"}}`},
		{MessageId: "2", Body: `{"task_id":"order-1235","task_type":"charge","status":"failed","revision":9,"tags":{"tenant":"acme"}}`},
	}})
	fmt.Println(len(response.BatchItemFailures), "to come again, error:", err)
	// Output:
	// order-1234 of tenant acme is completed, in revision 4
	// order-1235 of tenant acme is failed, in revision 9
	// 0 to come again, error: <nil>
}
