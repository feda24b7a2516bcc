package awserr_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/sluice-dev/sluice/shared/awserr"
)

// answer is an error as the SDK makes it of a service's answer.
func answer(status int, code string) error {
	return fmt.Errorf("operation error: %w", &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}},
		Err:      &smithy.GenericAPIError{Code: code},
	})
}

func TestEachAnswerIsOfOneKind(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(error) bool{
		"not found":           awserr.IsNotFound,
		"no such bucket":      awserr.IsNoSuchBucket,
		"delete marker":       awserr.IsDeleteMarker,
		"precondition failed": awserr.IsPreconditionFailed,
		"conflict":            awserr.IsConflict,
		"already exists":      awserr.IsAlreadyExists,
		"validation":          awserr.IsValidation,
		"access denied":       awserr.IsAccessDenied,
		"throttled":           awserr.IsThrottled,
	}
	tests := []struct {
		name string
		err  error
		want string // empty for none
	}{
		{"S3: the key is missing", answer(404, "NoSuchKey"), "not found"},
		{"S3: the version is missing", answer(404, "NoSuchVersion"), "not found"},
		{"S3: HEAD has no body and so no code", answer(404, ""), "not found"},
		{"S3: the bucket is missing", answer(404, "NoSuchBucket"), "no such bucket"},
		{"S3: the version is a delete marker", answer(405, "MethodNotAllowed"), "delete marker"},
		{"S3: If-Match or If-None-Match does not hold", answer(412, "PreconditionFailed"), "precondition failed"},
		{"S3: a conditional write raced", answer(409, "ConditionalRequestConflict"), "conflict"},
		{"S3: a write raced with a delete", answer(409, "OperationAborted"), "conflict"},
		{"S3: slow down", answer(503, "SlowDown"), "throttled"},
		{"S3: denied", answer(403, "AccessDenied"), "access denied"},
		{"S3: the token has expired", answer(400, "ExpiredToken"), "access denied"},
		{"Scheduler: the name exists", answer(409, "ConflictException"), "already exists"},
		{"Scheduler: the time is past", answer(400, "ValidationException"), "validation"},
		{"Scheduler: throttled", answer(429, "ThrottlingException"), "throttled"},
		{"Scheduler: the quota is used up", answer(402, "ServiceQuotaExceededException"), ""},
		{"Lambda: no such function", answer(404, "ResourceNotFoundException"), "not found"},
		{"Lambda: at its concurrency", answer(429, "TooManyRequestsException"), "throttled"},
		{"an internal error", answer(500, "InternalError"), ""},
		{"no answer at all", errors.New("connection reset"), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for kind, is := range kinds {
				if got := is(tt.err); got != (kind == tt.want) {
					t.Errorf("%s: %v", kind, got)
				}
			}
		})
	}
}

func TestCodeIsEmptyWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	if got := awserr.Code(answer(503, "SlowDown")); got != "SlowDown" {
		t.Errorf("Code = %q", got)
	}
	if got := awserr.Code(errors.New("connection reset")); got != "" {
		t.Errorf("Code = %q, want none", got)
	}
}
