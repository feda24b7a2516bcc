package dynamodbemu

import (
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxTransactItems = 100
	// maxTransactBytes is the largest body of a transaction.
	maxTransactBytes = 4 << 20
	maxTokenLength   = 36
)

type transactWriteParams struct {
	capacityParam

	TransactItems               jsontext.Value
	ClientRequestToken          *string
	ReturnItemCollectionMetrics string
}

// transactWrite is one action, exactly one of the four.
type transactWrite struct {
	ConditionCheck *writeParams
	Put            *writeParams
	Delete         *writeParams
	Update         *writeParams
}

func (a *transactWrite) action() (writeVerb, *writeParams, error) {
	var verb writeVerb
	var params *writeParams
	given := 0
	for v, p := range map[writeVerb]*writeParams{verbCheck: a.ConditionCheck, verbPut: a.Put, verbDelete: a.Delete, verbUpdate: a.Update} {
		if p != nil {
			given++
			verb, params = v, p
		}
	}
	if given != 1 {
		return 0, nil, validationError("TransactItems can only contain one of Check, Put, Update or Delete")
	}
	return verb, params, nil
}

// An actionError is what is wrong with one action of a transaction by itself.
type actionError struct {
	index int
	err   error
}

func (e *actionError) Error() string { return e.err.Error() }
func (e *actionError) Unwrap() error { return e.err }

func (s *Server) transactWriteItems(body []byte) (operation, error) {
	var p transactWriteParams
	if err := decode(body, &p); err != nil {
		return operation{}, err
	}
	if len(body) > maxTransactBytes {
		return operation{}, validationError("Transaction payload size cannot exceed 4194304 bytes")
	}
	writes, err := p.writes()
	if err != nil {
		return operation{}, err
	}
	if err := p.TransactItems.Canonicalize(); err != nil {
		return operation{}, newError(codeSerialization, err.Error())
	}
	release, err := s.hold(&p, writes)
	if err != nil {
		return operation{}, err
	}
	return operation{
		run: func() (any, error) {
			defer release()
			return s.runTransaction(&p, writes)
		},
		cleanup: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			release()
		},
	}, nil
}

// writes decodes and checks the actions.
func (p *transactWriteParams) writes() ([]*write, error) {
	var actions []transactWrite
	if p.TransactItems != nil {
		if err := json.Unmarshal(p.TransactItems, &actions); err != nil {
			return nil, newError(codeSerialization, "TransactItems could not be decoded: "+err.Error())
		}
	}
	var c constraints
	p.check(&c)
	c.enum(p.ReturnItemCollectionMetrics, "returnItemCollectionMetrics", "SIZE", "NONE")
	checkTransactItems(&c, p.TransactItems != nil, len(actions))
	if t := p.ClientRequestToken; t != nil {
		c.length(len(*t), 1, maxTokenLength, quoted(*t), "clientRequestToken")
	}
	names := make([]string, len(actions))
	for i := range actions {
		verb, params, err := actions[i].action()
		if err != nil {
			return nil, err
		}
		names[i] = params.check(&c, verb)
	}
	if err := c.err(); err != nil {
		return nil, err
	}
	writes := make([]*write, len(actions))
	for i := range actions {
		verb, params, _ := actions[i].action()
		var err error
		if writes[i], err = params.write(verb, names[i]); err != nil {
			return nil, err
		}
	}
	return writes, nil
}

func checkTransactItems(c *constraints, present bool, n int) {
	c.present(present, "transactItems")
	if present {
		shown := "'[]'"
		if n > 0 {
			shown = "'[…]'"
		}
		c.length(n, 1, maxTransactItems, shown, "transactItems")
	}
}

