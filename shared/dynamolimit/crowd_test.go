package dynamolimit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

// hourOnce admits one task per key in an hour, and then parks.
var hourOnce = limit.Policy{Name: "slow", Group: "vendor", Rate: limit.Per(1, time.Hour)}

// park has tasks be parked on a key, after one that runs.
func park(t *testing.T, l *dynamolimit.Limiter, key string, tasks int) (last *dynamolimit.Turn) {
	t.Helper()
	for n := range tasks + 1 {
		turn, err := l.Arrive(t.Context(), dynamolimit.Task{ID: fmt.Sprint(key, n)}, []limit.Tier{hourOnce.Key(key)}, limit.Patience{})
		if err != nil {
			t.Fatal(err)
		}
		last = turn
	}
	return last
}

func TestReadingAKeyTellsHowManyTasksAreParkedOnIt(t *testing.T) {
	t.Parallel()
	c := newCloud(t, cloud.Options{})
	l := newLimiter(c, "caller", unhurried(dynamolimit.WithPolicies(1, hourOnce, perHour))...)
	park(t, l, "a", 3)
	for _, r := range []struct {
		tier limit.Tier
		want int64
	}{{hourOnce.Key("a"), 3}, {hourOnce.Key("b"), 0}, {perHour.Key("a"), 0}} {
		before := c.Requests().Snapshot("caller")
		if _, parked, err := l.InspectParked(t.Context(), r.tier); err != nil || parked != r.want {
			t.Errorf("%d parked on %v, want %d: %v", parked, r.tier, r.want, err)
		}
		if n := c.Requests().Snapshot("caller").Diff(before).Total(); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	}
}

// However many keys there are, two requests tell of a hundred, and no more are looked at
// than asked for.
func TestTheParkedOfManyKeysAreCountedAHundredAtATime(t *testing.T) {
	t.Parallel()
	c := newCloud(t, cloud.Options{})
	l := newLimiter(c, "caller", unhurried(dynamolimit.WithPolicies(1, hourOnce))...)
	const keys = 120
	for k := range keys {
		park(t, l, fmt.Sprint("k", k), 1+k%2)
	}
	for _, most := range []int{0, 1, 99, 100, keys - 1, keys, keys + 1} {
		before := c.Requests().Snapshot("caller")
		crowds, more, err := l.FirstCrowds(t.Context(), most)
		if err != nil || len(crowds) != min(most, keys) || more != (most < keys) {
			t.Errorf("of %d at most: %d, more %t, %v", most, len(crowds), more, err)
		}
		if n := c.Requests().Snapshot("caller").Diff(before).Total(); n > 2*(keys/100+1) {
			t.Errorf("%d requests for %d at most", n, most)
		}
		for _, one := range crowds {
			var k int64
			if _, err := fmt.Sscanf(one.Key, "k%d", &k); err != nil || one.Group != "vendor" || one.Waiting != 1+k%2 {
				t.Errorf("%+v, %v", one, err)
			}
		}
	}
}

// A round knows the parked of every group, those with nobody left included.
func TestARoundCountsTheParkedByGroup(t *testing.T) {
	t.Parallel()
	c := newCloud(t, cloud.Options{})
	l := newLimiter(c, "caller", unhurried(dynamolimit.WithPolicies(1, hourOnce))...)
	park(t, l, "a", 2)
	last := park(t, l, "b", 1)
	round := func() *dynamolimit.Round {
		r, err := l.PullForward(t.Context(), limit.Patience{}, func(context.Context, string, time.Time) error { return nil })
		if err != nil || !r.Counted {
			t.Fatalf("%+v, %v", r, err)
		}
		return r
	}
	if r := round(); len(r.Parked) != 1 || r.Parked["vendor"] != 3 || r.Waiting != 3 {
		t.Errorf("%+v", r)
	}
	if err := l.Leave(t.Context(), "b1", last.Place); err != nil {
		t.Fatal(err)
	}
	if r := round(); r.Parked["vendor"] != 2 || r.Waiting != 2 {
		t.Errorf("%+v", r)
	}
}
