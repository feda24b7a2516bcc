package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
)

// source is a task that an event asks to look at.
type source struct {
	id string
	// inboxKey is set when an object was put into the inbox. It is a hint:
	// what stands there now decides. A key that names no task has no id.
	inboxKey string
	// second is the second of the wake-up that fired, 0 for none.
	second int64
	// early tells that the wake-up is for a parked task whose turn may have come before it
	// is due.
	early bool
}

// s3Record is what is read of a record in an S3 event. (The type of
// aws-lambda-go refuses the whole event when one key is badly encoded.)
type s3Record struct {
	EventName string `json:"eventName"`
	S3        struct {
		Object struct {
			Key string `json:"key"`
		} `json:"object"`
	} `json:"s3"`
}

// decodeEvent reads what started the function: an S3 event, a wake-up, or a
// batch of ids. Events that ask for nothing (a test event, a removal) give an
// empty list.
func decodeEvent(raw json.RawMessage) ([]source, error) {
	var event struct {
		Records []s3Record `json:"Records"`
		Test    string     `json:"Event"`
		TaskID  string     `json:"task_id"`
		Second  int64      `json:"second"`
		Early   bool       `json:"early"`
		TaskIDs []string   `json:"task_ids"`
	}
	if err := json.Unmarshal(raw, &event); err != nil {
		return nil, fmt.Errorf("the event is no S3 event, no wake-up and no batch of task ids: %w", err)
	}
	switch {
	case event.Records != nil:
		return inboxSources(event.Records), nil
	case event.Test == "s3:TestEvent":
		return nil, nil
	case event.TaskID != "":
		return []source{{id: event.TaskID, second: event.Second, early: event.Early}}, nil
	case event.TaskIDs != nil:
		sources := make([]source, 0, len(event.TaskIDs))
		for _, id := range event.TaskIDs {
			sources = append(sources, source{id: id})
		}
		return sources, nil
	}
	return nil, errors.New(`the event is no S3 event, no wake-up {"task_id", "second"} and no batch {"task_ids"}: check what invokes this function`)
}

// TasksOf names the tasks that an event of the claim function asks to look at, each once. Others
// says that it also names objects in the inbox that are no tasks'. The error is that of an
// event which the function refuses.
func TasksOf(event json.RawMessage) (ids []string, others bool, err error) {
	sources, err := decodeEvent(event)
	for _, src := range sources {
		switch {
		case task.ValidateID(src.id) != nil:
			others = true
		case !slices.Contains(ids, src.id):
			ids = append(ids, src.id)
		}
	}
	return ids, others, err
}

// inboxSources takes the created objects of an S3 event. S3 form-encodes keys
// in events, and only there, so this is the one place that decodes them.
func inboxSources(records []s3Record) []source {
	var sources []source
	for _, r := range records {
		if !strings.Contains(r.EventName, "ObjectCreated") {
			continue
		}
		key, err := url.QueryUnescape(r.S3.Object.Key)
		if err != nil {
			key = r.S3.Object.Key // not encoded: some emulators send it so
		}
		id, err := s3store.InboxID(key)
		if err != nil {
			id = ""
		}
		sources = append(sources, source{id: id, inboxKey: key})
	}
	return sources
}
