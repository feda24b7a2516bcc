package dynamodbemu

import (
	"errors"
)

const (
	maxBatchGet   = 100
	maxBatchWrite = 25
	// maxBatchBytes is how much BatchGetItem answers; the rest stays unprocessed.
	maxBatchBytes = 16 << 20
)

type batchGetTable struct {
	Keys                     []wireItem
	ConsistentRead           bool              `json:",omitzero"`
	ProjectionExpression     *string           `json:",omitzero"`
	ExpressionAttributeNames map[string]string `json:",omitempty"`
	AttributesToGet          []string          `json:",omitempty"`
}

func (s *Server) batchGetItem(body []byte) (operation, error) {
	var p struct {
		capacityParam

		RequestItems map[string]*batchGetTable
	}
	if err := decode(body, &p); err != nil {
		return operation{}, err
	}
	var c constraints
	p.check(&c)
	checkRequestItems(&c, p.RequestItems)
	if err := c.err(); err != nil {
		return operation{}, err
	}
	total := 0
	reads := make(map[string][]*read, len(p.RequestItems))
	for _, name := range sortedKeys(p.RequestItems) {
		of := p.RequestItems[name]
		if of == nil || len(of.Keys) == 0 {
			return operation{}, validationError("1 validation error detected: Value '[]' at 'requestItems." + name + ".member.keys' failed to satisfy constraint: Member must have length greater than or equal to 1")
		}
		if total += len(of.Keys); total > maxBatchGet {
			return operation{}, validationError("Too many items requested for the BatchGetItem call")
		}
		var err error
		if reads[name], err = of.reads(name); err != nil {
			return operation{}, err
		}
	}
	return operation{run: func() (any, error) { return s.runBatchGet(reads, p.RequestItems, p.capacityParam) }}, nil
}

func checkRequestItems[V any](c *constraints, items map[string]V) {
	c.present(items != nil, "requestItems")
	if items != nil {
		c.length(len(items), 1, maxBatchGet, "'{}'", "requestItems")
	}
}

// reads checks the request for one table.
func (b *batchGetTable) reads(name string) ([]*read, error) {
	legacy := legacyParams{AttributesToGet: b.AttributesToGet}
	shared := placeholders{ExpressionAttributeNames: b.ExpressionAttributeNames}
	if err := legacy.refuse(); err != nil {
		return nil, err
	}
	paths, err := shared.projection(b.ProjectionExpression)
	if err != nil {
		return nil, err
	}
	var out []*read
	for _, k := range b.Keys {
		key, err := k.item()
		if err != nil {
			return nil, err
		}
		out = append(out, &read{table: name, key: key, paths: paths})
	}
	return out, nil
}

type batchGetAnswer struct {
	Responses        map[string][]item
	UnprocessedKeys  map[string]*unprocessed
	ConsumedCapacity []consumedCapacity `json:",omitempty"`
}

// unprocessed is the rest of a request, in the form of a request.
type unprocessed struct {
	Keys                     []item
	ConsistentRead           bool              `json:",omitzero"`
	ProjectionExpression     *string           `json:",omitzero"`
	ExpressionAttributeNames map[string]string `json:",omitempty"`
}

func (s *Server) runBatchGet(reads map[string][]*read, request map[string]*batchGetTable, report capacityParam) (any, error) {
	if err := s.checkReads(reads); err != nil {
		return nil, err
	}
	answer := batchGetAnswer{Responses: map[string][]item{}, UnprocessedKeys: map[string]*unprocessed{}}
	used := make(map[string]Capacity)
	bytes := 0
	for _, name := range sortedKeys(reads) {
		answer.Responses[name] = []item{}
		for i, r := range reads[name] {
			if bytes >= maxBatchBytes {
				answer.UnprocessedKeys[name] = request[name].rest(reads[name][i:])
				break
			}
			it := s.tables[name].get(r.key)
			bytes += it.size()
			used[name] = Capacity{Read: used[name].Read + readUnits(it.size(), request[name].ConsistentRead)}
			if it != nil {
				answer.Responses[name] = append(answer.Responses[name], projected(it, r.paths))
			}
		}
		s.consume(name, used[name])
	}
	answer.ConsumedCapacity = report.reports(used, false)
	return answer, nil
}

func (b *batchGetTable) rest(reads []*read) *unprocessed {
	u := &unprocessed{ConsistentRead: b.ConsistentRead, ProjectionExpression: b.ProjectionExpression, ExpressionAttributeNames: b.ExpressionAttributeNames}
	for _, r := range reads {
		u.Keys = append(u.Keys, r.key)
	}
	return u
}

