package lambdaemu

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// runtimePrefix is where the Runtime API is served. The instance is part of
// the path, so that each has the API to itself: the client of aws-lambda-go
// puts "http://" before AWS_LAMBDA_RUNTIME_API and "/2018-06-01/…" after it,
// and takes a host with a path for that reason.
const runtimePrefix = "/_runtime/"

func runtimeAddress(endpoint, function, instance string) string {
	_, address, found := strings.Cut(endpoint, "://")
	if !found {
		address = endpoint
	}
	return strings.TrimSuffix(address, "/") + runtimePrefix + function + "/" + instance
}

func (s *Server) addRuntimeRoutes(mux *http.ServeMux) {
	const base = runtimePrefix + "{function}/{instance}/2018-06-01/runtime/"
	mux.HandleFunc("GET "+base+"invocation/next", s.nextInvocation)
	mux.HandleFunc("POST "+base+"invocation/{id}/response", s.postResponse)
	mux.HandleFunc("POST "+base+"invocation/{id}/error", s.postError)
	mux.HandleFunc("POST "+base+"init/error", s.postInitError)
}

// ask is a request for the next event.
type ask struct {
	mu        sync.Mutex
	abandoned bool
	delivered chan delivery // buffered
}

type delivery struct {
	invocation

	deadline time.Time
}

// take hands a delivery to the asker, unless that has gone away.
func (a *ask) take(d delivery) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.abandoned {
		return false
	}
	a.delivered <- d
	return true
}

// abandon reports whether the asker could leave before a delivery came.
func (a *ask) abandon() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.abandoned = len(a.delivered) == 0
	return a.abandoned
}

func (s *Server) runtimeProcess(w http.ResponseWriter, r *http.Request) *process {
	s.mu.Lock()
	p := s.processes[r.PathValue("function")+"/"+r.PathValue("instance")]
	s.mu.Unlock()
	if p == nil {
		runtimeRefusal(w, http.StatusForbidden, "InvalidInstance", "there is no such instance of the function")
	}
	return p
}

func (s *Server) nextInvocation(w http.ResponseWriter, r *http.Request) {
	p := s.runtimeProcess(w, r)
	if p == nil {
		return
	}
	a := &ask{delivered: make(chan delivery, 1)}
	select {
	case p.asks <- a:
	case <-r.Context().Done():
		return
	case <-p.gone:
		runtimeRefusal(w, http.StatusForbidden, "InvalidInstance", "this instance has ended")
		return
	}
	select {
	case d := <-a.delivered:
		writeDelivery(w, d)
		return
	case <-r.Context().Done():
	case <-p.gone:
	}
	if !a.abandon() {
		writeDelivery(w, <-a.delivered)
		return
	}
	runtimeRefusal(w, http.StatusForbidden, "InvalidInstance", "this instance has ended")
}

func writeDelivery(w http.ResponseWriter, d delivery) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(d.payload)))
	h.Set("Lambda-Runtime-Aws-Request-Id", d.requestID)
	h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(d.deadline.UnixMilli(), 10))
	h.Set("Lambda-Runtime-Invoked-Function-Arn", d.arn)
	h.Set("Lambda-Runtime-Trace-Id", d.traceID)
	if d.clientContext != "" {
		h.Set("Lambda-Runtime-Client-Context", d.clientContext)
	}
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(d.payload)
}

func (s *Server) postResponse(w http.ResponseWriter, r *http.Request) {
	p := s.runtimeProcess(w, r)
	if p == nil {
		return
	}
	id := r.PathValue("id")
	payload, err := io.ReadAll(io.LimitReader(r.Body, maxSyncPayload+1))
	if err != nil {
		runtimeRefusal(w, http.StatusBadRequest, "InvalidRequest", "the response could not be read: "+err.Error())
		return
	}
	result := Result{RequestID: id, Payload: payload}
	tooLarge := len(payload) > maxSyncPayload
	switch kind := r.Trailer.Get("Lambda-Runtime-Function-Error-Type"); {
	case tooLarge:
		result = responseTooLarge(id)
	case kind != "": // a stream that failed half-way
		result = failure(id, kind, "the function failed while it was streaming its response")
	case len(payload) == 0:
		result.Payload = []byte("null")
	}
	if !p.answer(id, result) {
		unknownRequest(w)
		return
	}
	if tooLarge {
		runtimeRefusal(w, http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", "a response can have 6 MB at most")
		return
	}
	accept(w)
}

func (s *Server) postError(w http.ResponseWriter, r *http.Request) {
	p := s.runtimeProcess(w, r)
	if p == nil {
		return
	}
	id := r.PathValue("id")
	if !p.answer(id, readFailure(id, r)) {
		unknownRequest(w)
		return
	}
	accept(w)
}

func (s *Server) postInitError(w http.ResponseWriter, r *http.Request) {
	p := s.runtimeProcess(w, r)
	if p == nil {
		return
	}
	select {
	case p.broken <- readFailure("", r):
		accept(w)
	default:
		runtimeRefusal(w, http.StatusForbidden, "InvalidStateTransition", "an init error has been reported already")
	}
}

// readFailure takes the error document of a function, or makes one up from the
// error type header when it sent none.
func readFailure(requestID string, r *http.Request) Result {
	payload, err := io.ReadAll(io.LimitReader(r.Body, maxSyncPayload))
	if err != nil || !json.Valid(payload) {
		kind := r.Header.Get("Lambda-Runtime-Function-Error-Type")
		if kind == "" {
			kind = unhandled
		}
		return failure(requestID, kind, "the function reported an error without a document")
	}
	return Result{RequestID: requestID, Payload: payload, FunctionError: unhandled}
}

func accept(w http.ResponseWriter) {
	writeJSON(w, http.StatusAccepted, map[string]string{"status": "OK"})
}

func unknownRequest(w http.ResponseWriter) {
	runtimeRefusal(w, http.StatusBadRequest, "InvalidRequestID", "this is not the request id of the current event")
}

func runtimeRefusal(w http.ResponseWriter, status int, kind, message string) {
	writeJSON(w, status, map[string]string{"errorType": kind, "errorMessage": message})
}
