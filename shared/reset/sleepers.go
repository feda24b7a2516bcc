package reset

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"

	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/wakeup"
	"github.com/sluice-dev/sluice/shared/worker"
)

// Sleepers are the tasks that are parked. A *dynamolimit.Limiter has them.
type Sleepers interface {
	// PullForward has arm ask for earlier wake-ups of those that can run earlier than they
	// asked for, or whose wake-up was lost.
	PullForward(ctx context.Context, p limit.Patience, arm func(ctx context.Context, task string, at time.Time) error) (*dynamolimit.Round, error)
}

// pullForward looks after the sleepers: a grant, a reset, an override, a release or the
// end of a hold wakes them within a minute by this. An earlier wake-up is one more
// schedule beside the task's own, which stays: should the earlier be lost, the task comes
// as late as it would have.
func (r *Resetter) pullForward(ctx context.Context) (*dynamolimit.Round, error) {
	if r.Sleepers == nil || r.Wakeups == nil {
		return nil, nil
	}
	round, err := r.Sleepers.PullForward(ctx, limit.Patience{Wait: worker.TurnWait}, func(ctx context.Context, task string, at time.Time) error {
		return r.Wakeups.ArmEarly(ctx, task, at, r.Now())
	})
	if err != nil {
		err = fmt.Errorf("wake parked tasks earlier: %w", err)
	}
	return round, err
}

// parkedOn returns how many tasks are parked on each policy, nil if that is not known.
func parkedOn(entries []limit.Entry, round *dynamolimit.Round) map[string]int {
	if !round.Counted {
		return nil
	}
	parked := map[string]int{}
	for _, e := range entries {
		if n, listed := round.Parked[cmp.Or(e.Policy.Group, e.Policy.Name)]; listed {
			parked[e.Policy.Name] = n
		}
	}
	return parked
}

// wakeupsFrom makes what arms wake-ups from the environment, nil where it names none:
// then parked tasks are not woken earlier.
func wakeupsFrom(config aws.Config, getenv func(string) string) (*wakeup.Armer, error) {
	names := []string{worker.EnvScheduleGroup, worker.EnvScheduleRoleARN, worker.EnvClaimARN}
	set := 0
	for _, name := range names {
		if getenv(name) != "" {
			set++
		}
	}
	switch set {
	case 0:
		return nil, nil
	case len(names):
	default:
		return nil, fmt.Errorf("of the environment variables %v only some are set: set all, to wake parked tasks earlier, or none", names)
	}
	return wakeup.New(scheduler.NewFromConfig(config), wakeup.Config{
		Group:         getenv(worker.EnvScheduleGroup),
		RoleARN:       getenv(worker.EnvScheduleRoleARN),
		TargetARN:     getenv(worker.EnvClaimARN),
		DeadLetterARN: getenv(worker.EnvDeadLetterARN),
	}), nil
}
