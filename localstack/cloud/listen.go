package cloud

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"
)

// Listen makes the cloud reachable at a TCP address, such as
// "127.0.0.1:4566", or "127.0.0.1:0" for a free port, until Close. It returns
// the URL to give to clients as AWS_ENDPOINT_URL. The first one is what
// function processes are given.
func (c *Cloud) Listen(address string) (string, error) {
	var config net.ListenConfig
	listener, err := config.Listen(c.ctx, "tcp", address)
	if err != nil {
		return "", fmt.Errorf("the cloud cannot listen on %s (is another one running?): %w", address, err)
	}
	server := &http.Server{
		Handler:           continuing{c},
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // broken connections are made on purpose
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		_ = listener.Close()
		return "", errClosed
	}
	c.servers = append(c.servers, server)
	c.running.Add(1)
	c.mu.Unlock()
	go func() {
		defer c.running.Done()
		_ = server.Serve(listener) // ends when it is closed
	}()
	endpoint := "http://" + reachable(listener.Addr())
	if c.lambda.Endpoint() == "" {
		c.lambda.SetEndpoint(endpoint)
	}
	return endpoint, nil
}

// continuing answers clients that wait before they send a body of no bytes, as S3 does. The
// server of net/http leaves them waiting, and some SDKs then take the next answer for that.
type continuing struct{ next http.Handler }

func (c continuing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 && strings.EqualFold(r.Header.Get("Expect"), "100-continue") {
		w.WriteHeader(http.StatusContinue)
	}
	c.next.ServeHTTP(w, r)
}

// reachable is an address at which clients on this machine find a listener,
// also when that listens on all addresses.
func reachable(address net.Addr) string {
	tcp, ok := address.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return address.String()
	}
	return fmt.Sprintf("127.0.0.1:%d", tcp.Port)
}
