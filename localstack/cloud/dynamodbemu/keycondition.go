package dynamodbemu

import "strings"

// A keyTerm is a condition on one key attribute, the attribute on the left.
type keyTerm struct {
	attribute string
	operator  string // a comparator, BETWEEN or begins_with
	operands  []value
}

// keyTerms takes a KeyConditionExpression apart. It allows only conditions on
// top-level attributes joined by AND, one for each attribute.
func keyTerms(n *node) ([]keyTerm, error) {
	if n.op == opAnd {
		left, err := keyTerms(n.args[0])
		if err != nil {
			return nil, err
		}
		right, err := keyTerms(n.args[1])
		if err != nil {
			return nil, err
		}
		for _, l := range left {
			for _, r := range right {
				if l.attribute == r.attribute {
					return nil, validationError("KeyConditionExpressions must only contain one condition per key")
				}
			}
		}
		return append(left, right...), nil
	}
	term, err := newKeyTerm(n)
	return []keyTerm{term}, err
}

func newKeyTerm(n *node) (keyTerm, error) {
	term := keyTerm{operator: n.name}
	if name := forbiddenInKeyCondition(n); name != "" {
		return term, validationError("Invalid operator used in KeyConditionExpression: " + name)
	}
	attributeAt := -1
	for i, a := range n.args {
		switch {
		case a.op == opSize:
			return term, validationError("KeyConditionExpressions cannot contain nested operations")
		case a.op == opValue:
			term.operands = append(term.operands, *a.literal)
		case attributeAt >= 0:
			return term, validationError("Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition")
		case len(a.path) > 1:
			return term, validationError("KeyConditionExpressions cannot have conditions on nested attributes")
		default:
			attributeAt = i
			term.attribute = a.path[0].name
		}
	}
	switch {
	case attributeAt < 0:
		return term, validationError("Invalid condition in KeyConditionExpression: No key attribute specified")
	case attributeAt > 0 && n.op != opCompare:
		return term, validationErrorf("Invalid condition in KeyConditionExpression: %s operator must have the key attribute as its first operand", n.name)
	case attributeAt > 0:
		term.operator = mirrored(n.name)
	}
	return term, nil
}

func forbiddenInKeyCondition(n *node) string {
	switch {
	case n.op == opOr:
		return "OR"
	case n.op == opNot:
		return "NOT"
	case n.op == opIn, n.op == opCompare && n.name == "<>", n.op == opFunction && n.name != fnBeginsWith:
		return n.name
	}
	return ""
}

// mirrored is the comparator for exchanged operands.
func mirrored(comparator string) string {
	return strings.NewReplacer("<", ">", ">", "<").Replace(comparator)
}

// holds evaluates the term on an item.
func (k *keyTerm) holds(it item) bool {
	v := it[k.attribute]
	switch k.operator {
	case "BETWEEN":
		return v.compare(k.operands[0]) >= 0 && v.compare(k.operands[1]) <= 0
	case fnBeginsWith:
		return strings.HasPrefix(v.text, k.operands[0].text)
	}
	return compareHolds(k.operator, v, k.operands[0], true)
}

// A keyRange is what a query covers: a partition and a condition on the sort key.
type keyRange struct {
	partition value
	sort      *keyTerm
}

// keyRange fits the terms of a key condition to the table's key schema.
func (t *table) keyRange(terms []keyTerm) (keyRange, error) {
	var r keyRange
	for _, a := range t.keyAttributes() {
		term := termFor(terms, a.name)
		isPartition := a.name == t.partition.name
		switch {
		case term == nil && (isPartition || len(terms) > 1):
			return r, validationError("Query condition missed key schema element: " + a.name)
		case term == nil:
			continue
		case term.hasOtherType(a.kind):
			return r, validationError("One or more parameter values were invalid: Condition parameter type does not match schema type")
		case isPartition && term.operator != "=":
			return r, validationError("Query key condition not supported")
		case !isPartition:
			r.sort = term
			continue
		}
		r.partition = term.operands[0]
		if r.partition.kind != kindN && r.partition.text == "" {
			return r, errEmptyKey(a)
		}
	}
	if len(terms) > len(t.keyAttributes()) {
		return r, validationError("Query key condition not supported")
	}
	return r, nil
}

func termFor(terms []keyTerm, attribute string) *keyTerm {
	for i := range terms {
		if terms[i].attribute == attribute {
			return &terms[i]
		}
	}
	return nil
}

func (k *keyTerm) hasOtherType(want kind) bool {
	for _, v := range k.operands {
		if v.kind != want {
			return true
		}
	}
	return false
}
