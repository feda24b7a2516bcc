package dynamodbemu

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A pathElement is a name in a map or, where isIndex, a place in a list.
type pathElement struct {
	name    string
	index   int
	isIndex bool
}

// A path leads to a value: at least one element, the first of them the name of
// a top-level attribute. A dot within an element's name does not separate.
type path []pathElement

func (p path) String() string {
	parts := make([]string, len(p))
	for i, e := range p {
		parts[i] = e.name
		if e.isIndex {
			parts[i] = fmt.Sprintf("[%d]", e.index)
		}
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// find returns the value that p leads to in it, if there is one.
func (p path) find(it item) (value, bool) {
	current, ok := it[p[0].name]
	for _, e := range p[1:] {
		switch {
		case !ok:
			return value{}, false
		case e.isIndex:
			ok = current.kind == kindL && e.index < len(current.list)
			if ok {
				current = current.list[e.index]
			}
		case current.kind == kindM:
			current, ok = current.fields[e.name]
		default:
			ok = false
		}
	}
	return current, ok
}

// A substitution holds the placeholders of one request, which all its
// expressions share, and remembers which were used.
type substitution struct {
	names      map[string]string
	values     map[string]value
	usedNames  map[string]bool
	usedValues map[string]bool
}

// newSubstitution checks the two maps of placeholders. nil maps mean that the
// request has none; empty ones are refused.
func newSubstitution(names map[string]string, values wireItem) (*substitution, error) {
	s := &substitution{names: names, values: make(map[string]value, len(values)), usedNames: map[string]bool{}, usedValues: map[string]bool{}}
	if names != nil && len(names) == 0 {
		return nil, validationError("ExpressionAttributeNames must not be empty")
	}
	for _, key := range sortedKeys(names) {
		if err := checkPlaceholder("ExpressionAttributeNames", key, '#'); err != nil {
			return nil, err
		}
		if names[key] == "" {
			return nil, validationErrorf("ExpressionAttributeNames contains invalid value: Empty attribute name for key %s", key)
		}
	}
	if values != nil && len(values) == 0 {
		return nil, validationError("ExpressionAttributeValues must not be empty")
	}
	for _, key := range sortedKeys(values) {
		if err := checkPlaceholder("ExpressionAttributeValues", key, ':'); err != nil {
			return nil, err
		}
		v, err := values[key].value()
		if err != nil {
			return nil, validationErrorf("ExpressionAttributeValues contains invalid value: %s for key %s", messageOf(err), key)
		}
		s.values[key] = v
	}
	return s, nil
}

// maxPlaceholderBytes is the longest placeholder accepted, its first character included.
const maxPlaceholderBytes = 255

func checkPlaceholder(parameter, key string, first byte) error {
	if len(key) > maxPlaceholderBytes {
		return validationErrorf("%s contains invalid key: The expression attribute map contains a key that is too long", parameter)
	}
	if len(key) < 2 || key[0] != first || wordEnd(key, 1) != len(key) {
		return validationErrorf("%s contains invalid key: Syntax error; key: %q", parameter, key)
	}
	return nil
}

// checkAllUsed refuses placeholders that no expression mentioned.
func (s *substitution) checkAllUsed() error {
	if unused := missingFrom(s.usedNames, sortedKeys(s.names)); unused != nil {
		return validationErrorf("Value provided in ExpressionAttributeNames unused in expressions: keys: {%s}", strings.Join(unused, ", "))
	}
	if unused := missingFrom(s.usedValues, sortedKeys(s.values)); unused != nil {
		return validationErrorf("Value provided in ExpressionAttributeValues unused in expressions: keys: {%s}", strings.Join(unused, ", "))
	}
	return nil
}

func missingFrom(used map[string]bool, keys []string) (unused []string) {
	for _, k := range keys {
		if !used[k] {
			unused = append(unused, k)
		}
	}
	return unused
}

func messageOf(err error) string {
	if api, ok := errors.AsType[*apiError](err); ok {
		return api.message
	}
	return err.Error()
}

// A faultClass groups the things that can be wrong with an expression whose
// syntax is right. DynamoDB reports one fault, of the first class that has any.
type faultClass int

const (
	faultParentheses faultClass = iota
	faultUnknownFunction
	faultMisusedFunction
	faultReserved
	faultUnknownSetFunction
	faultSection
	faultPlaceholder
	faultOverlap
	faultPathConflict
	faultSetOperand
	faultOperandCount
	faultDistinct
	faultOperandType
	faultTooLarge
	faultClasses
)

// A parser reads one expression. A syntax error ends it; other faults are noted
// and the reading goes on, since which fault is reported does not depend on
// which comes first in the text.
type parser struct {
	text      string
	tokens    []token
	pos       int
	subst     *substitution
	faults    [faultClasses]string
	operators int
}

// maxOperators is the number of operators and functions in one expression.
const maxOperators = 300

// parseExpression runs a grammar over text; parameter is the name it has in the
// request and in errors.
func parseExpression[T any](parameter, text string, subst *substitution, grammar func(*parser) (T, error)) (T, error) {
	result, err := parseText(text, subst, grammar)
	if err != nil {
		var none T
		return none, validationErrorf("Invalid %s: %s", parameter, err)
	}
	return result, nil
}

func parseText[T any](text string, subst *substitution, grammar func(*parser) (T, error)) (result T, err error) {
	switch {
	case text == "":
		return result, errors.New("The expression can not be empty;") //nolint:staticcheck // DynamoDB's wording
	case len(text) > maxExpressionBytes:
		return result, fmt.Errorf("Expression size has exceeded the maximum allowed size; expression size: %d", len(text)) //nolint:staticcheck // DynamoDB's wording
	}
	tokens, err := tokenize(text)
	if err != nil {
		return result, err
	}
	p := &parser{text: text, tokens: tokens, subst: subst}
	if result, err = grammar(p); err != nil {
		return result, err
	}
	if p.peek().kind != tokenEOF {
		return result, p.unexpected()
	}
	for _, f := range p.faults {
		if f != "" {
			return result, errors.New(f)
		}
	}
	return result, nil
}

func (p *parser) faultf(class faultClass, format string, args ...any) {
	if p.faults[class] == "" {
		p.faults[class] = fmt.Sprintf(format, args...)
	}
}

func (p *parser) countOperator() {
	if p.operators++; p.operators > maxOperators {
		p.faultf(faultTooLarge, "The expression contains more than %d operators and functions;", maxOperators)
	}
}

func (p *parser) peek() token { return p.tokens[p.pos] }

func (p *parser) next() token {
	t := p.tokens[p.pos]
	if t.kind != tokenEOF {
		p.pos++
	}
	return t
}

func (p *parser) accept(text string) bool {
	if p.peek().is(text) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) expect(text string) error {
	if !p.accept(text) {
		return p.unexpected()
	}
	return nil
}

// unexpected is the syntax error at the next token.
func (p *parser) unexpected() error { return syntaxError(p.text, p.tokens, p.pos) }

// path reads a document path.
func (p *parser) path() (path, error) {
	first, err := p.pathName()
	if err != nil {
		return nil, err
	}
	out := path{first}
	for {
		switch {
		case p.accept("."):
			e, err := p.pathName()
			if err != nil {
				return nil, err
			}
			out = append(out, e)
		case p.accept("["):
			t := p.peek()
			index, err := strconv.Atoi(t.text)
			if t.kind != tokenInteger || err != nil {
				return nil, p.unexpected()
			}
			p.next()
			if err := p.expect("]"); err != nil {
				return nil, err
			}
			out = append(out, pathElement{index: index, isIndex: true})
		default:
			return out, nil
		}
	}
}

func (p *parser) pathName() (pathElement, error) {
	t := p.peek()
	switch t.kind {
	case tokenIdentifier:
		if isReserved(t.text) {
			p.faultf(faultReserved, "Attribute name is a reserved keyword; reserved keyword: %s", t.text)
		}
		p.next()
		return pathElement{name: t.text}, nil
	case tokenName:
		p.next()
		name, ok := p.subst.names[t.text]
		if !ok {
			p.faultf(faultPlaceholder, "An expression attribute name used in the document path is not defined; attribute name: %s", t.text)
		}
		p.subst.usedNames[t.text] = true
		return pathElement{name: name}, nil
	default:
		return pathElement{}, p.unexpected()
	}
}

// valuePlaceholder reads a :placeholder; nil means that it is not defined.
func (p *parser) valuePlaceholder() *value {
	t := p.next()
	p.subst.usedValues[t.text] = true
	v, ok := p.subst.values[t.text]
	if !ok {
		p.faultf(faultPlaceholder, "An expression attribute value used in expression is not defined; attribute value: %s", t.text)
		return nil
	}
	return &v
}

// checkOverlaps notes a fault if one path is, or contains, another, or if one
// place is used both as a list and as a map.
func (p *parser) checkOverlaps(paths []path) {
	for i, b := range paths {
		for _, a := range paths[:i] {
			p.checkOverlap(a, b)
		}
	}
}

func (p *parser) checkOverlap(a, b path) {
	for i := range min(len(a), len(b)) {
		if a[i].isIndex != b[i].isIndex {
			p.faultf(faultPathConflict, "Two document paths conflict with each other; must remove or rewrite one of these paths; path one: %s, path two: %s", a, b)
			return
		}
		if a[i] != b[i] {
			return
		}
	}
	p.faultf(faultOverlap, "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: %s, path two: %s", a, b)
}
