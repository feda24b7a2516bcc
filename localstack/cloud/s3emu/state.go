package s3emu

import (
	"net/http"
	"slices"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud/internal/sortedmap"
)

// state is everything a server remembers. Server.mu guards it.
type state struct {
	Buckets    map[string]*bucket
	Sequence   uint64   // of the last mutation
	VersionKey [16]byte // makes version ids unguessable, see versionid.go
}

func newState() state {
	s := state{Buckets: map[string]*bucket{}}
	copy(s.VersionKey[:], randomBytes(len(s.VersionKey)))
	return s
}

type bucket struct {
	Name           string
	Region         string
	Created        time.Time
	Versioning     string            // "", versioningEnabled or versioningSuspended
	Configurations map[string][]byte // documents by subresource, as they were put
	Keys           sortedmap.Map[*history]
	Uploads        map[string]*upload
}

const (
	versioningEnabled   = "Enabled"
	versioningSuspended = "Suspended"
	nullVersion         = "null"
)

// history is what a bucket holds under one key: the versions, oldest first.
// It is never empty. Sequence numbers grow along it.
type history struct {
	Versions []*version
}

// version is one version of an object, or a delete marker. It is immutable:
// new tags make a copy that takes its place.
type version struct {
	ID           string
	Sequence     uint64
	DeleteMarker bool
	Modified     time.Time
	ETag         string // with its quotes
	Data         []byte
	Header       http.Header       // content headers to give back
	Metadata     map[string]string // by lower-case name without "x-amz-meta-"
	Tags         []tag
	Checksum     checksum
	PartSizes    []int64 // of a multipart upload
}

type tag struct {
	Key   string
	Value string
}

// bucketOf finds a bucket. The caller holds the lock.
func (s *Server) bucketOf(name string) (*bucket, error) {
	b, ok := s.state.Buckets[name]
	if !ok {
		return nil, noSuchBucket(name)
	}
	return b, nil
}

// current is the newest version of a key, nil when the key has none.
func (b *bucket) current(key string) *version {
	h, ok := b.Keys.Get(key)
	if !ok {
		return nil
	}
	return h.current()
}

func (h *history) current() *version { return h.Versions[len(h.Versions)-1] }

// find returns the position of the version with an id, -1 when there is
// none. sequence is what the id says about its age.
func (h *history) find(id string, sequence uint64) int {
	if id == nullVersion {
		return slices.IndexFunc(h.Versions, func(v *version) bool { return v.ID == nullVersion })
	}
	i := h.newerThan(sequence - 1)
	if i < len(h.Versions) && h.Versions[i].ID == id {
		return i
	}
	return -1
}

// newerThan returns the position of the first version with a larger sequence
// number.
func (h *history) newerThan(sequence uint64) int {
	i, _ := slices.BinarySearchFunc(h.Versions, sequence+1, func(v *version, n uint64) int {
		switch {
		case v.Sequence < n:
			return -1
		case v.Sequence > n:
			return 1
		}
		return 0
	})
	return i
}

// add makes v the current version of a key. Unless versioning is enabled it
// is the null version and takes the place of an older one.
func (s *Server) add(b *bucket, key string, v *version) {
	s.state.Sequence++
	v.Sequence = s.state.Sequence
	v.Modified = time.Now().UTC()
	v.ID = nullVersion
	if b.Versioning == versioningEnabled {
		v.ID = s.state.newVersionID(v.Sequence)
	}
	h, ok := b.Keys.Get(key)
	if !ok {
		b.Keys.Set(key, &history{Versions: []*version{v}})
		return
	}
	if v.ID == nullVersion {
		if i := h.find(nullVersion, 0); i >= 0 {
			h.Versions = slices.Delete(h.Versions, i, i+1)
		}
	}
	h.Versions = append(h.Versions, v)
}

// remove takes the version at position i out of a key's history.
func (s *Server) remove(b *bucket, key string, h *history, i int) {
	s.state.Sequence++
	h.Versions = slices.Delete(h.Versions, i, i+1)
	if len(h.Versions) == 0 {
		b.Keys.Delete(key)
	}
}
