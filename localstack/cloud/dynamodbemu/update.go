package dynamodbemu

import (
	"maps"
	"slices"
)

// An updateVerb is what an action does with its path.
type updateVerb int

const (
	updateSet updateVerb = iota
	updateRemove
	updateAdd
	updateDelete
)

// An updateAction changes the value at one path.
type updateAction struct {
	verb    updateVerb
	path    path
	operand *operand // SET: what to store; ADD, DELETE: a literal
}

// An update is a parsed UpdateExpression.
type update struct{ actions []updateAction }

func (u *update) paths() []path {
	paths := make([]path, len(u.actions))
	for i, a := range u.actions {
		paths[i] = a.path
	}
	return paths
}

// createsItem tells whether the update writes an item that did not exist: one
// that only takes away does not.
func (u *update) createsItem() bool {
	return slices.ContainsFunc(u.actions, func(a updateAction) bool { return a.verb == updateSet || a.verb == updateAdd })
}

// An operandKind says how a right-hand side gets its value.
type operandKind int

const (
	operandPath operandKind = iota
	operandLiteral
	operandPlus
	operandMinus
	operandIfNotExists // args[0] is a path
	operandListAppend
)

// An operand is the right-hand side of SET, or a part of one.
type operand struct {
	kind    operandKind
	path    path
	literal *value // nil when the placeholder is not defined
	args    []*operand
}

// literalKind is the operand's type where the text tells it.
func (o *operand) literalKind() kind {
	if o.kind == operandLiteral && o.literal != nil {
		return o.literal.kind
	}
	return ""
}

const (
	msgAttributeMissing = "The provided expression refers to an attribute that does not exist in the item"
	msgOperandType      = "An operand in the update expression has an incorrect data type"
	msgDocumentPath     = "The document path provided in the update expression is invalid for update"
)

// evaluate computes an operand on the item as it was before the update.
func (o *operand) evaluate(old item) (value, error) {
	switch o.kind {
	case operandLiteral:
		return *o.literal, nil
	case operandPath:
		if v, ok := o.path.find(old); ok {
			return v, nil
		}
		return value{}, validationError(msgAttributeMissing)
	case operandIfNotExists:
		if v, ok := o.args[0].path.find(old); ok {
			return v, nil
		}
		return o.args[1].evaluate(old)
	default:
		return o.evaluateBoth(old)
	}
}

// evaluateBoth computes a function or operator of two values.
func (o *operand) evaluateBoth(old item) (value, error) {
	a, err := o.args[0].evaluate(old)
	if err != nil {
		return value{}, err
	}
	b, err := o.args[1].evaluate(old)
	if err != nil {
		return value{}, err
	}
	return o.combine(a, b)
}

func (o *operand) combine(a, b value) (value, error) {
	want := kindN
	if o.kind == operandListAppend {
		want = kindL
	}
	if a.kind != want || b.kind != want {
		return value{}, validationError(msgOperandType)
	}
	var sum decimal
	var err error
	switch o.kind {
	case operandListAppend:
		return listValue(slices.Concat(a.list, b.list)), nil
	case operandPlus:
		sum, err = a.number.add(b.number)
	default:
		sum, err = a.number.subtract(b.number)
	}
	return numberValue(sum), err
}

// apply returns the item after the update. All right-hand sides see old, and all
// list indexes mean places in old. Old itself is not changed.
func (u *update) apply(old item) (item, error) {
	root := &change{}
	for i := range u.actions {
		a := &u.actions[i]
		leaf := &change{verb: a.verb, isLeaf: true}
		if a.operand != nil {
			v, err := a.operand.evaluate(old)
			if err != nil {
				return nil, err
			}
			leaf.operand = v
		}
		root.insert(a.path, leaf)
	}
	v, err := root.applyToMap(old)
	return v, err
}

// A change is a tree of what happens to a value: a leaf changes it, other nodes
// change what is in it.
type change struct {
	isLeaf   bool
	verb     updateVerb
	operand  value
	children map[pathElement]*change
}

func (c *change) insert(p path, leaf *change) {
	if c.children == nil {
		c.children = make(map[pathElement]*change)
	}
	if len(p) == 1 {
		c.children[p[0]] = leaf
		return
	}
	child := c.children[p[0]]
	if child == nil {
		child = &change{}
		c.children[p[0]] = child
	}
	child.insert(p[1:], leaf)
}

// apply returns the value that replaces v, or false for none. Exists says
// whether there is a v.
func (c *change) apply(v value, exists bool) (value, bool, error) {
	if c.isLeaf {
		return c.applyLeaf(v, exists)
	}
	for e := range c.children {
		if !exists || e.isIndex != (v.kind == kindL) || (!e.isIndex && v.kind != kindM) {
			return value{}, false, validationError(msgDocumentPath)
		}
	}
	if v.kind == kindL {
		list, err := c.applyToList(v.list)
		return listValue(list), true, err
	}
	fields, err := c.applyToMap(v.fields)
	return mapValue(fields), true, err
}

func (c *change) applyToMap(old item) (item, error) {
	out := make(item, len(old)+len(c.children))
	maps.Copy(out, old)
	for e, child := range c.children {
		v, exists := old[e.name]
		v, keep, err := child.apply(v, exists)
		if err != nil {
			return nil, err
		}
		if keep {
			out[e.name] = v
		} else {
			delete(out, e.name)
		}
	}
	return out, nil
}

// applyToList changes elements at their old places, drops removed ones and
// appends, in order, what was set beyond the end.
func (c *change) applyToList(old []value) ([]value, error) {
	var out, appended []value
	for i, v := range old {
		child := c.children[pathElement{index: i, isIndex: true}]
		if child == nil {
			out = append(out, v)
			continue
		}
		v, keep, err := child.apply(v, true)
		if err != nil {
			return nil, err
		}
		if keep {
			out = append(out, v)
		}
	}
	for _, i := range c.indexesFrom(len(old)) {
		v, keep, err := c.children[pathElement{index: i, isIndex: true}].apply(value{}, false)
		if err != nil {
			return nil, err
		}
		if keep {
			appended = append(appended, v)
		}
	}
	return append(out, appended...), nil
}

func (c *change) indexesFrom(start int) []int {
	var indexes []int
	for e := range c.children {
		if e.index >= start {
			indexes = append(indexes, e.index)
		}
	}
	slices.Sort(indexes)
	return indexes
}

func (c *change) applyLeaf(v value, exists bool) (value, bool, error) {
	switch c.verb {
	case updateSet:
		return c.operand, true, nil
	case updateRemove:
		return value{}, false, nil
	case updateAdd:
		return addTo(v, exists, c.operand)
	default: // updateDelete
		return deleteFrom(v, exists, c.operand)
	}
}

func addTo(v value, exists bool, operand value) (value, bool, error) {
	switch {
	case !exists:
		return operand, true, nil
	case v.kind != operand.kind:
		return value{}, false, validationError(msgOperandType)
	case v.kind == kindN:
		sum, err := v.number.add(operand.number)
		return numberValue(sum), true, err
	}
	members := slices.Clone(v.list)
	for _, m := range operand.list {
		if !v.hasMember(m) {
			members = append(members, m)
		}
	}
	return value{kind: v.kind, list: members}, true, nil
}

func deleteFrom(v value, exists bool, operand value) (value, bool, error) {
	switch {
	case !exists:
		return value{}, false, nil
	case v.kind != operand.kind:
		return value{}, false, validationError(msgOperandType)
	}
	members := slices.DeleteFunc(slices.Clone(v.list), operand.hasMember)
	return value{kind: v.kind, list: members}, len(members) > 0, nil
}
