package limit

import (
	"iter"
	"time"
)

// A Sleeper is an entry in the index of those who wait on one item.
type Sleeper struct {
	Place Place
	Units []int64   // what it costs on each tier of the item, 0 where it is under none
	Asked time.Time // for when its wake-up was asked for
}

// Missed reports whether the sleeper's wake-up is late.
func (s Sleeper) Missed(at time.Time) bool { return at.Sub(s.Asked) >= Lateness }

// How sleepers are looked after.
const (
	// PullAhead is how far ahead sleepers are looked at: as late as wake-ups may come.
	PullAhead = UsualLateness
	// Lateness is from when on a wake-up that has not come counts as late.
	Lateness = 3 * time.Second
	// Overdue is after how long a wake-up that has not come is asked for again.
	Overdue = 2 * time.Minute
)

// A Pull says for when a sleeper's wake-up is to be asked for instead.
type Pull struct {
	Index  int // of the sleeper
	WakeAt time.Time
}

// PullForward returns which of an item's sleepers, first come first, are to be woken
// earlier than they asked for: because a grant, a reset or a change of settings has moved
// the line, because others before them were cancelled, or because their wake-up is lost.
// Only as many are woken as can run within [PullAhead]; who gains no more than slack is left
// alone. Right after an operator's call slack is small, in the minute's round it is a
// minute, which waking them later by chance is about worth.
func PullForward(item Item, sleepers iter.Seq[Sleeper], p Patience, slack time.Duration, at time.Time) []Pull {
	r := newRequest([]Item{item}, p, at)
	if r.stale {
		return nil
	}
	var pulls []Pull
	spots := r.spots[0]
	ends := make([]Num, len(spots))
	for k := range spots {
		ends[k] = spots[k].level
	}
	i := -1
	for sleeper := range sleepers {
		i++
		due, lead, fits := r.now, p.Wait.Milliseconds(), false
		for k := range spots {
			if sleeper.Units[k] == 0 {
				continue
			}
			s := &spots[k]
			units, ok := s.meter.charge(sleeper.Units[k], s.force)
			end := s.seg.next(ends[k], s.view.units(units))
			t := s.reached(end)
			if !ok {
				t = never
			}
			due, lead, fits = max(due, t), min(lead, p.lead(s)), true
			ends[k] = end
		}
		if !fits || due > r.now+PullAhead.Milliseconds() {
			break
		}
		asked, wake := millis(sleeper.Asked), max(due-lead, r.now)
		if asked > wake+slack.Milliseconds() || asked+Overdue.Milliseconds() < r.now {
			pulls = append(pulls, Pull{Index: i, WakeAt: whenever(wake)})
		}
	}
	return pulls
}

// patientAt is the longest that a function waits for a wake-up to be late.
const patientAt = 5 * time.Second

// TakeAlong returns when a function that is done with a task may take along one of those
// who wait, given the first of them, and false if it had better end. Sleepers whose wake-up
// is late (see [Sleeper.Missed]) are taken along if their turn has come, or will within
// Linger; those about to be woken in time are left alone. A sleeper that is taken along is
// decided about by [Wake], as when its wake-up comes. If that sends it back to sleep, nothing
// is written, for its wake-up is still to come.
//
// While nobody is late yet, somebody may soon be. A function waits for that too, on
// average no longer than Linger: luck, evenly distributed from 0 to 1, says whether it is
// this one. So work goes on that would else stop until the next wake-up comes.
//
// With Vacated only the first of them counts, and need not be late.
func (p Patience) TakeAlong(item Item, first []Sleeper, luck float64, at time.Time) (time.Time, bool) {
	if len(first) == 0 {
		return at, false
	}
	now := millis(at)
	when, next := int64(never), 0
	if p.Vacated {
		when, first = now, first[:1]
	}
	for i := range first {
		if late := millis(first[i].Asked) + Lateness.Milliseconds(); late < when {
			when, next = max(late, now), i
		}
	}
	due := now
	for k := range item.Tiers {
		s := item.Tiers[k]
		if s.Units = first[next].Units[k]; s.inert() {
			continue
		}
		spot := s.spotAt(now, item.Waiting)
		if spot.stale {
			return at, false
		}
		due = max(due, spot.admits(s.Units))
	}
	wait, linger := when-now, p.Linger.Milliseconds()
	ok := due <= when+linger && wait <= patientAt.Milliseconds() && luck*float64(wait) <= float64(linger)
	return whenever(when), ok
}

// DisbandCrowd returns the plan for an item in whose index nobody is left: unless
// somebody has come since it was looked at, nobody waits.
func DisbandCrowd(item Item) ItemPlan {
	plan := blankPlan(&item)
	plan.Crowd, plan.Ticket = CrowdDisband, item.Ticket
	for k := range item.Tiers {
		if pl := item.Tiers[k].Places; pl.Era != 0 {
			plan.Tiers[k].Places = PlacePlan{Branch: PlaceExact, Old: pl, New: Places{Last: pl.Last}}
		}
	}
	return plan
}
