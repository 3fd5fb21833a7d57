package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// client is a raw HTTP client.
type client struct {
	t *testing.T
	net.Conn
	br *bufio.Reader
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, text); err != nil {
		c.t.Fatalf("send: %v", err)
	}
}

// answer reads one answer to a request of the method; the body stays.
func (c *client) answer(method string) *http.Response {
	c.t.Helper()
	resp, err := http.ReadResponse(c.br, &http.Request{Method: method})
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	return resp
}

// get reads one answer whole.
func (c *client) get(method string) (*http.Response, string) {
	c.t.Helper()
	resp := c.answer(method)
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("body: %v after %q", err, body)
	}
	return resp, string(body)
}

// tls starts TLS on the connection.
func (c *client) tls(config *tls.Config) *client {
	c.t.Helper()
	inner := tls.Client(c.Conn, config)
	if err := inner.Handshake(); err != nil {
		c.t.Fatalf("handshake: %v", err)
	}
	return &client{t: c.t, Conn: inner, br: bufio.NewReader(inner)}
}

// refused demands a refusal with status and code, and returns the problem.
func (c *client) refused(status int, code runtime.Code) runtime.Problem {
	c.t.Helper()
	resp, body := c.get("GET")
	var p runtime.Problem
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		c.t.Fatalf("%s: not a problem: %q", resp.Status, body)
	}
	if resp.StatusCode != status || p.Code != code {
		c.t.Fatalf("got %d %s (%s), want %d %s", resp.StatusCode, p.Code, p.Detail, status, code)
	}
	if !strings.HasPrefix(resp.Header.Get("Kimbap-Error"), string(code)) || p.RequestID == "" {
		c.t.Fatalf("refusal without Kimbap-Error or request id: %v %+v", resp.Header, p)
	}
	return p
}

// ended demands that the connection ends without another byte.
func (c *client) ended() {
	c.t.Helper()
	if b, err := io.ReadAll(c.br); len(b) > 0 || errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		c.t.Fatalf("connection goes on: %q %v", b, err)
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}
