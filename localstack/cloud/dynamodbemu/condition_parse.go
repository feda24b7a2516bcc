package dynamodbemu

import (
	"slices"
	"strings"
)

// An operator says what a node of a condition is.
type operator int

const (
	opPath     operator = iota // path
	opValue                    // literal
	opSize                     // size(args[0])
	opFunction                 // name(args…), a condition
	opCompare                  // args[0] name args[1]
	opBetween                  // args[0] BETWEEN args[1] AND args[2]
	opIn                       // args[0] IN (args[1:]…)
	opAnd
	opOr
	opNot
)

// A node is a condition or an operand of one.
type node struct {
	op      operator
	name    string // function or comparator
	path    path
	literal *value // nil when the placeholder is not defined
	args    []*node
	parens  bool // written in parentheses
}

func (n *node) isOperand() bool { return n.op == opPath || n.op == opValue || n.op == opSize }

// isSimple tells whether n may stand as an operand as far as syntax goes; that a
// function other than size may not is found later.
func (n *node) isSimple() bool { return n.isOperand() || n.op == opFunction }

// literalKind is the type of an operand whose type is known from the text: a
// value's, or a number for size().
func (n *node) literalKind() kind {
	switch {
	case n.op == opValue && n.literal != nil:
		return n.literal.kind
	case n.op == opSize:
		return kindN
	}
	return ""
}

// maxInOperands is the number of values IN takes.
const maxInOperands = 100

// condition reads a whole condition, filter or key condition.
func (p *parser) condition() (*node, error) { return p.asCondition(p.or()) }

// asCondition requires that n is a condition, not a bare operand.
func (p *parser) asCondition(n *node, err error) (*node, error) {
	switch {
	case err != nil:
		return nil, err
	case n.op == opSize:
		p.misused(n)
	case n.isOperand():
		return nil, p.unexpected()
	}
	return n, nil
}

func (p *parser) misused(n *node) {
	p.faultf(faultMisusedFunction, "The function is not allowed to be used this way in an expression; function: %s", n.name)
}

// or, and, not and comparison return a bare operand where that is all there is,
// so that a parenthesis can hold either.
func (p *parser) or() (*node, error) { return p.binary("OR", opOr, (*parser).and) }

func (p *parser) and() (*node, error) { return p.binary("AND", opAnd, (*parser).not) }

func (p *parser) binary(keyword string, op operator, operand func(*parser) (*node, error)) (*node, error) {
	n, err := operand(p)
	if err != nil {
		return nil, err
	}
	for p.peek().is(keyword) {
		if n, err = p.asCondition(n, nil); err != nil {
			return nil, err
		}
		p.next()
		p.countOperator()
		right, err := p.asCondition(operand(p))
		if err != nil {
			return nil, err
		}
		n = &node{op: op, args: []*node{n, right}}
	}
	return n, nil
}

func (p *parser) not() (*node, error) {
	if !p.accept("NOT") {
		return p.comparison()
	}
	p.countOperator()
	n, err := p.asCondition(p.not())
	if err != nil {
		return nil, err
	}
	return &node{op: opNot, args: []*node{n}}, nil
}

var comparators = []string{"=", "<>", "<", "<=", ">", ">="}

func (p *parser) comparison() (*node, error) {
	left, err := p.term()
	if err != nil {
		return nil, err
	}
	t := p.peek()
	switch {
	case !left.isSimple():
		return left, nil
	case t.is("BETWEEN"):
		return p.between(left)
	case t.is("IN"):
		return p.in(left)
	}
	for _, c := range comparators {
		if t.is(c) {
			return p.compare(left, c)
		}
	}
	return left, nil
}

func (p *parser) compare(left *node, comparator string) (*node, error) {
	p.next()
	right, err := p.operand()
	if err != nil {
		return nil, err
	}
	n := &node{op: opCompare, name: comparator, args: []*node{left, right}}
	p.checkOperands(n)
	if comparator != "=" && comparator != "<>" {
		p.checkOrdered(comparator, n.args)
	}
	return n, nil
}

