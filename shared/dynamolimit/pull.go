package dynamolimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-dev/sluice/shared/awserr"
	"github.com/sluice-dev/sluice/shared/limit"
)

// A Round is what looking after sleepers came to.
type Round struct {
	Crowds    int // groups and keys in the list
	Waiting   int // tasks that wait under places
	Pulled    int // that were asked to wake up earlier
	Forgotten int // entries of tasks that did not come when woken twice

	// Parked is Waiting by the group of policies. A group whose last task has left is in
	// it with 0 for some rounds.
	Parked map[string]int
	// Counted tells that Waiting and Parked are known, of every group and key.
	Counted bool
	counted int // groups and keys of which it is known

	mu sync.Mutex
}

func (r *Round) count(n *int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*n++
}

// parked notes how many tasks are parked on a key of a group.
func (r *Round) parked(group string, n int64) {
	r.Waiting += int(max(n, 0))
	r.Parked[group] += int(max(n, 0))
	r.counted++
}

const (
	// slack is by how much earlier a sleeper must gain to be woken for it, as the round of
	// the minute is.
	slack = time.Minute
	// mostMissed is how many lost wake-ups a sleeper is asked again after; then it counts
	// as gone. Should it come all the same, it is taken as it is.
	mostMissed = 2
	// mostPulled is how many sleepers of one key a round wakes.
	mostPulled = 2000
	// atOnce is how many wake-ups are asked for at the same time.
	atOnce = 16
	// calm is how long a key's index must have been empty, with nobody going to sleep,
	// until nobody counts as waiting.
	calm = 50 * time.Second
)

// PullForward looks after all sleepers, and has arm ask for earlier wake-ups of those that
// can run earlier than they asked for: since a grant, a reset or a change of a policy, the
// end of a hold, or because those before them left. Wake-ups that were lost are asked for
// again, and of keys with nobody left the count is set right. It is to be called about
// once a minute. A key that can't be looked after does not keep others from it.
func (l *Limiter) PullForward(ctx context.Context, p limit.Patience, arm func(ctx context.Context, task string, at time.Time) error) (*Round, error) {
	ctx, cancel := l.patient.limit(ctx)
	defer cancel()
	round := &Round{Parked: map[string]int{}}
	listed := true
	var errs []error
	for c, err := range l.crowds(ctx) {
		if err == nil {
			round.Crowds++
			err = l.lookAfter(ctx, c, p, arm, round)
		} else {
			listed = false
		}
		if err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			listed = false
			break
		}
	}
	round.Counted = listed && round.counted == round.Crowds
	return round, errors.Join(errs...)
}

// lookAfter looks after the sleepers of one key.
func (l *Limiter) lookAfter(ctx context.Context, c listedCrowd, p limit.Patience, arm func(context.Context, string, time.Time) error, round *Round) error {
	items, err := l.read(ctx, []place{c.place})
	if err != nil {
		return err
	}
	tiers, err := l.tiersOf(ctx, c.place)
	if err != nil {
		return err
	}
	i, err := items[0].crowded(c.place, tiers)
	if err != nil {
		return err
	}
	var seen []sleeper
	var failure error
	entries := func(yield func(limit.Sleeper) bool) {
		for s, err := range l.sleepers(ctx, c.place) {
			if err != nil {
				failure = err
				return
			}
			if seen = append(seen, s); !yield(s.under(tiers)) || len(seen) == mostPulled {
				return
			}
		}
	}
	now := l.clock.now()
	pulls := limit.PullForward(i, entries, p, slack, now)
	empty := failure == nil && len(seen) == 0
	if empty { // whoever is still counted has died, or is just about to go to sleep
		round.parked(c.place.group, 0)
	} else {
		round.parked(c.place.group, i.Waiting)
	}
	switch {
	case failure != nil:
		return failure
	case empty:
		return l.calm(ctx, c, i, tiers, now)
	}
	errs := make([]error, len(pulls))
	var at errgroup.Group
	at.SetLimit(atOnce)
	for n, pull := range pulls {
		at.Go(func() error {
			errs[n] = l.pull(ctx, seen[pull.Index], pull.WakeAt, now, arm, round)
			return nil
		})
	}
	_ = at.Wait() // the errors are in errs, all of them
	return errors.Join(errs...)
}

// tiersOf returns the tiers of all usable policies of a place's group.
func (l *Limiter) tiersOf(ctx context.Context, p place) ([]tier, error) {
	c, err := l.policies(ctx)
	if err != nil {
		return nil, err
	}
	var tiers []tier
	for _, name := range sortedNames(c.policies) {
		r := c.policies[name]
		if r.err != nil || r.meter.Policy().Group != p.group {
			continue
		}
		tiers = append(tiers, tier{limit.Tier{Policy: r.meter.Policy(), Key: p.key}, r.meter, p})
	}
	return tiers, nil
}

