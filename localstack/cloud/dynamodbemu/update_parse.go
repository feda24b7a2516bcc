package dynamodbemu

import "strings"

// update reads an UpdateExpression: each of the four sections at most once, in
// any order.
func (p *parser) update() (*update, error) {
	u := &update{}
	seen := make(map[string]bool)
	for first := true; first || p.peek().kind != tokenEOF; first = false {
		section, action := p.section()
		if action == nil {
			return nil, p.unexpected()
		}
		p.next()
		if seen[section] {
			p.faultf(faultSection, "The %q section can only be used once in an update expression;", section)
		}
		seen[section] = true
		for more := true; more; more = p.accept(",") {
			a, err := action(p)
			if err != nil {
				return nil, err
			}
			u.actions = append(u.actions, a)
		}
	}
	p.checkOverlaps(u.paths())
	return u, nil
}

func (p *parser) section() (string, func(*parser) (updateAction, error)) {
	if p.peek().kind != tokenIdentifier {
		return "", nil
	}
	section := strings.ToUpper(p.peek().text)
	switch section {
	case "SET":
		return section, (*parser).setAction
	case "REMOVE":
		return section, (*parser).removeAction
	case "ADD":
		return section, (*parser).addAction
	case "DELETE":
		return section, (*parser).deleteAction
	}
	return "", nil
}

func (p *parser) setAction() (updateAction, error) {
	target, err := p.path()
	if err != nil {
		return updateAction{}, err
	}
	if err := p.expect("="); err != nil {
		return updateAction{}, err
	}
	p.countOperator()
	o, err := p.setValue()
	return updateAction{verb: updateSet, path: target, operand: o}, err
}

func (p *parser) removeAction() (updateAction, error) {
	target, err := p.path()
	return updateAction{verb: updateRemove, path: target}, err
}

func (p *parser) addAction() (updateAction, error)    { return p.setChange("ADD", updateAdd) }
func (p *parser) deleteAction() (updateAction, error) { return p.setChange("DELETE", updateDelete) }

// longTypeNames are the types as the errors of ADD and DELETE name them.
var longTypeNames = map[kind]string{
	kindS: "STRING", kindN: "NUMBER", kindB: "BINARY", kindNull: "NULL", kindBool: "BOOLEAN", kindL: "LIST", kindM: "MAP",
}

// setChange reads a path and the literal to add to, or take away from, what is there.
func (p *parser) setChange(section string, verb updateVerb) (updateAction, error) {
	target, err := p.path()
	if err != nil {
		return updateAction{}, err
	}
	if p.peek().kind != tokenValue {
		return updateAction{}, p.unexpected()
	}
	p.countOperator()
	literal := p.valuePlaceholder()
	if literal != nil && literal.kind.memberKind() == "" && (section != "ADD" || literal.kind != kindN) {
		p.faultf(faultSetOperand, "Incorrect operand type for operator or function; operator: %s, operand type: %s", section, longTypeNames[literal.kind])
	}
	return updateAction{verb: verb, path: target, operand: &operand{kind: operandLiteral, literal: literal}}, nil
}

// setValue reads an operand, or the sum or difference of exactly two: DynamoDB
// has no a + b + c, with or without parentheses.
func (p *parser) setValue() (*operand, error) {
	left, err := p.setTerm()
	if err != nil {
		return nil, err
	}
	operator := p.peek()
	if !operator.is("+") && !operator.is("-") {
		return left, nil
	}
	if left.isArithmetic() {
		return nil, p.unexpected()
	}
	p.next()
	right, err := p.setOperand()
	if err != nil {
		return nil, err
	}
	p.countOperator()
	o := &operand{kind: operandPlus, args: []*operand{left, right}}
	if operator.is("-") {
		o.kind = operandMinus
	}
	p.checkOperandKinds(operator.text, kindN, o.args)
	return o, nil
}

func (o *operand) isArithmetic() bool { return o.kind == operandPlus || o.kind == operandMinus }

func (p *parser) checkOperandKinds(function string, want kind, args []*operand) {
	for _, a := range args {
		if k := a.literalKind(); k != "" && k != want {
			p.wrongType(function, k)
		}
	}
}

// setOperand reads what may stand beside an operator or in a function.
func (p *parser) setOperand() (*operand, error) {
	at := p.pos
	o, err := p.setTerm()
	if err == nil && o.isArithmetic() {
		p.pos = at
		return nil, p.unexpected()
	}
	return o, err
}

// setTerm reads an operand, or anything in parentheses.
func (p *parser) setTerm() (*operand, error) {
	t := p.peek()
	switch {
	case p.accept("("):
		return p.setParenthesis()
	case t.kind == tokenValue:
		return &operand{kind: operandLiteral, literal: p.valuePlaceholder()}, nil
	case t.kind == tokenIdentifier && p.tokens[p.pos+1].is("("):
		return p.setFunction()
	}
	path, err := p.path()
	return &operand{kind: operandPath, path: path}, err
}

func (p *parser) setParenthesis() (*operand, error) {
	if p.peek().is("(") {
		p.faultf(faultParentheses, "The expression has redundant parentheses;")
	}
	o, err := p.setValue()
	if err != nil {
		return nil, err
	}
	return o, p.expect(")")
}

// setFunction reads if_not_exists(path, operand) or list_append(list, list).
func (p *parser) setFunction() (*operand, error) {
	name := p.next().text
	p.next()
	var args []*operand
	for more := true; more; more = p.accept(",") {
		a, err := p.setOperand()
		if err != nil {
			return nil, err
		}
		args = append(args, a)
	}
	if err := p.expect(")"); err != nil {
		return nil, err
	}
	p.countOperator()
	return p.newSetFunction(name, args), nil
}

func (p *parser) newSetFunction(name string, args []*operand) *operand {
	o := &operand{args: args}
	switch name {
	case "if_not_exists":
		o.kind = operandIfNotExists
	case "list_append":
		o.kind = operandListAppend
	default:
		p.faultf(faultUnknownSetFunction, "Invalid function name; function: %s", name)
		return o
	}
	switch {
	case len(args) != 2:
		p.faultf(faultOperandType, "Incorrect number of operands for operator or function; operator or function: %s, number of operands: %d", name, len(args))
	case o.kind == operandListAppend:
		p.checkOperandKinds(name, kindL, args)
	case args[0].kind != operandPath:
		p.faultf(faultOperandType, "Operator or function requires a document path; operator or function: %s", name)
	}
	return o
}
