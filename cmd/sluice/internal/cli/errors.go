package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/sluice-dev/sluice/shared/awserr"
	"github.com/sluice-dev/sluice/shared/task"
)

// usageError says that the command was called wrongly: exit code 2.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return &usageError{text: fmt.Sprintf(format, args...)}
}

// errReported is the error of a command that has said on standard error what failed.
var errReported = errors.New("failed, as reported")

// describe words an error for a person: without the parts of an AWS error that help
// nobody at a terminal.
func describe(err error) string {
	text := strings.TrimPrefix(err.Error(), "limit: ")
	if operation, ok := errors.AsType[*smithy.OperationError](err); ok {
		text = strings.Replace(text, operation.Error(), cause(operation), 1)
	}
	if format, ok := errors.AsType[*task.FormatError](err); ok && format.Field != "" {
		text = strings.Replace(text, format.Error(), format.Field+" "+format.Problem, 1)
	}
	return text
}

// cause is the short reason of a failed AWS request.
func cause(err *smithy.OperationError) string {
	var api smithy.APIError
	var transport *url.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return err.ServiceID + " did not answer in time"
	case errors.As(err, &api) && api.ErrorMessage() != "":
		return api.ErrorCode() + ": " + api.ErrorMessage()
	case errors.As(err, &api):
		return api.ErrorCode()
	case errors.As(err, &transport):
		at := transport.URL
		if u, parseErr := url.Parse(at); parseErr == nil {
			at = u.Scheme + "://" + u.Host
		}
		return fmt.Sprintf("cannot reach %s at %s, check the network and the endpoint (--endpoint-url, AWS_ENDPOINT_URL): %v", err.ServiceID, at, transport.Err)
	}
	return err.Unwrap().Error()
}

// affectsAll reports that the error is not about one task: the next one would meet it
// too.
func affectsAll(err error) bool {
	var transport *url.Error
	var unwritten *journalError
	return awserr.IsNoSuchBucket(err) || awserr.IsAccessDenied(err) || errors.As(err, &transport) || errors.As(err, &unwritten)
}
