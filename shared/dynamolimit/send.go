package dynamolimit

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-dev/sluice/shared/awserr"
	"github.com/sluice-dev/sluice/shared/limit"
)

// A change is something to be done to one or several items in one step, however often
// it takes to be tried. Acquire, Settle and Grant are changes.
type change struct {
	doing  string
	id     string // by which the items remember it
	shared bool   // whether others may make the same change, by the same id
	places []place

	// plan says what to write, given what is known of the items, in the order of
	// places. It returns errDone if nothing is to be, errLook if that can't be told
	// before all items have been read, errStale if the registry's copy is too old,
	// and other errors to end with.
	plan func(known []view, at time.Time) ([]*write, error)

	// judge is asked about writes that were refused, or not even sent, at the time that
	// they carried. An error ends the change with it, except for errStale, which
	// plan will come to as well.
	judge func(known []view, refused []*write, at time.Time) error

	// renew is called when the registry has been read again.
	renew func(*registryCopy) error

	// unknown is the outcome when nobody can know whether the change was made.
	// errAgain goes on with another plan.
	unknown func(cause error) error

	// doubtful is told of writes whose answer was lost, and which may be carried out
	// yet. Optional.
	doubtful func([]*write)
}

// outOfReach is the error of a change that may have been made or not, the store being
// out of reach.
func outOfReach(c *change, cause error) error {
	return storeError(limit.ErrStoreDown, c.doing+": an answer was lost, so it may have been done", cause)
}

// signal is what a change's functions answer besides real errors.
type signal string

func (s signal) Error() string { return string(s) }

const (
	errDone  signal = "there is nothing to write"
	errLook  signal = "the items have to be read"
	errStale signal = "the registry has to be read"
	errAgain signal = "something else has to be written"
)

// carryOut makes a change. It returns the writes that made it, nil if nothing was to be
// written or others have made it, and the items as they stood afterwards, nil where that is not known.
func (l *Limiter) carryOut(ctx context.Context, c *change) ([]*write, []item, error) {
	known := l.views.recall(c.places, l.clock.now())
	var doubtful []*write // the first of an id that may have been carried out without an answer
	for try := 0; ; try++ {
		writes, at, err := l.planned(ctx, c, known)
		if err != nil || len(writes) == 0 {
			return nil, nil, err
		}
		sent := l.send(ctx, c, writes, known)
		l.lean(writes, sent)
		if sent.unseen(c) && (doubtful == nil || doubtful[0].id != writes[0].id) {
			doubtful = writes
		}
		switch sent.fate {
		case done:
			if sent.earlier {
				writes = doubtful // if there are several, the charge of the first is worth the least
			}
			return writes, sent.items, nil
		case fatal:
			return nil, nil, sent.err
		case failed, lost, busy:
			copy(known, sent.known)
		}
		if sent.fate == failed {
			if err := c.judged(known, writes, at); err != nil {
				return nil, nil, err
			}
			if try == 0 {
				continue // a wrong guess, and now it is known
			}
		}
		if err := l.patient.pause(ctx, try, limit.ErrStoreBusy, c.doing, sent.err); err != nil {
			return nil, nil, err
		}
	}
}

// judged is judge, without errStale.
func (c *change) judged(known []view, refused []*write, at time.Time) error {
	err := c.judge(known, refused, at)
	if errors.Is(err, errStale) {
		return nil
	}
	return err
}

// mostRenewals is how often in a row the registry is read anew because an item is ahead
// of it. Once is enough, unless policies are changed all the time.
const mostRenewals = 5

