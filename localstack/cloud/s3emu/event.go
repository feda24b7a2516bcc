package s3emu

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// EventName says what happened to an object, in the words of S3's event
// notifications (without "s3:").
type EventName string

// The events this server tells of.
const (
	EventPut                     EventName = "ObjectCreated:Put"
	EventCopy                    EventName = "ObjectCreated:Copy"
	EventCompleteMultipartUpload EventName = "ObjectCreated:CompleteMultipartUpload"
	EventDelete                  EventName = "ObjectRemoved:Delete"
	EventDeleteMarker            EventName = "ObjectRemoved:DeleteMarkerCreated"
)

// Event is one committed mutation of an object.
type Event struct {
	Name      EventName
	Time      time.Time
	Region    string
	AccountID string
	Bucket    string
	Key       string // as stored: not encoded
	VersionID string // "" in a bucket that never had versions
	ETag      string // without quotes, "" for a removal
	Size      int64  // bytes, 0 for a removal
	Sequencer string // hexadecimal; larger, as text, for each later event of one key
	RequestID string
}

// event describes a mutation. The caller holds the lock.
func (s *Server) event(r *request, b *bucket, key string, v *version, name EventName) Event {
	e := Event{
		Name: name, Time: time.Now().UTC(), Region: b.Region, AccountID: s.options.AccountID,
		Bucket: b.Name, Key: key, ETag: strings.Trim(v.ETag, `"`), Size: int64(len(v.Data)),
		Sequencer: fmt.Sprintf("%018X", v.Sequence), RequestID: r.id,
	}
	if strings.HasPrefix(string(name), "ObjectRemoved:") {
		e.ETag, e.Size = "", 0
	}
	if b.Versioning != "" {
		e.VersionID = v.ID
	}
	return e
}

func (s *Server) emit(e Event) {
	if s.options.OnEvent != nil {
		s.options.OnEvent(e)
	}
}

// NotificationJSON is the document by which S3 tells a Lambda function,
// queue or topic of events: keys are encoded as in HTML forms (a space is
// "+"). configurationID names the notification that matched; see
// [Notification].
func NotificationJSON(configurationID string, events ...Event) []byte {
	records := make([]eventRecord, len(events))
	for i, e := range events {
		records[i] = e.record(configurationID)
	}
	return mustMarshal(map[string]any{"Records": records})
}

// TestEventJSON is what S3 sends once to a new destination of notifications.
func TestEventJSON(bucket string, at time.Time) []byte {
	return mustMarshal(map[string]any{
		"Service": "Amazon S3", "Event": "s3:TestEvent", "Time": eventTime(at), "Bucket": bucket,
		"RequestId": "TESTEVENT0000000", "HostId": hostID("TESTEVENT0000000"),
	})
}

func mustMarshal(document any) []byte {
	b, err := json.Marshal(document)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return b
}

func eventTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

type eventRecord struct {
	EventVersion      string            `json:"eventVersion"`
	EventSource       string            `json:"eventSource"`
	AWSRegion         string            `json:"awsRegion"`
	EventTime         string            `json:"eventTime"`
	EventName         EventName         `json:"eventName"`
	UserIdentity      principal         `json:"userIdentity"`
	RequestParameters map[string]string `json:"requestParameters"`
	ResponseElements  map[string]string `json:"responseElements"`
	S3                eventEntity       `json:"s3"`
}

type principal struct {
	PrincipalID string `json:"principalId"`
}

type eventEntity struct {
	SchemaVersion   string      `json:"s3SchemaVersion"`
	ConfigurationID string      `json:"configurationId"`
	Bucket          eventBucket `json:"bucket"`
	Object          eventObject `json:"object"`
}

type eventBucket struct {
	Name          string    `json:"name"`
	OwnerIdentity principal `json:"ownerIdentity"`
	ARN           string    `json:"arn"`
}

type eventObject struct {
	Key       string `json:"key"`
	Size      *int64 `json:"size,omitempty"`
	ETag      string `json:"eTag,omitempty"`
	VersionID string `json:"versionId,omitempty"`
	Sequencer string `json:"sequencer"`
}

func (e Event) record(configurationID string) eventRecord {
	object := eventObject{Key: encodeKey(e.Key), ETag: e.ETag, VersionID: e.VersionID, Sequencer: e.Sequencer}
	if e.ETag != "" {
		object.Size = &e.Size
	}
	return eventRecord{
		EventVersion: "2.1", EventSource: "aws:s3", AWSRegion: e.Region,
		EventTime: eventTime(e.Time), EventName: e.Name,
		UserIdentity:      principal{"AWS:" + e.AccountID},
		RequestParameters: map[string]string{"sourceIPAddress": "127.0.0.1"},
		ResponseElements:  map[string]string{"x-amz-request-id": e.RequestID, "x-amz-id-2": hostID(e.RequestID)},
		S3: eventEntity{
			SchemaVersion: "1.0", ConfigurationID: configurationID,
			Bucket: eventBucket{Name: e.Bucket, OwnerIdentity: principal{e.AccountID}, ARN: "arn:aws:s3:::" + e.Bucket},
			Object: object,
		},
	}
}
