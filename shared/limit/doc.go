// Package limit decides who may go now and who must wait, and for how long.
//
// A [Policy] is a plain value that says how much of something is allowed: ten
// requests a second, a million tokens a minute, a thousand calls per day in
// Paris, a credit that an operator refills. It is kept per key (a customer, a
// tenant, a domain), and a request names the policies and keys it falls under
// as tiers, each with a cost:
//
//	var (
//		Requests = limit.Policy{Name: "vendor", Group: "llm", Rate: limit.PerSecond(10), Burst: 20}
//		Tokens   = limit.Policy{Name: "tpm", Group: "llm", Rate: limit.Per(1_000_000, time.Minute)}
//	)
//
//	r, err := limiter.Acquire(ctx, Requests.Key("acme"), Tokens.Key("acme").Cost(1500))
//
// [Limiter.Acquire] takes all tiers or none of them. When it takes them, the
// [Reservation] can later be settled at the true cost or refunded. When it does
// not, the error is a [*Denied] that names every tier in the way and the time
// after which trying again can succeed. Most callers want just that; callers
// with time to spare use [Wait], which paces, and handlers of a queue declare a
// [Selector] that finds the tiers of a payload.
//
// # Where the state lives
//
// [Memory] keeps it in the process. Other limiters keep it in a store shared by
// many processes; they have the same interface and decide by the same
// arithmetic, since all of it is in this package, pure: no I/O, no clock, whole
// numbers only. A policy in force is a [Meter]; what a store keeps per policy
// and key is a [State] of four numbers; [Meter.Decide] judges a cost against a
// State at a time, and [Meter.Plan] turns the decision into one condition and
// one update that a store can carry out in a single request.
//
// # One line for every kind
//
// A policy of any kind is a line that rises with time, and a State is a position
// on it. The line has a floor and, the capacity above it, a ceiling. A cost is
// admitted if the position, raised to the floor if it has fallen behind, stays
// at or below the ceiling when the cost is added:
//
//	max(position, floor(now)) + cost ≤ ceiling(now)
//
// For a token bucket the floor rises steadily, for a window it steps up when the
// window ends, for a manual policy it stays where it is until a reset. So idle
// time, refills and resets need no bookkeeping: time moves the line, requests
// move the position, and neither rounds.
//
// # Tasks that wait
//
// A queue that puts throttled tasks to sleep does not want to poll for them, nor to
// have all of them come back for the next token. It asks [Arrive] instead of
// acquiring: a task that is not admitted takes a place behind the others, which is a
// stretch of the line as long as its cost, and sleeps until the line gets there. When
// it is woken, [Wake] decides: it runs, or its turn is so near that it is given a
// [Slot] and waits for it ([Slot.Finish]), or it sleeps on. Places and slots are as
// pure as the rest: a [Step] comes with the plans that make it true, one conditional
// update for each item. [PullForward] says who is to be woken earlier when an operator
// has moved the line or sleepers have gone, [Patience.TakeAlong] who may run before
// his late wake-up comes.
//
// # What is guaranteed
//
// A bucket starts full. In any interval of length W it admits at most its
// capacity plus what refills in W; a window admits at most its maximum before
// its boundary. With callers whose clocks differ by up to D a bucket admits no
// more than refills in D on top of that, however long they run. No pattern of
// polling, refunding, settling or changing the settings mints tokens, none loses
// any, with two exceptions on the safe side: a refund into an almost full bucket
// may give back less (see [Reservation.Settle]), and a change of settings rounds
// a fraction of one token down.
package limit
