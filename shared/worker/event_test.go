package worker

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/sluice-dev/sluice/shared/s3store"
)

func recordJSON(name, key string) string {
	return fmt.Sprintf(`{"eventName":%q,"s3":{"bucket":{"name":"b"},"object":{"key":%q}}}`, name, key)
}

func TestDecodeEventNamesTheTasksToLookAt(t *testing.T) {
	t.Parallel()
	key := s3store.InboxKey("abc")
	tests := []struct {
		name, event string
		want        []source
	}{
		{"an object put into the inbox", `{"Records":[` + recordJSON("ObjectCreated:Put", key) + `]}`, []source{{id: "abc", inboxKey: key}}},
		{"its form with the s3: prefix", `{"Records":[` + recordJSON("s3:ObjectCreated:Copy", key) + `]}`, []source{{id: "abc", inboxKey: key}}},
		{"keys are decoded once", `{"Records":[` + recordJSON("ObjectCreated:Put", "inbox/0/a%2B+b%2520.json") + `]}`, []source{{inboxKey: "inbox/0/a+ b%20.json"}}},
		{"a key that is not encoded is taken as it is", `{"Records":[` + recordJSON("ObjectCreated:Put", "inbox/0/100%.json") + `]}`, []source{{inboxKey: "inbox/0/100%.json"}}},
		{"a wake-up", `{"task_id":"abc","second":7}`, []source{{id: "abc", second: 7}}},
		{"an early one", `{"task_id":"abc","second":7,"early":true}`, []source{{id: "abc", second: 7, early: true}}},
		{"a batch", `{"task_ids":["a","b"]}`, []source{{id: "a"}, {id: "b"}}},
		{"a removal asks for nothing", `{"Records":[` + recordJSON("ObjectRemoved:Delete", key) + `]}`, nil},
		{"no records ask for nothing", `{"Records":[]}`, nil},
		{"S3's test event asks for nothing", `{"Service":"Amazon S3","Event":"s3:TestEvent","Bucket":"b"}`, nil},
		{"an empty batch asks for nothing", `{"task_ids":[]}`, nil},
		{"a removal beside a creation", `{"Records":[` + recordJSON("ObjectRemoved:Delete", key) + `,` + recordJSON("ObjectCreated:Put", key) + `]}`, []source{{id: "abc", inboxKey: key}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := decodeEvent(json.RawMessage(tt.event))
			if err != nil || fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("decodeEvent = %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

func TestDecodeEventRefusesWhatIsNoEvent(t *testing.T) {
	t.Parallel()
	for _, event := range []string{`{}`, `"hello"`, `[]`, `{"task_id":7}`, `{"task_id":""}`} {
		if got, err := decodeEvent(json.RawMessage(event)); err == nil {
			t.Errorf("decodeEvent(%s) = %+v, want an error", event, got)
		}
	}
}
