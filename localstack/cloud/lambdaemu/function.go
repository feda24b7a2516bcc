package lambdaemu

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
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
	refuse := func(field string, value any, rule string) {
		errs = append(errs, fmt.Errorf("%s %v: %s", field, value, rule))
	}
	if !functionName.MatchString(fn.Name) {
		refuse("Name", strconv.Quote(fn.Name), "must be 1 to 64 letters, digits, '-' or '_'")
	}
	if fn.Runtime == nil {
		refuse("Runtime", "is missing", "set a Process, Python or Func")
	} else if err := fn.Runtime.validate(); err != nil {
		errs = append(errs, err)
	}
	if fn.Timeout < 0 || fn.Timeout > maxTimeout {
		refuse("Timeout", fn.Timeout, "must be between 0 (the default, 3s) and 15m")
	}
	if fn.MemoryMB < 0 {
		refuse("MemoryMB", fn.MemoryMB, "must not be negative")
	}
	if fn.Concurrency < 0 {
		refuse("Concurrency", fn.Concurrency, "must not be negative")
	}
	if fn.MaxRetries < NoRetries {
		refuse("MaxRetries", fn.MaxRetries, "use NoRetries (-1) for none")
	}
	if fn.MaxEventAge < 0 {
		refuse("MaxEventAge", fn.MaxEventAge, "must not be negative")
	}
	for _, d := range fn.RetryDelays {
		if d < 0 {
			refuse("RetryDelays", d, "must not be negative")
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
