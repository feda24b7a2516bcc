// Package faultproof holds the proof that the queue holds, as tests. Tasks are
// walked through their lives on an embedded cloud in virtual time, and every
// request to AWS and every event in such a life meets every fault there is, one
// case at a time: the process dies before or after the request, the answer is lost, the
// service refuses, stalls, repeats or delays it; an event is lost, late or comes
// again. Clocks of instances are up to a second off all the while.
//
// Under each fault the task must end in its state, with its counters; handlers
// of one task must not overlap; nothing may be written by a worker that no longer owns the
// task; and nothing may be left behind.
//
// That the proof bites is a test of its own: it breaks the rules of the engine one by
// one and demands that a case fails for each.
package faultproof
