// Package lambdalimit is the limiter as a Lambda function, for handlers in any
// language and for programs that may invoke a function but not reach the table.
//
// A [Handler] is the function: it decodes one [Request], asks a limiter and
// answers in JSON. A [Client] invokes such a function and is a [limit.Limiter]
// itself, so code written for one limiter works with the other:
//
//	limiter := lambdalimit.NewClient(lambda.NewFromConfig(config), "my-limiter")
//	r, err := limiter.Acquire(ctx, Requests.Key("acme"), Tokens.Key("acme").Cost(1500))
//
// In JSON the same is
//
//	{"op": "acquire", "id": "…", "tiers": [{"policy": "vendor", "key": "acme"}, {"policy": "tpm", "key": "acme", "cost": 1500}]}
//
// and is answered by one of
//
//	{"admitted": true, "reservation": "…", "charged": […]}
//	{"admitted": false, "never": false, "retry_after_ms": 1200, "blocked": […]}
//	{"error": {"code": "unknown_policy", "message": "…"}}
//
// [RequestSchema] and [AnswerSchema] describe every request and every answer.
// Whatever goes wrong is answered as an error in that form: an invocation fails
// only if the function itself breaks down.
//
// # Lost answers
//
// The answer to an invocation can be lost. An acquire that carries an id can be sent
// again: what was charged under that id is found, as far back as the limiter remembers,
// and not charged again (see [Once]). The Client does so by itself. A reservation is
// closed once in the same way.
//
// What can't be found out errs on the safe side: tokens may be lost then, none is
// minted. So the Client takes a refund as made when its answer is lost, and of a grant
// or a reset it reports that the outcome is not known. SDKs in other languages repeat
// invocations on their own unless told not to, as the examples do.
package lambdalimit
