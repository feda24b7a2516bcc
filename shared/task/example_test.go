package task_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-dev/sluice/shared/task"
)

// A handler meets a rate limit and sleeps for a minute: nothing is counted as
// a failure, and the caller is told when to wake the task.
func ExampleApply() {
	now := time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)
	t := task.New("order-1", "call_api", now)

	t, _, err := task.Apply(t, task.Claim{LeaseID: "l1", WorkerID: "worker-1", LeaseExpiresAt: now.Add(5 * time.Minute)}, now)
	if err != nil {
		fmt.Println(err)
		return
	}
	t, effects, err := task.Apply(t, task.Reschedule{Delay: time.Minute}, now)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t.Status, t.AvailableAt.Format(time.TimeOnly))
	fmt.Println("retries", t.RetryCount, "reschedules", t.RescheduleCount)
	fmt.Println(effects.Outcome, "wake at", effects.WakeAt.Format(time.TimeOnly))
	// Output:
	// pending 12:01:00
	// retries 0 reschedules 1
	// rescheduled wake at 12:01:00
}

// An event that does not fit is an error that names the status, and changes
// nothing.
func ExampleApply_refused() {
	now := time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)
	t := task.New("order-1", "call_api", now)
	_, _, err := task.Apply(t, task.Success{Output: json.RawMessage(`{"sent":true}`)}, now)
	fmt.Println(err)

	var refused *task.TransitionError
	fmt.Println(errors.As(err, &refused), refused.Status)
	// Output:
	// cannot complete task order-1: it is pending
	// true pending
}

func ExampleHistory() {
	now := time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)
	t := task.New("order-1", "call_api", now)
	var versions []task.Task
	for _, event := range []task.Event{
		task.Claim{LeaseID: "l1", WorkerID: "worker-1", LeaseExpiresAt: now.Add(time.Hour)},
		task.Reschedule{Delay: time.Minute},
		task.Claim{LeaseID: "l2", WorkerID: "worker-2", LeaseExpiresAt: now.Add(time.Hour)},
		task.Failure{Error: "connection reset", Jitter: 0.5},
		task.Claim{LeaseID: "l3", WorkerID: "worker-1", LeaseExpiresAt: now.Add(time.Hour)},
		task.Success{},
	} {
		if t.AvailableAt.After(now) {
			now = t.AvailableAt
		}
		var err error
		if t, _, err = task.Apply(t, event, now); err != nil {
			fmt.Println(err)
			return
		}
		versions = append(versions, t)
	}
	for _, entry := range task.History(versions) {
		fmt.Println(entry)
	}
	// Output:
	// Version 1: pending (created)
	// Version 2: running (claimed by worker-1)
	// Version 3: pending (rescheduled, available_at: +60s, count: 1)
	// Version 4: running (claimed by worker-2)
	// Version 5: pending (retry 1 of 3, available_at: +1s, error: connection reset)
	// Version 6: running (claimed by worker-1)
	// Version 7: completed
}

// What is not a task is refused with the place and what would be right.
func ExampleDecode_errors() {
	for _, document := range []string{
		`{"id":"order-1","task_type":"call_api","max_retries":"3"}`,
		`{"id":"order-1","task_type":"call_api","available_at":"2027-01-01T12:00:00"}`,
		`{"id":"order-1","task_type":"call_api","limits":[{"policy":"vendor","costs":2}]}`,
		`{"id":"order-1","task_type":"call_api","id":"order-2"}`,
		"{\"id\":\"order-1\",\n 'task_type':\"call_api\"}",
		`{}{}`,
	} {
		_, err := task.Decode([]byte(document))
		fmt.Println(err)
	}
	// Output:
	// not a task document: field "max_retries" is a string: it must be a whole number
	// not a task document: field "available_at" is "2027-01-01T12:00:00": it must be a time with its zone, such as 2027-01-01T09:30:00Z
	// not a task document: field "limits" at 0 has an unknown field "costs": it may have policy, key and cost
	// not a task document: field "id" is given twice
	// not a task document: line 2, column 2: it is not valid JSON: invalid character '\'' at start of value
	// not a task document: line 1, column 3: something follows the object, which must be all there is
}

// A producer in another language writes as little as this.
func ExampleDecodeSubmission() {
	written := time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC) // when the object was
	t, err := task.DecodeSubmission([]byte(`{"task_type":"call_api","input":{"order":12345678901234567890}}`), "order-1", written)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t.ID, t.Status, t.Due(written), t.MaxRetries, string(t.Input))
	// Output:
	// order-1 pending true 3 {"order":12345678901234567890}
}

// The object of a submission is inbox/{shard}/{id}.json.
func ExampleShard() {
	fmt.Printf("inbox/%s/%s.json\n", task.Shard("order-1"), "order-1")
	// Output:
	// inbox/0/order-1.json
}
