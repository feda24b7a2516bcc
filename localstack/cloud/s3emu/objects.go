package s3emu

import (
	"maps"
	"net/http"
	"strconv"
	"strings"
)

func (s *Server) putObject(r *request) error {
	cond, err := r.writeCondition()
	if err != nil {
		return err
	}
	v := &version{}
	if err := r.describeObject(v); err != nil {
		return err
	}
	if v.Tags, err = tagsFromHeader(r.Header.Get("X-Amz-Tagging")); err != nil {
		return err
	}
	p, err := readPayload(r, maxPutBytes)
	if err != nil {
		return err
	}
	v.Data, v.ETag, v.Checksum = p.data, p.etag(), p.orDefault()
	versioned, err := s.commit(r, v, write{condition: cond, event: EventPut})
	if err != nil {
		return err
	}
	h := r.w.Header()
	h.Set("ETag", v.ETag)
	v.Checksum.describe(h)
	describeEncryption(h)
	if versioned {
		h.Set(versionIDHeader, v.ID)
	}
	r.w.WriteHeader(http.StatusOK)
	return nil
}

const versionIDHeader = "X-Amz-Version-Id"

// describeEncryption says what S3 says of every object: that it is encrypted
// with keys of its own.
func describeEncryption(h http.Header) { h.Set("X-Amz-Server-Side-Encryption", "AES256") }

// write says how a new version comes about.
type write struct {
	condition condition
	event     EventName
	uploadID  string // of the multipart upload that ends with this write
}

// commit makes v the current version of the request's key if the condition
// holds, and tells of it. versioned reports whether the bucket has versions,
// so that the answer names the new one.
func (s *Server) commit(r *request, v *version, w write) (versioned bool, err error) {
	s.mu.Lock()
	b, err := s.bucketOf(r.bucket)
	if err == nil && w.uploadID != "" && b.Uploads[w.uploadID] == nil {
		err = noSuchUpload(w.uploadID)
	}
	if err == nil {
		err = s.evaluate(r, r.key, w.condition, b.current(r.key))
	}
	if err != nil {
		s.mu.Unlock()
		return false, err
	}
	delete(b.Uploads, w.uploadID)
	s.add(b, r.key, v)
	event := s.event(r, b, r.key, v, w.event)
	versioned = b.Versioning != ""
	s.mu.Unlock()
	s.emit(event)
	return versioned, nil
}

// lookup finds the version a request is about: the one it names, or the
// current one. A delete marker is reported as missing, in the words and with
// the headers that tell it from a key that was never there.
func (s *Server) lookup(r *request, key, id string) (v *version, versioned bool, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	b, err := s.bucketOf(r.bucket)
	if err != nil {
		return nil, false, err
	}
	if id == "" {
		v = b.current(key)
		if v == nil {
			return nil, false, s.missing(r, noSuchKey(key))
		}
	} else if v, err = s.versionOf(r, b, key, id); err != nil {
		return nil, false, err
	}
	if v.DeleteMarker {
		return nil, false, s.markerFound(r, key, v, id != "")
	}
	return v, b.Versioning != "", nil
}

func (s *Server) versionOf(r *request, b *bucket, key, id string) (*version, error) {
	sequence, ok := s.state.sequenceOf(id)
	if !ok {
		return nil, invalidVersionID(id)
	}
	if h, ok := b.Keys.Get(key); ok {
		if i := h.find(id, sequence); i >= 0 {
			return h.Versions[i], nil
		}
	}
	return nil, s.missing(r, noSuchVersion(key, id))
}

// markerFound is the answer to a read that met a delete marker: 404 where the
// reader asked for the current version, 405 where it named the marker's.
func (s *Server) markerFound(r *request, key string, marker *version, named bool) error {
	e := noSuchKey(key)
	if named {
		e = newError(http.StatusMethodNotAllowed, "MethodNotAllowed",
			"The specified method is not allowed against this resource.",
			"Method", r.Method, "ResourceType", "DeleteMarker")
	} else if !s.canList(r) {
		return accessDenied()
	}
	e.header = http.Header{"X-Amz-Delete-Marker": {"true"}, versionIDHeader: {marker.ID}}
	if named {
		e.header.Set("Allow", http.MethodDelete)
		e.header.Set("Last-Modified", httpDate(marker.Modified))
	}
	return e
}

