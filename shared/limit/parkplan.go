package limit

import "time"

// park takes a place behind all others, on the item that is in the way longest. held is
// the place that the task gives up for it.
func (r *request) park(held *Place) Step {
	s := r.step(ToPark)
	var latest int64 = -1
	for n := range r.items {
		if due := r.nextDue(n); due > latest {
			latest, s.item = due, n
		}
	}
	joined := CrowdJoin
	for n := range r.items {
		if held == nil || !r.holds(n, *held) {
			continue
		}
		if n == s.item {
			joined = CrowdRejoin
		} else {
			s.Plans[n].Crowd = CrowdLeave
		}
	}
	r.place(&s.Plans[s.item], s.item, latest, joined)
	return s
}

// next returns where the next place of a tier would end.
func (p *spot) next() Num { return p.seg.next(p.tail, p.cost) }

// nextDue returns when the next place of item n would be due on all of its tiers; -1 if
// none of them matters.
func (r *request) nextDue(n int) int64 {
	due := int64(-1)
	for k := range r.items[n].Tiers {
		if p := &r.spots[n][k]; !r.items[n].Tiers[k].inert() {
			due = max(due, p.nextDue())
		}
	}
	return due
}

func (p *spot) nextDue() int64 {
	if !p.fits {
		return never
	}
	return p.reached(p.next())
}

// place plans a place on item n that is due at a time. It is taken on the tier that
// binds, and on every other that will feel the task's cost by then: one that will be
// full again all the same would only be told too early a time.
func (r *request) place(plan *ItemPlan, n int, due int64, joined Crowd) {
	item := &r.items[n]
	plan.Crowd = joined
	if item.Waiting <= 0 {
		plan.Crowd = CrowdFound
	}
	for k := range item.Tiers {
		s, p := &item.Tiers[k], &r.spots[n][k]
		switch {
		case s.inert():
		case p.takes(due):
			plan.Tiers[k].Places = p.append(s.Places)
		case item.Waiting <= 0 && s.Places.Era != 0:
			// Places of a crowd that is gone must not come to life again.
			plan.Tiers[k].Places = PlacePlan{Branch: PlaceExact, Old: s.Places, New: Places{Last: s.Places.Last}}
		}
	}
}

// takes reports whether a tier takes part in a place that is due at a time.
func (p *spot) takes(due int64) bool {
	if own := p.nextDue(); own == due || own == never {
		return true
	} else if due == never {
		return false
	}
	return p.ahead(p.next(), due)
}

// append plans one more place.
func (p *spot) append(pl Places) PlacePlan {
	end := p.next()
	plan := PlacePlan{Branch: PlaceAppend, Era: p.seg.Era, Low: p.line.floor, High: maxNum, Length: p.cost, Units: p.units}
	if p.hold > p.asked {
		plan.Low = p.seg.lineAt(p.level, p.hold).floor
	}
	if p.seg.Kind == FixedWindow {
		start := product(p.seg.windowFrom(p.tail).start, p.seg.scale)
		plan.Low = larger(plan.Low, start)
		plan.High = start.plus(NumOf(p.seg.Max)).sub(p.cost)
	}
	if !p.live || end != p.tail.add(p.cost) {
		return PlacePlan{Branch: PlaceExact, Old: pl, New: Places{Era: p.seg.Era, Reach: end, Last: pl.Last.add(NumOf(p.units))}}
	}
	return plan
}

// spread returns when a place of a tier is due that is due by itself at a time, given the
// other tiers of the item: of all that a window gives at once, they may only let one pass
// after the other. That is not seen from their own places where those end before.
func (r *request) spread(n, k int, pos Num, due int64) int64 {
	p := &r.spots[n][k]
	if p.seg.Kind != FixedWindow || due == never || p.units == 0 {
		return due
	}
	start := product(p.seg.windowFrom(pos).start, p.seg.scale)
	tasks := pos.sub(start).quotientUp(p.units) // of the window, up to this one
	latest := due
	for other := range r.spots[n] {
		q := &r.spots[n][other]
		if other == k || q.units == 0 || !q.fits || q.ahead(q.tail, due) {
			continue
		}
		floor := q.meter.view(q.state, due).line.floor
		if units := tasks * q.units; units/q.units == tasks {
			latest = max(latest, q.meter.reached(q.force, q.seg.advance(floor, units), due))
		}
	}
	return latest
}

// A Parking is a place that was taken.
type Parking struct {
	Place  Place
	Until  time.Time // when it is due
	WakeAt time.Time // when to wake up for it, not rounded
	Never  bool      // no passing of time makes it due: both times only say when to look again
}

// Parked returns the place that a step to park has taken, given the items as they are
// after its plans.
func (s Step) Parked(items []Item) Parking {
	r := newRequest(items, s.patience, whenever(s.at))
	item := &items[s.item]
	parking := Parking{Place: Place{Group: item.Group, Key: item.Key, Ticket: item.Ticket}}
	latest, tier := int64(-1), 0
	for k := range item.Tiers {
		p := &r.spots[s.item][k]
		if s.Plans[s.item].Tiers[k].Places.Units == 0 && s.Plans[s.item].Tiers[k].Places.New.Era == 0 {
			continue
		}
		due := int64(never)
		if p.fits {
			due = r.spread(s.item, k, item.Tiers[k].Places.Reach, p.reached(item.Tiers[k].Places.Reach))
		}
		if p := &r.spots[s.item][tier]; due > latest || due == latest && r.patience.lead(&r.spots[s.item][k]) < r.patience.lead(p) {
			latest, tier = due, k
		}
	}
	parking.Place.Policy = item.Tiers[tier].Meter.policy.Name
	parking.Place.Number = item.Tiers[tier].Places.Last
	parking.Until, parking.WakeAt, parking.Never = r.sleepTimes(latest, &r.spots[s.item][tier])
	return parking
}
