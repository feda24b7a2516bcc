package s3emu

import (
	"encoding/xml"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// source names the version that a copy reads.
type source struct {
	bucket, key, version string
}

// copySource reads the x-amz-copy-source header:
// [/]bucket/key[?versionId=id], URL-encoded.
func (r *request) copySource() (source, error) {
	header := r.Header.Get("X-Amz-Copy-Source")
	path, query, _ := strings.Cut(header, "?")
	bucket, key, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	bucket, bucketErr := url.PathUnescape(bucket)
	key, keyErr := url.PathUnescape(key)
	values, queryErr := url.ParseQuery(query)
	if !ok || key == "" || bucketErr != nil || keyErr != nil || queryErr != nil {
		return source{}, invalidArgument("Copy Source must mention the source bucket and key: sourcebucket/sourcekey",
			"x-amz-copy-source", header)
	}
	return source{bucket: bucket, key: key, version: values.Get("versionId")}, nil
}

// readSource finds the version to copy, if it meets the request's conditions.
func (s *Server) readSource(r *request) (src source, v *version, err error) {
	src, err = r.copySource()
	if err != nil {
		return src, nil, err
	}
	reader := *r
	reader.bucket = src.bucket
	v, versioned, err := s.lookup(&reader, src.key, src.version)
	if err != nil {
		return src, nil, err
	}
	if versioned {
		r.w.Header().Set("X-Amz-Copy-Source-Version-Id", v.ID)
	}
	return src, v, r.readConditions("x-amz-copy-source-").judge(v, true)
}

type copyObjectResult struct {
	checksumElements

	XMLName      xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ CopyObjectResult"`
	LastModified string
	ETag         string
	ChecksumType string `xml:",omitempty"`
}

func (s *Server) copyObject(r *request) error {
	cond, err := r.writeCondition()
	if err != nil {
		return err
	}
	src, original, err := s.readSource(r)
	if err != nil {
		return err
	}
	v, err := r.copyOf(original)
	if err != nil {
		return err
	}
	replaces := r.Header.Get("X-Amz-Metadata-Directive") == directiveReplace
	if src == (source{bucket: r.bucket, key: r.key}) && !replaces && r.Header.Get("X-Amz-Storage-Class") == "" {
		return invalidRequest("This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata, storage class, website redirect location or encryption attributes.")
	}
	versioned, err := s.commit(r, v, write{condition: cond, event: EventCopy})
	if err != nil {
		return err
	}
	if versioned {
		r.w.Header().Set(versionIDHeader, v.ID)
	}
	describeEncryption(r.w.Header())
	return r.writeXML(copyObjectResult{
		LastModified: timestamp(v.Modified), ETag: v.ETag,
		ChecksumType: v.Checksum.Type, checksumElements: v.Checksum.elements(),
	})
}

const directiveReplace = "REPLACE"

// copyOf is a new version with the data of another, and with its metadata and
// tags or the request's, as the request directs.
func (r *request) copyOf(original *version) (*version, error) {
	v := &version{Data: original.Data, Header: original.Header, Metadata: original.Metadata, Tags: original.Tags}
	var err error
	if r.Header.Get("X-Amz-Metadata-Directive") == directiveReplace {
		if err := r.describeObject(v); err != nil {
			return nil, err
		}
	}
	if r.Header.Get("X-Amz-Tagging-Directive") == directiveReplace {
		if v.Tags, err = tagsFromHeader(r.Header.Get("X-Amz-Tagging")); err != nil {
			return nil, err
		}
	}
	p := newPayload(v.Data)
	v.ETag = p.etag()
	v.Checksum = original.Checksum
	if algorithm := strings.ToLower(r.Header.Get("X-Amz-Checksum-Algorithm")); algorithm != "" || v.Checksum.Type != checksumFull {
		if checksumAlgorithms[algorithm] == nil {
			algorithm = defaultChecksum
		}
		v.Checksum = checksum{Algorithm: algorithm, Value: computeChecksum(algorithm, v.Data), Type: checksumFull}
	}
	return v, nil
}

type copyPartResult struct {
	checksumElements

	XMLName      xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ CopyPartResult"`
	LastModified string
	ETag         string
}

func (s *Server) uploadPartCopy(r *request) error {
	number, err := r.partNumber()
	if err != nil {
		return err
	}
	_, v, err := s.readSource(r)
	if err != nil {
		return err
	}
	data := v.Data
	if spec := r.Header.Get("X-Amz-Copy-Source-Range"); spec != "" {
		if data, err = sourceRange(data, spec); err != nil {
			return err
		}
	}
	part, err := s.storePart(r, number, newPayload(data))
	if err != nil {
		return err
	}
	return r.writeXML(copyPartResult{
		LastModified: timestamp(part.Modified), ETag: part.ETag, checksumElements: part.Checksum.elements(),
	})
}

func sourceRange(data []byte, spec string) ([]byte, error) {
	rest, ok := strings.CutPrefix(spec, "bytes=")
	first, last, _ := strings.Cut(rest, "-")
	start, startErr := strconv.ParseInt(first, 10, 64)
	end, endErr := strconv.ParseInt(last, 10, 64)
	if !ok || startErr != nil || endErr != nil || start < 0 || end < start {
		return nil, invalidArgument("The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the zero-based offsets of the first and last bytes to copy",
			"x-amz-copy-source-range", spec)
	}
	if end >= int64(len(data)) {
		return nil, newError(http.StatusBadRequest, "InvalidArgument",
			"Range specified is not valid for source object of size: "+decimal(len(data)))
	}
	return data[start : end+1], nil
}
