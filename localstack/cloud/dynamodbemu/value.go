package dynamodbemu

import (
	"slices"
	"strings"
)

// A kind is the type of an attribute value, by its name in the protocol.
type kind string

const (
	kindS    kind = "S"
	kindN    kind = "N"
	kindB    kind = "B"
	kindBool kind = "BOOL"
	kindNull kind = "NULL"
	kindSS   kind = "SS"
	kindNS   kind = "NS"
	kindBS   kind = "BS"
	kindL    kind = "L"
	kindM    kind = "M"
)

// memberKind is the kind of a set's members, "" for what is not a set.
func (k kind) memberKind() kind {
	switch k {
	case kindSS:
		return kindS
	case kindNS:
		return kindN
	case kindBS:
		return kindB
	default:
		return ""
	}
}

// ordered tells whether values of this kind can be compared with < and BETWEEN,
// and can be key attributes.
func (k kind) ordered() bool { return k == kindS || k == kindN || k == kindB }

// A value is one attribute value. Values are immutable: whoever changes a list
// or a map builds a new one, so values are shared freely between the stored item,
// answers in flight and remembered responses.
type value struct {
	kind   kind
	text   string // S, and the raw bytes of B
	number decimal
	flag   bool
	list   []value // L, and the members of SS, NS, BS as S, N, B values
	fields item    // M
}

// An item maps attribute names to values. Items are immutable like values.
type item map[string]value

func stringValue(s string) value   { return value{kind: kindS, text: s} }
func numberValue(d decimal) value  { return value{kind: kindN, number: d} }
func listValue(list []value) value { return value{kind: kindL, list: list} }
func mapValue(fields item) value   { return value{kind: kindM, fields: fields} }

// equal compares deeply: numbers by value, sets without regard to order.
func (v value) equal(o value) bool {
	if v.kind != o.kind {
		return false
	}
	switch v.kind {
	case kindS, kindB:
		return v.text == o.text
	case kindN:
		return v.number == o.number
	case kindBool:
		return v.flag == o.flag
	case kindNull:
		return true
	case kindL:
		return slices.EqualFunc(v.list, o.list, value.equal)
	case kindM:
		return v.fields.equal(o.fields)
	default:
		return v.equalSet(o)
	}
}

func (v value) equalSet(o value) bool {
	return len(v.list) == len(o.list) && !slices.ContainsFunc(v.list, func(m value) bool { return !o.hasMember(m) })
}

func (it item) equal(o item) bool {
	if len(it) != len(o) {
		return false
	}
	for name, v := range it {
		if w, ok := o[name]; !ok || !v.equal(w) {
			return false
		}
	}
	return true
}

// hasMember tells whether the list or set v has an element equal to m.
func (v value) hasMember(m value) bool { return slices.ContainsFunc(v.list, m.equal) }

// compare orders two values of one ordered kind: strings and binaries by bytes,
// numbers by value.
func (v value) compare(o value) int {
	if v.kind == kindN {
		return v.number.compare(o.number)
	}
	return strings.Compare(v.text, o.text)
}

// containerOverhead is what a list or map costs beside its contents, plus
// elementOverhead for each element.
const (
	containerOverhead = 3
	elementOverhead   = 1
)

// size is the number of bytes that v counts towards its item.
func (v value) size() int {
	switch v.kind {
	case kindS, kindB:
		return len(v.text)
	case kindN:
		return v.number.storedSize()
	case kindBool, kindNull:
		return 1
	case kindL:
		n := containerOverhead
		for _, e := range v.list {
			n += e.size() + elementOverhead
		}
		return n
	case kindM:
		return containerOverhead + len(v.fields)*elementOverhead + v.fields.size()
	default:
		n := 0
		for _, e := range v.list {
			n += e.size()
		}
		return n
	}
}

// size is the item's size in bytes, names included, as DynamoDB bills it.
func (it item) size() int {
	n := 0
	for name, v := range it {
		n += len(name) + v.size()
	}
	return n
}

// depth is the number of levels of lists and maps in v.
func (v value) depth() int {
	deepest := 0
	switch v.kind {
	case kindL:
		for _, e := range v.list {
			deepest = max(deepest, e.depth())
		}
	case kindM:
		for _, e := range v.fields {
			deepest = max(deepest, e.depth())
		}
	default:
		return 0
	}
	return deepest + 1
}
