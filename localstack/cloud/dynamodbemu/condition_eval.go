package dynamodbemu

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// holds evaluates a condition on an item; nil stands for an item that does not
// exist. A comparison with a missing attribute, or between two types, is false;
// only <> is then true.
func (n *node) holds(it item) bool {
	switch n.op {
	case opAnd:
		return n.args[0].holds(it) && n.args[1].holds(it)
	case opOr:
		return n.args[0].holds(it) || n.args[1].holds(it)
	case opNot:
		return !n.args[0].holds(it)
	case opFunction:
		return n.functionHolds(it)
	default:
		return n.comparisonHolds(it)
	}
}

func (n *node) comparisonHolds(it item) bool {
	operands := make([]value, len(n.args))
	present := make([]bool, len(n.args))
	for i, a := range n.args {
		operands[i], present[i] = a.evaluate(it)
	}
	first := operands[0]
	switch n.op {
	case opCompare:
		return compareHolds(n.name, first, operands[1], present[0] && present[1])
	case opBetween:
		return !slices.Contains(present, false) && compareHolds(">=", first, operands[1], true) && compareHolds("<=", first, operands[2], true)
	default: // opIn
		for i := range operands[1:] {
			if present[0] && present[i+1] && first.equal(operands[i+1]) {
				return true
			}
		}
		return false
	}
}

func compareHolds(comparator string, a, b value, present bool) bool {
	switch comparator {
	case "=":
		return present && a.equal(b)
	case "<>":
		return !present || !a.equal(b)
	}
	if !present || a.kind != b.kind || !a.kind.ordered() {
		return false
	}
	c := a.compare(b)
	switch comparator {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

// evaluate returns an operand's value on an item, if it has one.
func (n *node) evaluate(it item) (value, bool) {
	switch n.op {
	case opValue:
		return *n.literal, true
	case opPath:
		return n.path.find(it)
	default: // opSize
		v, ok := n.args[0].evaluate(it)
		if !ok {
			return value{}, false
		}
		length, ok := v.length()
		return numberValue(normalizedInt(length)), ok
	}
}

func normalizedInt(n int) decimal {
	digits := strconv.Itoa(n)
	return normalized(false, digits, len(digits))
}

// length is what size() gives: characters of a string, bytes of a binary,
// elements of anything else that has some.
func (v value) length() (int, bool) {
	switch v.kind {
	case kindS:
		return len(utf16.Encode([]rune(v.text))), true
	case kindB:
		return len(v.text), true
	case kindM:
		return len(v.fields), true
	case kindN, kindBool, kindNull:
		return 0, false
	default:
		return len(v.list), true
	}
}

func (n *node) functionHolds(it item) bool {
	v, ok := n.args[0].evaluate(it)
	switch n.name {
	case fnAttributeExists:
		return ok
	case fnAttributeNotExists:
		return !ok
	}
	arg, argOK := n.args[1].evaluate(it)
	if !ok || !argOK {
		return false
	}
	switch n.name {
	case fnAttributeType:
		return string(v.kind) == arg.text
	case fnBeginsWith:
		return v.kind == arg.kind && (v.kind == kindS || v.kind == kindB) && strings.HasPrefix(v.text, arg.text)
	}
	return v.contains(arg)
}

// contains is the function of that name: a part of a string or binary, a member
// of a set, an element of a list.
func (v value) contains(arg value) bool {
	switch v.kind {
	case kindS, kindB:
		return arg.kind == v.kind && strings.Contains(v.text, arg.text)
	case kindL, kindSS, kindNS, kindBS:
		return v.hasMember(arg)
	default:
		return false
	}
}
