// Package limiter measures what the limiter on DynamoDB costs and whether it keeps its
// promise. Its test prints one figure per line (make bench-limiter):
//
//	requests_per_admit   requests to DynamoDB per admitted decision
//	requests_per_deny    the same per denied decision
//	over_admitted        requests admitted beyond the policy
//
// Everything goes through the real SDK to the embedded DynamoDB, which takes 2 to 8 ms
// per request and on whose side all requests are counted, whatever their verb. Every
// caller is a limiter with a client and a memory of its own, and makes one decision
// after the other. Time is virtual, so the figures do not depend on how busy the
// machine is. The loads are
//
//	fresh   a new key of 100 tokens that hardly refill, taken by all callers at once
//	over    a bucket of 100/s with a burst of 20, at its limit, asked for 200/s
//	half    the same bucket, asked for 50/s at random times
//
// Callers hold a copy of the registry when measuring begins, and measuring ends before
// it has to be read again: that is one request per caller in use and 5 s, printed as a
// figure of its own.
//
// Whether too much was admitted is judged by an oracle that shares no code with the
// limiter: it is told when admitted requests began and ended, and counts.
package limiter