// planned returns what a change wants to write, after all the reading that it takes, and
// the time that it is planned for.
func (l *Limiter) planned(ctx context.Context, c *change, known []view) ([]*write, time.Time, error) {
	for renewals := 0; ; {
		at := l.clock.now()
		writes, err := c.plan(known, at)
		switch {
		case errors.Is(err, errDone):
			return nil, at, nil
		case errors.Is(err, errLook):
			if err := l.look(ctx, c, known); err != nil {
				return nil, at, err
			}
			if err := c.judged(known, nil, at); err != nil {
				return nil, at, err
			}
		case errors.Is(err, errStale):
			if renewals++; renewals > mostRenewals {
				return nil, at, storeError(limit.ErrStoreBusy, c.doing+": the policies change all the time", nil)
			}
			registry, err := l.refresh(ctx, l.registry.copied.Load())
			if err != nil {
				return nil, at, err
			}
			if err := c.renew(registry); err != nil {
				return nil, at, err
			}
		default:
			return writes, at, err
		}
	}
}

// lean takes note of whether unsettled guesses were right.
func (l *Limiter) lean(writes []*write, sent sending) {
	if sent.fate != done && sent.fate != failed || sent.earlier {
		return
	}
	for _, w := range writes {
		for i, p := range w.plans {
			if i >= len(w.unsettled) || !w.unsettled[i] {
				continue
			}
			active := p.Branch == limit.Active
			if sent.fate == failed && sent.known[w.index].sure {
				s, err := sent.known[w.index].item.state(w.policies[i])
				active = err == nil && s.Era == p.Era && s.Position.Cmp(p.Low) >= 0
			}
			l.views.lean(w.place, w.policies[i], active)
		}
	}
}

// done is the fate of a request that was carried out.
const done fate = -1

// A sending is what became of writes.
type sending struct {
	fate  fate   // lost: nobody can know, but something else is to be written
	items []item // if done: the items afterwards, nil where that is not known
	known []view // if failed or lost: the items as they were found
	err   error

	doubtful bool // an answer was lost
	earlier  bool // if done: by an earlier request than the one that was answered
}

// unseen reports whether the writes may have been carried out by a request that was not
// answered. A shared change that has been made already was made by somebody else.
func (s *sending) unseen(c *change) bool { return s.doubtful || s.earlier && !c.shared }

// A mishap is what happened to earlier requests for the same writes.
type mishap struct {
	loss   error // of the last answer that was lost
	skewed int   // how often the clock was said to be wrong
}

// send sends writes until it is known what has become of them.
func (l *Limiter) send(ctx context.Context, c *change, writes []*write, known []view) sending {
	token := newID()
	var before mishap
	for try := 0; ; try++ {
		items, err := attempt(ctx, l, func(ctx context.Context) ([]item, error) { return l.request(ctx, writes, token) })
		if err == nil {
			l.learn(writes, items, known)
			return sending{fate: done, items: items, doubtful: before.loss != nil}
		}
		if s, over := l.unanswered(ctx, c, writes, known, &before, err); over {
			s.doubtful = before.loss != nil
			return s
		}
		if err := l.patient.pause(ctx, try, limit.ErrStoreDown, c.doing, err); err != nil {
			return sending{fate: fatal, err: before.explain(c, err), doubtful: before.loss != nil}
		}
	}
}

// explain returns the error of a change that is given up.
func (m *mishap) explain(c *change, err error) error {
	if m.loss == nil {
		return err
	}
	return outOfReach(c, err)
}

// unanswered finds out what an error means for writes, and whether it is over with them.
func (l *Limiter) unanswered(ctx context.Context, c *change, writes []*write, known []view, before *mishap, err error) (s sending, over bool) {
	if awserr.IsClockSkewed(err) {
		if before.skewed++; before.skewed == mostSkewed {
			return sending{fate: fatal, err: before.explain(c, storeError(limit.ErrStoreDenied, c.doing, err))}, true
		}
	}
	switch fateOf(err) {
	case failed:
		return l.refused(ctx, c, writes, known, err, before), true
	case fatal:
		return sending{fate: fatal, err: before.explain(c, storeError(kindOf(err), c.doing, err))}, true
	case busy:
		// To be planned again, since time has passed, unless an answer was lost.
		return sending{fate: busy, err: err}, before.loss == nil && errors.Is(busyKind(err), limit.ErrStoreBusy)
	case lost:
		before.loss = err
		if c.doubtful != nil {
			c.doubtful(writes)
		}
		for _, w := range writes {
			w.complete = len(writes) == 1 // a transaction has its token
		}
	case done:
	}
	return sending{}, false
}