func (p *parser) between(left *node) (*node, error) {
	p.next()
	lower, err := p.operand()
	if err != nil {
		return nil, err
	}
	if err := p.expect("AND"); err != nil {
		return nil, err
	}
	upper, err := p.operand()
	if err != nil {
		return nil, err
	}
	n := &node{op: opBetween, name: "BETWEEN", args: []*node{left, lower, upper}}
	p.checkOperands(n)
	p.checkOrdered("BETWEEN", n.args)
	p.checkBounds(lower, upper)
	return n, nil
}

func (p *parser) in(left *node) (*node, error) {
	p.next()
	list, err := p.arguments()
	if err != nil {
		return nil, err
	}
	n := &node{op: opIn, name: "IN", args: append([]*node{left}, list...)}
	p.checkOperands(n)
	if len(list) > maxInOperands {
		p.faultf(faultOperandCount, "Incorrect number of operands for operator or function; operator or function: IN, number of operands: %d", len(n.args))
	}
	return n, nil
}

// operand reads what may stand beside a comparator.
func (p *parser) operand() (*node, error) {
	at := p.pos
	n, err := p.term()
	if err != nil {
		return nil, err
	}
	if !n.isSimple() {
		p.pos = at
		return nil, p.unexpected()
	}
	return n, nil
}

// term reads an operand, a function or anything in parentheses.
func (p *parser) term() (*node, error) {
	t := p.peek()
	switch {
	case t.is("("):
		return p.parenthesis()
	case t.kind == tokenValue:
		return &node{op: opValue, literal: p.valuePlaceholder()}, nil
	case t.kind == tokenIdentifier && p.tokens[p.pos+1].is("("):
		return p.function()
	}
	path, err := p.path()
	if err != nil {
		return nil, err
	}
	return &node{op: opPath, path: path}, nil
}

func (p *parser) parenthesis() (*node, error) {
	p.next()
	n, err := p.or()
	if err != nil {
		return nil, err
	}
	if err := p.expect(")"); err != nil {
		return nil, err
	}
	if n.parens {
		p.faultf(faultParentheses, "The expression has redundant parentheses;")
	}
	n.parens = true
	return n, nil
}

// arguments reads a parenthesized list of operands.
func (p *parser) arguments() ([]*node, error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}
	var args []*node
	for {
		n, err := p.operand()
		if err != nil {
			return nil, err
		}
		args = append(args, n)
		if p.accept(")") {
			return args, nil
		}
		if err := p.expect(","); err != nil {
			return nil, err
		}
	}
}

// The functions of conditions. Their names are case-sensitive.
const (
	fnAttributeExists    = "attribute_exists"
	fnAttributeNotExists = "attribute_not_exists"
	fnAttributeType      = "attribute_type"
	fnBeginsWith         = "begins_with"
	fnContains           = "contains"
	fnSize               = "size"
)

// conditionFunctions are the numbers of their operands.
var conditionFunctions = map[string]int{
	fnAttributeExists: 1, fnAttributeNotExists: 1, fnAttributeType: 2, fnBeginsWith: 2, fnContains: 2, fnSize: 1,
}

func (p *parser) function() (*node, error) {
	name := p.next().text
	args, err := p.arguments()
	if err != nil {
		return nil, err
	}
	n := &node{op: opFunction, name: name, args: args}
	if name == fnSize {
		n.op = opSize
	}
	p.countOperator()
	want, known := conditionFunctions[name]
	switch {
	case !known:
		p.faultf(faultUnknownFunction, "Invalid function name; function: %s", name)
	case len(args) != want:
		p.faultf(faultOperandCount, "Incorrect number of operands for operator or function; operator or function: %s, number of operands: %d", name, len(args))
	default:
		p.checkMisused(n)
		p.checkFunction(n)
	}
	return n, nil
}

