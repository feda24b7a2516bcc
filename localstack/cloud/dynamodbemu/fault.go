package dynamodbemu

import (
	"slices"
	"strings"
)

// A FaultKind is a way in which a call goes wrong.
type FaultKind int

const (
	// NoFault lets the call pass.
	NoFault FaultKind = iota
	// Throttled answers ThrottlingException; nothing is done.
	Throttled
	// ThroughputExceeded answers ProvisionedThroughputExceededException; nothing
	// is done.
	ThroughputExceeded
	// TransactionConflict makes the call meet a transaction in progress: a single
	// write gets TransactionConflictException, a transaction is cancelled with
	// the reason TransactionConflict for the items in Fault.Items. Other calls
	// are not affected.
	TransactionConflict
	// ServerError answers InternalServerError; nothing is done.
	ServerError
	// LostAnswer carries the call out and answers InternalServerError all the
	// same, as when the answer is lost on its way. SDKs send such a call again.
	LostAnswer
)

// A Fault is what a call suffers.
type Fault struct {
	Kind FaultKind
	// Items are the places, from 0, of the actions of a transaction that are in
	// conflict. Empty means the first.
	Items []int
}

type plannedFault struct {
	left    int
	fault   Fault
	matches func(Call) bool
}

// FailNext makes the next n calls that match fail; a nil matches takes every
// call. Plans add up: a call suffers the oldest plan that matches it.
func (s *Server) FailNext(n int, fault Fault, matches func(Call) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.planned = append(s.planned, plannedFault{left: n, fault: fault, matches: matches})
}

// Operations matches calls of the operations named.
func Operations(names ...string) func(Call) bool {
	return func(c Call) bool {
		return slices.Contains(names, c.Operation)
	}
}

// plannedFault uses up one failure of the oldest plan that matches.
func (s *Server) plannedFault(c Call) Fault {
	for i := range s.planned {
		p := &s.planned[i]
		if p.left <= 0 || (p.matches != nil && !p.matches(c)) {
			continue
		}
		p.left--
		fault := p.fault
		if p.left == 0 {
			s.planned = append(s.planned[:i], s.planned[i+1:]...)
		}
		return fault
	}
	return Fault{}
}

const (
	msgThrottled          = "Throughput exceeds the current capacity of your table or index. DynamoDB is automatically scaling your table or index so please try again shortly."
	msgThroughputExceeded = "The level of configured provisioned throughput for the table was exceeded. Consider increasing your provisioning level with the UpdateTable API."
	msgConflict           = "Transaction is ongoing for the item"
)

// before is the error of a fault that keeps the call from being carried out.
func (f Fault) before(c Call) error {
	switch f.Kind {
	case Throttled:
		return newError(codeThrottling, msgThrottled)
	case ThroughputExceeded:
		return newError(codeThroughputExceeded, msgThroughputExceeded)
	case ServerError:
		return errInternal()
	case TransactionConflict:
		return f.conflict(c)
	default:
		return nil
	}
}

func (f Fault) conflict(c Call) error {
	switch c.Operation {
	case "PutItem", "UpdateItem", "DeleteItem":
		return newError(codeTransactionConflict, msgConflict)
	case "TransactWriteItems", "TransactGetItems":
		var request struct{ TransactItems []struct{} }
		if decode(c.Body, &request) == nil {
			return errCanceled(conflictReasons(len(request.TransactItems), f.Items))
		}
	}
	return nil // not affected, or the call itself reports what is wrong with it
}

func conflictReasons(actions int, inConflict []int) []reason {
	if len(inConflict) == 0 {
		inConflict = []int{0}
	}
	reasons := noReasons(actions)
	for _, i := range inConflict {
		if i < actions {
			reasons[i] = reason{Code: "TransactionConflict", Message: msgConflict}
		}
	}
	return reasons
}

func noReasons(n int) []reason {
	reasons := make([]reason, n)
	for i := range reasons {
		reasons[i].Code = "None"
	}
	return reasons
}

// errCanceled is a cancelled transaction; its text lists the reasons' codes.
func errCanceled(reasons []reason) *apiError {
	codes := make([]string, len(reasons))
	for i, r := range reasons {
		codes[i] = r.Code
	}
	e := newError(codeTransactionCanceled, "Transaction cancelled, please refer cancellation reasons for specific reasons ["+strings.Join(codes, ", ")+"]")
	e.reasons = reasons
	return e
}