// refused finds out why a condition did not hold.
func (l *Limiter) refused(ctx context.Context, c *change, writes []*write, known []view, err error, before *mishap) sending {
	found, err := l.found(ctx, writes, known, err)
	if err != nil {
		return sending{fate: fatal, err: before.explain(c, err)}
	}
	for _, w := range writes {
		if v := found[w.index]; v.sure && v.item.remembers(c.id) {
			return sending{fate: done, earlier: true, items: justAfter(writes, found)}
		}
	}
	for _, w := range writes {
		if v := found[w.index]; w.complete && v.sure && !w.wouldBeRemembered(v.item) {
			if err := c.unknown(before.loss); !errors.Is(err, errAgain) {
				return sending{fate: fatal, err: err}
			}
			return sending{fate: lost, known: found}
		}
	}
	return sending{fate: failed, known: found}
}

// justAfter returns the items that nobody has written to since these writes.
func justAfter(writes []*write, found []view) []item {
	items := make([]item, len(writes))
	for n, w := range writes {
		if v := found[w.index]; v.sure && v.item.newest() == w.id {
			items[n] = v.item
		}
	}
	return items
}

// wouldBeRemembered reports whether an item that does not remember the write would if
// it had been carried out.
func (w *write) wouldBeRemembered(i item) bool {
	if i.writes() <= w.latest() {
		return true
	}
	if w.given == nil {
		return false
	}
	s, err := i.state(w.given.policy)
	return err == nil && s.Given == w.given.given
}

// found returns what a failed condition tells of the items. Where a store does not
// tell, they are read.
func (l *Limiter) found(ctx context.Context, writes []*write, known []view, failure error) ([]view, error) {
	now := l.clock.now()
	found := make([]view, len(known))
	for i, v := range known {
		found[i] = view{item: v.item, at: v.at}
	}
	var untold []*write
	take := func(w *write, told attributes) {
		if len(told) == 0 {
			untold = append(untold, w)
			return
		}
		found[w.index] = view{item: told, sure: true, at: now}
		l.views.put(w.place, told, now)
	}
	if told, ok := awserr.FailedCondition(failure); ok {
		take(writes[0], told)
	}
	reasons, _ := awserr.CanceledTransaction(failure)
	for i, r := range reasons {
		if i < len(writes) && awserr.ReasonOf(r) == awserr.ConditionFailed {
			take(writes[i], r.Item)
		}
	}
	places := make([]place, len(untold))
	for n, w := range untold {
		places[n] = w.place
	}
	items, err := l.read(ctx, places)
	if err != nil {
		return nil, err
	}
	for n, w := range untold {
		found[w.index] = view{item: items[n], sure: true, at: now}
		l.views.put(w.place, items[n], now)
	}
	return found, nil
}

// learn keeps what the answer to writes tells of the items. A transaction's tells
// nothing: the items are supposed to have been as they were believed to be.
func (l *Limiter) learn(writes []*write, items []item, known []view) {
	now := l.clock.now()
	for i, w := range writes {
		if items[i] != nil {
			l.views.put(w.place, items[i], now)
			continue
		}
		supposed := maps.Clone(known[w.index].item)
		if supposed == nil {
			supposed = item{}
		}
		for n, p := range w.plans {
			before, err := supposed.state(w.policies[n])
			if err != nil {
				continue
			}
			supposed.setState(w.policies[n], p.Apply(before))
		}
		if w.crowding != nil {
			w.crowding.suppose(supposed)
		}
		if w.expiry.at > supposed.expires() {
			supposed[TTLAttribute] = wholeValue(w.expiry.at)
		}
		l.views.put(w.place, supposed, now)
	}
}

