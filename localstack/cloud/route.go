package cloud

import (
	"net/http"
	"net/url"
	"strings"
)

// Service is one of the emulated services, by its name in credentials.
type Service string

// The services of a cloud.
const (
	S3        Service = "s3"
	DynamoDB  Service = "dynamodb"
	Scheduler Service = "scheduler"
	Lambda    Service = "lambda"
	SQS       Service = "sqs"

	// runtimeAPI is where function instances get their events. It is no
	// service of AWS: it is not counted, and faults do not reach it.
	runtimeAPI Service = "runtime"
)

// Where the paths of Scheduler begin.
const (
	schedulesPath = "schedules"
	groupsPath    = "schedule-groups"
)

// serviceOf finds the service a request is for. The path alone would not do:
// a bucket may be called "schedules". Signed requests name their service.
func serviceOf(r *http.Request) Service {
	if strings.HasPrefix(r.URL.Path, "/_runtime/") {
		return runtimeAPI
	}
	switch target := r.Header.Get("X-Amz-Target"); {
	case strings.HasPrefix(target, "DynamoDB_"):
		return DynamoDB
	case strings.HasPrefix(target, "AmazonSQS."):
		return SQS
	}
	if signed := credentialOf(r); signed.service != "" {
		return Service(signed.service)
	}
	switch first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); first {
	case "2015-03-31":
		return Lambda
	case schedulesPath, groupsPath:
		return Scheduler
	}
	return S3
}

// credential is what a signature says about its request.
type credential struct {
	accessKey string
	service   string
}

// credentialOf reads the scope of a signature from the Authorization header or
// the query: access key/date/region/service/aws4_request, without the region
// in version 4A.
func credentialOf(r *http.Request) credential {
	scope := r.URL.Query().Get("X-Amz-Credential")
	if authorization := r.Header.Get("Authorization"); authorization != "" {
		_, after, _ := strings.Cut(authorization, "Credential=")
		scope, _, _ = strings.Cut(after, ",")
	}
	parts := strings.Split(strings.TrimSpace(scope), "/")
	if len(parts) < 4 {
		return credential{}
	}
	return credential{accessKey: parts[0], service: parts[len(parts)-2]}
}

// pathStyle rewrites a request for http://bucket.localhost/key into one for
// http://localhost/bucket/key, since some clients put the bucket into the
// host name. Other hosts are left alone.
func pathStyle(r *http.Request) *http.Request {
	host, _, _ := strings.Cut(r.Host, ":")
	bucket, found := strings.CutSuffix(host, ".localhost")
	bucket = strings.TrimSuffix(bucket, ".s3")
	if !found || bucket == "" || bucket == "s3" {
		return r
	}
	rewritten := r.Clone(r.Context())
	rewritten.URL.Path = "/" + bucket + r.URL.Path
	if r.URL.RawPath != "" {
		rewritten.URL.RawPath = "/" + bucket + r.URL.RawPath
	}
	return rewritten
}

// names fills in the operation of a request and what it is about.
func (r *Request) names() {
	switch r.Service {
	case S3:
		r.s3Names()
	case DynamoDB, SQS:
		_, r.Operation, _ = strings.Cut(r.HTTP.Header.Get("X-Amz-Target"), ".")
	case Scheduler:
		r.schedulerNames()
	case Lambda:
		r.lambdaNames()
	case runtimeAPI: // is not counted
	}
	if r.Operation == "" {
		r.Operation = r.HTTP.Method
	}
}

func (r *Request) s3Names() {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.HTTP.URL.EscapedPath(), "/"), "/")
	r.Bucket, r.Key = unescape(bucket), unescape(key)
	switch {
	case r.Bucket == "":
		r.Operation = "ListBuckets"
	case r.Key == "":
		r.Operation = bucketOperation(r.HTTP.Method, r.HTTP.URL.Query())
	default:
		r.Operation = objectOperation(r.HTTP)
	}
}

