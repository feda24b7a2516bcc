package dynamodbemu

import (
	"errors"
)

// itemParams are the parameters of PutItem, UpdateItem and DeleteItem.
type itemParams struct {
	writeParams
	capacityParam
	legacyParams

	ReturnValues                string
	ReturnItemCollectionMetrics string
}

type itemAnswer struct {
	Attributes       item              `json:",omitempty"`
	ConsumedCapacity *consumedCapacity `json:",omitzero"`
}

func (s *Server) putItem(body []byte) (operation, error)    { return s.singleWrite(body, verbPut) }
func (s *Server) updateItem(body []byte) (operation, error) { return s.singleWrite(body, verbUpdate) }
func (s *Server) deleteItem(body []byte) (operation, error) { return s.singleWrite(body, verbDelete) }

func (s *Server) singleWrite(body []byte, verb writeVerb) (operation, error) {
	var p itemParams
	if err := decode(body, &p); err != nil {
		return operation{}, err
	}
	var c constraints
	c.enum(p.ReturnValues, "returnValues", "ALL_NEW", "UPDATED_OLD", allOld, "NONE", "UPDATED_NEW")
	p.capacityParam.check(&c)
	c.enum(p.ReturnItemCollectionMetrics, "returnItemCollectionMetrics", "SIZE", "NONE")
	name := p.writeParams.check(&c, verb)
	if err := errors.Join(c.err(), p.refuse()); err != nil {
		return operation{}, err
	}
	if verb != verbUpdate && p.ReturnValues != "" && p.ReturnValues != "NONE" && p.ReturnValues != allOld {
		return operation{}, validationError("ReturnValues can only be ALL_OLD or NONE")
	}
	w, err := p.write(verb, name)
	if err != nil {
		return operation{}, err
	}
	return operation{run: func() (any, error) { return s.runSingle(w, &p) }}, nil
}

func (s *Server) runSingle(w *write, p *itemParams) (any, error) {
	t, err := s.table(w.table)
	if err != nil {
		return nil, err
	}
	if err := w.check(t); err != nil {
		return nil, err
	}
	key := w.target(t)
	if s.inFlight[t.identity(key)] {
		return nil, newError(codeTransactionConflict, msgConflict)
	}
	result, err := w.evaluate(t)
	if err == nil {
		t.store(key, result)
	} else if !errors.Is(err, errConditionFailed) {
		return nil, err
	}
	cost := result.writeUnits()
	s.consume(w.table, Capacity{Write: cost})
	if err != nil {
		failed := newError(codeConditionalCheckFailed, msgConditionFailed)
		failed.item = s.itemOnFailure(w, result.old)
		return nil, failed
	}
	return itemAnswer{
		Attributes:       w.returned(p.ReturnValues, result),
		ConsumedCapacity: p.report(w.table, cost),
	}, nil
}

func (s *Server) itemOnFailure(w *write, old item) item {
	if !w.oldOnFailure || s.opts.NoItemOnFailure {
		return nil
	}
	return old
}

// returned picks what ReturnValues asks for.
func (w *write) returned(returnValues string, o outcome) item {
	switch returnValues {
	case allOld:
		return o.old
	case "ALL_NEW":
		return o.new
	case "UPDATED_OLD":
		return w.updatedPart(o.old)
	case "UPDATED_NEW":
		return w.updatedPart(o.new)
	}
	return nil
}

func (w *write) updatedPart(it item) item {
	if w.update == nil || it == nil {
		return nil
	}
	return project(it, w.update.paths())
}

// getParams are the parameters of GetItem, and of Get in a transaction.
type getParams struct {
	placeholders

	TableName            *string
	Key                  *wireItem
	ProjectionExpression *string
}

// A read is a checked request for one item.
type read struct {
	table string
	key   item
	paths []path // nil for the whole item
}

func (p *getParams) check(c *constraints) string {
	name := c.tableName(p.TableName, 1)
	c.present(p.Key != nil, "key")
	return name
}

func (p *getParams) read(tableName string) (*read, error) {
	key, err := p.Key.item()
	if err != nil {
		return nil, err
	}
	paths, err := p.projection(p.ProjectionExpression)
	return &read{table: tableName, key: key, paths: paths}, err
}

// projection parses the only expression of a request.
func (p *placeholders) projection(text *string) ([]path, error) {
	s, err := p.substitution(map[string]*string{projectionExpression: text})
	if err != nil {
		return nil, err
	}
	paths, err := parseOptional(projectionExpression, text, s, (*parser).projection)
	if err != nil {
		return nil, err
	}
	return paths, s.checkAllUsed()
}

func (r *read) check(t *table) error {
	if err := t.checkKey(r.key); err != nil {
		return err
	}
	return t.checkPaths(r.paths)
}

// projected is the item or the parts asked for; an item that exists but has none
// of them is empty, not nil.
func projected(it item, paths []path) item {
	if it == nil || paths == nil {
		return it
	}
	return project(it, paths)
}

type getAnswer struct {
	Item             item              `json:",omitzero"`
	ConsumedCapacity *consumedCapacity `json:",omitzero"`
}

func (s *Server) getItem(body []byte) (operation, error) {
	var p struct {
		getParams
		capacityParam
		legacyParams

		ConsistentRead bool
	}
	if err := decode(body, &p); err != nil {
		return operation{}, err
	}
	var c constraints
	p.capacityParam.check(&c)
	name := p.getParams.check(&c)
	if err := errors.Join(c.err(), p.refuse()); err != nil {
		return operation{}, err
	}
	r, err := p.read(name)
	if err != nil {
		return operation{}, err
	}
	return operation{run: func() (any, error) {
		t, err := s.table(r.table)
		if err != nil {
			return nil, err
		}
		if err := r.check(t); err != nil {
			return nil, err
		}
		it := t.get(r.key)
		cost := readUnits(it.size(), p.ConsistentRead)
		s.consume(r.table, Capacity{Read: cost})
		return getAnswer{Item: projected(it, r.paths), ConsumedCapacity: p.report(r.table, cost)}, nil
	}}, nil
}
