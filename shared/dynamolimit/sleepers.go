package dynamolimit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/go-json-experiment/json"

	"github.com/sluice-dev/sluice/shared/limit"
)

// The index of parked tasks has one item per sleeper, in a partition per group and key,
// in the order of their places. It is a hint: it says whom to wake earlier and how many
// wait, and decides nothing. The list of crowds has one item per group and key with
// sleepers.
const (
	sleeperPrefix   = "s"
	crowdsPartition = "crowds"

	taskAttribute   = "task"
	typeAttribute   = "type"
	placeAttribute  = "place"
	unitsAttribute  = "units"
	askedAttribute  = "asked"
	missedAttribute = "missed"

	groupAttribute = "group"
	keyAttribute   = "key"
	idleAttribute  = "idle_ticket"
	sinceAttribute = "idle_since"

	// forgotten is how long after it is due an entry is forgotten that nobody removed.
	forgotten = 30 * 24 * time.Hour
)

// sleeperPartition returns the partition of a place's sleepers.
func (p place) sleeperPartition() string {
	partition, _ := p.itemKey()[partitionKey].(*types.AttributeValueMemberS) // it always is
	return sleeperPrefix + partition.Value
}

// entryKey returns the primary key of a sleeper's entry.
func entryKey(pl limit.Place, task string) attributes {
	p := place{pl.Group, pl.Key}
	return attributes{partitionKey: text(p.sleeperPartition()), sortKey: text(fmt.Sprintf("%019d:%s", pl.Ticket, task))}
}

// crowdKey returns the primary key of a place in the list of those with sleepers.
func (p place) crowdKey() attributes {
	sum := sha256.Sum256([]byte(p.group + ":" + p.key))
	return attributes{partitionKey: text(crowdsPartition), sortKey: text(hex.EncodeToString(sum[:]))}
}

// announce puts a place into the list of those with sleepers, and clears what was noted
// of its being empty.
func (l *Limiter) announce(ctx context.Context, p place) error {
	entry := p.crowdKey()
	entry[groupAttribute], entry[keyAttribute], entry[writeAttribute] = text(p.group), text(p.key), text(newID())
	in := &dynamodb.PutItemInput{TableName: &l.table, Item: entry}
	_, err := again(ctx, l, fmt.Sprintf("listing a key of group %s among those with sleepers", p.group), func(ctx context.Context) (*dynamodb.PutItemOutput, error) {
		return l.api.PutItem(ctx, in, l.clock.once)
	})
	return err
}

// index puts a task that sleeps into the index. A failure is logged: a task that is not
// in the index wakes up all the same.
func (t *Turn) index(ctx context.Context, d *decision) {
	var err error
	switch {
	case t.Unchanged:
		err = t.sleeper.PutBack(ctx)
	case t.Action == limit.ToPark, t.Action == limit.ToKeep:
		err = t.l.enter(ctx, t, d)
	}
	if err != nil {
		t.l.clock.log.WarnContext(ctx, "a parked task is not in the index, and can't be woken early", "task_id", t.task.ID, "error", err)
	}
}

// enter puts a task into the index.
func (l *Limiter) enter(ctx context.Context, t *Turn, d *decision) error {
	place, err := json.Marshal(t.Place)
	if err != nil {
		return err
	}
	units := attributes{}
	for _, c := range d.costly {
		if c.Policy.Group == t.Place.Group && c.Key == t.Place.Key {
			units[c.Policy.Name] = wholeValue(c.Units)
		}
	}
	entry := entryKey(t.Place, t.task.ID)
	entry[taskAttribute], entry[typeAttribute], entry[placeAttribute] = text(t.task.ID), text(t.task.Type), text(string(place))
	entry[unitsAttribute] = &types.AttributeValueMemberM{Value: units}
	entry[askedAttribute] = wholeValue(t.WakeAt.UnixMilli())
	entry[TTLAttribute] = wholeValue(min(t.Until.Add(forgotten).Unix(), never))
	in := &dynamodb.PutItemInput{TableName: &l.table, Item: entry}
	_, err = again(ctx, l, "putting a parked task into the index", func(ctx context.Context) (*dynamodb.PutItemOutput, error) {
		return l.api.PutItem(ctx, in, l.clock.once)
	})
	return err
}

