package dynamolimit

import (
	"fmt"
	"strings"

	"github.com/sluice-dev/sluice/shared/limit"
)

// The attributes of an item that tell of the tasks parked on it: three numbers per
// policy, named by their letter and the policy, how many wait, and the last ticket.
const (
	placesEraAttribute = 'f'
	reachAttribute     = 'z'
	lastAttribute      = 'l'

	waitingAttribute = "w"
	ticketAttribute  = "q"
)

// places returns the Places of a policy in the item.
func (i item) places(policy string) (pl limit.Places, err error) {
	if pl.Era, err = i.whole(attribute(placesEraAttribute, policy)); err != nil {
		return limit.Places{}, err
	}
	if pl.Reach, err = i.number(attribute(reachAttribute, policy)); err != nil {
		return limit.Places{}, err
	}
	pl.Last, err = i.number(attribute(lastAttribute, policy))
	return pl, err
}

// crowded reads from an item what package limit needs to decide about parked tasks.
func (i item) crowded(p place, tiers []tier) (limit.Item, error) {
	c := limit.Item{Group: p.group, Key: p.key}
	var err error
	if c.Waiting, err = i.whole(waitingAttribute); err != nil {
		return limit.Item{}, err
	}
	if c.Ticket, err = i.whole(ticketAttribute); err != nil {
		return limit.Item{}, err
	}
	for _, t := range tiers {
		if t.place != p {
			continue
		}
		s := limit.Standing{Meter: t.meter, Units: t.Units}
		if s.State, err = i.state(t.Policy.Name); err != nil {
			return limit.Item{}, err
		}
		if s.Places, err = i.places(t.Policy.Name); err != nil {
			return limit.Item{}, err
		}
		c.Tiers = append(c.Tiers, s)
	}
	return c, nil
}

// A crowding is the part of a write that concerns the tasks parked on its item.
type crowding struct {
	plan limit.ItemPlan
	// before is the item as it was supposed to be when the plan was made.
	before limit.Item
	// pinned makes it a condition that the ticket is as supposed: the answer to a
	// transaction does not tell it.
	pinned bool
	// step is what the write carries out its part of.
	step *limit.Step
}

// pin replaces plans that apply to a range of items by those that apply to the one
// supposed, so that what they lead to is known without an answer that tells.
func (c *crowding) pin() {
	c.pinned = true
	for k := range c.plan.Tiers {
		t, s := &c.plan.Tiers[k], &c.before.Tiers[k]
		if p := t.State; p.Branch != "" && p.Branch != limit.Exact {
			exact := p
			exact.Branch, exact.Old, exact.New = limit.Exact, s.State, p.Apply(s.State)
			exact.Base = p.Charge(limit.State{}).Own
			t.State = exact
		}
		if t.Places.Branch == limit.PlaceAppend {
			one := limit.ItemPlan{Tiers: []limit.TierPlan{{Places: t.Places}}}
			after := one.Apply(limit.Item{Tiers: []limit.Standing{*s}})
			t.Places.Branch, t.Places.Old, t.Places.New = limit.PlaceExact, s.Places, after.Tiers[0].Places
		}
	}
}

// suppose brings an item to where the plan leads.
func (c *crowding) suppose(i item) {
	after := c.plan.Apply(c.before)
	i[waitingAttribute], i[ticketAttribute] = wholeValue(after.Waiting), wholeValue(after.Ticket)
	for k, t := range c.plan.Tiers {
		if pl := after.Tiers[k].Places; pl != (limit.Places{}) {
			i[attribute(placesEraAttribute, t.Policy)] = wholeValue(pl.Era)
			i[attribute(reachAttribute, t.Policy)] = numberValue(pl.Reach)
			i[attribute(lastAttribute, t.Policy)] = numberValue(pl.Last)
		}
	}
}

// crowd adds the conditions and updates of parked tasks, as the doc comments of
// [limit.ItemPlan] and [limit.PlacePlan] give them.
func (x *expression) crowd(c *crowding) {
	var due []string
	for k, t := range c.plan.Tiers {
		s := string(rune('A' + k))
		switch t.Places.Branch {
		case limit.PlaceClear:
			due = append(due, x.clear(s, t.Policy, &t.Places))
		case limit.PlaceAppend:
			x.appendPlace(s, t.Policy, &t.Places)
		case limit.PlaceExact:
			x.replacePlaces(s, t.Policy, &t.Places)
		}
	}
	x.waiting(c, due)
	if c.pinned {
		x.conditions = append(x.conditions, x.is(x.name("#QQ", ticketAttribute), ":QK", limit.NumOf(c.before.Ticket)))
	}
}