// under returns the entry as package limit takes it.
func (s sleeper) under(tiers []tier) limit.Sleeper {
	units := make([]int64, len(tiers))
	for k, t := range tiers {
		units[k] = s.units[t.Policy.Name]
	}
	return limit.Sleeper{Place: s.place, Units: units, Asked: s.asked}
}

// pull asks for an earlier wake-up of a sleeper, or forgets one that does not come.
func (l *Limiter) pull(ctx context.Context, s sleeper, wake, now time.Time, arm func(context.Context, string, time.Time) error, round *Round) error {
	missed := s.missed
	if s.asked.Add(limit.Overdue).Before(now) {
		if missed++; missed > mostMissed {
			round.count(&round.Forgotten)
			return l.Leave(ctx, s.task, s.place)
		}
	}
	if err := arm(ctx, s.task, wake); err != nil {
		return err
	}
	round.count(&round.Pulled)
	x := &expression{names: map[string]string{}, values: attributes{}}
	in := &dynamodb.UpdateItemInput{
		TableName:           &l.table,
		Key:                 s.key,
		ConditionExpression: aws.String("attribute_exists(pk)"), // it may have left meanwhile
		UpdateExpression: aws.String(fmt.Sprintf("SET %s = %s, %s = %s",
			x.name("#a", askedAttribute), x.whole(":a", wake.UnixMilli()), x.name("#m", missedAttribute), x.whole(":m", missed))),
		ExpressionAttributeNames:  x.names,
		ExpressionAttributeValues: x.values,
	}
	_, err := again(ctx, l, "noting an earlier wake-up", func(ctx context.Context) (*dynamodb.UpdateItemOutput, error) {
		return l.api.UpdateItem(ctx, in, l.clock.once)
	})
	if _, left := awserr.FailedCondition(err); left {
		return nil
	}
	return err
}

// calm sets the count of a key right in whose index nobody is, and takes it off the list.
// Somebody may just be about to go to sleep; so it takes two rounds, between which nobody
// was given a place.
func (l *Limiter) calm(ctx context.Context, c listedCrowd, i limit.Item, tiers []tier, now time.Time) error {
	entry := c.place.crowdKey()
	if c.since.IsZero() || c.ticket != i.Ticket {
		x := &expression{names: map[string]string{}, values: attributes{}}
		return l.ifListed(ctx, c, x, fmt.Sprintf("SET %s = %s, %s = %s",
			x.name("#t", idleAttribute), x.whole(":t", i.Ticket), x.name("#s", sinceAttribute), x.whole(":s", now.UnixMilli())))
	}
	if now.Sub(c.since) < calm {
		return nil
	}
	if i.Waiting != 0 {
		ticket := i.Ticket
		if err := l.crowdOf(ctx, c.place, func(i limit.Item) limit.ItemPlan {
			if i.Ticket != ticket {
				return limit.ItemPlan{}
			}
			return limit.DisbandCrowd(i)
		}, tiers); err != nil {
			return err
		}
	}
	in := &dynamodb.DeleteItemInput{
		TableName: &l.table, Key: entry, ConditionExpression: aws.String(writeAttribute + " = :w"),
		ExpressionAttributeValues: attributes{":w": text(c.stamp)},
	}
	_, err := again(ctx, l, "taking a key off the list of those with sleepers", func(ctx context.Context) (*dynamodb.DeleteItemOutput, error) {
		return l.api.DeleteItem(ctx, in, l.clock.once)
	})
	if _, newer := awserr.FailedCondition(err); newer {
		return nil
	}
	return err
}

// ifListed changes an item of the list of crowds, if it is as it was read.
func (l *Limiter) ifListed(ctx context.Context, c listedCrowd, x *expression, update string) error {
	x.values[":w"] = text(c.stamp)
	in := &dynamodb.UpdateItemInput{
		TableName: &l.table, Key: c.place.crowdKey(), UpdateExpression: &update,
		ConditionExpression:      aws.String(writeAttribute + " = :w"),
		ExpressionAttributeNames: x.names, ExpressionAttributeValues: x.values,
	}
	_, err := again(ctx, l, "noting that nobody waits", func(ctx context.Context) (*dynamodb.UpdateItemOutput, error) {
		return l.api.UpdateItem(ctx, in, l.clock.once)
	})
	if _, newer := awserr.FailedCondition(err); newer {
		return nil
	}
	return err
}
