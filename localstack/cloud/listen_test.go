package cloud_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/localstack/cloud"
)

// A client that waits to be told to go on is told so, also if it is not going to send anything: some
// would take the final answer for that, and wait for ever.
func TestAClientThatWaitsToSendNothingIsToldToGoOn(t *testing.T) {
	t.Parallel()
	c := cloud.New(cloud.Options{})
	defer c.Close()
	url, err := c.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	request := "PUT /bucket HTTP/1.1\r\nHost: cloud\r\nExpect: 100-continue\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(conn)
	for _, want := range []int{http.StatusContinue, http.StatusOK} {
		answer, err := http.ReadResponse(answers, nil)
		if err != nil || answer.StatusCode != want {
			t.Fatalf("answer %+v, %v, want %d", answer, err, want)
		}
		_ = answer.Body.Close()
	}
}