// waiting adds what becomes of those who wait.
func (x *expression) waiting(c *crowding, due []string) {
	if c.plan.Crowd == "" {
		return
	}
	w := x.name("#WW", waitingAttribute)
	nobody := func() string { return fmt.Sprintf("attribute_not_exists(%s) OR %s <= %s", w, w, x.whole(":ZZ", 0)) }
	somebody := func() string { return fmt.Sprintf("%s > %s", w, x.whole(":ZZ", 0)) }
	add := func(sign string) string {
		return fmt.Sprintf("%s = if_not_exists(%s, %s) %s %s", w, w, x.whole(":ZZ", 0), sign, x.whole(":ON", 1))
	}
	ticket := func() string {
		q := x.name("#QQ", ticketAttribute)
		return fmt.Sprintf("%s = if_not_exists(%s, %s) + %s", q, q, x.whole(":ZZ", 0), x.whole(":ON", 1))
	}
	switch c.plan.Crowd {
	case limit.CrowdClear:
		condition := nobody()
		if len(due) > 0 {
			condition += " OR " + strings.Join(due, " AND ")
		}
		x.conditions = append(x.conditions, "("+condition+")")
	case limit.CrowdFound:
		x.conditions = append(x.conditions, "("+nobody()+")")
		x.sets = append(x.sets, w+" = "+x.whole(":ON", 1), ticket())
	case limit.CrowdJoin:
		x.conditions = append(x.conditions, somebody())
		x.sets = append(x.sets, add("+"), ticket())
	case limit.CrowdRejoin:
		x.conditions = append(x.conditions, somebody())
		x.sets = append(x.sets, ticket())
	case limit.CrowdReturn:
		x.sets = append(x.sets, add("+"))
	case limit.CrowdLeave:
		x.sets = append(x.sets, add("-"))
	case limit.CrowdDisband:
		x.conditions = append(x.conditions, x.is(x.name("#QQ", ticketAttribute), ":QK", limit.NumOf(c.plan.Ticket)))
		x.sets = append(x.sets, w+" = "+x.whole(":ZZ", 0))
	}
}

// clear is the condition that all places of a policy are due.
func (x *expression) clear(s, policy string, p *limit.PlacePlan) string {
	f, z := x.name("#f"+s, attribute(placesEraAttribute, policy)), x.name("#z"+s, attribute(reachAttribute, policy))
	return fmt.Sprintf("(attribute_not_exists(%s) OR %s = %s OR (%s = %s AND %s <= %s))",
		f, f, x.whole(":ZZ", 0), f, x.whole(":f"+s, p.Era), z, x.number(":u"+s, p.High))
}

// appendPlace adds one more place.
func (x *expression) appendPlace(s, policy string, p *limit.PlacePlan) {
	f, z := x.name("#f"+s, attribute(placesEraAttribute, policy)), x.name("#z"+s, attribute(reachAttribute, policy))
	l := x.name("#l"+s, attribute(lastAttribute, policy))
	e, position := x.name("#e"+s, attribute(eraAttribute, policy)), x.name("#p"+s, attribute(positionAttribute, policy))
	era := x.whole(":f"+s, p.Era)
	x.conditions = append(x.conditions, fmt.Sprintf("%s = %s AND %s = %s AND %s >= %s AND %s >= %s",
		e, era, f, era, z, x.number(":l"+s, p.Low), z, position))
	if p.High != most {
		x.conditions = append(x.conditions, fmt.Sprintf("%s <= %s", z, x.number(":u"+s, p.High)))
	}
	x.sets = append(x.sets,
		fmt.Sprintf("%s = %s + %s", z, z, x.number(":d"+s, p.Length)),
		fmt.Sprintf("%s = if_not_exists(%s, %s) + %s", l, l, x.whole(":ZZ", 0), x.whole(":n"+s, p.Units)))
}

// replacePlaces replaces the places as they were found.
func (x *expression) replacePlaces(s, policy string, p *limit.PlacePlan) {
	f, z := x.name("#f"+s, attribute(placesEraAttribute, policy)), x.name("#z"+s, attribute(reachAttribute, policy))
	l := x.name("#l"+s, attribute(lastAttribute, policy))
	x.conditions = append(x.conditions,
		x.is(f, ":o"+s, limit.NumOf(p.Old.Era)), x.is(z, ":x"+s, p.Old.Reach), x.is(l, ":y"+s, p.Old.Last))
	x.sets = append(x.sets,
		fmt.Sprintf("%s = %s", f, x.whole(":f"+s, p.New.Era)),
		fmt.Sprintf("%s = %s", z, x.number(":d"+s, p.New.Reach)),
		fmt.Sprintf("%s = %s", l, x.number(":n"+s, p.New.Last)))
}

// is the condition that an attribute is a number, where 0 may also be absent.
func (x *expression) is(name, value string, n limit.Num) string {
	equal := fmt.Sprintf("%s = %s", name, x.number(value, n))
	if n == (limit.Num{}) {
		return fmt.Sprintf("(attribute_not_exists(%s) OR %s)", name, equal)
	}
	return equal
}
