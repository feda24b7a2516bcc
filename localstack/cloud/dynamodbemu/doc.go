// Package dynamodbemu is an in-process DynamoDB, made to be trusted by code whose
// every decision is a conditional write.
//
// [New] returns a [Server], an http.Handler that speaks DynamoDB's JSON protocol;
// point an AWS SDK or the AWS command line at it. All state is in memory and
// belongs to that Server. It runs no goroutine of its own and waits only for
// latency that a test asked for, so it works inside testing/synctest bubbles.
//
// Kept as on AWS: numbers are exact to 38 digits and refused beyond; expressions
// are parsed by their full grammar, reserved words included; all right-hand sides
// of an update see the old item; conditions, updates and transactions are atomic,
// and one order of all operations explains every answer (linearizability); sizes,
// key rules, capacity units and error texts. An expired item stays until
// [Server.ExpireNow], or for a delay that a test sets, since AWS is days late.
//
// Refused, with an error that says so: secondary indexes, streams, PartiQL,
// backups, and the parameters that expressions replaced (Expected,
// AttributeUpdates, KeyConditions and their like).
//
// Hooks in [Options] bring about what is rare on AWS: throttling, transaction
// conflicts in both their shapes, answers that get lost, latency, a clock that
// is off.
package dynamodbemu
