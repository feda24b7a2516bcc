package dynamolimit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/go-json-experiment/json"

	"github.com/sluice-dev/sluice/shared/awserr"
	"github.com/sluice-dev/sluice/shared/limit"
)

// The registry is one partition of the table with an item per policy: its entry as
// JSON, a revision that grows by one with every write, and the id of the last write.
const (
	registryPartition = "registry"

	entryAttribute    = "entry"
	revisionAttribute = "revision"
	writeAttribute    = "write_id"
)

// registry is the limiter's copy of it.
type registry struct {
	cacheFor time.Duration
	declared []declaration

	copied atomic.Pointer[registryCopy]
	turn   chan struct{} // held while the registry is read; one place
}

type declaration struct {
	policy  limit.Policy
	release int64
}

type registryCopy struct {
	policies map[string]*registered
	at       time.Time        // just before it was read
	refused  map[string]error // declared policies that could not be registered
}

// registered is a policy's entry in the registry.
type registered struct {
	entry    limit.Entry
	meter    *limit.Meter
	revision int64
	err      error // why it can't be used
}

// policies returns the copy of the registry to decide by, with all of these policies
// in it if they exist.
func (l *Limiter) policies(ctx context.Context, names ...string) (*registryCopy, error) {
	c, err := l.currentRegistry(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if c.policies[name] == nil && c.refused[name] == nil {
			return l.refresh(ctx, c) // it may just have been registered
		}
	}
	return c, nil
}

func (c *registryCopy) meter(policy string) (*limit.Meter, error) {
	if err := c.refused[policy]; err != nil {
		return nil, err
	}
	r := c.policies[policy]
	if r == nil {
		return nil, unknownPolicy(policy)
	}
	return r.meter, r.err
}

func unknownPolicy(policy string) error {
	return fmt.Errorf("%w %q: it is not in the registry; deploy a version that declares it, or check the name", limit.ErrUnknownPolicy, policy)
}

func (l *Limiter) currentRegistry(ctx context.Context) (*registryCopy, error) {
	if c := l.registry.copied.Load(); c != nil && l.registry.usable(c, l.clock.now()) {
		return c, nil
	}
	return l.refresh(ctx, nil)
}

func (r *registry) usable(c *registryCopy, now time.Time) bool {
	age := now.Sub(c.at)
	return 0 <= age && age < r.cacheFor
}

// refresh reads the registry, unless another call has meanwhile: the copy then must
// be usable and another one than old.
func (l *Limiter) refresh(ctx context.Context, old *registryCopy) (*registryCopy, error) {
	select {
	case l.registry.turn <- struct{}{}:
		defer func() { <-l.registry.turn }()
	case <-ctx.Done():
		return nil, storeError(limit.ErrStoreDown, "waiting for the registry of policies", ctx.Err())
	}
	last := l.registry.copied.Load()
	if last != nil && last != old && l.registry.usable(last, l.clock.now()) {
		return last, nil
	}
	c, err := l.readRegistry(ctx, last)
	if err != nil {
		return nil, err
	}
	if err := l.register(ctx, c, last); err != nil {
		return nil, err
	}
	l.registry.copied.Store(c)
	return c, nil
}