// request sends writes in one request: an UpdateItem for one, else a transaction. It
// returns the items afterwards, nil where the answer does not tell.
func (l *Limiter) request(ctx context.Context, writes []*write, token string) ([]item, error) {
	if len(writes) == 1 {
		x := writes[0].expression()
		out, err := l.api.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName:                           &l.table,
			Key:                                 writes[0].place.itemKey(),
			ConditionExpression:                 aws.String(x.condition()),
			UpdateExpression:                    aws.String(x.update()),
			ExpressionAttributeNames:            x.names,
			ExpressionAttributeValues:           x.values,
			ReturnValues:                        types.ReturnValueAllNew,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}, l.clock.once)
		if err != nil {
			return nil, err
		}
		if len(out.Attributes) == 0 {
			return []item{nil}, nil
		}
		return []item{item(out.Attributes)}, nil
	}
	in := &dynamodb.TransactWriteItemsInput{ClientRequestToken: &token}
	for _, w := range writes {
		x := w.expression()
		in.TransactItems = append(in.TransactItems, types.TransactWriteItem{Update: &types.Update{
			TableName:                           &l.table,
			Key:                                 w.place.itemKey(),
			ConditionExpression:                 aws.String(x.condition()),
			UpdateExpression:                    aws.String(x.update()),
			ExpressionAttributeNames:            x.names,
			ExpressionAttributeValues:           x.values,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}})
	}
	_, err := l.api.TransactWriteItems(ctx, in, l.clock.once)
	return make([]item, len(writes)), err
}

// look reads all items of a change.
func (l *Limiter) look(ctx context.Context, c *change, known []view) error {
	items, err := l.read(ctx, c.places)
	if err != nil {
		return err
	}
	now := l.clock.now()
	for i, p := range c.places {
		known[i] = view{item: items[i], sure: true, at: now}
		l.views.put(p, items[i], now)
	}
	return nil
}

// read reads items consistently, in one request if the store is not busy.
func (l *Limiter) read(ctx context.Context, places []place) ([]item, error) {
	if len(places) == 1 {
		key := places[0].itemKey()
		i, err := l.readItem(ctx, key[partitionKey], key[sortKey])
		return []item{i}, err
	}
	items := make([]item, len(places))
	keys := make([]attributes, len(places))
	index := make(map[string]int, len(places))
	for i, p := range places {
		keys[i] = p.itemKey()
		index[keyText(keys[i])] = i
	}
	const doing = "reading the state of several keys"
	for try := 0; len(keys) > 0; try++ {
		if try > 0 {
			if err := l.patient.pause(ctx, try-1, limit.ErrStoreBusy, doing, nil); err != nil {
				return nil, err
			}
		}
		in := &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
			l.table: {Keys: keys, ConsistentRead: aws.Bool(true)},
		}}
		out, err := again(ctx, l, doing, func(ctx context.Context) (*dynamodb.BatchGetItemOutput, error) {
			return l.api.BatchGetItem(ctx, in, l.clock.once)
		})
		if err != nil {
			return nil, err
		}
		for _, answers := range out.Responses {
			for _, a := range answers {
				if i, ok := index[keyText(a)]; ok {
					items[i] = a
				}
			}
		}
		keys = out.UnprocessedKeys[l.table].Keys
	}
	return items, nil
}

func keyText(a attributes) string {
	if pk, ok := a[partitionKey].(*types.AttributeValueMemberS); ok {
		return pk.Value
	}
	return ""
}

func (l *Limiter) readItem(ctx context.Context, pk, sk types.AttributeValue) (item, error) {
	in := &dynamodb.GetItemInput{
		TableName:      &l.table,
		Key:            attributes{partitionKey: pk, sortKey: sk},
		ConsistentRead: aws.Bool(true),
	}
	out, err := again(ctx, l, "reading an item", func(ctx context.Context) (*dynamodb.GetItemOutput, error) {
		return l.api.GetItem(ctx, in, l.clock.once)
	})
	if err != nil {
		return nil, err
	}
	if len(out.Item) == 0 {
		return nil, nil
	}
	return out.Item, nil
}
