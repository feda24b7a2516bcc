package main

import "iter"

// index is that of those who wait, by ticket.
type index struct {
	ids  []int32 // one more than the task, by ticket; 0 for none
	head int64   // no lower ticket is there
}

func (x *index) add(ticket int64, id int32) {
	for int64(len(x.ids)) <= ticket {
		x.ids = append(x.ids, 0)
	}
	x.ids[ticket] = id + 1
	x.head = min(x.head, ticket)
}

// remove reports whether the ticket was there.
func (x *index) remove(ticket int64) bool {
	if ticket >= int64(len(x.ids)) || x.ids[ticket] == 0 {
		return false
	}
	x.ids[ticket] = 0
	return true
}

// first yields the tasks, the first to come first.
func (x *index) first() iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for x.head < int64(len(x.ids)) && x.ids[x.head] == 0 {
			x.head++
		}
		for i := x.head; i < int64(len(x.ids)); i++ {
			if id := x.ids[i]; id != 0 && !yield(id-1) {
				return
			}
		}
	}
}
