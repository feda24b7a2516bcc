package lambdaemu

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
)

// The largest payloads Lambda takes, in bytes.
const (
	maxSyncPayload  = 6 << 20
	maxAsyncPayload = 1 << 20
)

// Error is a refusal by the Lambda API.
type Error struct {
	Code    string // such as ResourceNotFoundException
	Status  int    // HTTP status
	Message string
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

func errNotFound(arn string) error {
	return &Error{Code: "ResourceNotFoundException", Status: http.StatusNotFound, Message: "Function not found: " + arn}
}

func errThrottled() error {
	return &Error{Code: "TooManyRequestsException", Status: http.StatusTooManyRequests, Message: "Rate Exceeded."}
}

func errTooLarge(limit int) error {
	return &Error{Code: "RequestTooLargeException", Status: http.StatusRequestEntityTooLarge,
		Message: fmt.Sprintf("Request must be smaller than %d bytes for the InvokeFunction operation", limit)}
}

func errBadPayload() error {
	return &Error{Code: "InvalidRequestContentException", Status: http.StatusBadRequest,
		Message: "Could not parse request body into json: send one JSON document"}
}

// prepare finds the function and checks the payload.
func (s *Server) prepare(ref string, payload []byte, opts InvokeOptions, limit int) (*function, invocation, error) {
	f, err := s.function(ref)
	if err != nil {
		return nil, invocation{}, err
	}
	if len(payload) > limit {
		return nil, invocation{}, errTooLarge(limit)
	}
	if len(payload) == 0 {
		payload = []byte("{}")
	}
	if !json.Valid(payload) {
		return nil, invocation{}, errBadPayload()
	}
	id := opts.RequestID
	if id == "" {
		id = uuid.NewString()
	}
	return f, invocation{
		requestID:     id,
		traceID:       newTraceID(time.Now()),
		arn:           f.arn,
		clientContext: opts.ClientContext,
		payload:       bytes.Clone(payload),
	}, nil
}

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	const functions = "/2015-03-31/functions"
	mux.HandleFunc("GET "+functions, s.listFunctions)
	mux.HandleFunc("GET "+functions+"/{$}", s.listFunctions)
	mux.HandleFunc("GET "+functions+"/{name}", s.getFunction)
	mux.HandleFunc("GET "+functions+"/{name}/configuration", s.getConfiguration)
	mux.HandleFunc("POST "+functions+"/{name}/invocations", s.invokeFunction)
	s.addRuntimeRoutes(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, &Error{Code: "UnknownOperationException", Status: http.StatusNotFound,
			Message: "This emulator of Lambda does not know " + r.Method + " " + r.URL.Path})
	})
	return mux
}

func (s *Server) invokeFunction(w http.ResponseWriter, r *http.Request) {
	name := pathName(r)
	payload, err := readAtMost(r.Body, maxSyncPayload)
	if err != nil {
		writeError(w, err)
		return
	}
	opts := InvokeOptions{}
	if encoded := r.Header.Get("X-Amz-Client-Context"); encoded != "" {
		decoded, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			writeError(w, &Error{Code: "InvalidParameterValueException", Status: http.StatusBadRequest,
				Message: "X-Amz-Client-Context is not base64"})
			return
		}
		opts.ClientContext = string(decoded)
	}
	switch kind := r.Header.Get("X-Amz-Invocation-Type"); kind {
	case "", "RequestResponse":
		s.invokeSync(r.Context(), w, name, payload, opts)
	case "Event":
		id, err := s.InvokeAsync(name, payload, opts)
		if err != nil {
			writeError(w, err)
			return
		}
		w.Header().Set("X-Amzn-Requestid", id)
		w.WriteHeader(http.StatusAccepted)
	case "DryRun":
		if _, err := s.function(name); err != nil {
			writeError(w, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		writeError(w, &Error{Code: "InvalidParameterValueException", Status: http.StatusBadRequest,
			Message: fmt.Sprintf("X-Amz-Invocation-Type %q is not RequestResponse, Event or DryRun", kind)})
	}
}

func (s *Server) invokeSync(ctx context.Context, w http.ResponseWriter, name string, payload []byte, opts InvokeOptions) {
	result, err := s.Invoke(ctx, name, payload, opts)
	if err != nil {
		writeError(w, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Amzn-Requestid", result.RequestID)
	h.Set("X-Amz-Executed-Version", version)
	if result.FunctionError != "" {
		h.Set("X-Amz-Function-Error", result.FunctionError)
	}
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(result.Payload)
}

// configuration is the part of Lambda's FunctionConfiguration that exists here.
type configuration struct {
	FunctionName string
	FunctionArn  string
	Runtime      string
	Handler      string
	MemorySize   int
	Timeout      int // seconds
	Version      string
	State        string
	Environment  environment
}

type environment struct{ Variables map[string]string }

func (f *function) configuration() configuration {
	fn := f.settings()
	runtime, handler := "provided.al2023", "bootstrap"
	if py, ok := fn.Runtime.(Python); ok {
		runtime, handler = "python3", py.Handler
	}
	return configuration{
		FunctionName: fn.Name, FunctionArn: f.arn, Runtime: runtime, Handler: handler,
		MemorySize: fn.MemoryMB, Timeout: int(fn.Timeout.Seconds()), Version: version, State: "Active",
		Environment: environment{Variables: fn.Env},
	}
}

func (s *Server) listFunctions(w http.ResponseWriter, _ *http.Request) {
	list := struct{ Functions []configuration }{Functions: []configuration{}}
	for _, name := range s.Functions() {
		if f, err := s.function(name); err == nil {
			list.Functions = append(list.Functions, f.configuration())
		}
	}
	writeJSON(w, http.StatusOK, list)
}

func (s *Server) getFunction(w http.ResponseWriter, r *http.Request) {
	f, err := s.function(pathName(r))
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"Configuration": f.configuration(),
		"Concurrency":   map[string]int{"ReservedConcurrentExecutions": f.settings().Concurrency},
	})
}

func (s *Server) getConfiguration(w http.ResponseWriter, r *http.Request) {
	f, err := s.function(pathName(r))
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, f.configuration())
}

// pathName is the function a request is about. Some clients escape the colons
// of an ARN once more than the path needs.
func pathName(r *http.Request) string {
	name := r.PathValue("name")
	if strings.Contains(name, "%") {
		if unescaped, err := url.PathUnescape(name); err == nil {
			return unescaped
		}
	}
	return name
}

func readAtMost(body io.Reader, limit int) ([]byte, error) {
	payload, err := io.ReadAll(io.LimitReader(body, int64(limit)+1))
	if err != nil {
		return nil, &Error{Code: "InvalidRequestContentException", Status: http.StatusBadRequest,
			Message: "the request body could not be read: " + err.Error()}
	}
	if len(payload) > limit {
		return nil, errTooLarge(limit)
	}
	return payload, nil
}

func writeError(w http.ResponseWriter, err error) {
	var refusal *Error
	if !errors.As(err, &refusal) {
		refusal = &Error{Code: "ServiceException", Status: http.StatusInternalServerError, Message: err.Error()}
	}
	w.Header().Set("X-Amzn-Errortype", refusal.Code)
	body := map[string]string{"Type": "User", "message": refusal.Message}
	if refusal.Status == http.StatusTooManyRequests {
		body["Reason"] = "ReservedFunctionConcurrentInvocationLimitExceeded"
	}
	writeJSON(w, refusal.Status, body)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	body, err := json.Marshal(v)
	if err != nil { // nothing in an answer can cause that
		status, body = http.StatusInternalServerError, []byte(`{"Type":"Service"}`)
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
