package limit

import "math/big"

// reprice takes a position on the line of one segment to the line of the next,
// at the time the next came into force.
//
// A bucket carries its balance over, a debt included: clamped to the new
// capacity, a full bucket stays full, and a fraction of a token is rounded down.
// Windows and manual policies carry over what was used, into the window in which
// the change falls. Between a bucket and the others, used and left are translated.
func reprice(from, to *segment, pos Num) Num {
	before := from.lineAt(pos, to.since)
	switch {
	case !before.floor.less(pos): // full, like a key never seen: a window from first use is not open
		return unseen
	case from.Kind == Bucket && to.Kind == Bucket:
		balance := convert(before.ceiling.sub(pos), to.unit, from.unit)
		return to.withBalance(balance)
	case from.Kind == Bucket:
		used := product(from.Max, 1).sub(convert(before.ceiling.sub(pos), 1, from.unit))
		return to.withUsed(used, before)
	case to.Kind == Bucket:
		left := before.ceiling.sub(pos)
		return to.withBalance(convert(left, to.unit, 1))
	default:
		return to.withUsed(pos.sub(before.floor), before)
	}
}

// withBalance returns the position of a bucket with a balance when s comes into
// force. A balance above the capacity puts it below the floor: full.
func (s *segment) withBalance(balance Num) Num {
	return s.lineAt(unseen, s.since).ceiling.sub(balance)
}

// withUsed returns the position of a window or manual policy with so much used
// when s comes into force. A window from first use that is still open keeps its
// start, any other use opens one.
func (s *segment) withUsed(used Num, before line) Num {
	at := unseen
	if s.Kind == FixedWindow && s.calendar == nil && before.window.end > 0 {
		at = product(before.window.start, s.scale)
	}
	return s.lineAt(at, s.since).floor.add(s.within(used))
}

// within holds an amount used in a window below the next window's floor.
func (s *segment) within(used Num) Num {
	if s.Kind == FixedWindow {
		return smaller(used, NumOf(s.scale-1))
	}
	return used
}

// convert returns n*mul/div rounded down. It is the one product that can outgrow
// 128 bits, and is only needed when settings change.
func convert(n Num, mul, div int64) Num {
	if mul == div {
		return n
	}
	b := n.big()
	b.Mul(b, big.NewInt(mul))
	return numFromBig(b.Div(b, big.NewInt(div))) // Euclidean: rounds down, for div > 0
}
