package dynamolimit

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-dev/sluice/shared/awserr"
	"github.com/sluice-dev/sluice/shared/limit"
)

// Grant implements [limit.Operator] with a read and a write.
func (l *Limiter) Grant(ctx context.Context, t limit.Tier, n int64) error {
	if n < -limit.MaxUnits || n > limit.MaxUnits {
		return &limit.InvalidRequestError{Problem: fmt.Sprintf("a grant of %d on %v: want at most %d either way", n, t, limit.MaxUnits)}
	}
	ctx, cancel := l.patient.limit(ctx)
	defer cancel()
	resolved, err := l.resolve(ctx, []limit.Tier{t.Cost(0)})
	if err != nil {
		return err
	}
	g := &grant{id: newID(), tier: resolved[0], units: n}
	c := &change{
		doing:  fmt.Sprintf("granting %d on a key of %s", n, g.tier.Policy.Name),
		id:     g.id,
		places: []place{g.tier.place},
		plan:   g.plan,
		judge:  func([]view, []*write, time.Time) error { return nil },
		renew: func(c *registryCopy) (err error) {
			g.tier.meter, err = c.meter(g.tier.Policy.Name)
			return err
		},
	}
	c.unknown = func(cause error) error { return outOfReach(c, cause) }
	_, _, err = l.carryOut(ctx, c)
	return err
}

type grant struct {
	id    string
	tier  tier
	units int64
}

func (g *grant) plan(known []view, at time.Time) ([]*write, error) {
	v := known[0]
	if !v.sure {
		return nil, errLook
	}
	policy := g.tier.Policy.Name
	s, err := v.item.state(policy)
	if err != nil {
		return nil, err
	}
	next, stale := g.tier.meter.Grant(s, g.units, at)
	switch {
	case stale:
		return nil, errStale
	case next == s:
		return nil, errDone
	}
	w := &write{
		place: g.tier.place, id: g.id, seen: v.item.writes(), expiry: expiry{known: v.item.expires()},
		policies: []string{policy}, plans: []limit.Plan{limit.Replace(s, next)},
	}
	w.expiry.extend(g.tier.meter, next, at)
	return []*write{w}, nil
}

// Hold implements [limit.Operator] with one write, which may arrive any number of times.
func (l *Limiter) Hold(ctx context.Context, t limit.Tier, until time.Time) error {
	ctx, cancel := l.patient.limit(ctx)
	defer cancel()
	resolved, err := l.resolve(ctx, []limit.Tier{t.Cost(0)})
	if err != nil {
		return err
	}
	h := resolved[0]
	held := limit.State{}.HoldUntil(until)
	doing := fmt.Sprintf("holding a key of %s", h.Policy.Name)
	var e expiry
	for try := 0; ; try++ {
		e.extend(h.meter, held, l.clock.now())
		x := &expression{names: map[string]string{}, values: attributes{}}
		name := x.name("#ha", attribute(holdAttribute, h.Policy.Name))
		x.conditions = []string{fmt.Sprintf("(attribute_not_exists(%s) OR %s < %s)", name, name, x.whole(":ha", held.Hold))}
		x.sets = []string{name + " = :ha"}
		x.expire(e)
		found, done, err := l.set(ctx, h.place, x, x.update(), doing)
		if err != nil || done {
			return err
		}
		s, err := found.state(h.Policy.Name)
		if err != nil || s.Hold >= held.Hold {
			return err // held for longer already, or by this very call
		}
		e.known = found.expires()
		if err := l.patient.pause(ctx, try, limit.ErrStoreBusy, doing, nil); err != nil {
			return err
		}
	}
}

// Release implements [limit.Operator] with one write.
func (l *Limiter) Release(ctx context.Context, t limit.Tier) error {
	ctx, cancel := l.patient.limit(ctx)
	defer cancel()
	resolved, err := l.resolve(ctx, []limit.Tier{t.Cost(0)})
	if err != nil {
		return err
	}
	x := &expression{names: map[string]string{}}
	name := x.name("#ha", attribute(holdAttribute, t.Policy.Name))
	x.conditions = []string{fmt.Sprintf("attribute_exists(%s)", name)}
	_, _, err = l.set(ctx, resolved[0].place, x, "REMOVE "+name, fmt.Sprintf("releasing a key of %s", resolved[0].Policy.Name))
	return err
}

// set carries out an update of one item that does no harm when it is carried out
// twice. If its condition does not hold it returns the item.
func (l *Limiter) set(ctx context.Context, p place, x *expression, update, doing string) (found item, done bool, err error) {
	in := &dynamodb.UpdateItemInput{
		TableName:                           &l.table,
		Key:                                 p.itemKey(),
		ConditionExpression:                 aws.String(x.condition()),
		UpdateExpression:                    &update,
		ExpressionAttributeNames:            x.names,
		ExpressionAttributeValues:           x.values,
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	out, err := again(ctx, l, doing, func(ctx context.Context) (*dynamodb.UpdateItemOutput, error) {
		return l.api.UpdateItem(ctx, in, l.clock.once)
	})
	told, failed := awserr.FailedCondition(err)
	if err != nil && !failed {
		return nil, false, err
	}
	if found = told; !failed {
		found = out.Attributes
	} else if len(found) == 0 {
		if found, err = l.readItem(ctx, in.Key[partitionKey], in.Key[sortKey]); err != nil {
			return nil, false, err
		}
	}
	l.views.put(p, found, l.clock.now())
	return found, !failed, nil
}
