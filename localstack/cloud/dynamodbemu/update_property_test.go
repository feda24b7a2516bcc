package dynamodbemu

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A naiveUpdate computes one attribute's new value from the old attributes; nil
// stands for missing.
type naiveUpdate struct {
	text    string
	compute func(old map[string]*big.Rat) *big.Rat
}

func (d *drawing) number() naiveUpdate {
	n := drawNumber(d.t, "number")
	placeholder := fmt.Sprintf(":v%d", len(d.values))
	d.values[placeholder] = wireValue{N: &n}
	r := rational(d.t, n)
	return naiveUpdate{placeholder, func(map[string]*big.Rat) *big.Rat { return r }}
}

func (d *drawing) source() naiveUpdate {
	if rapid.Bool().Draw(d.t, "literal") {
		return d.number()
	}
	a := rapid.SampledFrom(naiveAttributes).Draw(d.t, "source")
	path := naiveUpdate{d.name(a), func(old map[string]*big.Rat) *big.Rat { return old[a] }}
	if rapid.Bool().Draw(d.t, "plain") {
		return path
	}
	other := d.number()
	return naiveUpdate{"if_not_exists( " + path.text + "," + other.text + " )", func(old map[string]*big.Rat) *big.Rat {
		if v := old[a]; v != nil {
			return v
		}
		return other.compute(old)
	}}
}

func (d *drawing) right() naiveUpdate {
	a := d.source()
	operator := rapid.SampledFrom([]string{"", "+", "-"}).Draw(d.t, "operator")
	if operator == "" {
		return a
	}
	b := d.source()
	return naiveUpdate{a.text + " " + operator + b.text, func(old map[string]*big.Rat) *big.Rat {
		x, y := a.compute(old), b.compute(old)
		switch {
		case x == nil || y == nil:
			return nil
		case operator == "+":
			return new(big.Rat).Add(x, y)
		}
		return new(big.Rat).Sub(x, y)
	}}
}

// Every right-hand side sees the old item, exactly, whatever is written beside it.
func TestUpdatesAgreeWithANaiveEvaluator(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := &drawing{t: t, names: map[string]string{}, values: wireItem{}}
		old := map[string]*big.Rat{}
		stored := item{}
		for _, a := range naiveAttributes {
			if rapid.Bool().Draw(t, a) {
				n := drawNumber(t, "old")
				old[a], stored[a] = rational(t, n), numberValue(mustParse(t, n))
			}
		}
		targets := rapid.Permutation(naiveAttributes).Draw(t, "targets")[:rapid.IntRange(1, len(naiveAttributes)).Draw(t, "count")]
		wanted, failing := d.expect(old, targets)
		text, want := wanted.text, wanted.values
		subst := &substitution{names: d.names, values: mustItem(t, d.values), usedNames: map[string]bool{}, usedValues: map[string]bool{}}
		u, err := parseExpression("UpdateExpression", text, subst, (*parser).update)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got, err := u.apply(stored)
		if (err != nil) != failing {
			t.Fatalf("%s on %v: error %v, want one: %t", text, stored, err, failing)
		}
		if failing {
			return
		}
		for _, a := range naiveAttributes {
			v, exists := got[a]
			if exists != (want[a] != nil) || (exists && rational(t, v.number.String()).Cmp(want[a]) != 0) {
				t.Fatalf("%s on %v: %s is %s, want %v", text, stored, a, v.number, want[a])
			}
		}
	})
}

type expectation struct {
	text   string
	values map[string]*big.Rat
}

// expect draws what happens to each target, in up to two sections.
func (d *drawing) expect(old map[string]*big.Rat, targets []string) (expectation, bool) {
	want := maps.Clone(old)
	var sets, removes []string
	failing := false
	for _, a := range targets {
		if rapid.IntRange(0, 3).Draw(d.t, "section") == 0 {
			removes = append(removes, d.name(a))
			delete(want, a)
			continue
		}
		r := d.right()
		sets = append(sets, d.name(a)+" = "+r.text)
		v := r.compute(old)
		failing = failing || v == nil || !isStorable(v)
		want[a] = v
	}
	var sections []string
	if sets != nil {
		sections = append(sections, "SET "+strings.Join(sets, ", "))
	}
	if removes != nil {
		sections = append(sections, "REMOVE "+strings.Join(removes, ","))
	}
	if rapid.Bool().Draw(d.t, "other order") {
		slices.Reverse(sections)
	}
	return expectation{strings.Join(sections, " "), want}, failing
}

func mustItem(t *rapid.T, w wireItem) item {
	it, err := w.item()
	if err != nil {
		t.Fatal(err)
	}
	return it
}

// No text makes a parser panic or run away.
func TestParsersSurviveAnyText(t *testing.T) {
	t.Parallel()
	pieces := []string{
		"a", "b.c", "#n", ":v", "SET ", "REMOVE ", "ADD ", "DELETE ", " AND ", " OR ", "NOT ", " BETWEEN ", " IN ", "size", "if_not_exists", "contains",
		"(", ")", "[", "]", "0", "99999999999999999999", ",", ".", "=", "<", ">", "<>", "<=", "+", "-", " ", "\n", "é", "\x00", "#", ":", "*",
	}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 30).Draw(t, "pieces"), "")
		subst := &substitution{names: map[string]string{"#n": "n"}, values: item{":v": numberValue(decimal{})}, usedNames: map[string]bool{}, usedValues: map[string]bool{}}
		if n, err := parseExpression("ConditionExpression", text, subst, (*parser).condition); err == nil {
			n.holds(item{"n": numberValue(decimal{})})
		}
		if u, err := parseExpression("UpdateExpression", text, subst, (*parser).update); err == nil {
			_, _ = u.apply(item{})
		}
		_, _ = parseExpression("ProjectionExpression", text, subst, (*parser).projection)
	})
}
