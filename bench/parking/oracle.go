package main

import (
	"math/big"
	"slices"
)

// beyond returns how many tasks were admitted beyond a rule, given the times of all
// admissions in milliseconds: the most by which any stretch of time, its ends included,
// saw more of them than the burst and what is refilled in it. It knows nothing of the
// limiter, its state or its arithmetic.
func beyond(r rule, admitted []int64) int64 {
	times := slices.Clone(admitted)
	slices.Sort(times)
	// Of a stretch that begins with the i-th admission and ends with the j-th, the excess
	// is (j − i + 1) − burst − (tj − ti)·rate. So the best i for each j is the one with
	// the least i − ti·rate, found while going along. All in parts of 1/interval.
	var most, least int64
	rate, unit := r.tokens, r.interval
	g := new(big.Int).GCD(nil, nil, big.NewInt(rate), big.NewInt(unit)).Int64()
	rate, unit = rate/g, unit/g
	for j, t := range times {
		start := int64(j)*unit - t*rate
		if j == 0 || start < least {
			least = start
		}
		excess := int64(j+1)*unit - t*rate - least - r.burst*unit
		most = max(most, excess)
	}
	return (most + unit - 1) / unit
}
