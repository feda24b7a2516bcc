package s3emu

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// saved is what of a server outlives it.
type saved struct {
	Buckets    []savedBucket
	Sequence   uint64
	VersionKey []byte
}

type savedBucket struct {
	Name           string
	Region         string
	Created        time.Time
	Versioning     string            `json:",omitzero"`
	Configurations map[string][]byte `json:",omitempty"`
	Keys           []savedKey
	Uploads        map[string]*upload `json:",omitempty"`
}

type savedKey struct {
	Key      string
	Versions []*version
}

// Save writes everything the server holds, as of one moment, for a [Server.Load]
// of later. Requests go on meanwhile: only a copy of the index is made under
// the lock.
func (s *Server) Save(w io.Writer) error {
	if err := json.MarshalWrite(w, s.snapshot(), jsontext.AllowInvalidUTF8(true)); err != nil {
		return fmt.Errorf("save the objects of S3: %w", err)
	}
	return nil
}

// snapshot copies what changes in place. Versions and parts never do.
func (s *Server) snapshot() saved {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := saved{Sequence: s.state.Sequence, VersionKey: slices.Clone(s.state.VersionKey[:])}
	for _, name := range slices.Sorted(maps.Keys(s.state.Buckets)) {
		b := s.state.Buckets[name]
		copied := savedBucket{
			Name: b.Name, Region: b.Region, Created: b.Created, Versioning: b.Versioning,
			Configurations: maps.Clone(b.Configurations), Uploads: make(map[string]*upload, len(b.Uploads)),
			Keys: make([]savedKey, 0, b.Keys.Len()),
		}
		for key, h := range b.Keys.From("") {
			copied.Keys = append(copied.Keys, savedKey{key, slices.Clone(h.Versions)})
		}
		for id, u := range b.Uploads {
			begun := *u
			begun.Parts = maps.Clone(u.Parts)
			copied.Uploads[id] = &begun
		}
		out.Buckets = append(out.Buckets, copied)
	}
	return out
}

// Load replaces everything the server holds by what [Server.Save] wrote. Version
// ids of then go on being valid. Nobody is told of events.
func (s *Server) Load(r io.Reader) error {
	var in saved
	if err := json.UnmarshalRead(r, &in, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("load the objects of S3: %w", err)
	}
	loaded := newState()
	if copy(loaded.VersionKey[:], in.VersionKey) != len(loaded.VersionKey) {
		return fmt.Errorf("load the objects of S3: the key of version ids has %d bytes, not %d", len(in.VersionKey), len(loaded.VersionKey))
	}
	loaded.Sequence = in.Sequence
	for _, from := range in.Buckets {
		b := &bucket{
			Name: from.Name, Region: from.Region, Created: from.Created, Versioning: from.Versioning,
			Configurations: from.Configurations, Uploads: from.Uploads,
		}
		if b.Configurations == nil {
			b.Configurations = map[string][]byte{}
		}
		if b.Uploads == nil {
			b.Uploads = map[string]*upload{}
		}
		for _, k := range from.Keys {
			if len(k.Versions) == 0 {
				return fmt.Errorf("load the objects of S3: %s/%s has no version", from.Name, k.Key)
			}
			b.Keys.Set(k.Key, &history{Versions: k.Versions})
		}
		loaded.Buckets[b.Name] = b
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = loaded
	return nil
}