var errDuplicateKeys = validationError("Provided list of item keys contains duplicates")

func (s *Server) checkReads(reads map[string][]*read) error {
	for _, name := range sortedKeys(reads) {
		t, err := s.table(name)
		if err != nil {
			return err
		}
		seen := make(map[string]bool)
		for _, r := range reads[name] {
			if err := r.check(t); err != nil {
				return err
			}
			id := t.identity(r.key)
			if seen[id] {
				return errDuplicateKeys
			}
			seen[id] = true
		}
	}
	return nil
}

// batchWrite is one request of BatchWriteItem, exactly one of the two.
type batchWrite struct {
	PutRequest    *struct{ Item *wireItem }
	DeleteRequest *struct{ Key *wireItem }
}

// write checks the request as far as it can be without the table.
func (b *batchWrite) write(table string) (*write, error) {
	p := writeParams{TableName: &table}
	verb := verbPut
	switch {
	case (b.PutRequest == nil) == (b.DeleteRequest == nil):
		return nil, validationError("Supplied WriteRequest must contain exactly one of PutRequest and DeleteRequest")
	case b.PutRequest != nil:
		p.Item = b.PutRequest.Item
	default:
		verb, p.Key = verbDelete, b.DeleteRequest.Key
	}
	var c constraints
	name := p.check(&c, verb)
	if err := c.err(); err != nil {
		return nil, err
	}
	return p.write(verb, name)
}

func (s *Server) batchWriteItem(body []byte) (operation, error) {
	var p struct {
		capacityParam

		RequestItems                map[string][]batchWrite
		ReturnItemCollectionMetrics string
	}
	if err := decode(body, &p); err != nil {
		return operation{}, err
	}
	var c constraints
	p.check(&c)
	c.enum(p.ReturnItemCollectionMetrics, "returnItemCollectionMetrics", "SIZE", "NONE")
	checkRequestItems(&c, p.RequestItems)
	total := 0
	for _, name := range sortedKeys(p.RequestItems) {
		n := len(p.RequestItems[name])
		total += n
		c.require(n >= 1 && n <= maxBatchWrite, quoted("{"+name+"=[…]}"), "requestItems",
			"Map value must satisfy constraint: [Member must have length less than or equal to 25, Member must have length greater than or equal to 1]")
	}
	if err := c.err(); err != nil {
		return operation{}, err
	}
	if total > maxBatchWrite {
		return operation{}, validationError("Too many items requested for the BatchWriteItem call")
	}
	var writes []*write
	for _, name := range sortedKeys(p.RequestItems) {
		for _, b := range p.RequestItems[name] {
			w, err := b.write(name)
			if err != nil {
				return operation{}, err
			}
			writes = append(writes, w)
		}
	}
	return operation{run: func() (any, error) { return s.runBatchWrite(writes, p.capacityParam) }}, nil
}

type batchWriteAnswer struct {
	UnprocessedItems map[string][]writeRequest
	ConsumedCapacity []consumedCapacity `json:",omitempty"`
}

// writeRequest is a batchWrite in an answer.
type writeRequest struct {
	PutRequest    *putRequest    `json:",omitzero"`
	DeleteRequest *deleteRequest `json:",omitzero"`
}
type putRequest struct{ Item item }
type deleteRequest struct{ Key item }

func (w *write) request() writeRequest {
	if w.verb == verbPut {
		return writeRequest{PutRequest: &putRequest{w.item}}
	}
	return writeRequest{DeleteRequest: &deleteRequest{w.key}}
}

func (s *Server) runBatchWrite(writes []*write, report capacityParam) (any, error) {
	ids, err := s.checkWrites(writes, errDuplicateKeys)
	if err != nil {
		if rejected, ok := errors.AsType[*actionError](err); ok {
			err = rejected.err
		}
		return nil, err
	}
	answer := batchWriteAnswer{UnprocessedItems: map[string][]writeRequest{}}
	used := make(map[string]Capacity)
	for i, w := range writes {
		if s.inFlight[ids[i]] {
			answer.UnprocessedItems[w.table] = append(answer.UnprocessedItems[w.table], w.request())
			continue
		}
		t := s.tables[w.table]
		result, err := w.evaluate(t)
		if err != nil {
			return nil, err
		}
		t.store(w.target(t), result)
		used[w.table] = Capacity{Write: used[w.table].Write + result.writeUnits()}
	}
	for name, c := range used {
		s.consume(name, c)
	}
	answer.ConsumedCapacity = report.reports(used, false)
	return answer, nil
}
