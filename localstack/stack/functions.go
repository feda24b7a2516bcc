package stack

import (
	"fmt"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/shared/worker"
)

// How often reset and sweep run unless configured otherwise.
const (
	ResetEvery = time.Minute
	SweepEvery = 5 * time.Minute
)

// Timeouts of the functions. Those of reset and sweep are less than the time between two
// runs, so that one has ended when the next begins.
const (
	limiterTimeout = 10 * time.Second
	resetTimeout   = 50 * time.Second
	sweepTimeout   = 4 * time.Minute
)

// CronEvent is what a cron starts its function with.
const CronEvent = "{}"

// deployLimiter deploys the function that handlers in other languages ask.
func (s *Stack) deployLimiter(o Options) error {
	if o.Limiter == nil {
		return nil
	}
	s.Limiter = o.Name + "-limiter"
	environment := map[string]string{worker.EnvTable: s.Table}
	err := s.Cloud.Register(lambdaemu.Function{
		Name:     s.Limiter,
		Runtime:  o.Limiter(environment),
		MemoryMB: 256,
		Timeout:  limiterTimeout,
		Env:      environment,
	})
	if err != nil {
		return fmt.Errorf("deploy the limiter function: %w", err)
	}
	return nil
}

// deployReset deploys the function that resets manual policies, and its cron.
func (s *Stack) deployReset(o Options) error {
	if o.Reset == nil {
		return nil
	}
	s.Reset = o.Name + "-reset"
	environment := map[string]string{worker.EnvTable: s.Table}
	claim := s.environment(o)
	for _, name := range []string{worker.EnvScheduleGroup, worker.EnvScheduleRoleARN, worker.EnvClaimARN, worker.EnvDeadLetterARN} {
		environment[name] = claim[name] // to wake parked tasks earlier
	}
	return s.deployCron(lambdaemu.Function{
		Name:    s.Reset,
		Runtime: o.Reset(environment),
		Timeout: resetTimeout,
		Env:     environment,
	}, o.ResetEvery, ResetEvery)
}

// deploySweep deploys the function that finds tasks nobody will look at, and its cron.
func (s *Stack) deploySweep(o Options) error {
	if o.Sweep == nil {
		return nil
	}
	s.Sweep = o.Name + "-sweep"
	environment := s.environment(o)
	return s.deployCron(lambdaemu.Function{
		Name:    s.Sweep,
		Runtime: o.Sweep(environment),
		Timeout: sweepTimeout,
		Env:     environment,
	}, o.SweepEvery, SweepEvery)
}

// deployCron deploys a function that the clock starts, unless every is negative. A
// run that fails is not repeated, the next one does its work.
func (s *Stack) deployCron(f lambdaemu.Function, every, usually time.Duration) error {
	f.MemoryMB = 256
	f.Concurrency = 1
	f.MaxEventAge = time.Minute
	if err := s.Cloud.Register(f); err != nil {
		return fmt.Errorf("deploy the function %s: %w", f.Name, err)
	}
	if every == 0 {
		every = usually
	}
	if every > 0 {
		s.Cloud.Cron(f.Name, every, []byte(CronEvent))
	}
	return nil
}
