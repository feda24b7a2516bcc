package cloud

import (
	"bytes"
	"io"
	"net/http"
	"slices"
)

// Request is a request to the cloud as faults and counters see it.
type Request struct {
	Service   Service
	Operation string // of the service's API, such as PutObject
	Client    string // label of the sender, see Label; a function's name for function processes
	Number    int    // counts the requests to this cloud, from 1

	Bucket string // of S3
	Key    string // of S3
	Name   string // of a function, schedule or schedule group

	// HTTP is the request itself. Its body must be read by Body only.
	HTTP *http.Request

	body    []byte
	bodyErr error
	read    bool
}

// Body returns the body of the request, which is held in memory from then on.
// It is empty when the sender went away while sending.
func (r *Request) Body() []byte {
	if !r.read {
		r.read = true
		r.body, r.bodyErr = io.ReadAll(r.HTTP.Body)
		if r.bodyErr != nil {
			r.body = nil
		}
		r.rewind()
	}
	return r.body
}

// rewind lets the body be read once more; a broken one breaks again instead
// of looking like a short one.
func (r *Request) rewind() {
	if r.bodyErr != nil {
		r.HTTP.Body = io.NopCloser(brokenReader{r.bodyErr})
		return
	}
	r.HTTP.Body = io.NopCloser(bytes.NewReader(r.body))
}

type brokenReader struct{ err error }

func (b brokenReader) Read([]byte) (int, error) { return 0, b.err }

// Is tells whether the request is one of the operations of the service; any
// operation when none is named.
func (r *Request) Is(service Service, operations ...string) bool {
	return r.Service == service && (len(operations) == 0 || slices.Contains(operations, r.Operation))
}

// From tells whether the request was sent by the client with that label.
func (r *Request) From(client string) bool { return r.Client == client }
