package dynamodbemu

import (
	"errors"
	"iter"
	"math/bits"
	"slices"
)

// maxPageBytes is how much Query and Scan read before they end a page.
const maxPageBytes = 1 << 20

// listParams are the parameters that Query and Scan have in common.
type listParams struct {
	placeholders
	capacityParam
	legacyParams

	TableName            *string
	IndexName            *string
	Select               string
	Limit                *int64
	ConsistentRead       bool
	ExclusiveStartKey    wireItem
	FilterExpression     *string
	ProjectionExpression *string
}

// A listing is a checked Query or Scan.
type listing struct {
	table      string
	limit      int64 // 0 for none
	countOnly  bool
	consistent bool
	start      item // ExclusiveStartKey, nil for the beginning
	filter     *node
	projection []path
	report     func(table string, units float64) *consumedCapacity
}

type listAnswer struct {
	Items            *[]item           `json:",omitzero"`
	Count            int64             //
	ScannedCount     int64             //
	LastEvaluatedKey item              `json:",omitempty"`
	ConsumedCapacity *consumedCapacity `json:",omitzero"`
}

func (p *listParams) check(c *constraints) (string, error) {
	c.enum(p.Select, "select", "SPECIFIC_ATTRIBUTES", "COUNT", "ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES")
	p.capacityParam.check(c)
	c.atLeast(p.Limit, 1, "limit")
	name := c.tableName(p.TableName, 1)
	return name, errors.Join(c.err(), p.refuse(), p.checkSelect())
}

func (p *listParams) checkSelect() error {
	projecting := p.ProjectionExpression != nil
	switch {
	case p.Select == "ALL_PROJECTED_ATTRIBUTES":
		return validationError("One or more parameter values were invalid: Select type ALL_PROJECTED_ATTRIBUTES is supported only when querying an index")
	case p.Select == "COUNT" && projecting:
		return validationError("Cannot specify the ProjectionExpression when choosing to get only the Count")
	case p.Select == "ALL_ATTRIBUTES" && projecting:
		return validationError("Cannot specify the ProjectionExpression when choosing to get ALL_ATTRIBUTES")
	case p.Select == "SPECIFIC_ATTRIBUTES" && !projecting:
		return validationError("Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES")
	case p.IndexName != nil:
		return validationError("The table does not have the specified index: " + *p.IndexName)
	}
	return nil
}

// listing parses the expressions but the key condition, which the caller has
// already parsed with the same substitution.
func (p *listParams) listing(table string, s *substitution) (*listing, error) {
	l := &listing{table: table, countOnly: p.Select == "COUNT", consistent: p.ConsistentRead, report: p.report}
	if p.Limit != nil {
		l.limit = *p.Limit
	}
	var err error
	if l.filter, err = parseOptional("FilterExpression", p.FilterExpression, s, (*parser).condition); err != nil {
		return nil, err
	}
	if l.projection, err = parseOptional(projectionExpression, p.ProjectionExpression, s, (*parser).projection); err != nil {
		return nil, err
	}
	if err := s.checkAllUsed(); err != nil {
		return nil, err
	}
	if p.ExclusiveStartKey != nil {
		if l.start, err = p.ExclusiveStartKey.item(); err != nil {
			return nil, validationError("The provided starting key is invalid: " + messageOf(err))
		}
	}
	return l, nil
}

// check tests the listing against the table's key schema.
func (l *listing) check(t *table) error {
	if l.start != nil {
		if err := t.checkKey(l.start); err != nil {
			return validationError("The provided starting key is invalid: " + messageOf(err))
		}
	}
	return t.checkPaths(slices.Concat(l.projection, l.filter.allPaths()))
}

// page reads items in order until one of the limits ends it. A page that ends at
// a limit has a LastEvaluatedKey even if no item is left behind it, as on AWS.
func (s *Server) page(t *table, l *listing, items iter.Seq[item]) listAnswer {
	found := []item{}
	var answer listAnswer
	bytes := 0
	for it := range items {
		answer.ScannedCount++
		bytes += it.size()
		if l.filter == nil || l.filter.holds(it) {
			answer.Count++
			if !l.countOnly {
				found = append(found, projected(it, l.projection))
			}
		}
		if answer.ScannedCount == l.limit || bytes >= maxPageBytes {
			answer.LastEvaluatedKey = t.keyOf(it)
			break
		}
	}
	if !l.countOnly {
		answer.Items = &found
	}
	cost := readUnits(bytes, l.consistent)
	s.consume(l.table, Capacity{Read: cost})
	answer.ConsumedCapacity = l.report(l.table, cost)
	return answer
}

