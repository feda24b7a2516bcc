// Package worker runs tasks: it is what a claim function is made of.
//
// A claim function registers a handler per task type and hands the mux over:
//
//	func main() {
//		mux := worker.NewMux()
//		worker.Handle(mux, "call_llm", CallLLM)
//		worker.Start(mux)
//	}
//
// What a handler wants beside success and failure is an error it returns:
//
//	return Answer{}, err                                // try again after a backoff
//	return Answer{}, worker.Reschedule(time.Minute)     // not now: sleep, that is no failure
//	return Answer{}, worker.RescheduleAfter(res)        // as the Retry-After of a response says
//	return Answer{}, worker.Fail(err)                   // never again
//
// A handler runs at least once. It may run again after a crash, a timeout or a
// lost response, never twice at the same time. [TaskFrom] gives it the task, whose ID is
// a good idempotency token for what it calls.
//
// The rest of the package is the claim engine: one function, [Engine.Handle],
// takes S3 events, wake-ups and batches of ids, and does the same six steps for every
// task in them: load, admit, claim, run, record, rest. When it is done with a limited task
// it takes others along by these steps that wait on the same key and are late.
package worker
