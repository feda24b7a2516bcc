// Package handlers holds the handlers of the stock claim function: an HTTP
// request, and the invocation of a Lambda function in any language. Both can be registered
// in a mux of one's own.
package handlers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/sluice-dev/sluice/shared/worker"
)

// TypeHTTPRequest is the task type under which the stock function registers
// [HTTP].
const TypeHTTPRequest = "http.request"

// MaxResponseBytes is how much of a response's body becomes part of the output.
const MaxResponseBytes = 1 << 20

// Request is the input of a task of type http.request.
type Request struct {
	// Method defaults to GET, or to POST when there is a body.
	Method string `json:"method,omitempty"`
	// URL is absolute, of scheme http or https. Its host must be allowed.
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	// Body is sent as it is when it is a string, and as JSON when it is
	// anything else.
	Body json.RawMessage `json:"body,omitempty"`
}

// Response is the output of a task of type http.request.
type Response struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	// Body is JSON if the response was, and a string otherwise.
	Body json.RawMessage `json:"body,omitempty"`
	// Truncated tells that the body was longer than [MaxResponseBytes].
	Truncated bool `json:"truncated,omitempty"`
}

// HTTP sends requests. A 2xx answer completes the task; 429, and 503 with a
// valid Retry-After, put it to sleep as long as that says, and hold the key of the
// task's first limit for as long; any other 5xx and 429 is retried with backoff; any other answer fails the task. The task's id is sent
// as Idempotency-Key unless the request has one.
type HTTP struct {
	// Hosts are those that may be called: "api.example.com",
	// "api.example.com:8443", "*.example.com" for every name below, "*" for all. Empty
	// allows none.
	Hosts []string
	// Client defaults to http.DefaultClient's transport. Redirects are followed
	// to allowed hosts only.
	Client *http.Client
}

// Handle is the handler.
func (h HTTP) Handle(ctx context.Context, input json.RawMessage) (Response, error) {
	req, err := h.request(ctx, input)
	if err != nil {
		return Response{}, worker.Fail(err)
	}
	res, err := h.client().Do(req)
	if refused, ok := errors.AsType[*hostError](err); ok {
		return Response{}, worker.Fail(refused)
	}
	if err != nil {
		return Response{}, err
	}
	defer res.Body.Close()
	switch code := res.StatusCode; {
	case code >= 200 && code < 300:
		return readResponse(res)
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable:
		return Response{}, worker.RescheduleAfter(res, worker.HoldKey())
	case code >= 500:
		return Response{}, statusError(res)
	default:
		return Response{}, worker.Fail(statusError(res))
	}
}

func (h HTTP) request(ctx context.Context, input json.RawMessage) (*http.Request, error) {
	var r Request
	if err := jsonv2.Unmarshal(input, &r, jsonv2.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("the input of an http.request task has method, url, headers and body: %w", err)
	}
	target, err := url.Parse(r.URL)
	if err != nil || (target.Scheme != "http" && target.Scheme != "https") || target.Host == "" {
		return nil, fmt.Errorf("url %q must be an absolute http or https URL", r.URL)
	}
	if err := h.allow(target); err != nil {
		return nil, err
	}
	body, isJSON := r.body()
	method := http.MethodGet
	if len(body) > 0 {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, cmp.Or(r.Method, method), r.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if isJSON {
		req.Header.Set("Content-Type", "application/json")
	}
	if t, ok := worker.TaskFrom(ctx); ok {
		req.Header.Set("Idempotency-Key", t.ID)
	}
	for name, value := range r.Headers {
		req.Header.Set(name, value)
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	return req, nil
}

// body is what to send, and whether it is JSON.
func (r Request) body() (_ []byte, isJSON bool) {
	if len(r.Body) == 0 || string(r.Body) == "null" {
		return nil, false
	}
	var text string
	if json.Unmarshal(r.Body, &text) == nil {
		return []byte(text), false
	}
	return r.Body, true
}

// hostError says that a host is not on the allow-list.
type hostError struct{ host string }

func (e *hostError) Error() string {
	return fmt.Sprintf("the host %q is not allowed: add it to %s of the claim function", e.host, EnvHTTPHosts)
}

func (h HTTP) allow(target *url.URL) error {
	for _, pattern := range h.Hosts {
		host := target.Hostname()
		if _, _, err := net.SplitHostPort(pattern); err == nil {
			host = target.Host
		}
		below, wild := strings.CutPrefix(strings.ToLower(pattern), "*")
		host = strings.ToLower(host)
		if host == strings.ToLower(pattern) || (wild && strings.HasSuffix(host, below)) {
			return nil
		}
	}
	return &hostError{host: target.Host}
}

func (h HTTP) client() *http.Client {
	client := http.Client{}
	if h.Client != nil {
		client = *h.Client
	}
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		const most = 10
		if len(via) >= most {
			return fmt.Errorf("stopped after %d redirects", most)
		}
		return h.allow(req.URL)
	}
	return &client
}

func readResponse(res *http.Response) (Response, error) {
	body, err := io.ReadAll(io.LimitReader(res.Body, MaxResponseBytes+1))
	if err != nil {
		return Response{}, fmt.Errorf("read the response: %w", err)
	}
	out := Response{Status: res.StatusCode, Headers: make(map[string]string, len(res.Header))}
	for name := range res.Header {
		out.Headers[name] = res.Header.Get(name)
	}
	if len(body) > MaxResponseBytes {
		body, out.Truncated = body[:MaxResponseBytes], true
	}
	switch {
	case len(body) == 0:
	case json.Valid(body):
		out.Body = body
	default:
		out.Body, err = jsontext.AppendQuote(nil, strings.ToValidUTF8(string(body), "\uFFFD"))
	}
	return out, err
}

// statusError names the answer and the beginning of its text.
func statusError(res *http.Response) error {
	const most = 500
	text, _ := io.ReadAll(io.LimitReader(res.Body, most)) // the status says enough
	if len(text) == 0 {
		return fmt.Errorf("the response is %s", res.Status)
	}
	return fmt.Errorf("the response is %s: %s", res.Status, bytes.TrimSpace(text))
}

// EnvHTTPHosts names the environment variable that lists the hosts which the
// stock function may call, separated by commas.
const EnvHTTPHosts = "SLUICE_HTTP_HOSTS"

// HostsFrom splits a list of hosts at its commas.
func HostsFrom(list string) []string {
	var hosts []string
	for host := range strings.SplitSeq(list, ",") {
		if host = strings.TrimSpace(host); host != "" {
			hosts = append(hosts, host)
		}
	}
	return hosts
}
