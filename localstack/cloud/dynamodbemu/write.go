package dynamodbemu

import "errors"

// maxItemBytes is the largest item, names included.
const maxItemBytes = 400 * 1024

// A writeVerb is the kind of a write.
type writeVerb int

const (
	verbPut writeVerb = iota
	verbUpdate
	verbDelete
	verbCheck // ConditionCheck: writes nothing
)

// A write is one action on one item, by itself or in a transaction.
type write struct {
	verb         writeVerb
	table        string
	key          item    // what the caller gave as Key; nil for a put
	item         item    // what to put
	condition    *node   // nil for none
	update       *update // nil for an update without UpdateExpression
	paths        []path  // all that expressions mention
	oldOnFailure bool
}

// writeParams are the parameters of a write by itself and within transactions.
type writeParams struct {
	placeholders

	TableName                           *string
	Key                                 *wireItem
	Item                                *wireItem
	ConditionExpression                 *string
	UpdateExpression                    *string
	ReturnValuesOnConditionCheckFailure string
}

// check notes broken constraints and sets the table's name.
func (p *writeParams) check(c *constraints, verb writeVerb) string {
	name := c.tableName(p.TableName, 1)
	if verb == verbPut {
		c.present(p.Item != nil, "item")
	} else {
		c.present(p.Key != nil, "key")
	}
	if verb == verbCheck {
		c.present(p.ConditionExpression != nil, "conditionExpression")
	}
	c.enum(p.ReturnValuesOnConditionCheckFailure, "returnValuesOnConditionCheckFailure", allOld, "NONE")
	return name
}

// write checks values and expressions; what depends on the table is left to check.
func (p *writeParams) write(verb writeVerb, tableName string) (*write, error) {
	w := &write{verb: verb, table: tableName, oldOnFailure: p.ReturnValuesOnConditionCheckFailure == allOld}
	var err error
	if verb == verbPut {
		w.item, err = p.Item.item()
	} else {
		w.key, err = p.Key.item()
	}
	if err != nil {
		return nil, err
	}
	return w, p.parseExpressions(w)
}

func (p *writeParams) parseExpressions(w *write) error {
	expressions := map[string]*string{"ConditionExpression": p.ConditionExpression}
	if w.verb == verbUpdate {
		expressions["UpdateExpression"] = p.UpdateExpression
	}
	s, err := p.substitution(expressions)
	if err != nil {
		return err
	}
	if w.verb == verbUpdate {
		if w.update, err = parseOptional("UpdateExpression", p.UpdateExpression, s, (*parser).update); err != nil {
			return err
		}
	}
	if w.condition, err = parseOptional("ConditionExpression", p.ConditionExpression, s, (*parser).condition); err != nil {
		return err
	}
	w.paths = w.condition.allPaths()
	return s.checkAllUsed()
}

// allPaths collects the document paths of a condition, which may be nil.
func (n *node) allPaths() []path {
	if n == nil {
		return nil
	}
	if n.op == opPath {
		return []path{n.path}
	}
	var paths []path
	for _, a := range n.args {
		paths = append(paths, a.allPaths()...)
	}
	return paths
}

// check tests the write against the table's key schema.
func (w *write) check(t *table) error {
	if err := w.checkKey(t); err != nil {
		return err
	}
	if w.update != nil {
		for _, a := range t.keyAttributes() {
			for _, u := range w.update.actions {
				if u.path[0].name == a.name {
					return validationErrorf("One or more parameter values were invalid: Cannot update attribute %s. This attribute is part of the key", a.name)
				}
			}
		}
	}
	return t.checkPaths(w.paths)
}

func (w *write) checkKey(t *table) error {
	if w.verb != verbPut {
		return t.checkKey(w.key)
	}
	if err := t.checkItem(w.item); err != nil {
		return err
	}
	if w.item.size() > maxItemBytes {
		return validationError("Item size has exceeded the maximum allowed size")
	}
	return nil
}

// target is the primary key of the item the write is about.
func (w *write) target(t *table) item {
	if w.verb == verbPut {
		return t.keyOf(w.item)
	}
	return w.key
}

// An outcome is what a write would do: nil items do not exist.
type outcome struct{ old, new item }

// errConditionFailed says that the write's condition does not hold.
var errConditionFailed = errors.New("the condition does not hold")

// evaluate computes the outcome on the current item without storing it. It is
// errConditionFailed if the condition does not hold; the outcome then has old.
func (w *write) evaluate(t *table) (outcome, error) {
	old := t.get(w.target(t))
	result := outcome{old: old, new: old}
	if w.condition != nil && !w.condition.holds(old) {
		return result, errConditionFailed
	}
	var err error
	switch w.verb {
	case verbPut:
		result.new = w.item
	case verbDelete:
		result.new = nil
	case verbUpdate:
		result.new, err = w.updated(old)
	case verbCheck:
	}
	return result, err
}

func (w *write) updated(old item) (item, error) {
	base := old
	if old == nil {
		base = w.key
	}
	if w.update == nil {
		return base, nil
	}
	updated, err := w.update.apply(base)
	switch {
	case err != nil:
		return nil, err
	case old == nil && !w.update.createsItem():
		return nil, nil
	case updated.size() > maxItemBytes:
		return nil, validationError("Item size to update has exceeded the maximum allowed size")
	}
	for _, v := range updated {
		if v.depth() > maxNesting {
			return nil, validationError("Nesting Levels have exceeded supported limits: Attributes have nested levels beyond supported limit")
		}
	}
	return updated, nil
}

// store puts an outcome into the table.
func (t *table) store(key item, o outcome) {
	if o.new == nil {
		t.remove(key)
		return
	}
	t.put(o.new)
}
