// Package s3emu is an S3 that lives in memory: an [http.Handler] which the
// AWS SDKs and the AWS command line talk to as they talk to S3, by the
// path-style REST API.
//
// It exists because queues built on conditional writes and versions need an
// emulator that is exact about both: what a delete marker counts as, which
// version a listing shows first, when a condition answers 412 and when 404.
// What it does not know it refuses with NotImplemented, so that a test never
// passes because a request was ignored.
//
// All state belongs to one [Server]; servers share nothing.
package s3emu

import (
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// Options are the settings of a [Server]. The zero value is usable.
type Options struct {
	// Region that buckets are created in and that events name. Defaults to
	// "us-east-1", for which GetBucketLocation answers an empty location.
	Region string

	// AccountID owns every bucket; a request that expects another owner is
	// refused. Defaults to "000000000000".
	AccountID string

	// OnEvent is told of every mutation after it was committed and before
	// the request is answered, in the goroutine of the request and without a
	// lock held. Two mutations of one key may be told in either order;
	// Event.Sequencer orders them. Defaults to nil: nobody is told.
	OnEvent func(Event)

	// Conflict decides whether a conditional request that could be racing
	// with another one answers 409 ConditionalRequestConflict, which S3 may
	// do at any time and this server, which takes turns, never has reason
	// to. It is asked before the condition is evaluated; nothing is written
	// when it returns true. Called with a lock held: it must not call the
	// server. Defaults to nil: never.
	Conflict func(ConditionalRequest) bool

	// CanList tells whether the sender of a request holds s3:ListBucket.
	// Without it listings are refused and a missing key answers 403
	// AccessDenied where it would have answered 404. Called with a lock
	// held: it must not call the server. Defaults to nil: everybody holds it.
	CanList func(*http.Request) bool
}

// ConditionalRequest is what Options.Conflict gets to see of a request with
// an If-Match or If-None-Match header.
type ConditionalRequest struct {
	Method      string // PUT, POST (complete a multipart upload) or DELETE
	Bucket      string
	Key         string
	IfMatch     string // as sent, "" when absent
	IfNoneMatch string // as sent, "" when absent
}

// Server is an S3 of its own. Use [New]. It is safe for concurrent use: every
// mutation of a key is atomic, and all of them take one order.
type Server struct {
	options  Options
	requests atomic.Uint64

	mu    sync.RWMutex
	state state
}

// New returns a server without buckets.
func New(options Options) *Server {
	if options.Region == "" {
		options.Region = defaultRegion
	}
	if options.AccountID == "" {
		options.AccountID = "000000000000"
	}
	return &Server{options: options, state: newState()}
}

const defaultRegion = "us-east-1"

// request is one HTTP request, taken apart.
type request struct {
	*http.Request

	w      http.ResponseWriter
	query  url.Values
	bucket string
	key    string
	id     string // the request id, also in the answer's header
}

// ServeHTTP answers one S3 request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req := &request{Request: r, w: w, query: r.URL.Query(), id: s.newRequestID()}
	h := w.Header()
	h.Set("X-Amz-Request-Id", req.id)
	h.Set("X-Amz-Id-2", hostID(req.id))
	h.Set("Server", "AmazonS3")
	h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	if err := s.serve(req); err != nil {
		req.writeError(err)
	}
}

func (s *Server) serve(r *request) error {
	if err := r.splitPath(); err != nil {
		return err
	}
	if err := r.checkHeaders(); err != nil {
		return err
	}
	if owner := r.Header.Get("X-Amz-Expected-Bucket-Owner"); owner != "" && owner != s.options.AccountID {
		return accessDenied()
	}
	if r.query.Has("versionId") && r.query.Get("versionId") == "" {
		return invalidArgument("Version id cannot be the empty string", "versionId", "")
	}
	handler := s.route(r)
	if handler == nil {
		return notImplemented(r)
	}
	return handler(r)
}

// splitPath reads bucket and key from the escaped path, because a key may
// itself hold "//", "." or an escaped slash.
func (r *request) splitPath() error {
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/")
	bucket, key, _ := strings.Cut(path, "/")
	var err error
	if r.bucket, err = url.PathUnescape(bucket); err != nil {
		return invalidURI(path)
	}
	if r.key, err = url.PathUnescape(key); err != nil || !utf8.ValidString(r.key) {
		return invalidURI(path)
	}
	if len(r.key) > maxKeyBytes {
		return newError(http.StatusBadRequest, "KeyTooLongError", "Your key is too long",
			"Size", decimal(len(r.key)), "MaxSizeAllowed", decimal(maxKeyBytes))
	}
	return nil
}

// maxKeyBytes is the length of the longest key, in bytes of UTF-8.
const maxKeyBytes = 1024

// newRequestID returns 16 characters that no other request of this server
// has.
func (s *Server) newRequestID() string {
	const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	id := make([]byte, 16)
	// The number is stirred by an odd factor, so that ids of neighbors do
	// not look alike.
	n := s.requests.Add(1) * 0x9E3779B97F4A7C15
	for i := range id {
		id[i] = alphabet[n&31]
		n = n>>5 | n<<59
	}
	return string(id)
}

// hostID is the longer of the two ids by which S3's support finds a request.
func hostID(requestID string) string {
	return base64.StdEncoding.EncodeToString([]byte(requestID + "sluice-embedded-s3-host"))
}

// randomBytes returns n bytes that cannot be guessed.
func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails: it ends the program instead
	return b
}
