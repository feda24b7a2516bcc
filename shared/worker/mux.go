package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
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
	taskType string
	run      func(context.Context, json.RawMessage) (json.RawMessage, error)
	// minLease is how long the lease lasts at least.
	minLease time.Duration
	// tiers chooses what limits a task, of all that policies can reach. It takes an
	// input of the type limited. All are nil without limits.
	tiers    func(json.RawMessage) ([]limit.Tier, error)
	policies []limit.Policy
	limited  reflect.Type
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
// Handle panics if the task type is not valid or has a handler already, or the
// limits are for inputs of another type, as http.ServeMux does: these are mistakes
// in the program.
func Handle[In, Out any](m *Mux, taskType string, handle func(context.Context, In) (Out, error), opts ...HandleOption) {
	if err := task.ValidateType(taskType); err != nil {
		panic("worker: " + err.Error())
	}
	if m.handlers[taskType] != nil {
		panic(fmt.Sprintf("worker: task type %q has a handler already", taskType))
	}
	h := &handler{taskType: taskType, run: func(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
		in, err := decodeInput[In](input)
		if err != nil {
			return nil, unfit(taskType, err)
		}
		out, err := handle(ctx, in)
		if err != nil {
			return nil, err
		}
		output, err := encode(out)
		if err != nil {
			return nil, Fail(fmt.Errorf("the output of %s can't be written as JSON: %w", taskType, err))
		}
		return output, nil
	}}
	for _, opt := range opts {
		opt(h)
	}
	if h.limited != nil && h.limited != reflect.TypeFor[In]() {
		panic(fmt.Sprintf("worker: the limits of %q are for inputs of type %v, its handler takes %v", taskType, h.limited, reflect.TypeFor[In]()))
	}
	m.handlers[taskType] = h
}

// unfit fails a task whose input does not decode: trying again can't help.
func unfit(taskType string, err error) error {
	return Fail(fmt.Errorf("the input does not fit the handler of %s: %w", taskType, err))
}

func decodeInput[In any](input json.RawMessage) (in In, err error) {
	if input == nil {
		input = json.RawMessage("null")
	}
	err = json.Unmarshal(input, &in)
	return in, err
}

// encode is json.Marshal without the escaping of <, > and & for HTML, so that
// text comes out as it went in.
func encode(v any) (json.RawMessage, error) {
	if raw, ok := v.(json.RawMessage); ok && json.Valid(raw) {
		return raw, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