// checkOperands notes what is wrong with the operands of a comparison whatever
// the comparator.
func (p *parser) checkOperands(n *node) {
	p.countOperator()
	p.checkMisused(n)
	p.checkDistinct(n)
}

// checkMisused notes functions that give no value but stand where one is wanted.
func (p *parser) checkMisused(n *node) {
	for _, a := range n.args {
		if a.op == opFunction {
			p.misused(a)
		}
	}
}

func (p *parser) checkDistinct(n *node) {
	if len(n.args) != 2 || n.args[0].op != opPath || n.args[1].op != opPath {
		return
	}
	if a, b := n.args[0].path.String(), n.args[1].path.String(); a == b {
		p.faultf(faultDistinct, "The first operand must be distinct from the remaining operands for this operator or function; operator: %s, first operand: %s", n.name, a)
	}
}

func (p *parser) checkOrdered(operator string, args []*node) {
	for _, a := range args {
		if k := a.literalKind(); k != "" && !k.ordered() {
			p.faultf(faultOperandType, "Incorrect operand type for operator or function; operator: %s, operand type: %s", operator, k)
		}
	}
}

func (p *parser) checkBounds(lower, upper *node) {
	if lower.op != opValue || upper.op != opValue || lower.literal == nil || upper.literal == nil {
		return
	}
	l, u := *lower.literal, *upper.literal
	var problem string
	switch {
	case l.kind != u.kind:
		problem = "The BETWEEN operator requires same data type for lower and upper bounds"
	case l.kind.ordered() && l.compare(u) > 0:
		problem = "The BETWEEN operator requires upper bound to be greater than or equal to lower bound"
	default:
		return
	}
	p.faultf(faultOperandType, "%s; lower bound operand: AttributeValue: {%s:%s}, upper bound operand: AttributeValue: {%s:%s}",
		problem, l.kind, l.describe(), u.kind, u.describe())
}

// describe writes a scalar for an error text.
func (v value) describe() string {
	if v.kind == kindN {
		return v.number.String()
	}
	return v.text
}

func (p *parser) checkFunction(n *node) {
	p.checkDistinct(n)
	switch n.name {
	case fnAttributeExists, fnAttributeNotExists:
		p.requirePath(n)
	case fnAttributeType:
		p.requirePath(n)
		p.checkTypeName(n.args[1])
	case fnBeginsWith:
		for _, a := range n.args {
			if k := a.literalKind(); k != "" && k != kindS && k != kindB {
				p.wrongType(n.name, k)
			}
		}
	case fnSize:
		if k := n.args[0].literalKind(); k == kindN || k == kindBool || k == kindNull {
			p.wrongType(n.name, k)
		}
	}
}

func (p *parser) requirePath(n *node) {
	if n.args[0].op != opPath {
		p.faultf(faultOperandType, "Operator or function requires a document path; operator or function: %s", n.name)
	}
}

func (p *parser) wrongType(function string, k kind) {
	p.faultf(faultOperandType, "Incorrect operand type for operator or function; operator or function: %s, operand type: %s", function, k)
}

// typeNames are the types in the order of DynamoDB's errors.
var typeNames = []string{"B", "NULL", "SS", "BOOL", "L", "BS", "N", "NS", "S", "M"}

func (p *parser) checkTypeName(arg *node) {
	switch k := arg.literalKind(); {
	case arg.op == opValue && arg.literal == nil:
		// An undefined placeholder is reported as such.
	case k != kindS:
		if k == "" {
			k = "{NS,SS,L,BS,N,M,B,BOOL,NULL,S}"
		}
		p.wrongType(fnAttributeType, k)
	case !slices.Contains(typeNames, arg.literal.text):
		p.faultf(faultOperandType, "Invalid attribute type name found; type: %s, valid types: {%s}", arg.literal.text, strings.Join(typeNames, ","))
	}
}