// checkWrites tests all writes against their tables and returns the identities of
// their items. Two writes of one item are refused with the error given. What is
// wrong with one write only comes as an *actionError; an empty key is wrong with
// the whole request, as on AWS.
func (s *Server) checkWrites(writes []*write, duplicate error) ([]string, error) {
	ids := make([]string, len(writes))
	seen := make(map[string]bool, len(writes))
	for _, w := range writes {
		if _, err := s.table(w.table); err != nil {
			return nil, err
		}
	}
	for i, w := range writes {
		t := s.tables[w.table]
		if err := w.check(t); err != nil {
			if w.hasEmptyKey(t) {
				return nil, err
			}
			return nil, &actionError{i, err}
		}
		ids[i] = t.identity(w.target(t))
		if seen[ids[i]] {
			return nil, duplicate
		}
		seen[ids[i]] = true
	}
	return ids, nil
}

func (w *write) hasEmptyKey(t *table) bool {
	for _, a := range t.keyAttributes() {
		v, ok := w.target(t)[a.name]
		if ok && v.kind == a.kind && v.kind != kindN && v.text == "" {
			return true
		}
	}
	return false
}

var errSameItem = validationError("Transaction request cannot include multiple operations on one item")

// hold takes the transaction's items, and its token, until release, so that what
// happens meanwhile conflicts with it. Without Options.Conflicts it does nothing.
// Release may be called more than once, always under the lock.
func (s *Server) hold(p *transactWriteParams, writes []*write) (release func(), err error) {
	if !s.opts.Conflicts {
		return func() {}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.ClientRequestToken != nil && s.tokens.find(*p.ClientRequestToken, s.opts.Clock()) != nil {
		return func() {}, nil
	}
	held, err := s.checkWrites(writes, errSameItem)
	if err != nil {
		return func() {}, nil // running it reports the error
	}
	var token string
	if p.ClientRequestToken != nil {
		token = "\x00" + *p.ClientRequestToken // no item's identity begins so
	}
	if s.inFlight[token] {
		return nil, newError(codeTransactionInProgress, "The transaction with the given request token is already in progress.")
	}
	if inConflict := s.heldBy(held); len(inConflict) > 0 {
		return nil, errCanceled(conflictReasons(len(writes), inConflict))
	}
	if token != "" {
		held = append(held, token)
	}
	for _, id := range held {
		s.inFlight[id] = true
	}
	return func() {
		for _, id := range held {
			delete(s.inFlight, id)
		}
		held = nil
	}, nil
}

func (s *Server) heldBy(ids []string) (places []int) {
	for i, id := range ids {
		if s.inFlight[id] {
			places = append(places, i)
		}
	}
	return places
}

type transactWriteAnswer struct {
	ConsumedCapacity []consumedCapacity `json:",omitempty"`
}

func (s *Server) runTransaction(p *transactWriteParams, writes []*write) (any, error) {
	if p.ClientRequestToken != nil {
		if earlier := s.tokens.find(*p.ClientRequestToken, s.opts.Clock()); earlier != nil {
			return s.repeatTransaction(p, writes, earlier)
		}
	}
	if _, err := s.checkWrites(writes, errSameItem); err != nil {
		return nil, canceledBy(err, len(writes))
	}
	outcomes, reasons := s.evaluateAll(writes)
	used := make(map[string]Capacity)
	for i, w := range writes {
		cost := transactionFactor * outcomes[i].writeUnits()
		used[w.table] = Capacity{Write: used[w.table].Write + cost}
	}
	for name, c := range used {
		s.consume(name, c)
	}
	if reasons != nil {
		return nil, errCanceled(reasons)
	}
	for i, w := range writes {
		t := s.tables[w.table]
		t.store(w.target(t), outcomes[i])
	}
	if p.ClientRequestToken != nil {
		s.tokens.remember(*p.ClientRequestToken, string(p.TransactItems), s.opts.Clock())
	}
	return transactWriteAnswer{p.reports(used, true)}, nil
}

// canceledBy turns the error of one action into a cancelled transaction.
func canceledBy(err error, actions int) error {
	action, ok := errors.AsType[*actionError](err)
	if !ok {
		return err
	}
	reasons := noReasons(actions)
	reasons[action.index] = reason{Code: "ValidationError", Message: messageOf(action.err)}
	return errCanceled(reasons)
}

// evaluateAll computes every action's outcome on the items as they are before the
// transaction. Reasons is nil if all succeed.
func (s *Server) evaluateAll(writes []*write) (outcomes []outcome, reasons []reason) {
	outcomes = make([]outcome, len(writes))
	all := noReasons(len(writes))
	failed := false
	for i, w := range writes {
		var err error
		outcomes[i], err = w.evaluate(s.tables[w.table])
		switch {
		case errors.Is(err, errConditionFailed):
			all[i] = reason{Code: "ConditionalCheckFailed", Message: msgConditionFailed, Item: s.itemOnFailure(w, outcomes[i].old)}
		case err != nil:
			all[i] = reason{Code: "ValidationError", Message: messageOf(err)}
		}
		failed = failed || err != nil
	}
	if !failed {
		return outcomes, nil
	}
	return outcomes, all
}

// repeatTransaction answers a request whose token was used before. It reads the
// items, which is what AWS charges for, and changes nothing.
func (s *Server) repeatTransaction(p *transactWriteParams, writes []*write, earlier *usedToken) (any, error) {
	if earlier.actions != string(p.TransactItems) {
		return nil, newError(codeIdempotentMismatch, "The request uses the same client token as a previous, but non-identical request. Do not reuse a client token with different requests, unless the requests are identical.")
	}
	used := make(map[string]Capacity)
	for _, w := range writes {
		t, err := s.table(w.table)
		if err != nil {
			return nil, err
		}
		cost := transactionFactor * readUnits(t.get(w.target(t)).size(), true)
		used[w.table] = Capacity{Read: used[w.table].Read + cost}
	}
	for name, c := range used {
		s.consume(name, c)
	}
	return transactWriteAnswer{p.reports(used, true)}, nil
}

func (s *Server) transactGetItems(body []byte) (operation, error) {
	var p struct {
		capacityParam

		TransactItems []struct{ Get *getParams }
	}
	if err := decode(body, &p); err != nil {
		return operation{}, err
	}
	var c constraints
	p.check(&c)
	checkTransactItems(&c, p.TransactItems != nil, len(p.TransactItems))
	names := make([]string, len(p.TransactItems))
	for i, a := range p.TransactItems {
		c.present(a.Get != nil, "transactItems.member.get")
		if a.Get != nil {
			names[i] = a.Get.check(&c)
		}
	}
	if err := c.err(); err != nil {
		return operation{}, err
	}
	reads := make([]*read, len(names))
	for i, a := range p.TransactItems {
		var err error
		if reads[i], err = a.Get.read(names[i]); err != nil {
			return operation{}, err
		}
	}
	return operation{run: func() (any, error) { return s.runTransactGet(reads, p.capacityParam) }}, nil
}

type transactGetAnswer struct {
	Responses        []itemResponse
	ConsumedCapacity []consumedCapacity `json:",omitempty"`
}

type itemResponse struct {
	Item item `json:",omitzero"`
}

func (s *Server) runTransactGet(reads []*read, report capacityParam) (any, error) {
	if err := s.checkTransactReads(reads); err != nil {
		return nil, canceledBy(err, len(reads))
	}
	answer := transactGetAnswer{Responses: make([]itemResponse, len(reads))}
	used := make(map[string]Capacity)
	for i, r := range reads {
		it := s.tables[r.table].get(r.key)
		cost := transactionFactor * readUnits(it.size(), true)
		used[r.table] = Capacity{Read: used[r.table].Read + cost}
		answer.Responses[i].Item = projected(it, r.paths)
	}
	for name, c := range used {
		s.consume(name, c)
	}
	answer.ConsumedCapacity = report.reports(used, true)
	return answer, nil
}

func (s *Server) checkTransactReads(reads []*read) error {
	ids := make([]string, len(reads))
	seen := make(map[string]bool, len(reads))
	for i, r := range reads {
		t, err := s.table(r.table)
		if err != nil {
			return err
		}
		if err := r.check(t); err != nil {
			return &actionError{i, err}
		}
		ids[i] = t.identity(r.key)
		if seen[ids[i]] {
			return errSameItem
		}
		seen[ids[i]] = true
	}
	if places := s.heldBy(ids); len(places) > 0 {
		return errCanceled(conflictReasons(len(reads), places))
	}
	return nil
}
