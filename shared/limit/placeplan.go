package limit

// An ItemPlan is a write of one Item that a store can carry out in one conditional
// update. Its condition and update are those of its parts, joined by AND and by commas.
// With w and q for Waiting and Ticket of the item, and f, z and l for Era, Reach and
// Last of the Places of a policy, the parts of the item itself are
//
//	CrowdClear    no w or w ≤ 0 or what PlaceClear says of every tier  —
//	CrowdFound    no w or w ≤ 0                    w = 1, q = q + 1, from 0 if absent
//	CrowdJoin     w > 0                            w = w + 1, q = q + 1
//	CrowdRejoin   w > 0                            q = q + 1
//	CrowdReturn   —                                w = w + 1, from 0 if absent
//	CrowdLeave    —                                w = w − 1, from 0 if absent
//	CrowdDisband  q = Ticket                       w = 0
//
// The parts of a tier are its Plan, where that is not the zero Plan, and those of its
// PlacePlan. The zero ItemPlan writes nothing.
type ItemPlan struct {
	Group, Key string
	Crowd      Crowd
	Ticket     int64      // of Disband
	Tiers      []TierPlan // one per tier of the Item
}

// A TierPlan is the part of an ItemPlan that concerns one policy.
type TierPlan struct {
	Policy string
	State  Plan
	Places PlacePlan
}

// A Crowd is what an ItemPlan does to those who wait.
type Crowd string

const (
	CrowdClear   Crowd = "clear"   // passes only if nobody who is due waits
	CrowdFound   Crowd = "found"   // is the first to wait
	CrowdJoin    Crowd = "join"    // waits behind the others
	CrowdRejoin  Crowd = "rejoin"  // gives up a place for a new one behind the others
	CrowdReturn  Crowd = "return"  // goes back to sleep under the place it had
	CrowdLeave   Crowd = "leave"   // wakes up for good
	CrowdDisband Crowd = "disband" // nobody waits, though it was thought so
)

// A PlacePlan is the part of a TierPlan that concerns the places. Its conditions and
// updates are
//
//	PlaceClear   no f or f = 0 or (f = Era and z ≤ High)         —
//	PlaceAppend  e = f = Era and Low ≤ z ≤ High and z ≥ p        z = z + Length, l = l + Units
//	PlaceExact   f, z, l as in Old, 0 where absent               f, z, l as in New
//
// The condition of PlaceClear is only an alternative within that of CrowdClear.
type PlacePlan struct {
	Branch    PlaceBranch
	Era       int64
	Low, High Num
	Length    Num
	Units     int64
	Old, New  Places
}

// A PlaceBranch is a guess at how the Places of a policy and key stand.
type PlaceBranch string

const (
	PlaceClear  PlaceBranch = "clear"  // all places are due
	PlaceAppend PlaceBranch = "append" // one more place, behind the others
	PlaceExact  PlaceBranch = "exact"  // as the guess to the last digit
)

// Empty reports whether there is nothing to write and no condition to check.
func (p ItemPlan) Empty() bool {
	if p.Crowd != "" {
		return false
	}
	for _, t := range p.Tiers {
		if t.State.Branch != "" || t.Places.Branch != "" {
			return false
		}
	}
	return true
}

// Applies reports whether the plan's condition holds for an Item.
func (p ItemPlan) Applies(i Item) bool { //nolint:cyclop // one case for each branch
	switch p.Crowd {
	case CrowdJoin, CrowdRejoin:
		if i.Waiting <= 0 {
			return false
		}
	case CrowdFound:
		if i.Waiting > 0 {
			return false
		}
	case CrowdDisband:
		if i.Ticket != p.Ticket {
			return false
		}
	}
	passing := true
	for n, t := range p.Tiers {
		s := &i.Tiers[n]
		if t.State.Branch != "" && !t.State.Applies(s.State) {
			return false
		}
		switch t.Places.Branch {
		case PlaceClear:
			passing = passing && t.Places.passes(s.Places)
		case PlaceAppend:
			if !t.Places.appends(s.State, s.Places) {
				return false
			}
		case PlaceExact:
			if s.Places != t.Places.Old {
				return false
			}
		}
	}
	return p.Crowd != CrowdClear || i.Waiting <= 0 || passing
}

func (p *PlacePlan) passes(pl Places) bool {
	return pl.Era == 0 || pl.Era == p.Era && !p.High.less(pl.Reach)
}

func (p *PlacePlan) appends(s State, pl Places) bool {
	return s.Era == p.Era && pl.Era == p.Era && !pl.Reach.less(p.Low) && !p.High.less(pl.Reach) && !pl.Reach.less(s.Position)
}

// Apply returns the Item after the plan's update. The Item given is left as it is.
func (p ItemPlan) Apply(i Item) Item {
	switch p.Crowd {
	case CrowdJoin:
		i.Waiting, i.Ticket = i.Waiting+1, i.Ticket+1
	case CrowdRejoin:
		i.Ticket++
	case CrowdFound:
		i.Waiting, i.Ticket = 1, i.Ticket+1
	case CrowdLeave:
		i.Waiting--
	case CrowdReturn:
		i.Waiting++
	case CrowdDisband:
		i.Waiting = 0
	}
	tiers := make([]Standing, len(i.Tiers))
	copy(tiers, i.Tiers)
	for n, t := range p.Tiers {
		s := &tiers[n]
		if t.State.Branch != "" {
			s.State = t.State.Apply(s.State)
		}
		switch t.Places.Branch {
		case PlaceAppend:
			s.Places.Reach = s.Places.Reach.add(t.Places.Length)
			s.Places.Last = s.Places.Last.add(NumOf(t.Places.Units))
		case PlaceExact:
			s.Places = t.Places.New
		}
	}
	i.Tiers = tiers
	return i
}

func blankPlan(i *Item) ItemPlan {
	p := ItemPlan{Group: i.Group, Key: i.Key, Tiers: make([]TierPlan, len(i.Tiers))}
	for n := range i.Tiers {
		p.Tiers[n].Policy = i.Tiers[n].Meter.policy.Name
	}
	return p
}
