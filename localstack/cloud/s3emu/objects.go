package s3emu

import (
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
	if v.Tags, err = tagsFromHeader(r.Header.Get("x-amz-tagging")); err != nil {
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
	} else if strings.EqualFold(r.Header.Get("x-amz-checksum-mode"), "ENABLED") {
		v.Checksum.describe(h)
	}
	if part.count > 0 {
		h.Set("X-Amz-Mp-Parts-Count", strconv.Itoa(part.count))
	}
	r.w.WriteHeader(status)
	if r.Method != http.MethodHead {
		r.w.Write(v.Data[part.start:part.end])
	}
	return nil
}

// describe adds what is kept with a version to the headers of an answer.
func (v *version) describe(h http.Header) {
	for name, values := range v.Header {
		h[name] = values
	}
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
	whole := selection{end: size}
	// Like S3: one range only, and what is no range is not looked at.
	spec, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes=")
	first, last, dash := strings.Cut(spec, "-")
	if !ok || !dash || strings.Contains(spec, ",") {
		return whole, nil
	}
	unsatisfiable := newError(http.StatusRequestedRangeNotSatisfiable, "InvalidRange",
		"The requested range is not satisfiable", "RangeRequested", r.Header.Get("Range"), "ActualObjectSize", decimal(size))
	unsatisfiable.header = http.Header{"Content-Range": {"bytes */" + decimal(size)}}
	if first == "" {
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil || n < 0 {
			return whole, nil
		}
		if n == 0 || size == 0 {
			return whole, unsatisfiable
		}
		return selection{start: max(0, size-n), end: size, partial: true}, nil
	}
	start, err := strconv.ParseInt(first, 10, 64)
	if err != nil || start < 0 {
		return whole, nil
	}
	end := size
	if last != "" {
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil || n < start {
			return whole, nil
		}
		if n < size {
			end = n + 1
		}
	}
	if start >= size {
		return whole, unsatisfiable
	}
	return selection{start: start, end: end, partial: true}, nil
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
