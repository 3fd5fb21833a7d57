package remote

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// The first request of a connection shows the token to the proxy, and no other does;
// what the program shows is left out, and what it says otherwise stays.
func TestABareProxyIsShownTheTokenOnce(t *testing.T) {
	const shown = "Proxy-Authorization: Basic a2ltYmFwOmttYl8x\r\n"
	r := forwarder(t, &Forwarder{Owner: owner, Introduce: runtime.NewSecret("kmb_1")})
	for _, c := range []struct{ name, sent, got string }{
		{"a tunnel", "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n\x16\x03\x00", "CONNECT a.test:443 HTTP/1.1\r\n" + shown + "Connection: close\r\nHost: a.test:443\r\n\r\n\x16\x03\x00"},
		{"a token of its own", "CONNECT a.test:443 HTTP/1.1\r\nproxy-AUTHORIZATION: Basic eDp5\r\nProxy-Authorization: Bearer z\r\nHost: a.test:443\r\n\r\n", "CONNECT a.test:443 HTTP/1.1\r\n" + shown + "Connection: close\r\nHost: a.test:443\r\n\r\n"},
		{"in clear, and one more", "POST http://a.test/ HTTP/1.1\r\nhOST: a.test\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhiGET http://a.test/ HTTP/1.1\r\n\r\n", "POST http://a.test/ HTTP/1.1\r\n" + shown + "Connection: close\r\nhOST: a.test\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhiGET http://a.test/ HTTP/1.1\r\n\r\n"},
		{"an upgrade", "GET http://a.test/ HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "GET http://a.test/ HTTP/1.1\r\n" + shown + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"},
		{"no field at all", "GET http://a.test/ HTTP/1.0\r\n\r\n", "GET http://a.test/ HTTP/1.0\r\n" + shown + "Connection: close\r\n\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := r.dial(t)
			if _, err := io.WriteString(conn, c.sent); err != nil {
				t.Fatal(err)
			}
			_ = conn.CloseWrite()
			there := <-r.there
			got, err := io.ReadAll(there)
			if string(got) != c.got || err != nil {
				t.Errorf("%v\n%q, want\n%q", err, got, c.got)
			}
			_ = there.Close()
		})
	}
}

// What could be read in two ways, of which one gives the token away or asks for more
// than one thing, goes nowhere.
func TestABareProxyGetsNoHeadThatCouldBeReadTwice(t *testing.T) {
	r := forwarder(t, &Forwarder{Owner: owner, Introduce: runtime.NewSecret("kmb_1")})
	for _, sent := range []string{
		"\x16\x03\x01\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\n",
		"GET http://a.test/\r\n\r\n",
		"GET  HTTP/1.1\r\n\r\n",
		"GET http://a.test/ HTTP/1.1\nX: y\r\n\r\n",
		"GET http://a.test/ HTTP/1.1\r\n folded\r\n\r\n",
		"GET http://a.test/ HTTP/1.1\r\nX: y\nProxy-Authorization: Basic eDp5\r\n\r\n",
		"GET http://a.test/ HTTP/1.1\r\nX: y\r\n\tfolded: z\r\n\r\n",
		"GET http://a.test/ HTTP/1.1\r\nProxy-Authorization : Basic eDp5\r\n\r\n",
		"GET http://a.test/ HTTP/1.1\r\nX\r\n\r\n",
		"GET http://a.test/ HTTP/1.1\r\nX: a\rb\r\n\r\n",
		"GET http://a.test/ HTTP/1.1\r\nX: a\x00b\r\n\r\n",
	} {
		conn := r.dial(t)
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%q: %v", sent, err)
			continue
		}
		body, _ := io.ReadAll(answer.Body)
		if answer.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "no request to a proxy") {
			t.Errorf("%q: %s %s", sent, answer.Status, body)
		}
		_ = conn.Close()
	}
	if len(r.there) > 0 {
		t.Errorf("%d connections were made", len(r.there))
	}
}

// For who says nothing, or never comes to an end, the proxy is not asked.
func TestABareProxyIsNotAskedForNothing(t *testing.T) {
	r := forwarder(t, &Forwarder{Owner: owner, Introduce: runtime.NewSecret("kmb_1")})
	silent := r.dial(t)
	_ = silent.CloseWrite()
	if said, err := io.ReadAll(silent); err != nil || len(said) > 0 {
		t.Errorf("it was told %q, %v", said, err)
	}
	long := r.dial(t)
	go func() { _, _ = io.WriteString(long, "GET http://a.test/ HTTP/1.1\r\nX: "+strings.Repeat("x", maxHead)) }()
	if said, _ := io.ReadAll(long); len(said) > 0 {
		t.Errorf("it was told %q", said)
	}
	if len(r.there) > 0 {
		t.Errorf("%d connections were made", len(r.there))
	}
}
