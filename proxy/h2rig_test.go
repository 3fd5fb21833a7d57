//lint:file-ignore SA1019 the double speaks HTTP/2 on connections it has accepted itself

package proxy

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/proxy/http2/http2test"
)

// frameSize is the most that a frame holds by default (RFC 9113 section 4.2).
const frameSize = 16 << 10

// tunnelH2 opens an intercepted tunnel and negotiates HTTP/2 in it.
func (r *rig) tunnelH2(authority string, fields ...string) *tls.Conn {
	r.t.Helper()
	c := r.dial()
	c.send("CONNECT " + authority + " HTTP/1.1\r\nHost: " + authority + "\r\n" + strings.Join(append(fields, ""), "\r\n") + "\r\n")
	if resp := c.answer("CONNECT"); resp.StatusCode != http.StatusOK {
		r.t.Fatalf("CONNECT %s: %s", authority, resp.Status)
	}
	host, _, _ := strings.Cut(authority, ":")
	inside := c.tls(&tls.Config{RootCAs: r.roots, ServerName: host, NextProtos: []string{"h2", "http/1.1"}}).Conn.(*tls.Conn)
	if got := inside.ConnectionState().NegotiatedProtocol; got != "h2" {
		r.t.Fatalf("negotiated %q", got)
	}
	return inside
}

// openH2 is an ordinary client of HTTP/2 in a tunnel.
func (r *rig) openH2(authority string, fields ...string) *clientH2 {
	r.t.Helper()
	c, err := (&http2.Transport{DisableCompression: true}).NewClientConn(r.tunnelH2(authority, fields...))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	return &clientH2{ClientConn: c, t: r.t}
}

// clientH2 sends requests without fields that nobody asked for.
type clientH2 struct {
	*http2.ClientConn
	t *testing.T
}

// request makes a request to https://api.good.test; fields are "Name: value".
func (c *clientH2) request(method, path string, body io.Reader, fields ...string) *http.Request {
	c.t.Helper()
	q, err := http.NewRequestWithContext(c.t.Context(), method, "https://api.good.test"+path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	q.Header = http.Header{"User-Agent": {""}}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		q.Header.Add(name, value)
	}
	return q
}

// get sends a request and reads its answer whole.
func (c *clientH2) get(method, path string, fields ...string) (*http.Response, string) {
	c.t.Helper()
	resp, err := c.RoundTrip(c.request(method, path, nil, fields...))
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("%s %s: %v after %q", method, path, err, body)
	}
	return resp, string(body)
}

// rawH2 writes frames by hand.
type rawH2 struct {
	*http2test.Frames
}

// rawH2 opens a tunnel and begins HTTP/2 with the settings.
func (r *rig) rawH2(authority string, settings ...http2.Setting) *rawH2 {
	r.t.Helper()
	f, err := http2test.Client(r.tunnelH2(authority), settings...)
	if err := errors.Join(err, f.WriteSettingsAck()); err != nil {
		r.t.Fatal(err)
	}
	return &rawH2{f}
}

// wait reads until there is a head, a reset or an end of the connection for
// the stream. Window updates and the like are passed over.
func (c *rawH2) wait(stream uint32) (status string, header http.Header, reset http2.ErrCode, err error) {
	_ = c.Conn.SetReadDeadline(time.Now().Add(patience))
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			return "", nil, 0, err
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			if f.StreamID != stream {
				continue
			}
			header = http.Header{}
			for _, field := range f.RegularFields() {
				header.Add(field.Name, field.Value)
			}
			return f.PseudoValue("status"), header, 0, nil
		case *http2.RSTStreamFrame:
			if f.StreamID == stream {
				return "", nil, f.ErrCode, nil
			}
		case *http2.GoAwayFrame:
			if f.ErrCode != http2.ErrCodeNo {
				return "", nil, 0, http2.ConnectionError(f.ErrCode)
			}
		}
	}
}

// goodHead is the head of a good request.
var goodHead = []string{":method GET", ":scheme https", ":authority api.good.test", ":path /open"}
