package lambdaemu

import (
	"encoding/json"
	"fmt"
	"time"
)

// Why an asynchronous event was given up.
const (
	RetriesExhausted = "RetriesExhausted"
	EventAgeExceeded = "EventAgeExceeded"
)

// version is the version of every function: there are no published ones.
const version = "$LATEST"

// unhandled is what Lambda says of every error of a function today.
const unhandled = "Unhandled"

// FailureRecord is what Lambda sends to an on-failure destination. Its JSON
// form is the one AWS documents.
type FailureRecord struct {
	Version         string           `json:"version"`
	Timestamp       time.Time        `json:"timestamp"`
	RequestContext  FailureRequest   `json:"requestContext"`
	RequestPayload  json.RawMessage  `json:"requestPayload"`
	ResponseContext *FailureResponse `json:"responseContext,omitempty"` // nil when the function never ran
	ResponsePayload json.RawMessage  `json:"responsePayload,omitempty"`
}

// FailureRequest says which event was given up, and why.
type FailureRequest struct {
	RequestID              string `json:"requestId"`
	FunctionARN            string `json:"functionArn"`
	Condition              string `json:"condition"` // RetriesExhausted or EventAgeExceeded
	ApproximateInvokeCount int    `json:"approximateInvokeCount"`
}

// FailureResponse describes the last try.
type FailureResponse struct {
	StatusCode      int    `json:"statusCode"`
	ExecutedVersion string `json:"executedVersion"`
	FunctionError   string `json:"functionError"`
}

func (f *function) failureRecord(ev *event, condition string) FailureRecord {
	record := FailureRecord{
		Version:   "1.0",
		Timestamp: time.Now().UTC().Truncate(time.Millisecond),
		RequestContext: FailureRequest{
			RequestID:              ev.inv.requestID,
			FunctionARN:            f.arn + ":" + version,
			Condition:              condition,
			ApproximateInvokeCount: ev.tries,
		},
		RequestPayload: ev.inv.payload,
	}
	if ev.last != nil {
		record.ResponseContext = &FailureResponse{
			StatusCode:      200,
			ExecutedVersion: version,
			FunctionError:   ev.last.FunctionError,
		}
		record.ResponsePayload = ev.last.Payload
	}
	return record
}

// functionError is the document Lambda answers with when a function failed.
type functionError struct {
	Message string `json:"errorMessage"`
	Type    string `json:"errorType"`
	Stack   any    `json:"stackTrace,omitempty"`
}

func failure(requestID, errorType, message string) Result {
	return failureDocument(requestID, functionError{Message: message, Type: errorType})
}

func failureDocument(requestID string, doc functionError) Result {
	payload, err := json.Marshal(doc)
	if err != nil { // only a stack of a strange type can do that
		payload = []byte(`{"errorMessage":"the error could not be encoded","errorType":"Runtime.SerializationError"}`)
	}
	return Result{RequestID: requestID, Payload: payload, FunctionError: unhandled}
}

// message is the errorMessage of a failed result.
func (r Result) message() string {
	var doc functionError
	if err := json.Unmarshal(r.Payload, &doc); err != nil {
		return string(r.Payload)
	}
	return doc.Message
}

func timedOut(requestID string, timeout time.Duration) Result {
	return failure(requestID, "Sandbox.Timedout",
		fmt.Sprintf("RequestId: %s Error: Task timed out after %.2f seconds", requestID, timeout.Seconds()))
}

func exited(requestID, how string) Result {
	return failure(requestID, "Runtime.ExitError",
		fmt.Sprintf("RequestId: %s Error: Runtime exited %s", requestID, how))
}

func responseTooLarge(requestID string) Result {
	return failure(requestID, "Function.ResponseSizeTooLarge",
		fmt.Sprintf("Response payload size exceeded maximum allowed payload size (%d bytes).", maxSyncPayload))
}