// removeEntry removes a task from the index, and returns the entry that it had, nil for
// none.
func (l *Limiter) removeEntry(ctx context.Context, p limit.Place, task string) (attributes, error) {
	in := &dynamodb.DeleteItemInput{TableName: &l.table, Key: entryKey(p, task), ReturnValues: types.ReturnValueAllOld}
	out, err := again(ctx, l, "removing a task from the index", func(ctx context.Context) (*dynamodb.DeleteItemOutput, error) {
		return l.api.DeleteItem(ctx, in, l.clock.once)
	})
	if err != nil {
		return nil, err
	}
	return out.Attributes, nil
}

// Leave has a task leave its place that is not going to run: it was cancelled, has
// expired, or is gone. A repeated call does nothing: who removes the entry from the index
// also counts it out.
func (l *Limiter) Leave(ctx context.Context, task string, p limit.Place) error {
	ctx, cancel := l.patient.limit(ctx)
	defer cancel()
	entry, err := l.removeEntry(ctx, p, task)
	if err != nil || len(entry) == 0 {
		return err
	}
	return l.countOut(ctx, place{p.Group, p.Key})
}

// countOut counts one out of those who wait.
func (l *Limiter) countOut(ctx context.Context, p place) error {
	return l.crowdOf(ctx, p, func(i limit.Item) limit.ItemPlan {
		return limit.ItemPlan{Group: i.Group, Key: i.Key, Crowd: limit.CrowdLeave}
	}, nil)
}

// mostSearched is how many of those who wait [Limiter.Forget] looks at.
const mostSearched = 2 * pageSize

// Forget has a task leave its place that has ended, where it is no longer known which one
// that is: it is looked for among the first who wait under the tiers. It reports whether
// the task was there.
func (l *Limiter) Forget(ctx context.Context, task string, tiers []limit.Tier) (vacated bool, err error) {
	ctx, cancel := l.patient.limit(ctx)
	defer cancel()
	resolved, err := l.resolve(ctx, tiers)
	if err != nil {
		return false, err
	}
	for _, p := range placesOf(resolved) {
		searched := 0
		for s, err := range l.sleepers(ctx, p) {
			if err != nil {
				return false, err
			}
			if s.task == task {
				return true, l.Leave(ctx, task, s.place)
			}
			if searched++; searched == mostSearched {
				break
			}
		}
	}
	return false, nil
}

// crowdOf changes what an item says of those who wait, of the policies given.
func (l *Limiter) crowdOf(ctx context.Context, p place, next func(limit.Item) limit.ItemPlan, tiers []tier) error {
	id := newID()
	c := &change{
		doing:  fmt.Sprintf("counting those who wait on a key of group %s", p.group),
		id:     id,
		places: []place{p},
		plan: func(known []view, _ time.Time) ([]*write, error) {
			if !known[0].sure {
				return nil, errLook
			}
			i, err := known[0].item.crowded(p, tiers)
			if err != nil {
				return nil, err
			}
			plan := next(i)
			if plan.Empty() {
				return nil, errDone
			}
			return []*write{{place: p, id: id, seen: known[0].item.writes(), crowding: &crowding{plan: plan, before: i}}}, nil
		},
		judge: func([]view, []*write, time.Time) error { return nil },
		renew: func(*registryCopy) error { return nil },
	}
	c.unknown = func(cause error) error { return outOfReach(c, cause) }
	_, _, err := l.carryOut(ctx, c)
	return err
}

// A Crowd is a policy group and key on which tasks are parked.
type Crowd struct {
	Group   string `json:"group"`
	Key     string `json:"key"`
	Waiting int64  `json:"waiting"` // how many tasks
}

// Crowds returns the policy groups and keys on which tasks are parked, in no order.
func (l *Limiter) Crowds(ctx context.Context) ([]Crowd, error) {
	crowds, _, err := l.FirstCrowds(ctx, math.MaxInt)
	return crowds, err
}

