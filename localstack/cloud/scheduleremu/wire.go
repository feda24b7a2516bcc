package scheduleremu

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// definition is what CreateSchedule and UpdateSchedule say about a schedule.
type definition struct {
	ActionAfterCompletion      string              `json:",omitempty"`
	ClientToken                string              `json:",omitempty"`
	Description                string              `json:",omitempty"`
	EndDate                    *epoch              `json:",omitempty"`
	FlexibleTimeWindow         *flexibleTimeWindow `json:",omitempty"`
	GroupName                  string              `json:",omitempty"`
	KmsKeyArn                  string              `json:",omitempty"`
	ScheduleExpression         string              `json:",omitempty"`
	ScheduleExpressionTimezone string              `json:",omitempty"`
	StartDate                  *epoch              `json:",omitempty"`
	State                      string              `json:",omitempty"`
	Target                     *target             `json:",omitempty"`
}

type flexibleTimeWindow struct {
	Mode                   string
	MaximumWindowInMinutes *int `json:",omitempty"`
}

type target struct {
	Arn              string
	RoleArn          string
	Input            string            `json:",omitempty"`
	RetryPolicy      *retryPolicy      `json:",omitempty"`
	DeadLetterConfig *deadLetterConfig `json:",omitempty"`
	Parameters       jsontext.Value    `json:",embed"` // of templated targets: kept as they came
}

type retryPolicy struct {
	MaximumEventAgeInSeconds *int `json:",omitempty"`
	MaximumRetryAttempts     *int `json:",omitempty"`
}

type deadLetterConfig struct {
	Arn string `json:",omitempty"`
}

// epoch is a time as the API writes it: a number of seconds since 1970.
type epoch time.Time //nolint:recvcheck // values are written, pointers are read into

// MarshalJSON writes seconds and milliseconds.
func (e epoch) MarshalJSON() ([]byte, error) {
	ms := time.Time(e).UnixMilli()
	return strconv.AppendFloat(nil, float64(ms)/1000, 'f', -1, 64), nil
}

// UnmarshalJSON reads a number of seconds, with a fraction or without.
func (e *epoch) UnmarshalJSON(b []byte) error {
	seconds, err := strconv.ParseFloat(string(b), 64)
	if err != nil || math.Abs(seconds) > maxEpoch {
		return fmt.Errorf("%s is not a time: it must be a number of seconds since 1970", b)
	}
	*e = epoch(time.UnixMilli(int64(math.Round(seconds * 1000))).UTC())
	return nil
}

// maxEpoch is the end of the year 9999.
const maxEpoch = 253402300799

func (e *epoch) time() time.Time {
	if e == nil {
		return time.Time{}
	}
	return time.Time(*e)
}

// apiError is an answer that reports a failure.
type apiError struct {
	status  int
	code    string
	message string
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

func validation(format string, args ...any) error {
	return &apiError{http.StatusBadRequest, "ValidationException", fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &apiError{http.StatusNotFound, "ResourceNotFoundException", fmt.Sprintf(format, args...)}
}

func conflict(format string, args ...any) error {
	return &apiError{http.StatusConflict, "ConflictException", fmt.Sprintf(format, args...)}
}

func writeError(w http.ResponseWriter, err error) {
	var e *apiError
	if !errors.As(err, &e) {
		e = &apiError{http.StatusInternalServerError, "InternalServerException", err.Error()}
	}
	w.Header().Set("X-Amzn-Errortype", e.code)
	writeJSON(w, e.status, map[string]string{"Message": e.message})
}

func writeJSON(w http.ResponseWriter, status int, document any) {
	body, err := json.Marshal(document)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that went away wants no answer
}

// readJSON decodes the request's body. Names the API does not have are
// ignored, as the service does; a value of the wrong type is refused.
func (r *request) readJSON(document any) error {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(io.LimitReader(r.Body, maxBodyBytes+1)); err != nil {
			return validation("the request's body could not be read: %v", err)
		}
	}
	if len(body) > maxBodyBytes {
		return validation("the request's body is larger than %d bytes", maxBodyBytes)
	}
	if err := json.Unmarshal(body, document); err != nil {
		return &apiError{http.StatusBadRequest, "SerializationException", err.Error()}
	}
	return nil
}

// maxBodyBytes bounds a request's body; an input may take 256 KiB of it.
const maxBodyBytes = 1 << 20
