package s3emu

import (
	"encoding/xml"
	"net/http"
	"strconv"
	"time"
)

const xmlNamespace = "http://s3.amazonaws.com/doc/2006-03-01/"

// writeXML answers 200 with a document. The document's type names its root
// element and carries the namespace.
func (r *request) writeXML(document any) error {
	body, err := xml.Marshal(document)
	if err != nil {
		return err
	}
	r.writeDocument(append([]byte(xml.Header), body...), "application/xml")
	return nil
}

func (r *request) writeDocument(body []byte, contentType string) {
	h := r.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	r.w.WriteHeader(http.StatusOK)
	_, _ = r.w.Write(body) // a client that went away wants no answer
}

// readXML decodes the request's body, bounded by maxDocumentBytes, into
// document.
func (s *Server) readXML(r *request, document any) error {
	p, err := readPayload(r, maxDocumentBytes)
	if err != nil {
		return err
	}
	if xml.Unmarshal(p.data, document) != nil {
		return malformedXML()
	}
	return nil
}

// maxDocumentBytes bounds the XML and JSON documents of requests: 1,000 keys
// to delete, each of the greatest length and escaped, fit.
const maxDocumentBytes = 8 << 20

// timestamp is the form of times in documents. S3 keeps whole seconds.
func timestamp(t time.Time) string {
	return t.UTC().Truncate(time.Second).Format("2006-01-02T15:04:05.000Z")
}

func httpDate(t time.Time) string { return t.UTC().Format(http.TimeFormat) }

// owner is the one account that owns everything.
type owner struct {
	ID          string
	DisplayName string `xml:",omitempty"`
}

func (s *Server) owner() *owner { return &owner{ID: s.options.AccountID} }
