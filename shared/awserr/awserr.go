// Package awserr classifies the errors of AWS services. Error codes are named
// here and nowhere else.
package awserr

import (
	"errors"
	"net/http"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// IsNotFound reports that what was asked for does not exist: an S3 key,
// version or bucket, a schedule, a table, a function.
func IsNotFound(err error) bool {
	switch code(err) {
	case "NoSuchKey", "NoSuchVersion", "NotFound", "ResourceNotFoundException":
		return true
	case "NoSuchBucket":
		return false
	}
	return status(err) == http.StatusNotFound && code(err) != "NoSuchUpload"
}

// IsNoSuchBucket reports that the bucket itself does not exist.
func IsNoSuchBucket(err error) bool { return code(err) == "NoSuchBucket" }

// IsDeleteMarker reports that a version that was asked for is a delete marker.
func IsDeleteMarker(err error) bool {
	return code(err) == "MethodNotAllowed" || status(err) == http.StatusMethodNotAllowed
}

// IsPreconditionFailed reports that S3 refused a conditional write because the
// object is not as the condition wants it: it exists, or has another ETag.
func IsPreconditionFailed(err error) bool {
	return code(err) == "PreconditionFailed" || status(err) == http.StatusPreconditionFailed
}

// IsConflict reports that a conditional write to S3 raced with another write:
// neither is known to have won, read again and retry.
func IsConflict(err error) bool {
	return code(err) == "ConditionalRequestConflict" || code(err) == "OperationAborted"
}

// IsAlreadyExists reports that what was to be created exists under that name.
func IsAlreadyExists(err error) bool {
	switch code(err) {
	case "ConflictException", "ResourceInUseException", "BucketAlreadyOwnedByYou":
		return true
	}
	return false
}

// IsValidation reports that a service refused the request's content.
func IsValidation(err error) bool { return code(err) == "ValidationException" }

// IsAccessDenied reports that the caller may not do that.
func IsAccessDenied(err error) bool {
	switch code(err) {
	case "AccessDenied", "AccessDeniedException", "UnrecognizedClientException", "InvalidClientTokenId", "ExpiredToken", "ExpiredTokenException":
		return true
	}
	return status(err) == http.StatusForbidden
}

// IsThrottled reports that the service asks for fewer requests.
func IsThrottled(err error) bool {
	switch code(err) {
	case "SlowDown", "Throttling", "ThrottlingException", "TooManyRequestsException", "ProvisionedThroughputExceededException", "RequestLimitExceeded":
		return true
	}
	return status(err) == http.StatusTooManyRequests
}

// Code is the error code of the service's answer, empty when the service did
// not answer.
func Code(err error) string { return code(err) }

func code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

func status(err error) int {
	if response, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return response.HTTPStatusCode()
	}
	return 0
}
