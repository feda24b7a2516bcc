package lambdaemu

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// journal notes when something happened, relative to its creation.
type journal struct {
	start time.Time
	mu    sync.Mutex
	times []time.Duration
}

func newJournal() *journal { return &journal{start: time.Now()} }

func (j *journal) note() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.times = append(j.times, time.Since(j.start))
}

func (j *journal) all() []time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.times)
}

func failing(j *journal) Func {
	return func(context.Context, []byte) ([]byte, error) {
		j.note()
		return nil, errors.New("no luck")
	}
}

// records collects what is given up.
type records struct {
	mu  sync.Mutex
	all []FailureRecord
}

func (r *records) add(record FailureRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, record)
}

func (r *records) only(t *testing.T) FailureRecord {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) != 1 {
		t.Fatalf("%d failure records, want 1: %+v", len(r.all), r.all)
	}
	return r.all[0]
}

func enqueue(t *testing.T, s *Server, name, payload string) string {
	t.Helper()
	id, err := s.InvokeAsync(name, []byte(payload), InvokeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestFailedEventsAreRetriedAfterOneAndTwoMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		tries, given := newJournal(), &records{}
		register(t, s, Function{Name: "f", Runtime: failing(tries), OnFailure: given.add})
		id := enqueue(t, s, "f", `{"n":1}`)
		time.Sleep(time.Hour)
		if got, want := tries.all(), []time.Duration{0, time.Minute, 3 * time.Minute}; !slices.Equal(got, want) {
			t.Errorf("tried at %v, want %v", got, want)
		}
		got, err := json.Marshal(given.only(t))
		if err != nil {
			t.Fatal(err)
		}
		want := `{"version":"1.0","timestamp":"2000-01-01T00:03:00Z",` +
			`"requestContext":{"requestId":"` + id + `","functionArn":"` + s.ARN("f") + `:$LATEST","condition":"RetriesExhausted","approximateInvokeCount":3},` +
			`"requestPayload":{"n":1},"responseContext":{"statusCode":200,"executedVersion":"$LATEST","functionError":"Unhandled"},` +
			`"responsePayload":{"errorMessage":"no luck","errorType":"errorString"}}`
		if string(got) != want {
			t.Errorf("record:\n got %s\nwant %s", got, want)
		}
	})
}

func TestRetriesCanBeSwitchedOffAndLengthened(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		fn   Function
		want []time.Duration
	}{
		{"none", Function{MaxRetries: NoRetries}, []time.Duration{0}},
		{"one", Function{MaxRetries: 1}, []time.Duration{0, time.Minute}},
		{"own delays", Function{MaxRetries: 3, RetryDelays: []time.Duration{time.Second}}, []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := open(t)
				tries := newJournal()
				tt.fn.Name, tt.fn.Runtime = "f", failing(tries)
				register(t, s, tt.fn)
				enqueue(t, s, "f", "{}")
				time.Sleep(time.Hour)
				if got := tries.all(); !slices.Equal(got, tt.want) {
					t.Errorf("tried at %v, want %v", got, tt.want)
				}
			})
		})
	}
}

func TestARetryThatSucceedsEndsTheEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		tries, given := newJournal(), &records{}
		register(t, s, Function{Name: "f", OnFailure: given.add, Runtime: Func(func(context.Context, []byte) ([]byte, error) {
			tries.note()
			if len(tries.all()) == 1 {
				panic("the first time")
			}
			return nil, nil
		})})
		enqueue(t, s, "f", "{}")
		time.Sleep(24 * time.Hour)
		if got := tries.all(); len(got) != 2 || len(given.all) != 0 {
			t.Errorf("tried at %v, given up %d; want two tries and nothing given up", got, len(given.all))
		}
	})
}

func TestAsyncEventsBeyondConcurrencyWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		ends := newJournal()
		register(t, s, Function{Name: "f", Concurrency: 2, Timeout: time.Minute, Runtime: Func(func(context.Context, []byte) ([]byte, error) {
			time.Sleep(10 * time.Second)
			ends.note()
			return nil, nil
		})})
		for range 5 {
			enqueue(t, s, "f", "{}")
		}
		synctest.Wait()
		if got, want := s.Stats("f"), (Stats{Running: 2, Waiting: 3}); got != want {
			t.Errorf("stats %+v, want %+v", got, want)
		}
		time.Sleep(time.Minute)
		want := []time.Duration{10 * time.Second, 10 * time.Second, 20 * time.Second, 20 * time.Second, 30 * time.Second}
		if got := ends.all(); !slices.Equal(got, want) {
			t.Errorf("ended at %v, want %v", got, want)
		}
	})
}

func TestThrottledEventsAreGivenUpAtTheirMaximumAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		given := &records{}
		register(t, s, Function{
			Name: "f", Concurrency: 1, Timeout: 15 * time.Minute, MaxEventAge: 5 * time.Minute, OnFailure: given.add,
			Runtime: Func(func(context.Context, []byte) ([]byte, error) {
				time.Sleep(10 * time.Minute)
				return nil, nil
			}),
		})
		enqueue(t, s, "f", `"runs"`)
		enqueue(t, s, "f", `"waits"`)
		time.Sleep(time.Hour)
		record := given.only(t)
		if record.RequestContext.Condition != EventAgeExceeded || record.RequestContext.ApproximateInvokeCount != 0 ||
			string(record.RequestPayload) != `"waits"` || record.ResponseContext != nil {
			t.Errorf("record %+v", record)
		}
	})
}

func TestARetryThatWouldComeTooLateIsNotMade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		tries, given := newJournal(), &records{}
		register(t, s, Function{Name: "f", Runtime: failing(tries), MaxEventAge: 2 * time.Minute, OnFailure: given.add})
		enqueue(t, s, "f", "{}")
		time.Sleep(time.Hour)
		record := given.only(t)
		if got := tries.all(); !slices.Equal(got, []time.Duration{0, time.Minute}) {
			t.Errorf("tried at %v", got)
		}
		if record.RequestContext.Condition != EventAgeExceeded || record.RequestContext.ApproximateInvokeCount != 2 ||
			!record.Timestamp.Equal(tries.start.Add(2*time.Minute)) {
			t.Errorf("record %+v", record)
		}
	})
}

func TestAThousandEventsAreEachHandledOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		var mu sync.Mutex
		seen := map[string]int{}
		register(t, s, Function{Name: "f", Concurrency: 7, Runtime: Func(func(_ context.Context, payload []byte) ([]byte, error) {
			time.Sleep(time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			seen[string(payload)]++
			return nil, nil
		})})
		for n := range 1000 {
			payload, _ := json.Marshal(n)
			enqueue(t, s, "f", string(payload))
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if len(seen) != 1000 {
			t.Errorf("%d events handled, want 1000", len(seen))
		}
		for payload, n := range seen {
			if n != 1 {
				t.Errorf("event %s handled %d times", payload, n)
			}
		}
	})
}

func TestCloseCancelsFunctionsAndDropsEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := New(Options{Context: ctx})
		given := &records{}
		register(t, s, Function{Name: "f", Concurrency: 1, Timeout: time.Minute, OnFailure: given.add, Runtime: Func(func(ctx context.Context, _ []byte) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})})
		enqueue(t, s, "f", "{}")
		enqueue(t, s, "f", "{}")
		synctest.Wait()
		cancel()
		synctest.Wait()
		if _, err := s.InvokeAsync("f", nil, InvokeOptions{}); err == nil {
			t.Error("a closed server takes events")
		}
		time.Sleep(24 * time.Hour)
		if len(given.all) != 0 {
			t.Errorf("given up after Close: %+v", given.all)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseNamesAFunctionThatIgnoresItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		register(t, s, Function{Name: "deaf", Runtime: Func(func(context.Context, []byte) ([]byte, error) {
			time.Sleep(time.Hour)
			return nil, nil
		})})
		enqueue(t, s, "deaf", "{}")
		synctest.Wait()
		if err := s.Close(); err == nil {
			t.Error("Close returned nil while a function was running")
		}
		time.Sleep(2 * time.Hour)
	})
}
