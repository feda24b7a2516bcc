package dynamodbemu

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"time"
)

// A keyAttribute is one part of a table's primary key.
type keyAttribute struct {
	name string
	kind kind
}

// A table holds items ordered as DynamoDB returns them: partitions by a hash of
// the partition key, within one the items by sort key.
type table struct {
	description tableDescription
	tags        map[string]string
	ttlName     string // the TTL attribute; "" while TTL is disabled
	partition   keyAttribute
	sort        *keyAttribute
	byKey       map[string]*partition
	ordered     []*partition

	// expiredUntil is the second up to which expireUntil has looked for items
	// that were there; written is set by every write since.
	expiredUntil int64
	written      bool
}

// A partition is an item collection: the items that share a partition key.
type partition struct {
	hash  uint64
	key   string
	items []item
}

// A position is a place in a table's order.
type position struct {
	hash    uint64
	key     string
	sortKey value // zero in a table without sort key
}

func (t *table) keyAttributes() []keyAttribute {
	if t.sort == nil {
		return []keyAttribute{t.partition}
	}
	return []keyAttribute{t.partition, *t.sort}
}

// keyOf returns the primary key of an item.
func (t *table) keyOf(it item) item {
	key := make(item, 2)
	for _, a := range t.keyAttributes() {
		key[a.name] = it[a.name]
	}
	return key
}

// position places an item, or just its key, in the table's order.
func (t *table) position(key item) position {
	p := position{key: partitionKey(key[t.partition.name])}
	p.hash = hashOf(p.key)
	if t.sort != nil {
		p.sortKey = key[t.sort.name]
	}
	return p
}

func partitionKey(v value) string {
	if v.kind == kindN {
		return v.number.String()
	}
	return v.text
}

func hashOf(key string) uint64 {
	sum := sha256.Sum256([]byte(key))
	return binary.BigEndian.Uint64(sum[:])
}

// identity tells items of all tables apart.
func (t *table) identity(key item) string {
	p := t.position(key)
	parts := []string{t.description.TableName, p.key, partitionKey(p.sortKey)}
	for i, s := range parts {
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), "|", `\|`)
	}
	return strings.Join(parts, "|")
}

// search finds the place in the partition where the sort key is, or would be.
func (t *table) search(p *partition, sortKey value) (int, bool) {
	if t.sort == nil {
		return 0, len(p.items) > 0
	}
	return slices.BinarySearchFunc(p.items, sortKey, func(it item, k value) int { return it[t.sort.name].compare(k) })
}

func comparePartition(p *partition, at position) int {
	switch {
	case p.hash < at.hash:
		return -1
	case p.hash > at.hash:
		return 1
	}
	return strings.Compare(p.key, at.key)
}

// get returns the item with a key, nil if there is none.
func (t *table) get(key item) item {
	p := t.byKey[partitionKey(key[t.partition.name])]
	if p == nil {
		return nil
	}
	i, found := t.search(p, t.position(key).sortKey)
	if !found {
		return nil
	}
	return p.items[i]
}

// put stores an item in the place of the one with its key.
func (t *table) put(it item) {
	t.written = true
	at := t.position(it)
	p := t.byKey[at.key]
	if p == nil {
		p = &partition{hash: at.hash, key: at.key}
		t.byKey[at.key] = p
		i, _ := slices.BinarySearchFunc(t.ordered, at, comparePartition)
		t.ordered = slices.Insert(t.ordered, i, p)
	}
	i, found := t.search(p, at.sortKey)
	if found {
		p.items[i] = it
		return
	}
	p.items = slices.Insert(p.items, i, it)
}

// remove deletes the item with a key, if there is one.
func (t *table) remove(key item) {
	at := t.position(key)
	p := t.byKey[at.key]
	if p == nil {
		return
	}
	i, found := t.search(p, at.sortKey)
	if !found {
		return
	}
	p.items = slices.Delete(p.items, i, i+1)
	if len(p.items) == 0 {
		delete(t.byKey, at.key)
		i, _ := slices.BinarySearchFunc(t.ordered, at, comparePartition)
		t.ordered = slices.Delete(t.ordered, i, i+1)
	}
}

// after returns the items behind a position in the table's order, all of them
// for a nil position.
func (t *table) after(at *position) func(yield func(item) bool) {
	return func(yield func(item) bool) {
		start, offset := 0, 0
		if at != nil {
			start, offset = t.placeAfter(*at)
		}
		for _, p := range t.ordered[start:] {
			for _, it := range p.items[offset:] {
				if !yield(it) {
					return
				}
			}
			offset = 0
		}
	}
}

