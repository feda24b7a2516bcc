package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-dev/sluice/shared/task"
)

// Mux knows the handler of each task type. Use [NewMux].
type Mux struct {
	handlers map[string]*handler
}

// NewMux returns a Mux without handlers.
func NewMux() *Mux { return &Mux{handlers: make(map[string]*handler)} }

// Types lists the task types that have a handler, sorted.
func (m *Mux) Types() []string {
	types := make([]string, 0, len(m.handlers))
	for t := range m.handlers {
		types = append(types, t)
	}
	slices.Sort(types)
	return types
}

// handler is what the engine knows of one task type.
type handler struct {
	run func(context.Context, json.RawMessage) (json.RawMessage, error)
	// minLease is how long the lease lasts at least.
	minLease time.Duration
}

// HandleOption changes how tasks of a type are handled.
type HandleOption func(*handler)

// MinLease makes the lease of each run last at least d. It is for handlers
// that set something going which outlives them, such as another Lambda function: no second
// run starts before the lease is over.
func MinLease(d time.Duration) HandleOption {
	return func(h *handler) { h.minLease = d }
}

// Handle registers the handler of a task type. The task's input is decoded
// into In by encoding/json, and what the handler returns is encoded as the
// output; with json.RawMessage both are the exact text. An input that does
// not decode fails the task at once, since trying again can't help.
//
// Handle panics if the task type is not valid or has a handler already, as
// http.ServeMux does: both are mistakes in the program.
func Handle[In, Out any](m *Mux, taskType string, handle func(context.Context, In) (Out, error), opts ...HandleOption) {
	if err := task.ValidateType(taskType); err != nil {
		panic("worker: " + err.Error())
	}
	if m.handlers[taskType] != nil {
		panic(fmt.Sprintf("worker: task type %q has a handler already", taskType))
	}
	h := &handler{run: func(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
		var in In
		if input == nil {
			input = json.RawMessage("null")
		}
		if err := json.Unmarshal(input, &in); err != nil {
			return nil, Fail(fmt.Errorf("the input does not fit the handler of %s: %w", taskType, err))
		}
		out, err := handle(ctx, in)
		if err != nil {
			return nil, err
		}
		output, err := json.Marshal(out)
		if err != nil {
			return nil, Fail(fmt.Errorf("the output of %s can't be written as JSON: %w", taskType, err))
		}
		return output, nil
	}}
	for _, opt := range opts {
		opt(h)
	}
	m.handlers[taskType] = h
}
