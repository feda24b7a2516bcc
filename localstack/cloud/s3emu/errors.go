package s3emu

import (
	"bytes"
	"encoding/xml"
	"errors"
	"maps"
	"net/http"
	"strconv"
)

// apiError is an answer that reports a failure, with the code that SDKs turn
// into their typed errors.
type apiError struct {
	status  int
	code    string
	message string
	details []string    // names and values of further elements, in turn
	header  http.Header // further headers of the answer
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

func newError(status int, code, message string, details ...string) *apiError {
	return &apiError{status: status, code: code, message: message, details: details}
}

func accessDenied() error {
	return newError(http.StatusForbidden, "AccessDenied", "Access Denied")
}

func noSuchBucket(bucket string) error {
	return newError(http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist",
		"BucketName", bucket)
}

func noSuchUpload(id string) error {
	return newError(http.StatusNotFound, "NoSuchUpload",
		"The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed.",
		"UploadId", id)
}

func preconditionFailed(condition string) error {
	return newError(http.StatusPreconditionFailed, "PreconditionFailed",
		"At least one of the pre-conditions you specified did not hold", "Condition", condition)
}

func invalidArgument(message, name, value string) error {
	return newError(http.StatusBadRequest, "InvalidArgument", message,
		"ArgumentName", name, "ArgumentValue", value)
}

func invalidRequest(message string) error {
	return newError(http.StatusBadRequest, "InvalidRequest", message)
}

func invalidURI(path string) error {
	return newError(http.StatusBadRequest, "InvalidURI", "Couldn't parse the specified URI.", "URI", path)
}

func malformedXML() error {
	return newError(http.StatusBadRequest, "MalformedXML",
		"The XML you provided was not well-formed or did not validate against our published schema")
}

func notImplemented(r *request) error {
	return newError(http.StatusNotImplemented, "NotImplemented",
		"This S3 emulator does not know the operation "+r.Method+" "+r.URL.RequestURI())
}

func headerNotImplemented(name string) error {
	return newError(http.StatusNotImplemented, "NotImplemented",
		"A header you provided implies functionality that is not implemented", "Header", name)
}

// missing is the answer for a key or version that is not there. Without
// s3:ListBucket S3 does not tell whether a key exists.
func (s *Server) missing(r *request, e *apiError) error {
	if !s.canList(r) {
		return accessDenied()
	}
	return e
}

func (s *Server) canList(r *request) bool {
	return s.options.CanList == nil || s.options.CanList(r.Request)
}

func noSuchKey(key string) *apiError {
	return newError(http.StatusNotFound, "NoSuchKey", "The specified key does not exist.", "Key", key)
}

func noSuchVersion(key, version string) *apiError {
	return newError(http.StatusNotFound, "NoSuchVersion", "The specified version does not exist.",
		"Key", key, "VersionId", version)
}

// writeError answers with the error's status and XML document. A 304 and an
// answer to HEAD have no body.
func (r *request) writeError(err error) {
	var e *apiError
	if !errors.As(err, &e) {
		e = newError(http.StatusInternalServerError, "InternalError", err.Error())
	}
	h := r.w.Header()
	maps.Copy(h, e.header)
	if e.status == http.StatusNotModified {
		r.w.WriteHeader(e.status)
		return
	}
	h.Set("Content-Type", "application/xml")
	if r.Method == http.MethodHead {
		r.w.WriteHeader(e.status)
		return
	}
	body := e.document(r.id)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	r.w.WriteHeader(e.status)
	_, _ = r.w.Write(body) // a client that went away wants no answer
}

func (e *apiError) document(requestID string) []byte {
	var b bytes.Buffer
	b.WriteString(xml.Header + "<Error>")
	element := func(name, value string) {
		b.WriteString("<" + name + ">")
		_ = xml.EscapeText(&b, []byte(value)) // a buffer takes everything
		b.WriteString("</" + name + ">")
	}
	element("Code", e.code)
	element("Message", e.message)
	for i := 0; i+1 < len(e.details); i += 2 {
		element(e.details[i], e.details[i+1])
	}
	element("RequestId", requestID)
	element("HostId", hostID(requestID))
	b.WriteString("</Error>")
	return b.Bytes()
}

func decimal[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }
