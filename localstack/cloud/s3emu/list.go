package s3emu

import (
	"encoding/base64"
	"encoding/xml"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-dev/sluice/localstack/cloud/internal/sortedmap"
)

// maxPage is the number of entries that one page of a listing holds at most,
// whatever the request asks for.
const maxPage = 1000

// number reads an integer query parameter.
func (r *request) number(name string, absent int) (int, error) {
	value := r.query.Get(name)
	if value == "" {
		return absent, nil
	}
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 0 {
		return 0, invalidArgument("Provided "+name+" not an integer or within integer range", name, value)
	}
	return int(n), nil
}

func (r *request) pageSize(name string) (int, error) {
	n, err := r.number(name, maxPage)
	return min(n, maxPage), err
}

// A token says where the next page begins. It is opaque, but nothing is kept
// for it: it stays good while objects come and go.
func encodeToken(last string) string {
	if last == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte("1" + last))
}

func decodeToken(token string) (string, error) {
	if token == "" {
		return "", nil
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(b) == 0 || b[0] != '1' {
		return "", invalidArgument("The continuation token provided is incorrect", "continuation-token", token)
	}
	return string(b[1:]), nil
}

// query parameters and results that all listings of keys share.
type listing struct {
	prefix, delimiter string
	limit             int
	encode            func(string) string // of keys in the answer
}

func (r *request) listing() (listing, error) {
	l := listing{
		prefix: r.query.Get("prefix"), delimiter: r.query.Get("delimiter"),
		encode: func(key string) string { return key },
	}
	switch encoding := r.query.Get("encoding-type"); encoding {
	case "":
	case encodingURL:
		l.encode = encodeKey
	default:
		return l, invalidArgument("Invalid Encoding Method specified in Request", "encoding-type", encoding)
	}
	var err error
	l.limit, err = r.pageSize("max-keys")
	return l, err
}

const encodingURL = "url"

// encodeKey is the encoding of keys in listings on request, and always in
// event notifications: that of HTML forms, with slashes left alone.
func encodeKey(key string) string {
	return strings.ReplaceAll(url.QueryEscape(key), "%2F", "/")
}

// commonPrefix is the part of key up to and including the first delimiter
// after the listing's prefix, "" when there is none.
func (l listing) commonPrefix(key string) string {
	if l.delimiter == "" || len(key) < len(l.prefix) {
		return ""
	}
	i := strings.Index(key[len(l.prefix):], l.delimiter)
	if i < 0 {
		return ""
	}
	return key[:len(l.prefix)+i+len(l.delimiter)]
}

// begin is the first key that may appear after the marker. Behind a marker
// that is a common prefix, all keys under it are already told.
func (l listing) begin(marker string) string {
	start := ""
	if marker != "" {
		start = marker + "\x00"
		if strings.HasPrefix(marker, l.prefix) && l.commonPrefix(marker) == marker {
			start, _ = sortedmap.AfterPrefix(marker)
		}
	}
	return max(start, l.prefix)
}

// walk visits keys in order from start: visit is called for each key that
// stands by itself, group once for each common prefix, whose other keys are
// jumped over. Either ends the walk by returning false.
func (l listing) walk(b *bucket, start string, visible func(*history) bool, visit func(string, *history) bool, group func(string) bool) {
	for jump := true; jump; {
		jump = false
		for key, h := range b.Keys.From(start) {
			if !strings.HasPrefix(key, l.prefix) {
				return
			}
			if !visible(h) {
				continue
			}
			if common := l.commonPrefix(key); common != "" {
				if !group(common) {
					return
				}
				start, jump = sortedmap.AfterPrefix(common)
				break
			}
			if !visit(key, h) {
				return
			}
		}
	}
}

// page is one page of current objects.
type page struct {
	contents  []listedObject
	prefixes  []prefixElement
	truncated bool
	last      string // key or common prefix
}

type listedObject struct {
	Key               string
	LastModified      string
	ETag              string
	ChecksumAlgorithm string `xml:",omitempty"`
	ChecksumType      string `xml:",omitempty"`
	Size              int
	StorageClass      string
	Owner             *owner `xml:",omitempty"`
}

type prefixElement struct {
	Prefix string
}

func (l listing) objects(b *bucket, marker string, by *owner) page {
	var p page
	full := func() bool {
		p.truncated = len(p.contents)+len(p.prefixes) >= l.limit
		return p.truncated
	}
	if l.limit == 0 {
		return p
	}
	l.walk(b, l.begin(marker),
		func(h *history) bool { return !h.current().DeleteMarker },
		func(key string, h *history) bool {
			if full() {
				return false
			}
			v := h.current()
			p.last = key
			p.contents = append(p.contents, listedObject{
				Key: l.encode(key), LastModified: timestamp(v.Modified), ETag: v.ETag, Size: len(v.Data),
				ChecksumAlgorithm: strings.ToUpper(v.Checksum.Algorithm), ChecksumType: v.Checksum.Type,
				StorageClass: storageClass(v), Owner: by,
			})
			return true
		},
		func(common string) bool {
			if full() {
				return false
			}
			p.last = common
			p.prefixes = append(p.prefixes, prefixElement{l.encode(common)})
			return true
		})
	return p
}

func storageClass(v *version) string {
	if class := v.Header.Get("X-Amz-Storage-Class"); class != "" {
		return class
	}
	return "STANDARD"
}

// readPage lists objects under the lock.
func (s *Server) readPage(r *request, l listing, marker string, by *owner) (page, error) {
	if !s.canList(r) {
		return page{}, accessDenied()
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	b, err := s.bucketOf(r.bucket)
	if err != nil {
		return page{}, err
	}
	return l.objects(b, marker, by), nil
}

type listV2Result struct {
	XMLName               xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListBucketResult"`
	Name                  string
	Prefix                string
	StartAfter            string `xml:",omitempty"`
	ContinuationToken     string `xml:",omitempty"`
	NextContinuationToken string `xml:",omitempty"`
	KeyCount              int
	MaxKeys               int
	Delimiter             string `xml:",omitempty"`
	EncodingType          string `xml:",omitempty"`
	IsTruncated           bool
	Contents              []listedObject
	CommonPrefixes        []prefixElement
}

func (s *Server) listObjectsV2(r *request) error {
	l, err := r.listing()
	if err != nil {
		return err
	}
	token := r.query.Get("continuation-token")
	if token == "" && r.query.Has("continuation-token") {
		return invalidArgument("The continuation token provided is incorrect", "continuation-token", "")
	}
	marker, err := decodeToken(token)
	if err != nil {
		return err
	}
	startAfter := r.query.Get("start-after")
	if marker == "" {
		marker = startAfter
	}
	var by *owner
	if r.query.Get("fetch-owner") == "true" {
		by = s.owner()
	}
	p, err := s.readPage(r, l, marker, by)
	if err != nil {
		return err
	}
	out := listV2Result{
		Name: r.bucket, Prefix: l.encode(l.prefix), StartAfter: l.encode(startAfter), ContinuationToken: token,
		KeyCount: len(p.contents) + len(p.prefixes), MaxKeys: l.limit, Delimiter: l.encode(l.delimiter),
		EncodingType: r.query.Get("encoding-type"), IsTruncated: p.truncated,
		Contents: p.contents, CommonPrefixes: p.prefixes,
	}
	if p.truncated {
		out.NextContinuationToken = encodeToken(p.last)
	}
	return r.writeXML(out)
}

type listV1Result struct {
	XMLName        xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListBucketResult"`
	Name           string
	Prefix         string
	Marker         string
	NextMarker     string `xml:",omitempty"`
	MaxKeys        int
	Delimiter      string `xml:",omitempty"`
	EncodingType   string `xml:",omitempty"`
	IsTruncated    bool
	Contents       []listedObject
	CommonPrefixes []prefixElement
}

// listObjectsV1 names the next marker only where a delimiter is used; without
// one the caller goes on after the last key.
func (s *Server) listObjectsV1(r *request) error {
	l, err := r.listing()
	if err != nil {
		return err
	}
	marker := r.query.Get("marker")
	p, err := s.readPage(r, l, marker, s.owner())
	if err != nil {
		return err
	}
	out := listV1Result{
		Name: r.bucket, Prefix: l.encode(l.prefix), Marker: l.encode(marker), MaxKeys: l.limit,
		Delimiter: l.encode(l.delimiter), EncodingType: r.query.Get("encoding-type"),
		IsTruncated: p.truncated, Contents: p.contents, CommonPrefixes: p.prefixes,
	}
	if p.truncated && l.delimiter != "" {
		out.NextMarker = l.encode(p.last)
	}
	return r.writeXML(out)
}

type listUploadsResult struct {
	XMLName            xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListMultipartUploadsResult"`
	Bucket             string
	KeyMarker          string
	UploadIDMarker     string `xml:"UploadIdMarker"`
	NextKeyMarker      string `xml:",omitempty"`
	NextUploadIDMarker string `xml:"NextUploadIdMarker,omitempty"`
	Prefix             string
	EncodingType       string `xml:",omitempty"`
	MaxUploads         int
	IsTruncated        bool
	Uploads            []listedUpload `xml:"Upload"`
}

type listedUpload struct {
	Key          string
	UploadID     string `xml:"UploadId"`
	Initiator    *owner
	Owner        *owner
	StorageClass string
	Initiated    string
}

func (s *Server) listMultipartUploads(r *request) error {
	l, err := r.listing()
	if err != nil {
		return err
	}
	if l.limit, err = r.pageSize("max-uploads"); err != nil {
		return err
	}
	if l.delimiter != "" {
		return invalidRequest("This S3 emulator lists multipart uploads without a delimiter only")
	}
	keyMarker, idMarker := r.query.Get("key-marker"), r.query.Get("upload-id-marker")
	s.mu.RLock()
	b, err := s.bucketOf(r.bucket)
	if err != nil {
		s.mu.RUnlock()
		return err
	}
	var uploads []*upload
	for _, u := range b.Uploads {
		if strings.HasPrefix(u.Key, l.prefix) && (u.Key > keyMarker || u.Key == keyMarker && idMarker != "" && u.ID > idMarker) {
			uploads = append(uploads, u)
		}
	}
	s.mu.RUnlock()
	slices.SortFunc(uploads, func(a, b *upload) int {
		if c := strings.Compare(a.Key, b.Key); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	out := listUploadsResult{
		Bucket: r.bucket, KeyMarker: l.encode(keyMarker), UploadIDMarker: idMarker, Prefix: l.encode(l.prefix),
		EncodingType: r.query.Get("encoding-type"), MaxUploads: l.limit,
	}
	for _, u := range uploads {
		if len(out.Uploads) == l.limit {
			out.IsTruncated = l.limit > 0
			break
		}
		out.NextKeyMarker, out.NextUploadIDMarker = l.encode(u.Key), u.ID
		out.Uploads = append(out.Uploads, listedUpload{
			Key: l.encode(u.Key), UploadID: u.ID, Initiator: s.owner(), Owner: s.owner(),
			StorageClass: storageClass(&u.Object), Initiated: timestamp(u.Initiated),
		})
	}
	if !out.IsTruncated {
		out.NextKeyMarker, out.NextUploadIDMarker = "", ""
	}
	return r.writeXML(out)
}
