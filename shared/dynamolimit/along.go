package dynamolimit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/sluice-dev/sluice/shared/awserr"
	"github.com/sluice-dev/sluice/shared/limit"
)

// A Task is who takes a turn.
type Task struct {
	ID string
	// Type is its task type, by which a function that could take it along knows whether
	// it serves it.
	Type string
}

// A Sleeper is a parked task that a function has taken out of the index, to wake it.
// Whoever takes the entry out has the task in hand; who finds none leaves it alone for a
// while. The index is a hint all the same: a function that dies with a sleeper in hand
// leaves a task that is woken by its own wake-up, only not earlier.
type Sleeper struct {
	Task  Task
	Place limit.Place
	// Found tells that the task was in the index.
	Found bool

	l     *Limiter
	entry attributes // as it was, nil unless found
	along bool
}

// Take takes a task that was woken under a place out of the index.
func (l *Limiter) Take(ctx context.Context, task Task, p limit.Place) (*Sleeper, error) {
	ctx, cancel := l.patient.limit(ctx)
	defer cancel()
	entry, err := l.removeEntry(ctx, p, task.ID)
	if err != nil {
		return nil, err
	}
	return &Sleeper{Task: task, Place: p, Found: len(entry) > 0, l: l, entry: entry}, nil
}

// Wake decides about a sleeper: see [limit.Wake]. It is used up by that. One that was
// taken along sleeps on as it did if its turn has not come, see [Turn.Unchanged].
func (s *Sleeper) Wake(ctx context.Context, tiers []limit.Tier, p limit.Patience) (*Turn, error) {
	t := &Turn{l: s.l, task: s.Task, tiers: tiers, patience: p, held: &s.Place, sleeper: s, uncounted: !s.Found}
	if s.along {
		return s.l.turn(ctx, t, accompanying)
	}
	return s.l.turn(ctx, t, waking)
}

// PutBack puts a sleeper back into the index as it was: it is not going to be woken.
func (s *Sleeper) PutBack(ctx context.Context) error {
	if !s.Found {
		return nil
	}
	ctx, cancel := s.l.patient.limit(ctx)
	defer cancel()
	in := &dynamodb.PutItemInput{
		TableName: &s.l.table, Item: s.entry,
		ConditionExpression: aws.String("attribute_not_exists(" + partitionKey + ")"),
	}
	_, err := again(ctx, s.l, "putting a task back into the index", func(ctx context.Context) (*dynamodb.PutItemOutput, error) {
		return s.l.api.PutItem(ctx, in, s.l.clock.once)
	})
	if _, there := awserr.FailedCondition(err); there {
		return nil
	}
	return err
}

// Leave has a sleeper leave its place that is not going to run: see [Limiter.Leave].
func (s *Sleeper) Leave(ctx context.Context) error {
	if !s.Found {
		return nil
	}
	ctx, cancel := s.l.patient.limit(ctx)
	defer cancel()
	return s.l.countOut(ctx, place{s.Place.Group, s.Place.Key})
}

// Waits returns a key of the tiers on which tasks are parked, and the zero Crowd if there
// is none.
func (l *Limiter) Waits(ctx context.Context, tiers []limit.Tier) (Crowd, error) {
	ctx, cancel := l.patient.limit(ctx)
	defer cancel()
	resolved, err := l.resolve(ctx, tiers)
	if err != nil {
		return Crowd{}, err
	}
	places := placesOf(resolved)
	if len(places) == 0 {
		return Crowd{}, nil
	}
	items, err := l.read(ctx, places)
	if err != nil {
		return Crowd{}, err
	}
	for n, p := range places {
		waiting, err := items[n].whole(waitingAttribute)
		if err != nil {
			return Crowd{}, err
		}
		if waiting > 0 {
			return Crowd{p.group, p.key, waiting}, nil
		}
	}
	return Crowd{}, nil
}

const (
	// firstPage is how many of those who wait a function looks at to take one along.
	firstPage = 50
	// mostTaken is how many of them it tries to take, where others are faster.
	mostTaken = 5
)

// TakeAlong takes one of those who wait on a key out of the index whose wake-up is late,
// for a function that is done with a task: see [limit.Patience.TakeAlong]. serves tells
// whether the function can run tasks of a type; others are left where they are. The
// result is nil if there is nobody to be taken along; with a time, there may be then.
//
// It costs one Query, which need not be consistent, since who was there is found out by
// taking it; where somebody is late, also the item is read, and a delete has one of them.
func (l *Limiter) TakeAlong(ctx context.Context, c Crowd, serves func(taskType string) bool, p limit.Patience) (*Sleeper, time.Time, error) {
	ctx, cancel := l.patient.limit(ctx)
	defer cancel()
	at := place{c.Group, c.Key}
	page, err := l.firstSleepers(ctx, at, serves)
	if err != nil || len(page) == 0 {
		return nil, time.Time{}, err
	}
	tiers, err := l.tiersOf(ctx, at)
	if err != nil {
		return nil, time.Time{}, err
	}
	luck := l.patient.random()
	// How the key was last seen tells in most cases that nobody can be taken along.
	seen := l.views.get(at, l.clock.now()).item
	if _, ok, err := l.along(at, seen, tiers, page, p, luck); !ok || err != nil {
		return nil, time.Time{}, err
	}
	items, err := l.read(ctx, []place{at})
	if err != nil {
		return nil, time.Time{}, err
	}
	when, ok, err := l.along(at, items[0], tiers, page, p, luck)
	if !ok || err != nil {
		return nil, time.Time{}, err
	}
	if when.After(l.clock.now()) {
		return nil, when, nil
	}
	s, err := l.takeOne(ctx, page, tiers, p.Vacated)
	return s, time.Time{}, err
}

