package limiter

import (
	"slices"
	"time"
)

// The oracle knows nothing of limiters. It is told when requests that were admitted
// began and ended, and counts.

// An admission is one request that was admitted: the decision fell somewhere between.
type admission struct{ began, ended time.Time }

// A verdict says how many were admitted, how many could have been, and by how many the
// worst moment exceeds what is allowed.
type verdict struct{ admitted, most, over int }

// judgeBucket judges a bucket: any interval, however long, may hold at most its
// capacity and what refills in that time. Only admissions that fall into it from
// beginning to end are sure to have been decided in it; and clocks count milliseconds.
func judgeBucket(all []admission, capacity int, perSecond float64) verdict {
	v := verdict{admitted: len(all)}
	byEnd := slices.SortedFunc(slices.Values(all), func(a, b admission) int { return a.ended.Compare(b.ended) })
	for _, first := range all {
		count := 0
		for _, a := range byEnd {
			if a.began.Before(first.began) {
				continue
			}
			count++
			length := a.ended.Sub(first.began) + time.Millisecond
			if excess := count - capacity - int(perSecond*length.Seconds()); excess > v.over {
				v.over = excess
			}
		}
	}
	if len(all) > 0 {
		first := slices.MinFunc(all, func(a, b admission) int { return a.began.Compare(b.began) })
		v.most = capacity + int(perSecond*byEnd[len(byEnd)-1].ended.Sub(first.began).Seconds())
	}
	return v
}

// judgeQuota judges an amount that does not refill.
func judgeQuota(admitted, most int) verdict {
	return verdict{admitted: admitted, most: most, over: max(admitted-most, 0)}
}

// and adds up verdicts of separate trials.
func (v verdict) and(o verdict) verdict {
	return verdict{v.admitted + o.admitted, v.most + o.most, v.over + o.over}
}
