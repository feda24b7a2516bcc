package s3emu

import (
	"encoding/xml"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// bucketName is the grammar of bucket names: 3 to 63 characters.
var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

type createBucketRequest struct {
	XMLName            xml.Name `xml:"CreateBucketConfiguration"`
	LocationConstraint string   `xml:"LocationConstraint"`
}

func (s *Server) createBucket(r *request) error {
	if !bucketName.MatchString(r.bucket) || strings.Contains(r.bucket, "..") {
		return newError(http.StatusBadRequest, "InvalidBucketName", "The specified bucket is not valid.",
			"BucketName", r.bucket)
	}
	p, err := readPayload(r, maxDocumentBytes)
	if err != nil {
		return err
	}
	region := s.options.Region
	if len(p.data) > 0 {
		var in createBucketRequest
		if xml.Unmarshal(p.data, &in) != nil {
			return malformedXML()
		}
		if in.LocationConstraint != "" {
			region = in.LocationConstraint
		}
	}
	s.mu.Lock()
	_, exists := s.state.Buckets[r.bucket]
	if !exists {
		s.state.Buckets[r.bucket] = &bucket{
			Name: r.bucket, Region: region, Created: time.Now().UTC(),
			Configurations: map[string][]byte{}, Uploads: map[string]*upload{},
		}
	}
	s.mu.Unlock()
	if exists {
		return newError(http.StatusConflict, "BucketAlreadyOwnedByYou",
			"Your previous request to create the named bucket succeeded and you already own it.",
			"BucketName", r.bucket)
	}
	r.w.Header().Set("Location", "/"+r.bucket)
	r.w.WriteHeader(http.StatusOK)
	return nil
}

func (s *Server) headBucket(r *request) error {
	s.mu.RLock()
	b, err := s.bucketOf(r.bucket)
	s.mu.RUnlock()
	if err != nil {
		return err
	}
	if !s.canList(r) {
		return accessDenied()
	}
	r.w.Header().Set("X-Amz-Bucket-Region", b.Region)
	r.w.WriteHeader(http.StatusOK)
	return nil
}

// deleteBucket refuses a bucket that holds any version, delete markers
// included.
func (s *Server) deleteBucket(r *request) error {
	s.mu.Lock()
	b, err := s.bucketOf(r.bucket)
	if err == nil && b.Keys.Len() > 0 {
		err = newError(http.StatusConflict, "BucketNotEmpty",
			"The bucket you tried to delete is not empty. You must delete all versions in the bucket.",
			"BucketName", r.bucket)
	}
	if err == nil {
		delete(s.state.Buckets, r.bucket)
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	r.w.WriteHeader(http.StatusNoContent)
	return nil
}

type listBucketsResult struct {
	XMLName           xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListAllMyBucketsResult"`
	Owner             *owner
	Buckets           []listedBucket `xml:"Buckets>Bucket"`
	ContinuationToken string         `xml:",omitempty"`
	Prefix            string         `xml:",omitempty"`
}

type listedBucket struct {
	Name         string
	CreationDate string
	BucketRegion string
}

func (s *Server) listBuckets(r *request) error {
	limit, err := r.number("max-buckets", 10_000)
	if err != nil {
		return err
	}
	if limit < 1 || limit > 10_000 {
		return invalidArgument("Argument max-buckets must be an integer between 1 and 10000",
			"max-buckets", r.query.Get("max-buckets"))
	}
	after, err := decodeToken(r.query.Get("continuation-token"))
	if err != nil {
		return err
	}
	out := listBucketsResult{Owner: s.owner(), Prefix: r.query.Get("prefix")}
	s.mu.RLock()
	for _, name := range slices.Sorted(maps.Keys(s.state.Buckets)) {
		if name <= after || !strings.HasPrefix(name, out.Prefix) {
			continue
		}
		if len(out.Buckets) == limit {
			out.ContinuationToken = encodeToken(out.Buckets[limit-1].Name)
			break
		}
		b := s.state.Buckets[name]
		out.Buckets = append(out.Buckets, listedBucket{name, timestamp(b.Created), b.Region})
	}
	s.mu.RUnlock()
	return r.writeXML(out)
}

type locationConstraint struct {
	XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ LocationConstraint"`
	Region  string   `xml:",chardata"`
}

func (s *Server) getBucketLocation(r *request) error {
	s.mu.RLock()
	b, err := s.bucketOf(r.bucket)
	s.mu.RUnlock()
	if err != nil {
		return err
	}
	region := b.Region
	if region == defaultRegion {
		region = "" // the oldest Region has no name here
	}
	return r.writeXML(locationConstraint{Region: region})
}

type versioningResult struct {
	XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ VersioningConfiguration"`
	Status  string   `xml:",omitempty"`
}

type versioningRequest struct {
	XMLName xml.Name `xml:"VersioningConfiguration"`
	Status  string
}

func (s *Server) getBucketVersioning(r *request) error {
	s.mu.RLock()
	b, err := s.bucketOf(r.bucket)
	status := ""
	if err == nil {
		status = b.Versioning
	}
	s.mu.RUnlock()
	if err != nil {
		return err
	}
	return r.writeXML(versioningResult{Status: status})
}

func (s *Server) putBucketVersioning(r *request) error {
	var in versioningRequest
	if err := s.readXML(r, &in); err != nil {
		return err
	}
	if in.Status != versioningEnabled && in.Status != versioningSuspended {
		return newError(http.StatusBadRequest, "IllegalVersioningConfigurationException",
			"The Versioning element must be specified: Enabled or Suspended")
	}
	s.mu.Lock()
	b, err := s.bucketOf(r.bucket)
	if err == nil {
		b.Versioning = in.Status
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	r.w.WriteHeader(http.StatusOK)
	return nil
}
