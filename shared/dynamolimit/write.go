package dynamolimit

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-dev/sluice/shared/limit"
)

// A write is one conditional update of one item: the plans of its tiers, and what
// keeps them from being carried out twice.
type write struct {
	place    place
	index    int // of the place in its change
	policies []string
	plans    []limit.Plan
	// unsettled marks the plans that would as well have been made for the other of
	// the branches Active and Idle.
	unsettled []bool

	// id is remembered by the item: a write whose id the item remembers is not
	// carried out again.
	id string

	// seen is a number of writes that the item had before this one was first sent:
	// up to seen+7 writes, the item would still remember it.
	seen int64
	// complete makes it a condition that the item remembers all writes since seen.
	complete bool
	// given makes it another way to meet that condition that the policy's Given is
	// still this: a write that gives back changes it for good.
	given *givenMark

	expiry expiry

	// crowding is what the write does to parked tasks, nil for nothing.
	crowding *crowding
}

type givenMark struct {
	policy string
	given  limit.Num
}

// most is the largest number.
var most = func() limit.Num {
	n, err := limit.ParseNum(strings.Repeat("9", 38))
	if err != nil {
		panic(err)
	}
	return n
}()

// An expression is the condition and update of a write as DynamoDB reads them. All
// placeholders have the same length, so that none is the beginning of another.
type expression struct {
	conditions []string
	sets       []string
	names      map[string]string
	values     attributes
}

func (w *write) expression() *expression {
	x := &expression{names: map[string]string{}, values: attributes{}}
	for i, p := range w.plans {
		x.tier(string(rune('a'+i)), w.policies[i], &p)
	}
	if w.crowding != nil {
		x.crowd(w.crowding)
	}
	x.once(w)
	x.expire(w.expiry)
	return x
}

func (x *expression) condition() string { return strings.Join(x.conditions, " AND ") }

func (x *expression) update() string { return "SET " + strings.Join(x.sets, ", ") }

func (x *expression) name(placeholder, attribute string) string {
	x.names[placeholder] = attribute
	return placeholder
}

func (x *expression) number(placeholder string, n limit.Num) string {
	x.values[placeholder] = &types.AttributeValueMemberN{Value: n.String()}
	return placeholder
}

func (x *expression) whole(placeholder string, n int64) string {
	return x.number(placeholder, limit.NumOf(n))
}

// tier adds the condition and update of one plan, as the doc comment of [limit.Plan]
// gives them. s tells its placeholders from those of other tiers.
func (x *expression) tier(s, policy string, p *limit.Plan) {
	era := x.name("#e"+s, attribute(eraAttribute, policy))
	position := x.name("#p"+s, attribute(positionAttribute, policy))
	next := x.whole(":e"+s, p.Era)
	switch p.Branch {
	case limit.Active:
		held := fmt.Sprintf("%s = %s AND %s", era, next, x.between(s, position, p))
		before := position
		if p.Absent {
			held = fmt.Sprintf("(attribute_not_exists(%s) OR (%s))", era, held)
			before = fmt.Sprintf("if_not_exists(%s, %s)", position, x.number(":b"+s, p.Base))
		}
		x.conditions = append(x.conditions, held)
		x.sets = append(x.sets, fmt.Sprintf("%s = %s + %s", position, before, x.number(":d"+s, p.Delta)))
	case limit.Idle:
		idle := fmt.Sprintf("(attribute_not_exists(%s) OR (%s = %s AND %s < %s)", era, era, next, position, x.number(":l"+s, p.Low))
		if p.Reset > 0 {
			idle += fmt.Sprintf(" OR %s < %s", era, x.whole(":r"+s, p.Reset))
		}
		x.conditions = append(x.conditions, idle+")")
		x.sets = append(x.sets, fmt.Sprintf("%s = %s", position, x.number(":b"+s, p.Apply(limit.State{}).Position)))
	case limit.Lower:
		given := x.name("#g"+s, attribute(givenAttribute, policy))
		x.conditions = append(x.conditions, fmt.Sprintf("%s = %s AND %s", era, next, x.between(s, position, p)))
		if p.Given != most {
			x.conditions = append(x.conditions, fmt.Sprintf("(attribute_not_exists(%s) OR %s <= %s)", given, given, x.number(":g"+s, p.Given)))
		}
		delta := x.number(":d"+s, p.Delta)
		x.sets = append(x.sets,
			fmt.Sprintf("%s = %s - %s", position, position, delta),
			fmt.Sprintf("%s = if_not_exists(%s, %s) + %s", given, given, x.whole(":ZZ", 0), delta))
	case limit.Exact:
		x.exact(s, policy, p)
	}
	x.sets = append(x.sets, fmt.Sprintf("%s = %s", era, next))
	if !p.AnyHold {
		hold := x.name("#h"+s, attribute(holdAttribute, policy))
		x.conditions = append(x.conditions, fmt.Sprintf("(attribute_not_exists(%s) OR %s <= %s)", hold, hold, x.whole(":t"+s, p.HeldBy)))
	}
}

