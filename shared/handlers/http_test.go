package handlers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/shared/handlers"
	"github.com/sluice-dev/sluice/shared/worker"
)

// api answers every request as told and keeps the last one.
type api struct {
	*httptest.Server
	last *http.Request
	body string
}

func newAPI(t *testing.T, answer http.HandlerFunc) *api {
	t.Helper()
	a := &api{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.last, a.body = r, string(body)
		answer(w, r)
	}))
	t.Cleanup(a.Close)
	return a
}

func answerWith(status int, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		fmt.Fprint(w, `{"got":1.50}`)
	}
}

func run(url string, hosts ...string) (handlers.Response, error) {
	if hosts == nil {
		hosts = []string{"*"}
	}
	input := fmt.Sprintf(`{"url":%q,"headers":{"X-Sign":"s"},"body":{"n":12345678901234567890}}`, url)
	return handlers.HTTP{Hosts: hosts}.Handle(context.Background(), json.RawMessage(input))
}

func TestHTTPSendsTheBodyAsItIsAndReturnsTheAnswer(t *testing.T) {
	t.Parallel()
	a := newAPI(t, answerWith(201, "X-Request", "7"))
	got, err := run(a.URL + "/hooks")
	if err != nil {
		t.Fatal(err)
	}
	if a.last.Method != http.MethodPost || a.body != `{"n":12345678901234567890}` || a.last.Header.Get("X-Sign") != "s" {
		t.Errorf("the API saw %s %s %v", a.last.Method, a.body, a.last.Header)
	}
	if got.Status != 201 || string(got.Body) != `{"got":1.50}` || got.Headers["X-Request"] != "7" {
		t.Errorf("output = %+v", got)
	}
}

func TestHTTPTellsFromTheAnswerWhatBecomesOfTheTask(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		answer http.HandlerFunc
		sleep  time.Duration // 0: not rescheduled
		fails  bool          // permanently
	}{
		{"429 with Retry-After sleeps", answerWith(429, "Retry-After", "7"), 7 * time.Second, false},
		{"503 with Retry-After sleeps", answerWith(503, "Retry-After", "9"), 9 * time.Second, false},
		{"429 without it is retried", answerWith(429), 0, false},
		{"503 with a bad one is retried", answerWith(503, "Retry-After", "-1"), 0, false},
		{"500 is retried", answerWith(500, "Retry-After", "9"), 0, false},
		{"502 is retried", answerWith(502), 0, false},
		{"400 fails", answerWith(400), 0, true},
		{"404 fails", answerWith(404), 0, true},
		{"304 fails", answerWith(304), 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := run(newAPI(t, tt.answer).URL)
			if err == nil {
				t.Fatal("no error")
			}
			var sleep *worker.RescheduleError
			if got := errors.As(err, &sleep); got != (tt.sleep > 0) || (got && sleep.Delay != tt.sleep) {
				t.Errorf("err = %v, want a sleep of %v", err, tt.sleep)
			}
			var failed *worker.FailError
			if got := errors.As(err, &failed); got != tt.fails {
				t.Errorf("permanent = %v (%v), want %v", got, err, tt.fails)
			}
		})
	}
}

func TestHTTPCallsAllowedHostsOnly(t *testing.T) {
	t.Parallel()
	elsewhere := newAPI(t, answerWith(200))
	a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1), http.StatusTemporaryRedirect)
	})
	host := strings.TrimPrefix(a.URL, "http://")
	for _, tt := range []struct {
		name, url string
		hosts     []string
		want      string
	}{
		{"nothing is allowed by default", a.URL, []string{}, "not allowed"},
		{"another host", a.URL, []string{"api.example.com"}, "not allowed"},
		{"a name that ends alike", "http://evilexample.com/", []string{"*.example.com"}, "not allowed"},
		{"another port", a.URL, []string{"127.0.0.1:1"}, "not allowed"},
		{"a redirect to another host", a.URL, []string{host}, "not allowed"},
		{"another scheme", "file:///etc/passwd", []string{"*"}, "absolute http or https"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := run(tt.url, tt.hosts...)
			var failed *worker.FailError
			if !errors.As(err, &failed) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err = %v, want a permanent one with %q", err, tt.want)
			}
		})
	}
}

func TestHTTPRefusesAnInputItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, input := range []string{`{"uri":"http://x/"}`, `{"URL":"http://x/"}`, `"http://x/"`, `{"url":"x"}`, `{"url":"http://x/","method":"A B"}`} {
		_, err := handlers.HTTP{Hosts: []string{"*"}}.Handle(context.Background(), json.RawMessage(input))
		if _, failed := errors.AsType[*worker.FailError](err); !failed {
			t.Errorf("input %s: err = %v, want a permanent one", input, err)
		}
	}
}
