package awserr

import (
	"errors"
	"net"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// FailedCondition reports that DynamoDB refused a write to one item because its
// condition does not hold, and returns the item as it stands. The item is empty if
// there is none, and where the service does not tell.
func FailedCondition(err error) (item map[string]types.AttributeValue, failed bool) {
	if e, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return e.Item, true
	}
	return nil, false
}

// CanceledTransaction reports that DynamoDB refused a transaction, and returns the
// reasons, one per action in their order. Nothing of it was carried out.
func CanceledTransaction(err error) (reasons []types.CancellationReason, canceled bool) {
	if e, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		return e.CancellationReasons, true
	}
	return nil, false
}

// A Reason is what became of one action of a canceled transaction.
type Reason int

const (
	// NoReason: nothing spoke against the action.
	NoReason Reason = iota
	// ConditionFailed: its condition does not hold.
	ConditionFailed
	// Busy: another transaction is at work on the item, or it is throttled. Try
	// again.
	Busy
	// Refused: the action itself is wrong.
	Refused
)

// ReasonOf classifies the reason of one action of a canceled transaction.
func ReasonOf(r types.CancellationReason) Reason {
	if r.Code == nil {
		return NoReason
	}
	switch *r.Code {
	case "None", "":
		return NoReason
	case "ConditionalCheckFailed":
		return ConditionFailed
	case "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded":
		return Busy
	default:
		return Refused
	}
}

// IsTransactionConflict reports that another transaction is at work on an item of
// DynamoDB. Nothing was done, try again.
func IsTransactionConflict(err error) bool {
	switch code(err) {
	case "TransactionConflictException", "TransactionInProgressException", "ReplicatedWriteConflictException":
		return true
	}
	return false
}

// IsClockSkewed reports that the request was refused because the clock that it was
// signed by is far off. The SDK corrects its clock by the answer.
func IsClockSkewed(err error) bool {
	switch code(err) {
	case "RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture", "InvalidSignatureException", "SignatureDoesNotMatch":
		return true
	}
	return false
}

// IsNotCarriedOut reports that a request surely had no effect: the service refused
// it, or it never left. After any other error it may have been carried out, and
// may yet be.
func IsNotCarriedOut(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	s := status(err)
	return s >= http.StatusBadRequest && s < http.StatusInternalServerError && s != http.StatusRequestTimeout && code(err) != ""
}