func unescape(part string) string {
	if plain, err := url.PathUnescape(part); err == nil {
		return plain
	}
	return part
}

var verbs = map[string]string{http.MethodGet: "Get", http.MethodPut: "Put", http.MethodDelete: "Delete", http.MethodHead: "Head"}

// bucketParts names what a query parameter makes a bucket's request about.
var bucketParts = []struct{ query, name string }{
	{"notification", "BucketNotificationConfiguration"},
	{"lifecycle", "BucketLifecycleConfiguration"},
	{"versioning", "BucketVersioning"},
	{"encryption", "BucketEncryption"},
	{"publicAccessBlock", "PublicAccessBlock"},
	{"tagging", "BucketTagging"},
	{"policy", "BucketPolicy"},
	{"location", "BucketLocation"},
	{"cors", "BucketCors"},
	{"ownershipControls", "BucketOwnershipControls"},
}

func bucketOperation(method string, query url.Values) string {
	for _, part := range bucketParts {
		if query.Has(part.query) {
			return verbs[method] + part.name
		}
	}
	switch {
	case query.Has("delete"):
		return "DeleteObjects"
	case query.Has("versions"):
		return "ListObjectVersions"
	case query.Has("uploads"):
		return "ListMultipartUploads"
	}
	switch method {
	case http.MethodGet:
		if query.Get("list-type") == "2" {
			return "ListObjectsV2"
		}
		return "ListObjects"
	case http.MethodPut:
		return "CreateBucket"
	}
	return verbs[method] + "Bucket"
}

func objectOperation(r *http.Request) string {
	query := r.URL.Query()
	copies := r.Header.Get("X-Amz-Copy-Source") != ""
	switch {
	case query.Has("tagging"):
		return verbs[r.Method] + "ObjectTagging"
	case query.Has("attributes"):
		return "GetObjectAttributes"
	case query.Has("uploads"):
		return "CreateMultipartUpload"
	case query.Has("uploadId"):
		return uploadOperation(r.Method, copies)
	case copies:
		return "CopyObject"
	}
	return verbs[r.Method] + "Object"
}

func uploadOperation(method string, copies bool) string {
	switch method {
	case http.MethodPut:
		if copies {
			return "UploadPartCopy"
		}
		return "UploadPart"
	case http.MethodPost:
		return "CompleteMultipartUpload"
	case http.MethodDelete:
		return "AbortMultipartUpload"
	}
	return "ListParts"
}

func (r *Request) schedulerNames() {
	kind, name, _ := strings.Cut(strings.Trim(r.HTTP.URL.EscapedPath(), "/"), "/")
	r.Name = unescape(name)
	verb := map[string]string{
		http.MethodPost: "Create", http.MethodPut: "Update", http.MethodGet: "Get", http.MethodDelete: "Delete",
	}[r.HTTP.Method]
	switch {
	case kind == schedulesPath && name == "":
		r.Operation = "ListSchedules"
	case kind == schedulesPath:
		r.Operation = verb + "Schedule"
	case kind == groupsPath && name == "":
		r.Operation = "ListScheduleGroups"
	case kind == groupsPath:
		r.Operation = verb + "ScheduleGroup"
	case kind == "tags":
		r.Operation = map[string]string{
			http.MethodPost: "TagResource", http.MethodGet: "ListTagsForResource", http.MethodDelete: "UntagResource",
		}[r.HTTP.Method]
	}
}

func (r *Request) lambdaNames() {
	path := strings.Trim(strings.TrimPrefix(r.HTTP.URL.EscapedPath(), "/2015-03-31/functions"), "/")
	name, rest, _ := strings.Cut(path, "/")
	r.Name = unescape(name)
	switch {
	case name == "":
		r.Operation = "ListFunctions"
	case rest == "":
		r.Operation = "GetFunction"
	case rest == "configuration":
		r.Operation = "GetFunctionConfiguration"
	case rest == "invocations":
		r.Operation = "Invoke"
	}
}
