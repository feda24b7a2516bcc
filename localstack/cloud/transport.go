package cloud

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// inMemoryHost is where clients in this process believe the cloud to be. With
// an IP address the S3 client uses path-style requests by itself.
const inMemoryHost = "127.0.0.1:4566"

// ClientOption adjusts what [Cloud.Config] returns.
type ClientOption func(*clientOptions)

type clientOptions struct{ label string }

// Label names the client, so that faults can be aimed at it and its requests
// be counted apart. Defaults to "test".
func Label(name string) ClientOption {
	return func(o *clientOptions) { o.label = name }
}

// Config is the configuration of AWS clients of this cloud, in this process:
// their requests are handed over in memory. No socket and no other process is
// involved, so that clients work inside testing/synctest bubbles.
func (c *Cloud) Config(options ...ClientOption) aws.Config {
	o := clientOptions{label: "test"}
	for _, option := range options {
		option(&o)
	}
	return aws.Config{
		Region:       c.opts.Region,
		BaseEndpoint: aws.String("http://" + inMemoryHost),
		Credentials:  credentials.NewStaticCredentialsProvider(o.label, "test", ""),
		HTTPClient:   &http.Client{Transport: c.Transport(o.label)},
	}
}

// Transport hands requests over to the cloud in memory, whatever their host.
// They are marked as sent by the client with that label.
func (c *Cloud) Transport(label string) http.RoundTripper { return &transport{cloud: c, label: label} }

type transport struct {
	cloud *Cloud
	label string
}

// labelKey is where a request's context says which client sent it.
type labelKey struct{}

var errClosed = errors.New("the cloud is closed")

// RoundTrip returns as soon as there is an answer, or the request's context
// ends; the cloud may still be working on the request then, as a server would.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), labelKey{}, t.label))
	unwatch := context.AfterFunc(t.cloud.ctx, cancel) //nolint:contextcheck // the request ends with the cloud, too
	end := func() { unwatch(); cancel() }
	arrived := asReceived(ctx, r)
	x := &exchange{request: r, header: http.Header{}, ctx: ctx, end: end, answered: make(chan *http.Response, 1)}
	body := arrived.Body
	serve := func() {
		complete := serveAborting(t.cloud, x, arrived)
		_ = body.Close() // before the client learns of the end and may send it again
		x.finish(complete)
	}
	if !t.cloud.spawn(serve) {
		end()
		_ = body.Close()
		return nil, errClosed
	}
	select {
	case response := <-x.answered:
		if response == nil {
			end()
			return nil, reset("read")
		}
		if x.stream == nil { // the answer is complete
			end()
		}
		return response, nil
	case <-ctx.Done():
		end()
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		return nil, errClosed
	}
}

// reset is the error of a connection that the other side has reset.
func reset(op string) error {
	return &net.OpError{Op: op, Net: "tcp", Err: fmt.Errorf("connection reset by the cloud: %w", syscall.ECONNRESET)}
}

// asReceived is a client's request as a server sees it.
func asReceived(ctx context.Context, r *http.Request) *http.Request {
	u := &url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
	if u.Path == "" {
		u.Path = "/"
	}
	received := (&http.Request{
		Method: r.Method, URL: u, RequestURI: u.RequestURI(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: r.Header.Clone(), Body: r.Body, ContentLength: r.ContentLength,
		Host: r.Host, RemoteAddr: "127.0.0.1:0",
	}).WithContext(ctx)
	if received.Host == "" {
		received.Host = r.URL.Host
	}
	if received.Header == nil {
		received.Header = http.Header{}
	}
	received.Header.Del("Expect")
	switch {
	case r.Body == nil:
		received.Body = http.NoBody
	case r.ContentLength == 0 && r.Body != http.NoBody:
		received.ContentLength = -1
	}
	if received.ContentLength > 0 {
		received.Header.Set("Content-Length", strconv.FormatInt(received.ContentLength, 10))
	}
	return received
}

// serveAborting reports whether the handler finished, and did not give up by
// panicking with http.ErrAbortHandler.
func serveAborting(h http.Handler, w http.ResponseWriter, r *http.Request) (finished bool) {
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
			panic(p)
		}
	}()
	h.ServeHTTP(w, r)
	return true
}

// holdBack is how many bytes of an answer are collected before it is streamed.
const holdBack = 256 << 10

// exchange is the answer to one request on its way from handler to client.
// Short answers are complete when the client sees them; long ones are
// streamed, and so are those that are flushed.
type exchange struct {
	request  *http.Request
	header   http.Header         // the handler's
	ctx      context.Context     //nolint:containedctx // of the request, whose end this is
	end      func()              // ends ctx
	answered chan *http.Response // buffered; nil for a broken connection

	status   int
	sent     http.Header // as of WriteHeader
	buffered bytes.Buffer
	stream   *io.PipeWriter // nil until streaming
}

func (x *exchange) Header() http.Header { return x.header }

func (x *exchange) WriteHeader(status int) {
	if x.status != 0 || status < 200 {
		return
	}
	x.status = status
	x.sent = x.header.Clone()
	if x.sent.Get("Date") == "" {
		x.sent.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
}

func (x *exchange) Write(p []byte) (int, error) {
	x.WriteHeader(http.StatusOK)
	if x.request.Method == http.MethodHead {
		return len(p), nil
	}
	if x.stream == nil && x.buffered.Len()+len(p) <= holdBack {
		return x.buffered.Write(p)
	}
	x.Flush()
	return x.stream.Write(p)
}

// Flush starts streaming.
func (x *exchange) Flush() {
	if x.stream != nil {
		return
	}
	x.WriteHeader(http.StatusOK)
	reader, writer := io.Pipe()
	x.stream = writer
	unwatch := context.AfterFunc(x.ctx, func() { _ = reader.CloseWithError(x.ctx.Err()) })
	start := bytes.NewReader(bytes.Clone(x.buffered.Bytes()))
	x.answer(struct {
		io.Reader
		io.Closer
	}{io.MultiReader(start, reader), closer(func() error {
		unwatch()
		x.end()
		return reader.Close()
	})}, -1)
}

// finish completes the answer, or breaks the connection.
func (x *exchange) finish(complete bool) {
	switch {
	case x.stream != nil && complete:
		_ = x.stream.Close()
	case x.stream != nil:
		_ = x.stream.CloseWithError(reset("read"))
	case complete:
		x.WriteHeader(http.StatusOK)
		x.answer(io.NopCloser(&x.buffered), int64(x.buffered.Len()))
	default:
		x.answered <- nil
	}
}

func (x *exchange) answer(body io.ReadCloser, length int64) {
	if declared, err := strconv.ParseInt(x.sent.Get("Content-Length"), 10, 64); err == nil {
		length = declared
	}
	x.answered <- &http.Response{
		Status:        strconv.Itoa(x.status) + " " + http.StatusText(x.status),
		StatusCode:    x.status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        x.sent,
		Body:          body,
		ContentLength: length,
		Request:       x.request,
	}
}

type closer func() error

func (c closer) Close() error { return c() }
