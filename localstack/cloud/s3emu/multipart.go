package s3emu

import (
	"crypto/md5" //nolint:gosec // S3's ETags are MD5
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// upload is a multipart upload that is neither completed nor aborted.
type upload struct {
	ID        string
	Key       string
	Initiated time.Time
	Object    version // what the finished object will carry beside its data
	Algorithm string  // of the checksums, "" when none was asked for
	Type      string  // checksumFull or checksumComposite
	Parts     map[int]*part
}

type part struct {
	Modified time.Time
	ETag     string
	Data     []byte
	Checksum checksum
}

const (
	maxPartNumber = 10_000
	minPartBytes  = 5 << 20 // of all parts but the last
)

type createUploadResult struct {
	XMLName  xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ InitiateMultipartUploadResult"`
	Bucket   string
	Key      string
	UploadID string `xml:"UploadId"`
}

func (s *Server) createMultipartUpload(r *request) error {
	u := &upload{
		ID: base64.RawURLEncoding.EncodeToString(randomBytes(48)), Key: r.key, Initiated: time.Now().UTC(),
		Algorithm: strings.ToLower(r.Header.Get("X-Amz-Checksum-Algorithm")),
		Type:      r.Header.Get("X-Amz-Checksum-Type"),
		Parts:     map[int]*part{},
	}
	if u.Algorithm != "" && !knownChecksum(u.Algorithm) {
		return invalidRequest("Checksum algorithm provided is unsupported: " + u.Algorithm)
	}
	if u.Type == "" {
		u.Type = checksumComposite
		if u.Algorithm == "" || u.Algorithm == defaultChecksum {
			u.Type = checksumFull
		}
	}
	var err error
	if err = r.describeObject(&u.Object); err != nil {
		return err
	}
	if u.Object.Tags, err = tagsFromHeader(r.Header.Get("X-Amz-Tagging")); err != nil {
		return err
	}
	s.mu.Lock()
	b, err := s.bucketOf(r.bucket)
	if err == nil {
		b.Uploads[u.ID] = u
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if u.Algorithm != "" {
		r.w.Header().Set("X-Amz-Checksum-Algorithm", strings.ToUpper(u.Algorithm))
		r.w.Header().Set("X-Amz-Checksum-Type", u.Type)
	}
	describeEncryption(r.w.Header())
	return r.writeXML(createUploadResult{Bucket: r.bucket, Key: r.key, UploadID: u.ID})
}

// uploadOf finds the upload a request names. The caller holds the lock.
func (s *Server) uploadOf(r *request) (*bucket, *upload, error) {
	b, err := s.bucketOf(r.bucket)
	if err != nil {
		return nil, nil, err
	}
	id := r.query.Get("uploadId")
	u, ok := b.Uploads[id]
	if !ok || u.Key != r.key {
		return nil, nil, noSuchUpload(id)
	}
	return b, u, nil
}

func (r *request) partNumber() (int, error) {
	n, err := strconv.Atoi(r.query.Get("partNumber"))
	if err != nil || n < 1 || n > maxPartNumber {
		return 0, invalidArgument("Part number must be an integer between 1 and 10000, inclusive",
			"partNumber", r.query.Get("partNumber"))
	}
	return n, nil
}

func (s *Server) uploadPart(r *request) error {
	number, err := r.partNumber()
	if err != nil {
		return err
	}
	p, err := readPayload(r, maxPutBytes)
	if err != nil {
		return err
	}
	part, err := s.storePart(r, number, p)
	if err != nil {
		return err
	}
	h := r.w.Header()
	h.Set("ETag", part.ETag)
	if part.Checksum.Algorithm != "" {
		h.Set(checksumHeader+part.Checksum.Algorithm, part.Checksum.Value)
	}
	describeEncryption(h)
	r.w.WriteHeader(http.StatusOK)
	return nil
}

// storePart adds a part to the request's upload, replacing an older one with
// its number.
func (s *Server) storePart(r *request, number int, p *payload) (*part, error) {
	stored := &part{Modified: time.Now().UTC(), ETag: p.etag(), Data: p.data, Checksum: p.checksum}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, u, err := s.uploadOf(r)
	if err != nil {
		return nil, err
	}
	if stored.Checksum.Algorithm == "" && u.Algorithm != "" {
		stored.Checksum = checksum{Algorithm: u.Algorithm, Value: computeChecksum(u.Algorithm, p.data)}
	}
	if u.Algorithm != "" && stored.Checksum.Algorithm != u.Algorithm {
		return nil, invalidRequest("Checksum Type mismatch occurred, expected checksum Type: " + u.Algorithm +
			", actual checksum Type: " + stored.Checksum.Algorithm)
	}
	u.Parts[number] = stored
	return stored, nil
}

type completeRequest struct {
	XMLName xml.Name        `xml:"CompleteMultipartUpload"`
	Parts   []completedPart `xml:"Part"`
}

type completedPart struct {
	checksumElements

	PartNumber int
	ETag       string
}

type completeResult struct {
	checksumElements

	XMLName      xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ CompleteMultipartUploadResult"`
	Location     string
	Bucket       string
	Key          string
	ETag         string
	ChecksumType string `xml:",omitempty"`
}

func (s *Server) completeMultipartUpload(r *request) error {
	cond, err := r.writeCondition()
	if err != nil {
		return err
	}
	var in completeRequest
	if err := s.readXML(r, &in); err != nil {
		return err
	}
	if len(in.Parts) == 0 {
		return malformedXML()
	}
	s.mu.RLock()
	_, u, err := s.uploadOf(r)
	var v *version
	if err == nil {
		v, err = u.assemble(in.Parts)
	}
	s.mu.RUnlock()
	if err != nil {
		return err
	}
	if v.Checksum, err = u.finalChecksum(r, v, in.Parts); err != nil {
		return err
	}
	versioned, err := s.commit(r, v, write{condition: cond, event: EventCompleteMultipartUpload, uploadID: u.ID})
	if err != nil {
		return err
	}
	if versioned {
		r.w.Header().Set(versionIDHeader, v.ID)
	}
	describeEncryption(r.w.Header())
	return r.writeXML(completeResult{
		Location: "http://" + r.Host + r.URL.EscapedPath(), Bucket: r.bucket, Key: r.key, ETag: v.ETag,
		ChecksumType: v.Checksum.Type, checksumElements: v.Checksum.elements(),
	})
}

// assemble joins the parts that the sender lists. The ETag is the MD5 of the
// parts' MD5s and their number. The caller holds the lock.
func (u *upload) assemble(list []completedPart) (*version, error) {
	v := u.Object
	digest := md5.New() //nolint:gosec // S3's ETags are MD5
	total := 0
	for i, p := range list {
		if i > 0 && p.PartNumber <= list[i-1].PartNumber {
			return nil, newError(http.StatusBadRequest, "InvalidPartOrder",
				"The list of parts was not in ascending order. The parts list must be specified in order by part number.")
		}
		if stored := u.Parts[p.PartNumber]; stored != nil {
			total += len(stored.Data)
		}
	}
	v.Data = make([]byte, 0, total)
	for i, p := range list {
		stored := u.Parts[p.PartNumber]
		if stored == nil || !etagMatches(p.ETag, stored.ETag) || !p.agrees(stored.Checksum) {
			return nil, newError(http.StatusBadRequest, "InvalidPart",
				"One or more of the specified parts could not be found. The part may not have been uploaded, or the specified entity tag may not match the part's entity tag.",
				"PartNumber", decimal(p.PartNumber), "ETag", p.ETag)
		}
		if i < len(list)-1 && len(stored.Data) < minPartBytes {
			return nil, newError(http.StatusBadRequest, "EntityTooSmall",
				"Your proposed upload is smaller than the minimum allowed size",
				"PartNumber", decimal(p.PartNumber), "ProposedSize", decimal(len(stored.Data)),
				"MinSizeAllowed", decimal(minPartBytes), "ETag", stored.ETag)
		}
		sum, _ := hex.DecodeString(strings.Trim(stored.ETag, `"`))
		digest.Write(sum)
		v.Data = append(v.Data, stored.Data...)
		v.PartSizes = append(v.PartSizes, int64(len(stored.Data)))
	}
	v.ETag = `"` + hex.EncodeToString(digest.Sum(nil)) + "-" + strconv.Itoa(len(list)) + `"`
	return &v, nil
}

// agrees tells whether the checksum listed for a part, if any, is the stored
// part's.
func (p *completedPart) agrees(c checksum) bool {
	f := p.field(c.Algorithm)
	return f == nil || *f == "" || *f == c.Value
}

// finalChecksum is the finished object's checksum, compared with the one that
// the request gives.
func (u *upload) finalChecksum(r *request, v *version, list []completedPart) (checksum, error) {
	sent, err := sentChecksum(r.Header)
	if err != nil {
		return sent, err
	}
	c := checksum{Algorithm: u.Algorithm, Type: u.Type}
	if c.Algorithm == "" {
		c.Algorithm, c.Type = defaultChecksum, checksumFull
	}
	if c.Type == checksumFull {
		c.Value = computeChecksum(c.Algorithm, v.Data)
	} else {
		var sums [][]byte
		offset := int64(0)
		for _, size := range v.PartSizes {
			sum, _ := base64.StdEncoding.DecodeString(computeChecksum(c.Algorithm, v.Data[offset:offset+size]))
			sums = append(sums, sum)
			offset += size
		}
		c.Value = computeChecksum(c.Algorithm, sums...) + "-" + strconv.Itoa(len(list))
	}
	if sent.Algorithm == c.Algorithm && sent.Value != c.Value {
		return c, newError(http.StatusBadRequest, "BadDigest",
			"The "+strings.ToUpper(c.Algorithm)+" you specified did not match the calculated checksum.")
	}
	return c, nil
}

func (s *Server) abortMultipartUpload(r *request) error {
	s.mu.Lock()
	b, u, err := s.uploadOf(r)
	if err == nil {
		delete(b.Uploads, u.ID)
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	r.w.WriteHeader(http.StatusNoContent)
	return nil
}

type listPartsResult struct {
	XMLName              xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListPartsResult"`
	Bucket               string
	Key                  string
	UploadID             string `xml:"UploadId"`
	Initiator            *owner
	Owner                *owner
	StorageClass         string
	PartNumberMarker     int
	NextPartNumberMarker int `xml:",omitempty"`
	MaxParts             int
	IsTruncated          bool
	ChecksumAlgorithm    string       `xml:",omitempty"`
	ChecksumType         string       `xml:",omitempty"`
	Parts                []listedPart `xml:"Part"`
}

type listedPart struct {
	checksumElements

	PartNumber   int
	LastModified string
	ETag         string
	Size         int
}

func (s *Server) listParts(r *request) error {
	limit, err := r.pageSize("max-parts")
	if err != nil {
		return err
	}
	marker, err := r.number("part-number-marker", 0)
	if err != nil {
		return err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, u, err := s.uploadOf(r)
	if err != nil {
		return err
	}
	out := listPartsResult{
		Bucket: r.bucket, Key: r.key, UploadID: u.ID, Initiator: s.owner(), Owner: s.owner(),
		StorageClass: "STANDARD", PartNumberMarker: marker, MaxParts: limit,
	}
	if u.Algorithm != "" {
		out.ChecksumAlgorithm, out.ChecksumType = strings.ToUpper(u.Algorithm), u.Type
	}
	for _, number := range slices.Sorted(maps.Keys(u.Parts)) {
		if number <= marker {
			continue
		}
		if len(out.Parts) == limit {
			out.IsTruncated = limit > 0
			break
		}
		p := u.Parts[number]
		out.NextPartNumberMarker = number
		out.Parts = append(out.Parts, listedPart{
			PartNumber: number, LastModified: timestamp(p.Modified), ETag: p.ETag, Size: len(p.Data),
			checksumElements: p.Checksum.elements(),
		})
	}
	return r.writeXML(out)
}