// getObject answers GET and HEAD.
func (s *Server) getObject(r *request) error {
	v, versioned, err := s.lookup(r, r.key, r.query.Get("versionId"))
	if err != nil {
		return err
	}
	if err := r.readConditions("").judge(v, false); err != nil {
		return err
	}
	part, err := r.selection(v)
	if err != nil {
		return err
	}
	h := r.w.Header()
	v.describe(h)
	if versioned {
		h.Set(versionIDHeader, v.ID)
	}
	r.overrideHeaders(h)
	h.Set("Content-Length", strconv.FormatInt(part.end-part.start, 10))
	status := http.StatusOK
	if part.partial {
		status = http.StatusPartialContent
		h.Set("Content-Range", "bytes "+decimal(part.start)+"-"+decimal(part.end-1)+"/"+decimal(len(v.Data)))
	} else if strings.EqualFold(r.Header.Get("X-Amz-Checksum-Mode"), "ENABLED") {
		v.Checksum.describe(h)
	}
	if part.count > 0 {
		h.Set("X-Amz-Mp-Parts-Count", strconv.Itoa(part.count))
	}
	r.w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = r.w.Write(v.Data[part.start:part.end]) // a client that went away wants no answer
	}
	return nil
}

// describe adds what is kept with a version to the headers of an answer.
func (v *version) describe(h http.Header) {
	maps.Copy(h, v.Header)
	for name, value := range v.Metadata {
		h.Set("x-amz-meta-"+name, value)
	}
	h.Set("ETag", v.ETag)
	h.Set("Last-Modified", httpDate(v.Modified))
	h.Set("Accept-Ranges", "bytes")
	describeEncryption(h)
	if len(v.Tags) > 0 {
		h.Set("X-Amz-Tagging-Count", strconv.Itoa(len(v.Tags)))
	}
}

// overrideHeaders lets a request choose the headers of its own answer, as
// presigned links do.
func (r *request) overrideHeaders(h http.Header) {
	for _, name := range contentHeaders {
		if value := r.query.Get("response-" + strings.ToLower(name)); value != "" {
			h.Set(name, value)
		}
	}
}

// selection is the part of an object that a read asks for.
type selection struct {
	start, end int64 // end is exclusive
	partial    bool
	count      int // of parts, when one was asked for by number
}

func (r *request) selection(v *version) (selection, error) {
	size := int64(len(v.Data))
	if number := r.query.Get("partNumber"); number != "" {
		return partSelection(v, number)
	}
	first, last, ok := parseRange(r.Header.Get("Range"), size)
	switch {
	case !ok:
		return selection{end: size}, nil
	case first >= size || last < first:
		e := newError(http.StatusRequestedRangeNotSatisfiable, "InvalidRange", "The requested range is not satisfiable",
			"RangeRequested", r.Header.Get("Range"), "ActualObjectSize", decimal(size))
		e.header = http.Header{"Content-Range": {"bytes */" + decimal(size)}}
		return selection{}, e
	}
	return selection{start: first, end: last + 1, partial: true}, nil
}

// parseRange reads a Range header for an object of some size. Like S3 it
// knows one range of bytes; what is none is not looked at: ok is false. The
// range is unsatisfiable when it begins after the object's or its own end.
func parseRange(header string, size int64) (first, last int64, ok bool) {
	spec, isBytes := strings.CutPrefix(header, "bytes=")
	from, to, dashed := strings.Cut(spec, "-")
	if !isBytes || !dashed {
		return 0, 0, false
	}
	if from == "" {
		n, err := strconv.ParseUint(to, 10, 62)
		return max(0, size-int64(n)), size - min(1, int64(n)), err == nil
	}
	start, err := strconv.ParseUint(from, 10, 62)
	if err != nil {
		return 0, 0, false
	}
	if to == "" {
		return int64(start), size - 1, true
	}
	end, err := strconv.ParseUint(to, 10, 62)
	return int64(start), min(int64(end), size-1), err == nil && end >= start
}

// partSelection finds a part of a multipart upload. Other objects have one
// part.
func partSelection(v *version, number string) (selection, error) {
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > maxPartNumber {
		return selection{}, invalidArgument("Part number must be an integer between 1 and 10000, inclusive", "partNumber", number)
	}
	sizes := v.PartSizes
	if sizes == nil {
		sizes = []int64{int64(len(v.Data))}
	}
	if n > len(sizes) {
		return selection{}, newError(http.StatusRequestedRangeNotSatisfiable, "InvalidPartNumber",
			"The requested partnumber is not satisfiable")
	}
	s := selection{count: len(v.PartSizes), partial: len(v.Data) > 0}
	for _, size := range sizes[:n-1] {
		s.start += size
	}
	s.end = s.start + sizes[n-1]
	return s, nil
}
