package lambdaemu

import (
	"errors"
	"fmt"
	"regexp"
	"time"
)

// NoRetries is the value of [Function.MaxRetries] that means none.
const NoRetries = -1

// Function describes a function to [Server.Register].
type Function struct {
	// Name is 1 to 64 of letters, digits, "-" and "_". Required.
	Name string

	// Runtime is how the function is run: [Process], [Python] or [Func].
	// Required.
	Runtime Runtime

	// MemoryMB is told to the function, nothing is enforced. Defaults to 128.
	MemoryMB int

	// Timeout is the longest one event may take; an instance that takes longer
	// is killed and the invocation counts as failed. At most 15 minutes, as on
	// AWS. Defaults to 3 seconds, as on AWS.
	Timeout time.Duration

	// Concurrency is how many instances run at once at most, AWS's "reserved
	// concurrency". Beyond it synchronous invocations are refused and
	// asynchronous ones wait. Defaults to 10.
	Concurrency int

	// Env is added to the environment of processes, and wins over what the
	// emulator sets itself.
	Env map[string]string

	// MaxEventAge is how long after its arrival an asynchronous event may
	// still be tried. Defaults to 6 hours.
	MaxEventAge time.Duration

	// MaxRetries is how often an asynchronous event is tried again after the
	// function failed on it. [NoRetries] means never. Defaults to 2.
	MaxRetries int

	// RetryDelays are the waits before the first, second, … retry; the last
	// one serves for all that follow. Defaults to 1 and 2 minutes, as on AWS.
	RetryDelays []time.Duration

	// OnFailure receives each asynchronous event that is given up. It is
	// called from a goroutine of its own.
	OnFailure func(FailureRecord)
}

// functionName is Lambda's grammar of names.
var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

const maxTimeout = 15 * time.Minute

func (fn Function) validate() error {
	var errs []error
	if !functionName.MatchString(fn.Name) {
		errs = append(errs, fmt.Errorf("Name %q: must be 1 to 64 letters, digits, '-' or '_'", fn.Name))
	}
	if fn.Runtime == nil {
		errs = append(errs, errors.New("Runtime is missing: set a Process, Python or Func"))
	} else if err := fn.Runtime.validate(); err != nil {
		errs = append(errs, err)
	}
	if fn.Timeout < 0 || fn.Timeout > maxTimeout {
		errs = append(errs, fmt.Errorf("Timeout %v: must be between 0 (the default, 3s) and %v", fn.Timeout, maxTimeout))
	}
	for name, v := range map[string]int{"MemoryMB": fn.MemoryMB, "Concurrency": fn.Concurrency} {
		if v < 0 {
			errs = append(errs, fmt.Errorf("%s %d: must not be negative", name, v))
		}
	}
	if fn.MaxRetries < NoRetries {
		errs = append(errs, fmt.Errorf("MaxRetries %d: use NoRetries (-1) for none", fn.MaxRetries))
	}
	if fn.MaxEventAge < 0 {
		errs = append(errs, fmt.Errorf("MaxEventAge %v: must not be negative", fn.MaxEventAge))
	}
	for _, d := range fn.RetryDelays {
		if d < 0 {
			errs = append(errs, fmt.Errorf("RetryDelays %v: must not be negative", d))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("lambdaemu: function %q cannot be registered: %w", fn.Name, err)
	}
	return nil
}

func (fn Function) withDefaults() Function {
	if fn.MemoryMB == 0 {
		fn.MemoryMB = 128
	}
	if fn.Timeout == 0 {
		fn.Timeout = 3 * time.Second
	}
	if fn.Concurrency == 0 {
		fn.Concurrency = 10
	}
	if fn.MaxEventAge == 0 {
		fn.MaxEventAge = 6 * time.Hour
	}
	switch fn.MaxRetries {
	case 0:
		fn.MaxRetries = 2
	case NoRetries:
		fn.MaxRetries = 0
	}
	if len(fn.RetryDelays) == 0 {
		fn.RetryDelays = []time.Duration{time.Minute, 2 * time.Minute}
	}
	return fn
}

// retryDelay is the wait after the given number of failed tries, at least one.
func (fn Function) retryDelay(failures int) time.Duration {
	return fn.RetryDelays[min(failures, len(fn.RetryDelays))-1]
}
