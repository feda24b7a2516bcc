package s3emu

import (
	"encoding/xml"
	"errors"
	"net/http"
)

// deletion is what a delete did to one key.
type deletion struct {
	marker  bool   // a delete marker was made, or the version removed was one
	version string // of the marker made or the version removed, "" when there is none to name
}

func (s *Server) deleteObject(r *request) error {
	cond := condition{ifMatch: r.Header.Get("If-Match")}
	d, err := s.delete(r, r.key, r.query.Get("versionId"), cond)
	if err != nil {
		return err
	}
	h := r.w.Header()
	if d.marker {
		h.Set("X-Amz-Delete-Marker", "true")
	}
	if d.version != "" {
		h.Set(versionIDHeader, d.version)
	}
	r.w.WriteHeader(http.StatusNoContent)
	return nil
}

// delete removes the version with the id, or without an id puts a delete
// marker on top of the key's versions. Where versioning was never enabled the
// object goes away. What is not there is deleted successfully.
func (s *Server) delete(r *request, key, id string, cond condition) (deletion, error) {
	s.mu.Lock()
	d, event, err := s.deleteLocked(r, key, id, cond)
	s.mu.Unlock()
	if event != nil {
		s.emit(*event)
	}
	return d, err
}

func (s *Server) deleteLocked(r *request, key, id string, cond condition) (deletion, *Event, error) {
	b, err := s.bucketOf(r.bucket)
	if err != nil {
		return deletion{}, nil, err
	}
	sequence, ok := s.state.sequenceOf(id)
	if !ok && id != "" {
		return deletion{}, nil, invalidVersionID(id)
	}
	if err := s.evaluate(r, key, cond, b.current(key)); err != nil {
		return deletion{}, nil, err
	}
	if id == "" && b.Versioning != "" {
		marker := &version{DeleteMarker: true}
		s.add(b, key, marker)
		event := s.event(r, b, key, marker, EventDeleteMarker)
		return deletion{marker: true, version: marker.ID}, &event, nil
	}
	d := deletion{version: id}
	if id == "" {
		id = nullVersion
	}
	h, ok := b.Keys.Get(key)
	if !ok {
		return d, nil, nil
	}
	i := h.find(id, sequence)
	if i < 0 {
		return d, nil, nil
	}
	removed := *h.Versions[i]
	d.marker = removed.DeleteMarker
	s.remove(b, key, h, i)
	removed.Sequence = s.state.Sequence
	event := s.event(r, b, key, &removed, EventDelete)
	return d, &event, nil
}

type deleteRequest struct {
	XMLName xml.Name `xml:"Delete"`
	Quiet   bool     `xml:"Quiet"`
	Objects []struct {
		Key       string `xml:"Key"`
		VersionID string `xml:"VersionId"`
		ETag      string `xml:"ETag"`
	} `xml:"Object"`
}

type deleteResult struct {
	XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ DeleteResult"`
	Deleted []deletedEntry
	Errors  []deleteError `xml:"Error"`
}

type deletedEntry struct {
	Key                   string
	VersionID             string `xml:"VersionId,omitempty"`
	DeleteMarker          bool   `xml:",omitempty"`
	DeleteMarkerVersionID string `xml:"DeleteMarkerVersionId,omitempty"`
}

type deleteError struct {
	Key       string
	VersionID string `xml:"VersionId,omitempty"`
	Code      string
	Message   string
}

// maxDeletes is the number of keys that one DeleteObjects may name.
const maxDeletes = 1000

func (s *Server) deleteObjects(r *request) error {
	p, err := readPayload(r, maxDocumentBytes)
	if err != nil {
		return err
	}
	if p.checksum.Algorithm == "" && r.Header.Get("Content-MD5") == "" {
		return invalidRequest("Missing required header for this request: Content-MD5 OR x-amz-checksum-*")
	}
	var in deleteRequest
	if xml.Unmarshal(p.data, &in) != nil || len(in.Objects) == 0 || len(in.Objects) > maxDeletes {
		return malformedXML()
	}
	var out deleteResult
	for _, o := range in.Objects {
		d, err := s.delete(r, o.Key, o.VersionID, condition{ifMatch: o.ETag})
		var failure *apiError
		switch {
		case errors.As(err, &failure) && failure.code == "NoSuchBucket":
			return err
		case failure != nil:
			out.Errors = append(out.Errors, deleteError{o.Key, o.VersionID, failure.code, failure.message})
		case !in.Quiet:
			entry := deletedEntry{Key: o.Key, VersionID: o.VersionID, DeleteMarker: d.marker}
			if d.marker {
				entry.DeleteMarkerVersionID = d.version
			}
			out.Deleted = append(out.Deleted, entry)
		}
	}
	return r.writeXML(out)
}
