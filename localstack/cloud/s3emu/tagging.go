package s3emu

import (
	"encoding/xml"
	"net/http"
	"net/url"
	"unicode/utf8"
)

// Limits of an object's tags.
const (
	maxTags          = 10
	maxTagKeyLength  = 128 // characters
	maxTagValueRunes = 256
)

type taggingDocument struct {
	XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ Tagging"`
	TagSet  struct {
		Tags []tag `xml:"Tag"`
	}
}

// taggingRequest is the same document as senders write it: not all of them
// name the namespace.
type taggingRequest struct {
	XMLName xml.Name `xml:"Tagging"`
	TagSet  struct {
		Tags []tag `xml:"Tag"`
	}
}

// tagsFromHeader reads the x-amz-tagging header: tags encoded as a query
// string.
func tagsFromHeader(header string) ([]tag, error) {
	if header == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(header)
	if err != nil {
		return nil, invalidArgument("The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name duplicates.",
			"x-amz-tagging", header)
	}
	var tags []tag
	for key, vs := range values {
		for _, value := range vs {
			tags = append(tags, tag{key, value})
		}
	}
	return tags, checkTags(tags)
}

func checkTags(tags []tag) error {
	if len(tags) > maxTags {
		return newError(http.StatusBadRequest, "BadRequest", "Object tags cannot be greater than 10")
	}
	seen := map[string]bool{}
	for _, t := range tags {
		n := utf8.RuneCountInString(t.Key)
		switch {
		case n == 0 || n > maxTagKeyLength:
			return newError(http.StatusBadRequest, "InvalidTag", "The TagKey you have provided is invalid", "TagKey", t.Key)
		case utf8.RuneCountInString(t.Value) > maxTagValueRunes:
			return newError(http.StatusBadRequest, "InvalidTag", "The TagValue you have provided is invalid", "TagValue", t.Value)
		case seen[t.Key]:
			return newError(http.StatusBadRequest, "InvalidTag", "Cannot provide multiple Tags with the same key", "TagKey", t.Key)
		}
		seen[t.Key] = true
	}
	return nil
}

func (s *Server) getObjectTagging(r *request) error {
	v, versioned, err := s.lookup(r, r.key, r.query.Get("versionId"))
	if err != nil {
		return err
	}
	if versioned {
		r.w.Header().Set(versionIDHeader, v.ID)
	}
	var doc taggingDocument
	doc.TagSet.Tags = v.Tags
	return r.writeXML(doc)
}

func (s *Server) putObjectTagging(r *request) error {
	var doc taggingRequest
	if err := s.readXML(r, &doc); err != nil {
		return err
	}
	if err := checkTags(doc.TagSet.Tags); err != nil {
		return err
	}
	if err := s.replaceTags(r, doc.TagSet.Tags); err != nil {
		return err
	}
	r.w.WriteHeader(http.StatusOK)
	return nil
}

func (s *Server) deleteObjectTagging(r *request) error {
	if err := s.replaceTags(r, nil); err != nil {
		return err
	}
	r.w.WriteHeader(http.StatusNoContent)
	return nil
}

// replaceTags gives a version other tags. That is no new version and no
// event.
func (s *Server) replaceTags(r *request, tags []tag) error {
	id := r.query.Get("versionId")
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.bucketOf(r.bucket)
	if err != nil {
		return err
	}
	sequence, ok := s.state.sequenceOf(id)
	if !ok && id != "" {
		return invalidVersionID(id)
	}
	h, ok := b.Keys.Get(r.key)
	if !ok {
		return s.missing(r, noSuchKey(r.key))
	}
	i := len(h.Versions) - 1
	if id != "" {
		if i = h.find(id, sequence); i < 0 {
			return s.missing(r, noSuchVersion(r.key, id))
		}
	}
	if h.Versions[i].DeleteMarker {
		return s.markerFound(r, r.key, h.Versions[i], id != "")
	}
	tagged := *h.Versions[i]
	tagged.Tags = tags
	h.Versions[i] = &tagged
	if b.Versioning != "" {
		r.w.Header().Set(versionIDHeader, tagged.ID)
	}
	return nil
}