// FirstCrowds is Crowds that looks at so many groups and keys at most, with two requests
// per hundred, and reports whether there are more.
func (l *Limiter) FirstCrowds(ctx context.Context, most int) (crowds []Crowd, more bool, err error) {
	ctx, cancel := l.patient.limit(ctx)
	defer cancel()
	var places []place
	for listed, err := range l.crowds(ctx) {
		if err != nil {
			return nil, false, err
		}
		if more = len(places) == most; more {
			break
		}
		places = append(places, listed.place)
	}
	for page := range slices.Chunk(places, pageSize) {
		items, err := l.read(ctx, page)
		if err != nil {
			return nil, false, err
		}
		for n, i := range items {
			waiting, err := i.whole(waitingAttribute)
			if err != nil {
				return nil, false, err
			}
			if waiting > 0 {
				crowds = append(crowds, Crowd{page[n].group, page[n].key, waiting})
			}
		}
	}
	return crowds, more, nil
}

// listedCrowd is an item of the list of crowds.
type listedCrowd struct {
	place place
	stamp string // of the last announcement
	// ticket is the item's when the index was found empty at that time, the zero time
	// for not.
	ticket int64
	since  time.Time
}

// crowds walks the list of crowds.
func (l *Limiter) crowds(ctx context.Context) iter.Seq2[listedCrowd, error] {
	return func(yield func(listedCrowd, error) bool) {
		for i, err := range l.query(ctx, crowdsPartition, "reading the list of keys with sleepers") {
			c := listedCrowd{place: place{i.text(groupAttribute), i.text(keyAttribute)}, stamp: i.text(writeAttribute)}
			if err == nil {
				c.ticket, err = i.whole(idleAttribute)
			}
			if err == nil && i[sinceAttribute] != nil {
				var ms int64
				ms, err = i.whole(sinceAttribute)
				c.since = time.UnixMilli(ms)
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// sleeper is an entry of the index.
type sleeper struct {
	entry    attributes // all of it
	key      attributes
	task     string
	taskType string
	place    limit.Place
	units    map[string]int64
	asked    time.Time
	missed   int64 // how often it was asked to wake up without doing so
}

// sleepers walks those who wait on a place, first come first.
func (l *Limiter) sleepers(ctx context.Context, p place) iter.Seq2[sleeper, error] {
	return func(yield func(sleeper, error) bool) {
		for i, err := range l.query(ctx, p.sleeperPartition(), "reading the index of parked tasks") {
			var s sleeper
			if err == nil {
				s, err = i.sleeper()
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

func (i item) sleeper() (s sleeper, err error) {
	s.entry = attributes(i)
	s.key = attributes{partitionKey: i[partitionKey], sortKey: i[sortKey]}
	s.task, s.taskType = i.text(taskAttribute), i.text(typeAttribute)
	if err := json.Unmarshal([]byte(i.text(placeAttribute)), &s.place); err != nil {
		return sleeper{}, fmt.Errorf("the index entry of task %q: %w", s.task, err)
	}
	ms, err := i.whole(askedAttribute)
	if err != nil {
		return sleeper{}, err
	}
	s.asked = time.UnixMilli(ms)
	if s.missed, err = i.whole(missedAttribute); err != nil {
		return sleeper{}, err
	}
	s.units = map[string]int64{}
	if m, ok := i[unitsAttribute].(*types.AttributeValueMemberM); ok {
		for policy := range m.Value {
			if s.units[policy], err = item(m.Value).whole(policy); err != nil {
				return sleeper{}, err
			}
		}
	}
	return s, nil
}

func (i item) text(name string) string {
	if s, ok := i[name].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// pageSize is how many items of a partition are read at once.
const pageSize = 100

// query walks a partition in the order of its sort keys, consistently, page by page.
func (l *Limiter) query(ctx context.Context, partition, doing string) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		in := &dynamodb.QueryInput{
			TableName:                 &l.table,
			ConsistentRead:            aws.Bool(true),
			KeyConditionExpression:    aws.String(partitionKey + " = :pk"),
			ExpressionAttributeValues: attributes{":pk": text(partition)},
			Limit:                     aws.Int32(pageSize),
		}
		for {
			out, err := again(ctx, l, doing, func(ctx context.Context) (*dynamodb.QueryOutput, error) {
				return l.api.Query(ctx, in, l.clock.once)
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, i := range out.Items {
				if !yield(item(i), nil) {
					return
				}
			}
			if in.ExclusiveStartKey = out.LastEvaluatedKey; len(out.LastEvaluatedKey) == 0 {
				return
			}
		}
	}
}