func (x *expression) between(s, position string, p *limit.Plan) string {
	low := fmt.Sprintf("%s >= %s", position, x.number(":l"+s, p.Low))
	if p.High == most {
		return low
	}
	return fmt.Sprintf("%s AND %s <= %s", low, position, x.number(":u"+s, p.High))
}

func (x *expression) exact(s, policy string, p *limit.Plan) {
	era, position := "#e"+s, "#p"+s
	if p.Old.Era == 0 {
		x.conditions = append(x.conditions, fmt.Sprintf("attribute_not_exists(%s)", era))
	} else {
		x.conditions = append(x.conditions, fmt.Sprintf("%s = %s AND %s = %s AND %s",
			era, x.whole(":o"+s, p.Old.Era), position, x.number(":x"+s, p.Old.Position),
			x.givenIs("#g"+s, ":y"+s, givenMark{policy, p.Old.Given})))
	}
	x.sets = append(x.sets, fmt.Sprintf("%s = %s", position, x.number(":b"+s, p.New.Position)))
	if p.New.Given != p.Old.Given {
		given := x.name("#g"+s, attribute(givenAttribute, policy))
		x.sets = append(x.sets, fmt.Sprintf("%s = %s", given, x.number(":g"+s, p.New.Given)))
	}
}

// givenIs is the condition that a policy's Given is as it was. A Given of 0 is never
// stored.
func (x *expression) givenIs(name, value string, g givenMark) string {
	x.name(name, attribute(givenAttribute, g.policy))
	if g.given == (limit.Num{}) {
		return fmt.Sprintf("attribute_not_exists(%s)", name)
	}
	return fmt.Sprintf("%s = %s", name, x.number(value, g.given))
}

// once keeps the write from being carried out twice, and has the item remember it.
func (x *expression) once(w *write) {
	x.values[":ID"] = text(w.id)
	x.values[":NO"] = text("-")
	known := make([]string, rememberedIDs)
	for i := range known {
		known[i] = idAttribute(i) + " = :ID"
	}
	x.conditions = append(x.conditions, "NOT ("+strings.Join(known, " OR ")+")")
	switch remembered := fmt.Sprintf("%s <= :MM", countAttribute); {
	case w.given != nil:
		x.whole(":MM", w.latest())
		x.conditions = append(x.conditions, fmt.Sprintf("(%s OR %s)", x.givenIs("#GG", ":GG", *w.given), remembered))
	case w.complete:
		x.whole(":MM", w.latest())
		x.conditions = append(x.conditions, fmt.Sprintf("(attribute_not_exists(%s) OR %s)", countAttribute, remembered))
	}
	// The oldest first: right whether or not a store sees the old item throughout.
	for i := rememberedIDs - 1; i > 0; i-- {
		x.sets = append(x.sets, fmt.Sprintf("%s = if_not_exists(%s, :NO)", idAttribute(i), idAttribute(i-1)))
	}
	x.sets = append(x.sets, idAttribute(0)+" = :ID",
		fmt.Sprintf("%s = if_not_exists(%s, %s) + %s", countAttribute, countAttribute, x.whole(":ZZ", 0), x.whole(":ON", 1)))
}

// latest is the highest number of writes at which the item would surely remember this
// one, had it been carried out.
func (w *write) latest() int64 { return w.seen + rememberedIDs - 1 }

// An expiry is what a write makes sure of about its item's TTL. The zero expiry is
// nothing: a write that only gives back needs none.
type expiry struct {
	at    int64 // when the item may go, in epoch seconds, or never
	least int64 // it must not be said to go before this
	known int64 // what is known to be stored, 0 if nothing is
}

const (
	never = 253_402_300_799 // the last second of the year 9999

	// spare is by how much an expiry lies beyond the time from which an item is as
	// good as a fresh one; so long before, it is put off.
	spare  = int64(30 * 24 * time.Hour / time.Second)
	putOff = spare / 2
)

// extend makes the expiry cover a State that a policy's plan leads to.
func (e *expiry) extend(m *limit.Meter, after limit.State, at time.Time) {
	expires, ok := m.Expiry(after, at)
	if !ok {
		e.at, e.least = never, never
		return
	}
	e.at = max(e.at, expires.Unix())
	e.least = max(e.least, expires.Unix()-spare)
}

// expire adds what the expiry asks for: the attribute is never lowered, and either it
// is high enough or it becomes so, whatever is stored.
func (x *expression) expire(e expiry) {
	if e.at == 0 {
		return
	}
	x.name("#TT", TTLAttribute)
	switch {
	case e.known == 0:
		x.sets = append(x.sets, fmt.Sprintf("#TT = if_not_exists(#TT, %s)", x.whole(":TT", e.at)))
		x.conditions = append(x.conditions, fmt.Sprintf("(attribute_not_exists(#TT) OR #TT >= %s)", x.whole(":TL", e.least)))
	case e.known == never || e.least < never && e.known >= e.least+putOff:
		x.conditions = append(x.conditions, "#TT >= "+x.whole(":TL", e.least))
	default:
		x.sets = append(x.sets, "#TT = "+x.whole(":TT", e.at))
		x.conditions = append(x.conditions, "(attribute_not_exists(#TT) OR #TT <= :TT)")
	}
}

func numberValue(n limit.Num) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: n.String()}
}

func wholeValue(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}
