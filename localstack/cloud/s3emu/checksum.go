package s3emu

import (
	"crypto/md5"  //nolint:gosec // S3's ETags are MD5
	"crypto/sha1" //nolint:gosec // one of S3's checksums
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"net/http"
	"slices"
	"strings"
)

// checksum is the additional checksum kept with an object, beside its ETag.
type checksum struct {
	Algorithm string // as in the header's name: "crc32", "sha256", …
	Value     string // base64, with "-<parts>" when composite
	Type      string // checksumFull or checksumComposite
}

const (
	checksumFull      = "FULL_OBJECT"
	checksumComposite = "COMPOSITE"
	checksumHeader    = "X-Amz-Checksum-"

	// defaultChecksum is what S3 computes itself when the sender gave none.
	defaultChecksum = "crc64nvme"
)

// checksumAlgorithms are the algorithms this server can compute. S3 knows
// xxHash too: those values are kept and given back unverified.
var checksumAlgorithms = map[string]func() hash.Hash{
	"crc32":     func() hash.Hash { return crc32.NewIEEE() },
	"crc32c":    func() hash.Hash { return crc32.New(crc32c) },
	"crc64nvme": func() hash.Hash { return crc64.New(crc64nvme) },
	"sha1":      sha1.New,
	"sha256":    sha256.New,
	"sha512":    sha512.New,
	"md5":       md5.New,
}

var (
	crc32c     = crc32.MakeTable(crc32.Castagnoli)
	crc64nvme  = crc64.MakeTable(0x9a6c9329ac4bc9b5)
	unverified = []string{"xxhash64", "xxhash3", "xxhash128"}
)

func knownChecksum(algorithm string) bool {
	return checksumAlgorithms[algorithm] != nil || slices.Contains(unverified, algorithm)
}

// computeChecksum returns the base64 checksum of data, "" for an algorithm
// that this server cannot compute.
func computeChecksum(algorithm string, data ...[]byte) string {
	newHash := checksumAlgorithms[algorithm]
	if newHash == nil {
		return ""
	}
	h := newHash()
	for _, d := range data {
		h.Write(d)
	}
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// sentChecksum finds the one x-amz-checksum-… value among headers or
// trailers.
func sentChecksum(h http.Header) (checksum, error) {
	var found checksum
	for name, values := range h {
		algorithm, ok := strings.CutPrefix(name, checksumHeader)
		algorithm = strings.ToLower(algorithm)
		if !ok || !knownChecksum(algorithm) {
			continue // -algorithm, -type, -mode say something else
		}
		if found.Algorithm != "" || len(values) != 1 {
			return checksum{}, invalidRequest("Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.")
		}
		found = checksum{Algorithm: algorithm, Value: values[0], Type: checksumFull}
	}
	return found, nil
}

// verify compares a sent checksum with the data it came with.
func (c checksum) verify(data []byte) error {
	want := computeChecksum(c.Algorithm, data)
	if want == "" || want == c.Value {
		return nil
	}
	if b, err := base64.StdEncoding.DecodeString(c.Value); err != nil || len(b) != checksumAlgorithms[c.Algorithm]().Size() {
		return invalidRequest("Value for x-amz-checksum-" + c.Algorithm + " header is invalid.")
	}
	return newError(http.StatusBadRequest, "BadDigest",
		"The "+strings.ToUpper(c.Algorithm)+" you specified did not match the calculated checksum.")
}

// describe adds the checksum to the headers of an answer.
func (c checksum) describe(h http.Header) {
	if c.Algorithm != "" {
		h.Set(checksumHeader+c.Algorithm, c.Value)
		h.Set(checksumHeader+"Type", c.Type)
	}
}

// elements are a checksum's fields in XML documents.
type checksumElements struct {
	ChecksumCRC32     string `xml:",omitempty"`
	ChecksumCRC32C    string `xml:",omitempty"`
	ChecksumCRC64NVME string `xml:",omitempty"`
	ChecksumSHA1      string `xml:",omitempty"`
	ChecksumSHA256    string `xml:",omitempty"`
	ChecksumSHA512    string `xml:",omitempty"`
	ChecksumMD5       string `xml:",omitempty"`
	ChecksumXXHASH64  string `xml:",omitempty"`
	ChecksumXXHASH3   string `xml:",omitempty"`
	ChecksumXXHASH128 string `xml:",omitempty"`
}

// field is the element of an algorithm, nil for an unknown one.
func (e *checksumElements) field(algorithm string) *string {
	switch algorithm {
	case "crc32":
		return &e.ChecksumCRC32
	case "crc32c":
		return &e.ChecksumCRC32C
	case "crc64nvme":
		return &e.ChecksumCRC64NVME
	case "sha1":
		return &e.ChecksumSHA1
	case "sha256":
		return &e.ChecksumSHA256
	case "sha512":
		return &e.ChecksumSHA512
	case "md5":
		return &e.ChecksumMD5
	case "xxhash64":
		return &e.ChecksumXXHASH64
	case "xxhash3":
		return &e.ChecksumXXHASH3
	case "xxhash128":
		return &e.ChecksumXXHASH128
	}
	return nil
}

func (c checksum) elements() checksumElements {
	var e checksumElements
	if f := e.field(c.Algorithm); f != nil {
		*f = c.Value
	}
	return e
}