// readRegistry reads all entries in one consistent query.
func (l *Limiter) readRegistry(ctx context.Context, last *registryCopy) (*registryCopy, error) {
	c := &registryCopy{policies: make(map[string]*registered)}
	in := &dynamodb.QueryInput{
		TableName:                 &l.table,
		ConsistentRead:            aws.Bool(true),
		KeyConditionExpression:    aws.String(partitionKey + " = :pk"),
		ExpressionAttributeValues: attributes{":pk": text(registryPartition)},
	}
	for {
		before := l.clock.local()
		out, err := again(ctx, l, "reading the registry of policies", func(ctx context.Context) (*dynamodb.QueryOutput, error) {
			before = l.clock.local()
			return l.api.Query(ctx, in, l.clock.once)
		})
		if err != nil {
			return nil, err
		}
		if in.ExclusiveStartKey == nil {
			// By the clock as the answer has corrected it.
			c.at = before.Add(time.Duration(l.clock.offset.Load()))
		}
		for _, i := range out.Items {
			if sk, ok := i[sortKey].(*types.AttributeValueMemberS); ok {
				c.policies[sk.Value] = parseRegistered(sk.Value, item(i), last)
			}
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; len(out.LastEvaluatedKey) == 0 {
			return c, nil
		}
	}
}

// parseRegistered reads an entry. One that can't be read spoils its own policy only.
func parseRegistered(policy string, i item, last *registryCopy) *registered {
	revision, err := i.whole(revisionAttribute)
	if err != nil {
		return &registered{err: err}
	}
	if last != nil {
		if r := last.policies[policy]; r != nil && r.revision == revision && r.err == nil {
			return r // with what its meter remembers
		}
	}
	r := &registered{revision: revision}
	entry, ok := i[entryAttribute].(*types.AttributeValueMemberS)
	if !ok {
		r.err = fmt.Errorf("the registry's item of policy %q has no entry", policy)
		return r
	}
	if r.err = json.Unmarshal([]byte(entry.Value), &r.entry); r.err == nil {
		r.meter, r.err = limit.NewMeter(r.entry)
	}
	if r.err != nil {
		r.err = fmt.Errorf("the registry's entry of policy %q: %w", policy, r.err)
	}
	return r
}

// register registers what the limiter declares: all of it the first time, and later
// what was refused before, since a newer release may have settled it.
func (l *Limiter) register(ctx context.Context, c, last *registryCopy) error {
	c.refused = make(map[string]error)
	for _, d := range l.registry.declared {
		name := d.policy.Name
		if last != nil && last.refused[name] == nil {
			continue
		}
		err := l.declare(ctx, c, d)
		switch {
		case err == nil:
		case isStoreTrouble(err):
			return err
		default:
			c.refused[name] = err
			if last == nil {
				l.clock.log.Error("a policy can't be registered", "policy", name, "error", err)
			}
		}
	}
	return nil
}

func isStoreTrouble(err error) bool {
	return errors.Is(err, limit.ErrStoreBusy) || errors.Is(err, limit.ErrStoreDown) || errors.Is(err, limit.ErrStoreDenied)
}

// declare registers one policy, starting from a copy of the registry.
func (l *Limiter) declare(ctx context.Context, c *registryCopy, d declaration) error {
	return l.amend(ctx, c, d.policy.Name, func(stored *limit.Entry) (limit.Entry, bool, error) {
		e, what, err := limit.Register(stored, d.policy, d.release, "", l.clock.now())
		return e, what == limit.Created || what == limit.Replaced, err
	})
}

// amend replaces the entry of a policy: next is called with what is stored, or nil,
// as often as others come first, and says whether to write. c is brought up to date.
func (l *Limiter) amend(ctx context.Context, c *registryCopy, policy string, next func(*limit.Entry) (limit.Entry, bool, error)) error {
	doing := fmt.Sprintf("writing the registry's entry of policy %q", policy)
	for try := 0; ; try++ {
		r, stored := c.policies[policy], (*limit.Entry)(nil)
		revision := int64(0)
		if r != nil {
			if r.err != nil {
				return r.err
			}
			entry := r.entry
			stored, revision = &entry, r.revision
		}
		e, write, err := next(stored)
		if err != nil || !write {
			return err
		}
		meter, err := limit.NewMeter(e)
		if err != nil {
			return err
		}
		written, err := l.putEntry(ctx, e, revision, doing)
		if err != nil {
			return err
		}
		if written {
			c.policies[policy] = &registered{entry: e, meter: meter, revision: revision + 1}
			return nil
		}
		if err := l.patient.pause(ctx, try, limit.ErrStoreBusy, doing, nil); err != nil {
			return err
		}
		fresh, err := l.readRegistry(ctx, nil)
		if err != nil {
			return err
		}
		c.policies = fresh.policies
	}
}

// putEntry writes an entry in the place of a revision, and reports whether that was
// still there.
func (l *Limiter) putEntry(ctx context.Context, e limit.Entry, revision int64, doing string) (bool, error) {
	document, err := json.Marshal(e)
	if err != nil {
		return false, err
	}
	id := newID()
	in := &dynamodb.PutItemInput{
		TableName: &l.table,
		Item: attributes{
			partitionKey: text(registryPartition), sortKey: text(e.Policy.Name),
			entryAttribute: text(string(document)), revisionAttribute: wholeValue(revision + 1), writeAttribute: text(id),
		},
		ConditionExpression:                 aws.String("attribute_not_exists(pk)"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if revision > 0 {
		in.ConditionExpression = aws.String("revision = :was")
		in.ExpressionAttributeValues = attributes{":was": wholeValue(revision)}
	}
	_, err = again(ctx, l, doing, func(ctx context.Context) (*dynamodb.PutItemOutput, error) {
		return l.api.PutItem(ctx, in, l.clock.once)
	})
	found, failed := awserr.FailedCondition(err)
	switch {
	case !failed:
		return err == nil, err
	case len(found) == 0:
		if found, err = l.readItem(ctx, in.Item[partitionKey], in.Item[sortKey]); err != nil {
			return false, err
		}
	}
	// The request may have been carried out before, and its answer lost.
	w, ok := found[writeAttribute].(*types.AttributeValueMemberS)
	return ok && w.Value == id, nil
}

// Declare registers policies at a release, as a deployment does: see
// [limit.Register]. The error names every policy that could not be registered.
func (l *Limiter) Declare(ctx context.Context, release int64, policies ...limit.Policy) error {
	set, err := limit.NewSet(policies...)
	if err != nil {
		return err
	}
	ctx, cancel := l.patient.limit(ctx)
	defer cancel()
	return l.write(ctx, func(c *registryCopy) error {
		var errs []error
		for _, p := range set.Policies() {
			errs = append(errs, l.declare(ctx, c, declaration{p, release}))
		}
		return errors.Join(errs...)
	})
}

// write has a fresh copy of the registry changed, and used from then on.
func (l *Limiter) write(ctx context.Context, change func(*registryCopy) error) error {
	c, err := l.refresh(ctx, l.registry.copied.Load())
	if err != nil {
		return err
	}
	changed := *c
	changed.policies = maps.Clone(c.policies)
	err = change(&changed)
	l.registry.copied.CompareAndSwap(c, &changed)
	return err
}

// amendEntry changes the entry of a registered policy, and returns the time by which
// the change is in force everywhere.
func (l *Limiter) amendEntry(ctx context.Context, policy string, next func(limit.Entry, time.Time) (limit.Entry, bool, error)) (time.Time, error) {
	ctx, cancel := l.patient.limit(ctx)
	defer cancel()
	err := l.write(ctx, func(c *registryCopy) error {
		return l.amend(ctx, c, policy, func(stored *limit.Entry) (limit.Entry, bool, error) {
			if stored == nil {
				return limit.Entry{}, false, unknownPolicy(policy)
			}
			return next(*stored, l.clock.now())
		})
	})
	if err != nil {
		return time.Time{}, err
	}
	return l.clock.now().Add(limit.CacheFor), nil
}

// SetOverride implements [limit.Operator].
func (l *Limiter) SetOverride(ctx context.Context, policy string, o limit.Override) (time.Time, error) {
	return l.amendEntry(ctx, policy, func(e limit.Entry, at time.Time) (limit.Entry, bool, error) {
		e, err := e.SetOverride(o, at)
		return e, true, err
	})
}

// ClearOverride implements [limit.Operator].
func (l *Limiter) ClearOverride(ctx context.Context, policy, by string) (time.Time, error) {
	return l.amendEntry(ctx, policy, func(e limit.Entry, at time.Time) (limit.Entry, bool, error) {
		return e.ClearOverride(by, at), e.Override != nil, nil
	})
}

// Reset implements [limit.Operator]. It is one write, however many keys there are.
func (l *Limiter) Reset(ctx context.Context, policy, by string) (time.Time, error) {
	return l.amendEntry(ctx, policy, func(e limit.Entry, at time.Time) (limit.Entry, bool, error) {
		return e.Reset(by, at), true, nil
	})
}

// ResetDue resets the manual policies of which a boundary of their cron has come
// since the last one served, each once however many have, and returns their names.
// It may be called as often as one likes and by several at once.
func (l *Limiter) ResetDue(ctx context.Context, by string) ([]string, error) {
	ctx, cancel := l.patient.limit(ctx)
	defer cancel()
	var reset []string
	err := l.write(ctx, func(c *registryCopy) error {
		var errs []error
		for _, policy := range sortedNames(c.policies) {
			due := false
			err := l.amend(ctx, c, policy, func(e *limit.Entry) (next limit.Entry, write bool, err error) {
				if e == nil {
					return limit.Entry{}, false, nil
				}
				next, due = e.ResetDue(by, l.clock.now())
				return next, due, nil
			})
			if errs = append(errs, err); err == nil && due {
				reset = append(reset, policy)
			}
		}
		return errors.Join(errs...)
	})
	return reset, err
}

// Policies implements [limit.Operator].
func (l *Limiter) Policies(ctx context.Context) ([]limit.Entry, error) {
	ctx, cancel := l.patient.limit(ctx)
	defer cancel()
	c, err := l.refresh(ctx, l.registry.copied.Load())
	if err != nil {
		return nil, err
	}
	entries := make([]limit.Entry, 0, len(c.policies))
	var errs []error
	for _, name := range sortedNames(c.policies) {
		r := c.policies[name]
		if errs = append(errs, r.err); r.err == nil {
			entries = append(entries, r.entry)
		}
	}
	return entries, errors.Join(errs...)
}

func sortedNames(policies map[string]*registered) []string {
	return slices.Sorted(maps.Keys(policies))
}