// placeAfter gives the first partition with items behind a position, and how
// many of its items are not behind it.
func (t *table) placeAfter(at position) (partitionIndex, items int) {
	i, found := slices.BinarySearchFunc(t.ordered, at, comparePartition)
	if !found {
		return i, 0
	}
	offset, found := t.search(t.ordered[i], at.sortKey)
	if found {
		offset++
	}
	return i, offset
}

// totals counts items and their bytes.
func (t *table) totals() (items, bytes int64) {
	for _, p := range t.ordered {
		for _, it := range p.items {
			items++
			bytes += int64(it.size())
		}
	}
	return items, bytes
}

// Limits of key attributes, in bytes.
const (
	maxPartitionKeyBytes = 2048
	maxSortKeyBytes      = 1024
)

// checkKey checks the Key parameter: exactly the key attributes, of the right
// types, neither empty nor too long.
func (t *table) checkKey(key item) error {
	attributes := t.keyAttributes()
	mismatch := validationError("The provided key element does not match the schema")
	if len(key) != len(attributes) {
		return mismatch
	}
	for _, a := range attributes {
		if v, ok := key[a.name]; !ok || v.kind != a.kind {
			return mismatch
		}
	}
	return t.checkKeyValues(key)
}

// checkItem checks the key attributes within an item that is to be stored.
func (t *table) checkItem(it item) error {
	for _, a := range t.keyAttributes() {
		v, ok := it[a.name]
		if !ok {
			return validationErrorf("One or more parameter values were invalid: Missing the key %s in the item", a.name)
		}
		if v.kind != a.kind {
			return validationErrorf("One or more parameter values were invalid: Type mismatch for key %s expected: %s actual: %s", a.name, a.kind, v.kind)
		}
	}
	return t.checkKeyValues(it)
}

func (t *table) checkKeyValues(it item) error {
	for _, a := range t.keyAttributes() {
		if v := it[a.name]; v.kind != kindN && v.text == "" {
			return errEmptyKey(a)
		}
	}
	if len(it[t.partition.name].text) > maxPartitionKeyBytes {
		return validationError("One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of2048 bytes")
	}
	if t.sort != nil && len(it[t.sort.name].text) > maxSortKeyBytes {
		return validationError("One or more parameter values were invalid: Aggregated size of all range keys has exceeded the size limit of 1024 bytes")
	}
	return nil
}

func errEmptyKey(a keyAttribute) *apiError {
	typeName := "string"
	if a.kind == kindB {
		typeName = "binary"
	}
	return validationErrorf("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty %s value. Key: %s", typeName, a.name)
}

// checkPaths refuses paths into key attributes, which are scalars.
func (t *table) checkPaths(paths []path) error {
	for _, p := range paths {
		for _, a := range t.keyAttributes() {
			if len(p) > 1 && p[0].name == a.name {
				return validationErrorf("Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: Key: %s", a.name)
			}
		}
	}
	return nil
}

// oldestExpiry is how far in the past a TTL value may lie and still be obeyed,
// so that a number that was never meant as a time deletes nothing.
const oldestExpiry = 5 * 365 * 24 * time.Hour

// expired tells whether an item's TTL attribute, a number of seconds since 1970,
// has passed at a time.
func (t *table) expired(it item, now time.Time) bool {
	v, ok := it[t.ttlName]
	if t.ttlName == "" || !ok || v.kind != kindN {
		return false
	}
	return v.number.compare(unixSeconds(now)) <= 0 && v.number.compare(unixSeconds(now.Add(-oldestExpiry))) >= 0
}

func unixSeconds(t time.Time) decimal { return normalizedInt(int(max(t.Unix(), 0))) }

// expireUntil is expire for every access of a table: it does nothing when nothing
// can have expired since it last looked.
func (t *table) expireUntil(now time.Time) {
	if second := now.Unix(); t.written || second != t.expiredUntil {
		t.expire(now)
		t.expiredUntil, t.written = second, false
	}
}

// expire deletes what had expired at a time and returns how many items that were.
func (t *table) expire(now time.Time) int {
	var keys []item
	for it := range t.after(nil) {
		if t.expired(it, now) {
			keys = append(keys, t.keyOf(it))
		}
	}
	for _, k := range keys {
		t.remove(k)
	}
	return len(keys)
}
