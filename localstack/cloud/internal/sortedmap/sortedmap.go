// Package sortedmap is a map with string keys that can be read in key order
// from any point, which is what a listing of a bucket or of a schedule group
// needs: a page costs the page, never a sort of everything stored.
package sortedmap

import (
	"iter"
	"slices"
	"sort"
)

// chunkLimit is the number of entries at which a chunk is split in two. It
// keeps an insertion to a short memory move and the list of chunks short too:
// 200,000 keys make about 600 chunks.
const chunkLimit = 512

type entry[V any] struct {
	key   string
	value V
}

// Map holds values by key in the order of the keys' bytes. The zero value is
// an empty map. It is not safe for concurrent use: the owner holds its lock.
type Map[V any] struct {
	chunks [][]entry[V] // none empty; keys grow within and across chunks
	size   int
}

// Len is the number of keys.
func (m *Map[V]) Len() int { return m.size }

// locate finds the first position at or after key. When key is larger than
// all keys the chunk index equals the number of chunks.
func (m *Map[V]) locate(key string) (chunk, index int) {
	chunk = sort.Search(len(m.chunks), func(i int) bool {
		c := m.chunks[i]
		return c[len(c)-1].key >= key
	})
	if chunk == len(m.chunks) {
		return chunk, 0
	}
	c := m.chunks[chunk]
	return chunk, sort.Search(len(c), func(i int) bool { return c[i].key >= key })
}

// Get returns the value stored under key.
func (m *Map[V]) Get(key string) (V, bool) {
	chunk, i := m.locate(key)
	if chunk < len(m.chunks) && m.chunks[chunk][i].key == key {
		return m.chunks[chunk][i].value, true
	}
	var zero V
	return zero, false
}

// Set stores value under key, replacing what was there.
func (m *Map[V]) Set(key string, value V) {
	chunk, i := m.locate(key)
	if chunk == len(m.chunks) {
		if chunk == 0 {
			m.chunks = [][]entry[V]{{{key, value}}}
			m.size = 1
			return
		}
		chunk--
		i = len(m.chunks[chunk])
	} else if m.chunks[chunk][i].key == key {
		m.chunks[chunk][i].value = value
		return
	}
	m.chunks[chunk] = slices.Insert(m.chunks[chunk], i, entry[V]{key, value})
	m.size++
	m.split(chunk)
}

// split halves a chunk that has grown to the limit. The last chunk is split
// near its end instead, so that keys arriving in order leave full chunks.
func (m *Map[V]) split(chunk int) {
	c := m.chunks[chunk]
	if len(c) < chunkLimit {
		return
	}
	at := len(c) / 2
	if chunk == len(m.chunks)-1 {
		at = len(c) - 1
	}
	upper := slices.Clone(c[at:])
	clear(c[at:])
	m.chunks[chunk] = c[:at]
	m.chunks = slices.Insert(m.chunks, chunk+1, upper)
}

// Delete removes key and reports whether it was there.
func (m *Map[V]) Delete(key string) bool {
	chunk, i := m.locate(key)
	if chunk == len(m.chunks) || m.chunks[chunk][i].key != key {
		return false
	}
	m.size--
	if len(m.chunks[chunk]) == 1 {
		m.chunks = slices.Delete(m.chunks, chunk, chunk+1)
		return true
	}
	m.chunks[chunk] = slices.Delete(m.chunks[chunk], i, i+1)
	return true
}

// From yields the entries whose key is at or after start, in key order. The
// map must not be changed while the sequence is read.
func (m *Map[V]) From(start string) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		chunk, i := m.locate(start)
		for ; chunk < len(m.chunks); chunk, i = chunk+1, 0 {
			for ; i < len(m.chunks[chunk]); i++ {
				e := m.chunks[chunk][i]
				if !yield(e.key, e.value) {
					return
				}
			}
		}
	}
}

// AfterPrefix returns the smallest string larger than every string with the
// given prefix, and false when there is none (the prefix is empty or all
// 0xff). A listing jumps over a common prefix with it.
func AfterPrefix(prefix string) (string, bool) {
	for end := len(prefix); end > 0; end-- {
		if last := prefix[end-1]; last < 0xff {
			return prefix[:end-1] + string([]byte{last + 1}), true
		}
	}
	return "", false
}
