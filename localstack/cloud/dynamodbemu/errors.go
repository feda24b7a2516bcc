package dynamodbemu

import (
	"fmt"
	"net/http"
)

// Error codes as they stand in the __type member of an error response.
const (
	codeValidation             = "com.amazon.coral.validate#ValidationException"
	codeSerialization          = "com.amazon.coral.service#SerializationException"
	codeUnknownOperation       = "com.amazon.coral.service#UnknownOperationException"
	codeThrottling             = "com.amazon.coral.availability#ThrottlingException"
	codeResourceNotFound       = dynamoPrefix + "ResourceNotFoundException"
	codeResourceInUse          = dynamoPrefix + "ResourceInUseException"
	codeConditionalCheckFailed = dynamoPrefix + "ConditionalCheckFailedException"
	codeTransactionCanceled    = dynamoPrefix + "TransactionCanceledException"
	codeTransactionConflict    = dynamoPrefix + "TransactionConflictException"
	codeTransactionInProgress  = dynamoPrefix + "TransactionInProgressException"
	codeIdempotentMismatch     = dynamoPrefix + "IdempotentParameterMismatchException"
	codeThroughputExceeded     = dynamoPrefix + "ProvisionedThroughputExceededException"
	codeInternalServerError    = dynamoPrefix + "InternalServerError"

	dynamoPrefix = "com.amazonaws.dynamodb.v20120810#"
)

const msgConditionFailed = "The conditional request failed"

// An apiError is an answer other than 200.
type apiError struct {
	code    string
	status  int
	message string
	item    item     // set where ALL_OLD was asked for on a failed condition
	reasons []reason // set for a cancelled transaction
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

// A reason says of one action of a cancelled transaction why it did not succeed.
type reason struct {
	Code    string `json:"Code"`
	Message string `json:"Message,omitempty"`
	Item    item   `json:"Item,omitempty"`
}

// body is the JSON that an SDK reads the error from.
func (e *apiError) body() any {
	type plain struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
		Item    item   `json:"Item,omitempty"`
	}
	type canceled struct {
		Type    string   `json:"__type"`
		Reasons []reason `json:"CancellationReasons"`
		Message string   `json:"Message"`
	}
	if e.code == codeTransactionCanceled {
		return canceled{e.code, e.reasons, e.message}
	}
	return plain{e.code, e.message, e.item}
}

func newError(code, message string) *apiError {
	return &apiError{code: code, status: http.StatusBadRequest, message: message}
}

func validationError(message string) *apiError { return newError(codeValidation, message) }

func validationErrorf(format string, args ...any) *apiError {
	return validationError(fmt.Sprintf(format, args...))
}

func errInternal() *apiError {
	e := newError(codeInternalServerError, "The request processing has failed because of an unknown error, exception or failure.")
	e.status = http.StatusInternalServerError
	return e
}

func errTableNotFound(name string) *apiError {
	return newError(codeResourceNotFound, "Requested resource not found: Table: "+name+" not found")
}

func errResourceNotFound() *apiError {
	return newError(codeResourceNotFound, "Requested resource not found")
}

func errUnsupported(what string) *apiError {
	return validationErrorf("This DynamoDB emulator does not support %s", what)
}
