package lambdaemu

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"
)

// Func is a [Runtime] that runs a function of this process. The handlers of
// aws-lambda-go fit: Func(lambda.NewHandler(h).Invoke).
//
// Its context carries the deadline and a lambdacontext with request id and
// ARN. An error, a panic, an overrun deadline and a crash ([Exit],
// runtime.Goexit) fail the invocation as they do on AWS. There is one
// difference: nobody can kill a goroutine, so one that runs on after its
// deadline keeps its instance busy until it returns.
type Func func(ctx context.Context, payload []byte) ([]byte, error)

func (fn Func) validate() error {
	if fn == nil {
		return errors.New("Runtime is a nil Func")
	}
	return nil
}

func (fn Func) start(f *function, config Function) (instance, error) {
	return &funcInstance{function: f, config: config, call: fn}, nil
}

type funcInstance struct {
	function *function
	config   Function
	call     Func
}

func (i *funcInstance) stop()           {}
func (i *funcInstance) ephemeral() bool { return true }
func (i *funcInstance) alive() bool     { return true }

// errExited is the cause of the cancellation after a call of Exit.
var errExited = errors.New("lambdaemu: the function instance has exited")

type exitKey struct{}

// Exit does to an in-process function what os.Exit does to a real one, as far
// as that is possible: the invocation fails at once with Runtime.ExitError, its
// context is cancelled, and the calling goroutine ends. Other goroutines of the
// function are not stopped. It may be called from any goroutine; ctx is the
// handler's or derived from it, and Exit panics when it is not.
func Exit(ctx context.Context) {
	exit, ok := ctx.Value(exitKey{}).(func())
	if !ok {
		panic("lambdaemu.Exit: ctx is not the context of a Func")
	}
	exit()
	runtime.Goexit()
}

func (i *funcInstance) invoke(inv invocation, early func(Result)) (Result, bool) {
	ctx, cancelCause := context.WithCancelCause(i.function.server.ctx)
	defer cancelCause(nil)
	ctx, cancel := context.WithDeadline(ctx, time.Now().Add(i.config.Timeout))
	defer cancel()
	ctx = lambdacontext.NewContext(ctx, &lambdacontext.LambdaContext{
		AwsRequestID:       inv.requestID,
		InvokedFunctionArn: inv.arn,
	})
	crash := make(chan struct{})
	var once sync.Once
	ctx = context.WithValue(ctx, exitKey{}, func() {
		once.Do(func() { close(crash) })
		cancelCause(errExited)
	})

	timer := time.NewTimer(i.config.Timeout)
	defer timer.Stop()
	outcome := make(chan callOutcome, 1)
	go i.callGuarded(ctx, inv, outcome)
	var r Result
	select {
	case out := <-outcome:
		return out.result, out.alive
	case <-crash:
		r = exited(inv.requestID, "with error: exit called")
	case <-timer.C:
		r = timedOut(inv.requestID, i.config.Timeout)
	}
	early(r)
	<-outcome
	return r, false
}

type callOutcome struct {
	result Result
	alive  bool
}

// callGuarded runs the function and sends exactly one outcome, whatever way
// the function ends.
func (i *funcInstance) callGuarded(ctx context.Context, inv invocation, outcome chan<- callOutcome) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if p := recover(); p != nil {
			outcome <- callOutcome{result: failureDocument(inv.requestID, panicError(p))}
			return
		}
		outcome <- callOutcome{result: exited(inv.requestID, "without providing a reason")}
	}()
	payload, err := i.call(ctx, bytes.Clone(inv.payload))
	returned = true
	outcome <- callOutcome{result: returnedResult(inv.requestID, payload, err), alive: true}
}

func returnedResult(requestID string, payload []byte, err error) Result {
	switch {
	case err != nil:
		return failure(requestID, errorType(err), err.Error())
	case len(payload) > maxSyncPayload:
		return responseTooLarge(requestID)
	case len(payload) == 0:
		payload = []byte("null")
	}
	return Result{RequestID: requestID, Payload: payload}
}

// errorType is how aws-lambda-go names an error: by its Go type.
func errorType(err any) string {
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		return t.Elem().Name()
	}
	return t.Name()
}

func panicError(p any) functionError {
	return functionError{
		Message: fmt.Sprint(p),
		Type:    errorType(p),
		Stack:   []string{string(debug.Stack())},
	}
}

// newTraceID makes up an X-Ray trace header that nobody samples.
func newTraceID(now time.Time) string {
	var b [20]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("Root=1-%08x-%s;Parent=%s;Sampled=0",
		now.Unix(), hex.EncodeToString(b[:12]), hex.EncodeToString(b[12:]))
}
