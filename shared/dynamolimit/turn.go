package dynamolimit

import (
	"context"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
)

// A Turn is the limiter's answer about one task: to run, to wait for its turn while the
// function runs, or to sleep under a place of its own.
type Turn struct {
	Action limit.Action

	// Reservation is what the task was charged. Of ToRun.
	Reservation *limit.Reservation

	// Until is when [Turn.Finish] is to be asked, of ToWait, and when the place is due,
	// of ToPark and ToKeep.
	Until time.Time
	// WakeAt is when a wake-up is to be asked for, of ToPark and ToKeep. Never says that
	// no passing of time makes the place due: then both times only say when to look again.
	WakeAt time.Time
	Never  bool
	// Place is what the task sleeps under, of ToPark and ToKeep.
	Place limit.Place

	// Unchanged says, of ToKeep, that a sleeper that was taken along sleeps on as it did:
	// nothing was written, and there are no times.
	Unchanged bool

	// Blocked is what is in the way, of all actions but ToRun.
	Blocked []limit.Blocked

	// Crowd is a key of the task on which others are parked, or itself. The zero Crowd
	// if nobody is.
	Crowd Crowd

	l         *Limiter
	task      Task
	tiers     []limit.Tier
	held      *limit.Place // the place that it was woken under
	sleeper   *Sleeper     // it as it was taken out of the index
	uncounted bool         // whether it may have been counted out before
	patience  limit.Patience
	slot      limit.Slot
}

// Err returns why the task can never run, nil unless the action is ToFail.
func (t *Turn) Err() error {
	if t.Action != limit.ToFail {
		return nil
	}
	return limit.NewDenied(t.Blocked...)
}

// WithConcurrency says how many invocations the function runs at once at most, so that
// those who wait for their turn leave most of them to others. See [limit.Patience.Within].
// Without it, or with 0, waiting is bounded by the patience alone.
func WithConcurrency(n int) Option {
	return func(l *Limiter) { l.concurrency = n }
}

// Arrive decides about a task that holds no place: see [limit.Arrive]. Tiers of one group
// and key cost one request when the task may run. When it is parked, the item is read,
// the place is taken with one write, and one puts the task into the index of those who
// wait; if nobody else waits, one more puts the key into the list of those that are
// looked after each minute.
//
// Errors are those of [Limiter.Acquire]. After one, the task holds nothing that is known
// of: a place whose taking was lost is a hole in the line that closes when nobody waits.
func (l *Limiter) Arrive(ctx context.Context, task Task, tiers []limit.Tier, p limit.Patience) (*Turn, error) {
	return l.turn(ctx, &Turn{l: l, task: task, tiers: tiers, patience: p}, arriving)
}

// Finish decides about a task whose time to wait is over: it runs, waits on, or goes to
// sleep. See [limit.Slot.Finish]. The turn is used up by it.
func (t *Turn) Finish(ctx context.Context) (*Turn, error) {
	return t.l.turn(ctx, t.next(), finishing)
}

// GiveUp gives back what the task was charged that waits, since it is not going to run:
// it was cancelled, or somebody else runs it. A task with a place that it has not left
// keeps it. Of other actions than ToWait, it does nothing: a Reservation is refunded.
func (t *Turn) GiveUp(ctx context.Context) error {
	if t.Action != limit.ToWait {
		return nil
	}
	_, err := t.l.turn(ctx, t.next(), givingUp)
	return err
}

// next returns a turn of the same task that goes on from this one.
func (t *Turn) next() *Turn {
	return &Turn{
		l: t.l, task: t.task, tiers: t.tiers, patience: t.patience,
		held: t.held, sleeper: t.sleeper, uncounted: t.uncounted, slot: t.slot,
	}
}

// decide returns what package limit decides for a turn.
type decide func(t *Turn, items []limit.Item, p limit.Patience, at time.Time) limit.Step

func arriving(_ *Turn, items []limit.Item, p limit.Patience, at time.Time) limit.Step {
	return limit.Arrive(items, p, at)
}

func waking(t *Turn, items []limit.Item, p limit.Patience, at time.Time) limit.Step {
	return limit.Wake(items, *t.held, p, at)
}

func finishing(t *Turn, items []limit.Item, p limit.Patience, at time.Time) limit.Step {
	return t.slot.Finish(items, t.held, p, at)
}

func givingUp(t *Turn, items []limit.Item, _ limit.Patience, at time.Time) limit.Step {
	return limit.Step{Plans: t.slot.GiveUp(items, at)}
}

// punctual is how long after it was charged a task may still run by it.
const punctual = time.Second

// turn makes a decision and carries it out.
func (l *Limiter) turn(ctx context.Context, t *Turn, by decide) (*Turn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := l.patient.limit(ctx)
	defer cancel()
	resolved, err := l.resolve(ctx, t.tiers)
	if err != nil {
		return nil, err
	}
	for {
		d := newDecision(t, by, resolved)
		step, after, err := d.carryOut(ctx)
		if err != nil {
			return nil, err
		}
		if step.Action == limit.ToPark && !d.told {
			// A place was taken, and which one is not known: it is given up for another.
			for n, p := range step.Plans {
				if p.Crowd == limit.CrowdFound || p.Crowd == limit.CrowdJoin || p.Crowd == limit.CrowdRejoin {
					t.held = &limit.Place{Group: after[n].Group, Key: after[n].Key}
				}
			}
			by, t.uncounted = waking, false
			continue
		}
		if step.Action == limit.ToRun && l.clock.now().Sub(step.Slot(after).Until) > punctual {
			// The store took so long that what was charged may have refilled meanwhile.
			t.slot, by = step.Slot(after), finishing
			continue
		}
		t.take(step, after, d)
		t.index(ctx, d)
		return t, nil
	}
}

// take notes what a step that was carried out means for the task.
func (t *Turn) take(step limit.Step, after []limit.Item, d *decision) {
	t.Action, t.Blocked, t.Crowd = step.Action, step.Blocked, crowdAmong(after)
	switch step.Action {
	case limit.ToRun:
		t.slot = step.Slot(after)
		t.Reservation = d.reservation(t.slot.Charges)
	case limit.ToWait:
		t.slot = step.Slot(after)
		if !d.told {
			// What it was charged is not known well enough to run by, so it is lost.
			t.slot.Charges = nil
		}
		t.Until = t.slot.Until
	case limit.ToPark:
		parking := step.Parked(after)
		t.Place, t.Until, t.WakeAt, t.Never = parking.Place, parking.Until, parking.WakeAt, parking.Never
	case limit.ToKeep:
		t.Unchanged = step.WakeAt.IsZero()
		t.Place, t.Until, t.WakeAt, t.Never = *t.held, step.Until, step.WakeAt, step.Never
	}
}

// crowdAmong returns the first of some items on which somebody waits.
func crowdAmong(items []limit.Item) Crowd {
	for _, i := range items {
		if i.Waiting > 0 {
			return Crowd{i.Group, i.Key, i.Waiting}
		}
	}
	return Crowd{}
}

// reservation returns the receipt of a task that may run.
func (d *decision) reservation(charged []limit.Charge) *limit.Reservation {
	charges := make([]limit.Charge, len(d.tiers))
	for i, t := range d.tiers {
		charges[i] = limit.Charge{Policy: t.Policy.Name, Key: t.Key}
		for _, c := range charged {
			if c.Policy == t.Policy.Name && c.Key == t.Key {
				charges[i] = c
			}
		}
	}
	return limit.NewReservation(limit.Receipt{ID: d.id, Charges: charges}, d.turn.l)
}
