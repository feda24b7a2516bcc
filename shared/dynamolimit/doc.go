// Package dynamolimit keeps a limiter's state in DynamoDB, where any number of
// processes share it:
//
//	limiter := dynamolimit.New(dynamodb.NewFromConfig(config), "sluice-limits",
//		dynamolimit.WithPolicies(release, Requests, Tokens))
//	r, err := limiter.Acquire(ctx, Requests.Key("acme"), Tokens.Key("acme").Cost(1500))
//
// [Limiter] is a [limit.Limiter]. All arithmetic is that of package limit; this
// package turns its plans into requests.
//
// # Requests
//
// All tiers of one group and key are one item, and a decision on it is one
// UpdateItem, whatever the number of tiers: its condition says that every tier
// has room, and its update charges them all. How the item stands is guessed from
// what this process last saw of it. If the condition does not hold, the answer
// brings the item: either it blocks, judged at the time that the attempt carried,
// and the request is denied; or the guess was wrong, and a better one is tried.
// When the guess itself predicts a denial, a consistent read is made instead of a
// write that would fail. A request over several items is one TransactWriteItems.
//
// The registry of policies is one more partition of the table. Each process reads it
// with one Query when it first needs it, and again when its copy is
// [limit.CacheFor] old and it is used.
//
// # Parked tasks
//
// [Limiter.Arrive] and [Sleeper.Wake] give a task that is not admitted a place to sleep
// under, see [limit.Item]. The end of the places and the number of those who wait are
// part of the same item, so that whether a newcomer may pass is a condition of its one
// write. Taking a place is a read, a write, and a write of the index; the first sleeper
// of a key costs one more, for the list of keys that [Limiter.PullForward] looks after.
//
// A task that is woken is first taken out of the index, by [Limiter.Take] or, by a function
// that is done with another task, [Limiter.TakeAlong]: a delete, so only one function has a
// task in hand. It leaves its place with the write that admits it. Looking for a task to
// take along is one Query, made only where the last answer of the key said that somebody
// is parked ([Turn.Crowd]); if somebody is late, a read of the item and the delete follow.
//
// The index is a hint, which decides nothing: an entry that is missing leaves a task to its
// own wake-up, and one too many is forgotten when its task does not come.
//
// # Repeated and lost requests
//
// Every write that charges or gives back has an id. An item remembers the ids of
// its last eight such writes and counts all of them, and a write is only carried
// out if its id is not among them: a request that arrives twice counts once. When
// the answer to a charge is lost, it is sent again on the further condition that
// fewer than eight others have come since, so that the memory is complete. If more
// have, nobody can know: the limiter reports [limit.ErrStoreDown] and the charge
// may stand, or, of a refund, leaves it at that. So tokens may be lost then, but
// none is minted.
//
// # Time
//
// Time comes from the caller's clock, corrected by the Date header of the
// service's answers if it is more than a second off; the first answer is that of
// the registry, so no state is ever touched by an uncorrected clock. A clock that
// is behind never moves a stored time back.
//
// # Expiry
//
// An item's TTL attribute, in seconds, lies 30 days after it would be as good as a
// fresh one. It is only ever raised, and every write sees to it that it lies far
// enough ahead, so an item that DynamoDB deletes is never missed. Items with a
// manual policy do not expire.
package dynamolimit
