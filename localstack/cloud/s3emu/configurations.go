package s3emu

import (
	"encoding/json"
	"encoding/xml"
	"net/http"
)

// configuration describes a document that a bucket keeps for others to read.
// This server stores it and gives it back; of all of them it acts on the
// notification configuration only, see [Server.Notifications].
type configuration struct {
	root    string // of the document; "" for JSON
	missing *apiError
	initial string // given back while nothing was put, instead of missing
	created int    // status of the answer to a put; 0 is 200
}

var configurations = map[string]configuration{
	"lifecycle": {root: "LifecycleConfiguration", missing: newError(http.StatusNotFound,
		"NoSuchLifecycleConfiguration", "The lifecycle configuration does not exist")},
	"encryption": {root: "ServerSideEncryptionConfiguration", initial: `<ServerSideEncryptionConfiguration xmlns="` + xmlNamespace +
		`"><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault>` +
		`<BucketKeyEnabled>false</BucketKeyEnabled></Rule></ServerSideEncryptionConfiguration>`},
	"publicAccessBlock": {root: "PublicAccessBlockConfiguration", missing: newError(http.StatusNotFound,
		"NoSuchPublicAccessBlockConfiguration", "The public access block configuration was not found")},
	"tagging": {root: "Tagging", created: http.StatusNoContent, missing: newError(http.StatusNotFound,
		"NoSuchTagSet", "The TagSet does not exist")},
	"cors": {root: "CORSConfiguration", missing: newError(http.StatusNotFound,
		"NoSuchCORSConfiguration", "The CORS configuration does not exist")},
	"ownershipControls": {root: "OwnershipControls", initial: `<OwnershipControls xmlns="` + xmlNamespace +
		`"><Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule></OwnershipControls>`},
	"policy": {created: http.StatusNoContent, missing: newError(http.StatusNotFound,
		"NoSuchBucketPolicy", "The bucket policy does not exist")},
	notificationSubresource: {root: "NotificationConfiguration",
		initial: `<NotificationConfiguration xmlns="` + xmlNamespace + `"/>`},
}

const notificationSubresource = "notification"

func (s *Server) getConfiguration(r *request, name string, c configuration) error {
	s.mu.RLock()
	b, err := s.bucketOf(r.bucket)
	var doc []byte
	if err == nil {
		doc = b.Configurations[name]
	}
	s.mu.RUnlock()
	switch {
	case err != nil:
		return err
	case doc == nil && c.initial != "":
		doc = []byte(xml.Header + c.initial)
	case doc == nil:
		return c.missing
	}
	contentType := "application/xml"
	if c.root == "" {
		contentType = "application/json"
	}
	r.writeDocument(doc, contentType)
	return nil
}

func (s *Server) putConfiguration(r *request, name string, c configuration) error {
	p, err := readPayload(r, maxDocumentBytes)
	if err != nil {
		return err
	}
	if err := c.validate(name, p.data); err != nil {
		return err
	}
	s.mu.Lock()
	b, err := s.bucketOf(r.bucket)
	if err == nil {
		b.Configurations[name] = p.data
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	r.w.WriteHeader(max(c.created, http.StatusOK))
	return nil
}

func (c configuration) validate(name string, doc []byte) error {
	if c.root == "" {
		if !json.Valid(doc) {
			return newError(http.StatusBadRequest, "MalformedPolicy", "Policies must be valid JSON and the first byte must be '{'")
		}
		return nil
	}
	var root struct {
		XMLName xml.Name `xml:""`
	}
	if xml.Unmarshal(doc, &root) != nil || root.XMLName.Local != c.root {
		return malformedXML()
	}
	if name == notificationSubresource {
		_, err := parseNotifications(doc)
		return err
	}
	return nil
}

func (s *Server) deleteConfiguration(r *request, name string) error {
	s.mu.Lock()
	b, err := s.bucketOf(r.bucket)
	if err == nil {
		delete(b.Configurations, name)
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	r.w.WriteHeader(http.StatusNoContent)
	return nil
}
