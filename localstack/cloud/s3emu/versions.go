package s3emu

import (
	"encoding/xml"
)

type listVersionsResult struct {
	XMLName             xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListVersionsResult"`
	Name                string
	Prefix              string
	KeyMarker           string
	VersionIDMarker     string `xml:"VersionIdMarker"`
	NextKeyMarker       string `xml:",omitempty"`
	NextVersionIDMarker string `xml:"NextVersionIdMarker,omitempty"`
	MaxKeys             int
	Delimiter           string `xml:",omitempty"`
	EncodingType        string `xml:",omitempty"`
	IsTruncated         bool
	Entries             []any // versionElement and markerElement, mixed, in order
	CommonPrefixes      []prefixElement
}

type versionElement struct {
	XMLName      xml.Name `xml:"Version"`
	Key          string
	VersionID    string `xml:"VersionId"`
	IsLatest     bool
	LastModified string
	ETag         string
	Size         int
	StorageClass string
	Owner        *owner
}

type markerElement struct {
	XMLName      xml.Name `xml:"DeleteMarker"`
	Key          string
	VersionID    string `xml:"VersionId"`
	IsLatest     bool
	LastModified string
	Owner        *owner
}

func (l listing) versionElement(key string, h *history, i int, by *owner) any {
	v := h.Versions[i]
	latest := i == len(h.Versions)-1
	if v.DeleteMarker {
		return markerElement{Key: l.encode(key), VersionID: v.ID, IsLatest: latest, LastModified: timestamp(v.Modified), Owner: by}
	}
	return versionElement{
		Key: l.encode(key), VersionID: v.ID, IsLatest: latest, LastModified: timestamp(v.Modified),
		ETag: v.ETag, Size: len(v.Data), StorageClass: storageClass(v), Owner: by,
	}
}

// versionPage is one page of versions.
type versionPage struct {
	entries     []any
	prefixes    []prefixElement
	truncated   bool
	lastKey     string // or common prefix
	lastVersion string
}

// versions lists every version: by key, and the versions of a key newest
// first. With a version marker it goes on within the key marker's key.
func (l listing) versions(b *bucket, keyMarker, versionMarker string, markerSequence uint64, by *owner) versionPage {
	var p versionPage
	full := func() bool {
		p.truncated = len(p.entries)+len(p.prefixes) >= l.limit
		return p.truncated
	}
	if l.limit == 0 {
		return p
	}
	// below is the position under which the versions of a key are still to
	// be told.
	below := func(key string, h *history) int {
		if key != keyMarker || versionMarker == "" {
			return len(h.Versions)
		}
		if versionMarker != nullVersion {
			return h.newerThan(markerSequence - 1)
		}
		if i := h.find(nullVersion, 0); i >= 0 {
			return i
		}
		return len(h.Versions) // the null version is gone: begin the key again, lose nothing
	}
	start := l.begin(keyMarker)
	if versionMarker != "" {
		start = max(keyMarker, l.prefix)
	}
	l.walk(b, start,
		func(*history) bool { return true },
		func(key string, h *history) bool {
			for i := below(key, h) - 1; i >= 0; i-- {
				if full() {
					return false
				}
				p.entries = append(p.entries, l.versionElement(key, h, i, by))
				p.lastKey, p.lastVersion = key, h.Versions[i].ID
			}
			return true
		},
		func(common string) bool {
			if full() {
				return false
			}
			p.prefixes = append(p.prefixes, prefixElement{l.encode(common)})
			p.lastKey, p.lastVersion = common, ""
			return true
		})
	return p
}

func (s *Server) listObjectVersions(r *request) error {
	l, err := r.listing()
	if err != nil {
		return err
	}
	keyMarker, versionMarker := r.query.Get("key-marker"), r.query.Get("version-id-marker")
	if keyMarker == "" && versionMarker != "" {
		return invalidArgument("A version-id marker cannot be specified without a key marker.", "version-id-marker", versionMarker)
	}
	if !s.canList(r) {
		return accessDenied()
	}
	s.mu.RLock()
	b, err := s.bucketOf(r.bucket)
	var p versionPage
	if err == nil {
		sequence, ok := s.state.sequenceOf(versionMarker)
		if versionMarker != "" && !ok {
			err = invalidArgument("Invalid version id specified", "version-id-marker", versionMarker)
		} else {
			p = l.versions(b, keyMarker, versionMarker, sequence, s.owner())
		}
	}
	s.mu.RUnlock()
	if err != nil {
		return err
	}
	out := listVersionsResult{
		Name: r.bucket, Prefix: l.encode(l.prefix), KeyMarker: l.encode(keyMarker), VersionIDMarker: versionMarker,
		MaxKeys: l.limit, Delimiter: l.encode(l.delimiter), EncodingType: r.query.Get("encoding-type"),
		IsTruncated: p.truncated, Entries: p.entries, CommonPrefixes: p.prefixes,
	}
	if p.truncated {
		out.NextKeyMarker, out.NextVersionIDMarker = l.encode(p.lastKey), p.lastVersion
	}
	return r.writeXML(out)
}
