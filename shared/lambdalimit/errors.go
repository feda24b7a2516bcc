package lambdalimit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-dev/sluice/shared/limit"
)

// A Code says what kind of error an answer holds.
type Code string

// The codes of errors. Only after StoreBusy and StoreUnavailable, and after
// Internal with patience, is trying again of use.
const (
	InvalidRequest   Code = "invalid_request"   // the request can't be judged: mend it
	InvalidPolicy    Code = "invalid_policy"    // an override has settings that can't be
	UnknownPolicy    Code = "unknown_policy"    // a policy that is not registered
	StoreBusy        Code = "store_busy"        // too many write the same key; not a denial
	StoreUnavailable Code = "store_unavailable" // no answer from the store: nothing is admitted
	AccessDenied     Code = "access_denied"     // the function may not use its table
	Internal         Code = "internal"          // a fault of the function
)

// An Error is an error as an answer holds it. To errors.Is and errors.As it is
// also the error of package limit that its code stands for.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`

	// Policy and Fields are those of a [limit.InvalidPolicyError].
	Policy string       `json:"policy,omitzero"`
	Fields []FieldError `json:"fields,omitzero"`
}

// A FieldError says what is wrong with one setting.
type FieldError struct {
	Field   string `json:"field"`
	Problem string `json:"problem"`
}

func (e *Error) Error() string { return "limit: " + e.Message }

// Unwrap returns the error of package limit that the code stands for, or nil.
func (e *Error) Unwrap() error {
	switch e.Code {
	case InvalidRequest:
		return &limit.InvalidRequestError{Problem: e.Message}
	case InvalidPolicy:
		bad := &limit.InvalidPolicyError{Policy: e.Policy}
		for _, f := range e.Fields {
			bad.Fields = append(bad.Fields, limit.FieldError(f))
		}
		return bad
	case UnknownPolicy:
		return limit.ErrUnknownPolicy
	case StoreBusy:
		return limit.ErrStoreBusy
	case StoreUnavailable:
		return limit.ErrStoreDown
	case AccessDenied:
		return limit.ErrStoreDenied
	default:
		return nil
	}
}

func badRequest(format string, args ...any) error {
	return &Error{Code: InvalidRequest, Message: fmt.Sprintf(format, args...)}
}

func badMember(member, format string, args ...any) error {
	return badRequest("%s %s", member, fmt.Sprintf(format, args...))
}

// errorOf is an error of a limiter as an answer holds it.
func errorOf(err error) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	e := &Error{Code: Internal, Message: strings.TrimPrefix(err.Error(), "limit: ")}
	var request *limit.InvalidRequestError
	var policy *limit.InvalidPolicyError
	switch {
	case errors.As(err, &request):
		e.Code = InvalidRequest
	case errors.As(err, &policy):
		e.Code, e.Policy = InvalidPolicy, policy.Policy
		for _, f := range policy.Fields {
			e.Fields = append(e.Fields, FieldError(f))
		}
	case errors.Is(err, limit.ErrUnknownPolicy):
		e.Code = UnknownPolicy
	case errors.Is(err, limit.ErrStoreBusy):
		e.Code = StoreBusy
	case errors.Is(err, limit.ErrStoreDenied):
		e.Code = AccessDenied
	case errors.Is(err, limit.ErrStoreDown):
		e.Code = StoreUnavailable
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		e.Code, e.Message = StoreUnavailable, "the store gave no answer before the function's time was up"
	}
	return e
}