// along asks when somebody of a page may be taken along.
func (l *Limiter) along(at place, seen item, tiers []tier, page []sleeper, p limit.Patience, luck float64) (time.Time, bool, error) {
	i, err := seen.crowded(at, tiers)
	if err != nil {
		return time.Time{}, false, err
	}
	entries := make([]limit.Sleeper, len(page))
	for n, s := range page {
		entries[n] = s.under(tiers)
	}
	now := l.clock.now()
	if l.concurrency > 0 {
		costly := i
		costly.Tiers = slices.Clone(i.Tiers)
		for k := range costly.Tiers {
			costly.Tiers[k].Units = entries[0].Units[k]
		}
		p = p.Within(l.concurrency, []limit.Item{costly}, now)
	}
	when, ok := p.TakeAlong(i, entries, luck, now)
	return when, ok, nil
}

// firstSleepers returns the first of those who wait that the function can run.
func (l *Limiter) firstSleepers(ctx context.Context, at place, serves func(string) bool) ([]sleeper, error) {
	in := &dynamodb.QueryInput{
		TableName:                 &l.table,
		KeyConditionExpression:    aws.String(partitionKey + " = :pk"),
		ExpressionAttributeValues: attributes{":pk": text(at.sleeperPartition())},
		Limit:                     aws.Int32(firstPage),
	}
	out, err := again(ctx, l, "looking for a parked task to take along", func(ctx context.Context) (*dynamodb.QueryOutput, error) {
		return l.api.Query(ctx, in, l.clock.once)
	})
	if err != nil {
		return nil, err
	}
	var page []sleeper
	for _, i := range out.Items {
		s, err := item(i).sleeper()
		if err != nil {
			return nil, err
		}
		if serves(s.taskType) {
			page = append(page, s)
		}
	}
	return page, nil
}

// takeOne takes the first one out of the index, or one of those who are late, any one:
// others look at the same page.
func (l *Limiter) takeOne(ctx context.Context, page []sleeper, tiers []tier, first bool) (*Sleeper, error) {
	if !first {
		now := l.clock.now()
		page = slices.DeleteFunc(page, func(s sleeper) bool { return !s.under(tiers).Missed(now) })
	}
	for range mostTaken {
		if len(page) == 0 {
			break
		}
		n := 0
		if !first {
			n = min(int(l.patient.random()*float64(len(page))), len(page)-1)
		}
		s := page[n]
		page = slices.Delete(page, n, n+1)
		taken, err := l.takeEntry(ctx, s)
		if err != nil {
			return nil, err
		}
		if taken {
			return &Sleeper{Task: Task{s.task, s.taskType}, Place: s.place, Found: true, l: l, entry: s.entry, along: true}, nil
		}
	}
	return nil, nil
}

// takeEntry removes an entry from the index if it is still as it was read.
func (l *Limiter) takeEntry(ctx context.Context, s sleeper) (bool, error) {
	x := &expression{names: map[string]string{}, values: attributes{}}
	in := &dynamodb.DeleteItemInput{
		TableName:                 &l.table,
		Key:                       s.key,
		ConditionExpression:       aws.String(fmt.Sprintf("%s = %s", x.name("#a", askedAttribute), x.whole(":a", s.asked.UnixMilli()))),
		ExpressionAttributeNames:  x.names,
		ExpressionAttributeValues: x.values,
	}
	_, err := again(ctx, l, "taking a parked task along", func(ctx context.Context) (*dynamodb.DeleteItemOutput, error) {
		return l.api.DeleteItem(ctx, in, l.clock.once)
	})
	if _, gone := awserr.FailedCondition(err); gone {
		return false, nil
	}
	return err == nil, err
}

// accompanying decides about a sleeper that is taken along. If it has to sleep on, nothing
// is written: its wake-up is still to come.
func accompanying(t *Turn, items []limit.Item, p limit.Patience, at time.Time) limit.Step {
	step := waking(t, items, p, at)
	if step.Action == limit.ToPark || step.Action == limit.ToKeep {
		return limit.Step{Action: limit.ToKeep, Blocked: step.Blocked}
	}
	return step
}

// uncount keeps a step from counting out a sleeper that was not in the index: whoever had
// it in hand before may have done so. If not, one too many is counted until nobody waits.
func uncount(step *limit.Step) {
	for n := range step.Plans {
		switch p := &step.Plans[n]; p.Crowd {
		case limit.CrowdLeave:
			p.Crowd = ""
		case limit.CrowdRejoin:
			p.Crowd = limit.CrowdJoin
		}
	}
}
