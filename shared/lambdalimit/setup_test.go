package lambdalimit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sluice-dev/sluice/shared/lambdalimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

var (
	vendor = limit.Policy{Name: "vendor", Group: "llm", Rate: limit.Per(1, time.Second), Max: 10}
	tokens = limit.Policy{Name: "tpm", Group: "llm", Rate: limit.Per(60, time.Minute), Max: 1000, OverMax: limit.Clamp}
	daily  = limit.Policy{Name: "daily", Window: limit.Days("UTC"), Max: 3}
	credit = limit.Policy{Name: "credit", Manual: limit.ResetOn("0 0 1 * *", "UTC"), Max: 5}
)

var start = time.Date(2027, 1, 1, 9, 30, 0, 0, time.UTC)

// once is a limiter in memory that remembers the ids of operations.
type once struct {
	*limit.Memory

	mu       sync.Mutex
	acquired map[string]*limit.Reservation
	done     map[string]bool
	fail     error // of everything, if set
	panics   bool
}

func (o *once) AcquireOnce(ctx context.Context, id string, tiers ...limit.Tier) (*limit.Reservation, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r, ok := o.acquired[id]; ok {
		return r, nil
	}
	r, err := o.Acquire(ctx, tiers...)
	if err != nil {
		return nil, err
	}
	receipt := r.Receipt()
	receipt.ID = id
	o.acquired[id] = limit.NewReservation(receipt, o)
	return o.acquired[id], nil
}

func (o *once) Settle(ctx context.Context, id string, closings []limit.Closing, at time.Time) error {
	return o.first("settle "+id, func() error { return o.Memory.Settle(ctx, id, closings, at) })
}

func (o *once) first(id string, do func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done[id] {
		return nil
	}
	err := do()
	o.done[id] = err == nil
	return err
}

func (o *once) Acquire(ctx context.Context, tiers ...limit.Tier) (*limit.Reservation, error) {
	if o.panics {
		panic("boom")
	}
	if o.fail != nil {
		return nil, o.fail
	}
	return o.Memory.Acquire(ctx, tiers...)
}

// bundle is a function over a limiter whose clock stands still unless moved.
type bundle struct {
	limiter *once
	handler *lambdalimit.Handler
	log     *bytes.Buffer
	now     time.Time
	schema  *jsonschema.Schema
}

func setup(t *testing.T) *bundle {
	t.Helper()
	m, err := limit.NewMemory(vendor, tokens, daily, credit)
	if err != nil {
		t.Fatal(err)
	}
	b := &bundle{now: start, log: new(bytes.Buffer), schema: compile(t, lambdalimit.AnswerSchema)}
	b.limiter = &once{
		Memory: m.WithClock(func() time.Time { return b.now }), acquired: make(map[string]*limit.Reservation), done: make(map[string]bool),
	}
	b.handler = &lambdalimit.Handler{Limiter: b.limiter, Log: slog.New(slog.NewTextHandler(b.log, nil))}
	return b
}

// ask sends a request to the function and returns its answer, which fits the schema.
func (b *bundle) ask(t *testing.T, request string) string {
	t.Helper()
	answer, err := b.handler.Invoke(t.Context(), []byte(request))
	if err != nil {
		t.Fatalf("%s: %v", request, err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(answer))
	if err != nil {
		t.Fatalf("%s: %v in %s", request, err, answer)
	}
	if err := b.schema.Validate(doc); err != nil {
		t.Errorf("%s: the answer does not fit its schema: %v\n%s", request, err, answer)
	}
	return string(answer)
}

// reservation returns that of an answer.
func reservation(t *testing.T, answer string) string {
	t.Helper()
	var d lambdalimit.Decision
	if err := json.Unmarshal([]byte(answer), &d); err != nil || d.Reservation == "" {
		t.Fatalf("no reservation in %s", answer)
	}
	return d.Reservation
}

// without removes the reservations, which say nothing to a reader.
func without(answer, reservation string) string {
	return strings.ReplaceAll(answer, reservation, "…")
}

// Invoke makes a bundle an [lambdalimit.Invoker] of its own function.
func (b *bundle) Invoke(ctx context.Context, in *lambda.InvokeInput, _ ...func(*lambda.Options)) (*lambda.InvokeOutput, error) {
	answer, err := b.handler.Invoke(ctx, in.Payload)
	return &lambda.InvokeOutput{StatusCode: 200, Payload: answer}, err
}
