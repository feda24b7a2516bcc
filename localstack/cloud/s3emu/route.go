package s3emu

import "net/http"

type handler func(*request) error

// route finds the handler of a request, nil when the operation is one this
// server does not know.
func (s *Server) route(r *request) handler {
	switch {
	case r.bucket == "":
		if r.Method == http.MethodGet {
			return s.listBuckets
		}
		return nil
	case r.key == "":
		return s.routeBucket(r)
	default:
		return s.routeObject(r)
	}
}

func (s *Server) routeBucket(r *request) handler {
	if sub := r.subresource(); sub != "" {
		return s.routeBucketSubresource(r, sub)
	}
	switch r.Method {
	case http.MethodGet:
		if r.query.Get("list-type") == "2" {
			return s.listObjectsV2
		}
		return s.listObjectsV1
	case http.MethodPut:
		return s.createBucket
	case http.MethodHead:
		return s.headBucket
	case http.MethodDelete:
		return s.deleteBucket
	}
	return nil
}

func (s *Server) routeBucketSubresource(r *request, sub string) handler {
	if c, ok := configurations[sub]; ok {
		switch r.Method {
		case http.MethodGet:
			return func(r *request) error { return s.getConfiguration(r, sub, c) }
		case http.MethodPut:
			return func(r *request) error { return s.putConfiguration(r, sub, c) }
		case http.MethodDelete:
			return func(r *request) error { return s.deleteConfiguration(r, sub) }
		}
		return nil
	}
	switch r.Method + " " + sub {
	case "GET location":
		return s.getBucketLocation
	case "GET versioning":
		return s.getBucketVersioning
	case "PUT versioning":
		return s.putBucketVersioning
	case "GET versions":
		return s.listObjectVersions
	case "GET uploads":
		return s.listMultipartUploads
	case "POST delete":
		return s.deleteObjects
	}
	return nil
}

func (s *Server) routeObject(r *request) handler {
	if sub := r.subresource(); sub != "" {
		switch r.Method + " " + sub {
		case "GET tagging":
			return s.getObjectTagging
		case "PUT tagging":
			return s.putObjectTagging
		case "DELETE tagging":
			return s.deleteObjectTagging
		case "POST uploads":
			return s.createMultipartUpload
		}
		return nil
	}
	if r.query.Has("uploadId") {
		return s.routeUpload(r)
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return s.getObject
	case http.MethodPut:
		if r.copies() {
			return s.copyObject
		}
		return s.putObject
	case http.MethodDelete:
		return s.deleteObject
	}
	return nil
}

func (r *request) copies() bool { return r.Header.Get("X-Amz-Copy-Source") != "" }

func (s *Server) routeUpload(r *request) handler {
	switch r.Method {
	case http.MethodPut:
		if r.copies() {
			return s.uploadPartCopy
		}
		return s.uploadPart
	case http.MethodPost:
		return s.completeMultipartUpload
	case http.MethodDelete:
		return s.abortMultipartUpload
	case http.MethodGet:
		return s.listParts
	}
	return nil
}

// subresources are the query parameters that make a request about something
// else than the bucket or the object itself. Those without a handler are
// listed as well: an unknown ?acl must not be taken for the object.
var subresources = []string{
	"abac", "accelerate", "acl", "analytics", "annotation", "attributes", "cors", "delete", "encryption",
	"intelligent-tiering", "inventory", "legal-hold", "lifecycle", "location", "logging",
	"metadataAnnotationTable", "metadataConfiguration", "metadataInventoryTable",
	"metadataJournalTable", "metadataTable", "metrics", notificationSubresource, "object-lock", "ownershipControls",
	"policy", "policyStatus", "publicAccessBlock", "renameObject", "replication", "requestPayment",
	"restore", "retention", "select", "session", "tagging", "torrent", "uploads", "versioning",
	"versions", "website",
}

func (r *request) subresource() string {
	for _, name := range subresources {
		if r.query.Has(name) {
			return name
		}
	}
	return ""
}
