package s3emu

import (
	"bufio"
	"bytes"
	"crypto/md5" //nolint:gosec // S3's ETags are MD5
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// maxPutBytes is the size of the largest object that one PUT, and of the
// largest part that one upload, may carry.
const maxPutBytes = 5 << 30

// payload is a request's body, decoded and checked against every digest that
// was sent with it.
type payload struct {
	data     []byte
	md5      []byte
	checksum checksum // Algorithm is "" when none was sent
}

// etag is the quoted MD5 of the payload.
func (p *payload) etag() string { return `"` + hex.EncodeToString(p.md5) + `"` }

// readPayload reads a body of at most limit bytes.
func readPayload(r *request, limit int64) (*payload, error) {
	size, chunked, err := r.declaredSize()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, entityTooLarge(size, limit)
	}
	var body io.Reader = http.NoBody
	if r.Body != nil {
		body = r.Body
	}
	trailer := http.Header{}
	if chunked {
		body = &chunkReader{r: bufio.NewReader(body), trailer: trailer}
	}
	var buf bytes.Buffer
	if size > 0 {
		buf.Grow(int(min(size, 64<<20)) + bytes.MinRead)
	}
	n, err := buf.ReadFrom(io.LimitReader(body, limit+1))
	switch {
	case err != nil:
		return nil, readError(err)
	case n > limit:
		return nil, entityTooLarge(n, limit)
	case size >= 0 && n != size:
		return nil, incompleteBody()
	}
	// Kept for long: without the slack of the buffer.
	p := newPayload(bytes.Clone(buf.Bytes()))
	return p, p.check(r, trailer)
}

func newPayload(data []byte) *payload {
	sum := md5.Sum(data) //nolint:gosec // S3's ETags are MD5
	return &payload{data: data, md5: sum[:]}
}

// declaredSize is the size of the decoded body by the request's headers, -1
// when they do not tell, and whether the body is in aws-chunked coding.
func (r *request) declaredSize() (size int64, chunked bool, err error) {
	chunked = strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") ||
		slices.Contains(contentCodings(r.Header), awsChunked)
	if chunked {
		decoded := r.Header.Get("X-Amz-Decoded-Content-Length")
		if decoded == "" {
			return -1, true, nil
		}
		size, err = strconv.ParseInt(decoded, 10, 64)
		if err != nil || size < 0 {
			return 0, true, invalidArgument("Invalid decoded content length", "x-amz-decoded-content-length", decoded)
		}
		return size, true, nil
	}
	// A request made by a client has length 0 with a body when the length is
	// unknown.
	if r.ContentLength == 0 && r.Body != nil {
		return -1, false, nil
	}
	return r.ContentLength, false, nil
}

const awsChunked = "aws-chunked"

func contentCodings(h http.Header) []string {
	var codings []string
	for _, line := range h.Values("Content-Encoding") {
		for coding := range strings.SplitSeq(line, ",") {
			if coding = strings.TrimSpace(coding); coding != "" {
				codings = append(codings, coding)
			}
		}
	}
	return codings
}

// check compares the data with the digests in headers and trailers.
func (p *payload) check(r *request, trailer http.Header) error {
	if want := r.Header.Get("Content-MD5"); want != "" {
		switch b, err := base64.StdEncoding.DecodeString(want); {
		case err != nil || len(b) != md5.Size:
			return newError(http.StatusBadRequest, "InvalidDigest", "The Content-MD5 you specified was invalid.")
		case !bytes.Equal(b, p.md5):
			return newError(http.StatusBadRequest, "BadDigest",
				"The Content-MD5 you specified did not match what we received.")
		}
	}
	if want := r.Header.Get("X-Amz-Content-Sha256"); len(want) == 2*sha256.Size {
		if sum := sha256.Sum256(p.data); !strings.EqualFold(want, hex.EncodeToString(sum[:])) {
			return newError(http.StatusBadRequest, "XAmzContentSHA256Mismatch",
				"The provided 'x-amz-content-sha256' header does not match what was computed.")
		}
	}
	sent := r.Header
	if announced := r.Header.Get("X-Amz-Trailer"); announced != "" {
		if trailer.Get(announced) == "" {
			return newError(http.StatusBadRequest, "MalformedTrailerError",
				"The request contained trailing data that was not well-formed or did not conform to our published schema.")
		}
		sent = trailer
	}
	var err error
	if p.checksum, err = sentChecksum(sent); err != nil {
		return err
	}
	return p.checksum.verify(p.data)
}

// orDefault is the checksum to keep with an object: the one that was sent,
// or one of the default algorithm.
func (p *payload) orDefault() checksum {
	if p.checksum.Algorithm != "" {
		return p.checksum
	}
	return checksum{Algorithm: defaultChecksum, Value: computeChecksum(defaultChecksum, p.data), Type: checksumFull}
}

func entityTooLarge(size, limit int64) error {
	return newError(http.StatusBadRequest, "EntityTooLarge",
		"Your proposed upload exceeds the maximum allowed size",
		"ProposedSize", decimal(size), "MaxSizeAllowed", decimal(limit))
}

func incompleteBody() error {
	return newError(http.StatusBadRequest, "IncompleteBody",
		"The request body terminated unexpectedly: it did not hold the number of bytes in its Content-Length header")
}

func readError(err error) error {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e
	}
	return incompleteBody()
}

// chunkReader decodes aws-chunked coding: chunks that may be signed (the
// signature is not looked at), then trailers.
type chunkReader struct {
	r       *bufio.Reader
	left    int64 // bytes left of the chunk being read
	started bool
	done    bool
	trailer http.Header
}

func (c *chunkReader) Read(p []byte) (int, error) {
	for c.left == 0 {
		if c.done {
			return 0, io.EOF
		}
		if err := c.nextChunk(); err != nil {
			return 0, err
		}
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// nextChunk reads a line "<hex size>[;chunk-signature=<signature>]". The
// chunk of size 0 is the last, trailers follow it.
func (c *chunkReader) nextChunk() error {
	if c.started {
		if line, err := c.line(); err != nil || line != "" {
			return invalidChunk()
		}
	}
	c.started = true
	line, err := c.line()
	if err != nil {
		return err
	}
	size, _, _ := strings.Cut(line, ";")
	c.left, err = strconv.ParseInt(strings.TrimSpace(size), 16, 64)
	if err != nil || c.left < 0 {
		return invalidChunk()
	}
	if c.left == 0 {
		c.done = true
		return c.readTrailer()
	}
	return nil
}

func (c *chunkReader) readTrailer() error {
	for {
		line, err := c.line()
		if line == "" && (err == nil || errors.Is(err, io.ErrUnexpectedEOF)) {
			return nil
		}
		name, value, ok := strings.Cut(line, ":")
		if err != nil || !ok {
			return invalidChunk()
		}
		c.trailer.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
}

func (c *chunkReader) line() (string, error) {
	line, err := c.r.ReadString('\n')
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return strings.TrimRight(line, "\r\n"), err
}

func invalidChunk() error {
	return newError(http.StatusBadRequest, "InvalidRequest",
		"The body is not in aws-chunked coding, although the request's headers say so")
}