func (s *Server) query(body []byte) (operation, error) {
	var p struct {
		listParams

		KeyConditionExpression *string
		ScanIndexForward       *bool
	}
	if err := decode(body, &p); err != nil {
		return operation{}, err
	}
	var c constraints
	name, err := p.check(&c)
	if err != nil {
		return operation{}, err
	}
	if p.KeyConditionExpression == nil {
		return operation{}, validationError("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
	}
	subst, err := p.substitution(map[string]*string{
		"KeyConditionExpression": p.KeyConditionExpression, "FilterExpression": p.FilterExpression, projectionExpression: p.ProjectionExpression,
	})
	if err != nil {
		return operation{}, err
	}
	condition, err := parseExpression("KeyConditionExpression", *p.KeyConditionExpression, subst, (*parser).condition)
	if err != nil {
		return operation{}, err
	}
	l, err := p.listing(name, subst)
	if err != nil {
		return operation{}, err
	}
	terms, err := keyTerms(condition)
	backward := p.ScanIndexForward != nil && !*p.ScanIndexForward
	return operation{run: func() (any, error) { return s.runQuery(l, terms, backward) }}, err
}

func (s *Server) runQuery(l *listing, terms []keyTerm, backward bool) (any, error) {
	t, err := s.table(l.table)
	if err != nil {
		return nil, err
	}
	r, err := t.keyRange(terms)
	if err != nil {
		return nil, err
	}
	if err := l.check(t); err != nil {
		return nil, err
	}
	for _, p := range l.filter.allPaths() {
		for _, a := range t.keyAttributes() {
			if p[0].name == a.name {
				return nil, validationError("Filter Expression can only contain non-primary key attributes: Primary key attribute: " + a.name)
			}
		}
	}
	if l.start != nil && (!l.start[t.partition.name].equal(r.partition) || (r.sort != nil && !r.sort.holds(l.start))) {
		return nil, validationError("The provided starting key is outside query boundaries based on provided conditions")
	}
	return s.page(t, l, t.inRange(r, l.start, backward)), nil
}

// inRange yields a partition's items that meet the sort condition, behind start.
func (t *table) inRange(r keyRange, start item, backward bool) iter.Seq[item] {
	var items []item
	if p := t.byKey[partitionKey(r.partition)]; p != nil {
		items = p.items
		if start != nil {
			items = t.beyond(p, start, backward)
		}
	}
	return func(yield func(item) bool) {
		for i := range items {
			it := items[i]
			if backward {
				it = items[len(items)-1-i]
			}
			if (r.sort == nil || r.sort.holds(it)) && !yield(it) {
				return
			}
		}
	}
}

// beyond returns the items of a partition that come after start, or before it.
func (t *table) beyond(p *partition, start item, backward bool) []item {
	i, found := t.search(p, t.position(start).sortKey)
	if backward {
		return p.items[:i]
	}
	if found {
		i++
	}
	return p.items[i:]
}

// maxSegments is the most segments that a scan can be cut into.
const maxSegments = 1_000_000

func (s *Server) scan(body []byte) (operation, error) {
	var p struct {
		listParams

		Segment       *int64
		TotalSegments *int64
	}
	if err := decode(body, &p); err != nil {
		return operation{}, err
	}
	var c constraints
	c.atLeast(p.Segment, 0, "segment")
	c.atLeast(p.TotalSegments, 1, "totalSegments")
	name, err := p.check(&c)
	if err != nil {
		return operation{}, err
	}
	segment, err := newSegment(p.Segment, p.TotalSegments)
	if err != nil {
		return operation{}, err
	}
	subst, err := p.substitution(map[string]*string{"FilterExpression": p.FilterExpression, projectionExpression: p.ProjectionExpression})
	if err != nil {
		return operation{}, err
	}
	l, err := p.listing(name, subst)
	return operation{run: func() (any, error) { return s.runScan(l, segment) }}, err
}

// A segment is one of several equal parts of a table's hash space.
type segment struct{ index, total uint64 }

func newSegment(index, total *int64) (segment, error) {
	switch {
	case index == nil && total == nil:
		return segment{0, 1}, nil
	case total == nil:
		return segment{}, validationError("The TotalSegments parameter is required but was not present in the request when Segment parameter is present")
	case index == nil:
		return segment{}, validationError("The Segment parameter is required but was not present in the request when parameter TotalSegments is present")
	case *index >= *total:
		return segment{}, validationErrorf("The Segment parameter is zero-based and must be less than parameter TotalSegments: Segment: %d is not less than TotalSegments: %d", *index, *total)
	case *total > maxSegments:
		return segment{}, validationErrorf("1 validation error detected: Value '%d' at 'totalSegments' failed to satisfy constraint: Member must have value less than or equal to %d", *total, maxSegments)
	}
	return segment{uint64(*index), uint64(*total)}, nil
}

func (sg segment) has(hash uint64) bool {
	part, _ := bits.Mul64(hash, sg.total)
	return part == sg.index
}

func (s *Server) runScan(l *listing, sg segment) (any, error) {
	t, err := s.table(l.table)
	if err != nil {
		return nil, err
	}
	if err := l.check(t); err != nil {
		return nil, err
	}
	var start *position
	if l.start != nil {
		at := t.position(l.start)
		if start = &at; !sg.has(at.hash) {
			return nil, validationErrorf("The provided starting key is invalid: Invalid ExclusiveStartKey. Please use ExclusiveStartKey with correct Segment. TotalSegments: %d Segment: %d", sg.total, sg.index)
		}
	}
	return s.page(t, l, func(yield func(item) bool) {
		for it := range t.after(start) {
			if sg.has(hashOf(partitionKey(it[t.partition.name]))) && !yield(it) {
				return
			}
		}
	}), nil
}
