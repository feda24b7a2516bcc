package s3emu

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// condition is the If-Match or If-None-Match of a request that writes.
type condition struct {
	ifMatch     string
	ifNoneMatch string
}

func (r *request) writeCondition() (condition, error) {
	c := condition{ifMatch: r.Header.Get("If-Match"), ifNoneMatch: r.Header.Get("If-None-Match")}
	// S3 writes "only if the key is absent", not "only if it is not this".
	if c.ifNoneMatch != "" && c.ifNoneMatch != "*" {
		return c, headerNotImplemented("If-None-Match")
	}
	return c, nil
}

// evaluate judges the condition by the current version of the key, nil when
// the key has none. A delete marker counts as absent. The caller holds the
// lock, so that nothing comes between the judgment and the write.
func (s *Server) evaluate(r *request, key string, c condition, current *version) error {
	if c == (condition{}) {
		return nil
	}
	if s.options.Conflict != nil && s.options.Conflict(ConditionalRequest{
		Method: r.Method, Bucket: r.bucket, Key: key, IfMatch: c.ifMatch, IfNoneMatch: c.ifNoneMatch,
	}) {
		return newError(http.StatusConflict, "ConditionalRequestConflict",
			"The conditional request cannot succeed due to a conflicting operation against this resource.",
			"Key", key)
	}
	exists := current != nil && !current.DeleteMarker
	switch {
	case c.ifNoneMatch != "" && exists:
		return preconditionFailed("If-None-Match")
	case c.ifMatch != "" && !exists:
		return noSuchKey(key)
	case c.ifMatch != "" && !etagMatches(c.ifMatch, current.ETag):
		return preconditionFailed("If-Match")
	}
	return nil
}

// etagMatches tells whether one of the ETags in a header, with or without
// quotes, is etag.
func etagMatches(header, etag string) bool {
	for candidate := range strings.SplitSeq(header, ",") {
		candidate = strings.Trim(strings.TrimSpace(candidate), `"`)
		if candidate == "*" || candidate == strings.Trim(etag, `"`) {
			return true
		}
	}
	return false
}

// readConditions are the four headers by which a reader, or a copy of its
// source, asks for a version of some state only.
type readConditions struct {
	ifMatch, ifNoneMatch, ifModifiedSince, ifUnmodifiedSince string
}

func (r *request) readConditions(prefix string) readConditions {
	return readConditions{
		ifMatch:           r.Header.Get(prefix + "If-Match"),
		ifNoneMatch:       r.Header.Get(prefix + "If-None-Match"),
		ifModifiedSince:   r.Header.Get(prefix + "If-Modified-Since"),
		ifUnmodifiedSince: r.Header.Get(prefix + "If-Unmodified-Since"),
	}
}

// judge answers 412, or 304 for a GET or HEAD of what the reader already has.
// ETags go before dates.
func (c readConditions) judge(v *version, copies bool) error {
	modified := v.Modified.Truncate(time.Second)
	switch unmodifiedSince, err := http.ParseTime(c.ifUnmodifiedSince); {
	case c.ifMatch != "":
		if !etagMatches(c.ifMatch, v.ETag) {
			return preconditionFailed("If-Match")
		}
	case err == nil && modified.After(unmodifiedSince):
		return preconditionFailed("If-Unmodified-Since")
	}
	failed := ""
	switch modifiedSince, err := http.ParseTime(c.ifModifiedSince); {
	case c.ifNoneMatch != "":
		if etagMatches(c.ifNoneMatch, v.ETag) {
			failed = "If-None-Match"
		}
	case err == nil && !modified.After(modifiedSince):
		failed = "If-Modified-Since"
	}
	if failed == "" {
		return nil
	}
	if copies {
		return preconditionFailed(failed)
	}
	e := newError(http.StatusNotModified, "NotModified", "Not Modified")
	e.header = http.Header{"Etag": {v.ETag}, "Last-Modified": {httpDate(v.Modified)}}
	return e
}

// contentHeaders are the headers that S3 keeps with an object and gives back
// as they came.
var contentHeaders = []string{
	"Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Type",
	"Expires", "X-Amz-Storage-Class", "X-Amz-Website-Redirect-Location",
}

// describeObject reads from a request's headers what is to be kept with the
// object beside its data.
func (r *request) describeObject(v *version) error {
	v.Header = http.Header{}
	for _, name := range contentHeaders {
		if value := r.Header.Get(name); value != "" {
			v.Header.Set(name, value)
		}
	}
	codings := slices.DeleteFunc(contentCodings(r.Header), func(c string) bool { return c == awsChunked })
	if v.Header.Del("Content-Encoding"); len(codings) > 0 {
		v.Header.Set("Content-Encoding", strings.Join(codings, ","))
	}
	if v.Header.Get("Content-Type") == "" {
		v.Header.Set("Content-Type", "binary/octet-stream")
	}
	v.Metadata = map[string]string{}
	size := 0
	for name, values := range r.Header {
		if name, ok := strings.CutPrefix(strings.ToLower(name), "x-amz-meta-"); ok {
			v.Metadata[name] = strings.Join(values, ",")
			size += len(name) + len(v.Metadata[name])
		}
	}
	if size > maxMetadataBytes {
		return newError(http.StatusBadRequest, "MetadataTooLarge",
			"Your metadata headers exceed the maximum allowed metadata size",
			"Size", decimal(size), "MaxSizeAllowed", decimal(maxMetadataBytes))
	}
	return nil
}

// maxMetadataBytes bounds the sum of the names and values of an object's own
// metadata.
const maxMetadataBytes = 2048
