package proxy

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// Requests inside a tunnel to api.good.test that must not reach the upstream.
var tunnelCases = []struct {
	id      string
	request string
	status  int
	code    runtime.Code
	reason  runtime.Reason
}{
	{"CB-002", "GET /repos/a/%2e%2e/%2E./admin HTTP/1.1\r\nHost: api.good.test\r\n\r\n", 400, runtime.CodeAmbiguousTarget, runtime.ReasonDotSegment},
	{"CB-003", "GET /repos/a/../../admin HTTP/1.1\r\nHost: api.good.test\r\n\r\n", 400, runtime.CodeAmbiguousTarget, runtime.ReasonDotSegment},
	{"CB-010", "GET /repos/a/b/pulls#/x HTTP/1.1\r\nHost: api.good.test\r\n\r\n", 400, runtime.CodeAmbiguousTarget, runtime.ReasonInvalidTarget},
	{"CB-011", "GET //repos/a/b/pulls HTTP/1.1\r\nHost: api.good.test\r\n\r\n", 400, runtime.CodeAmbiguousTarget, runtime.ReasonEmptySegment},
	{"CB-012", "GET //evil.test/repos/a/b/pulls HTTP/1.1\r\nHost: api.good.test\r\n\r\n", 400, runtime.CodeAmbiguousTarget, runtime.ReasonEmptySegment},
	{"CB-015", "GET /repos/a\\..\\b/pulls HTTP/1.1\r\nHost: api.good.test\r\n\r\n", 400, runtime.CodeAmbiguousTarget, runtime.ReasonInvalidTarget},
	{"CB-016", "GET /repos/a/b%00/pulls HTTP/1.1\r\nHost: api.good.test\r\n\r\n", 400, runtime.CodeAmbiguousTarget, runtime.ReasonInvalidTarget},
	{"CB-017", "GET /repos/a/b%zz/pulls HTTP/1.1\r\nHost: api.good.test\r\n\r\n", 400, runtime.CodeAmbiguousTarget, runtime.ReasonInvalidTarget},
	{"CB-021", "get /repos/a/b/pulls HTTP/1.1\r\nHost: api.good.test\r\n\r\n", 403, runtime.CodeUnknownAction, runtime.ReasonUnmatched},
	{"CB-022", "GET /repos/a/b HTTP/1.1\r\nHost: api.good.test\r\nX-HTTP-Method-Override: DELETE\r\n\r\n", 400, runtime.CodeAmbiguousTarget, runtime.ReasonMethodOverride},
	{"CB-033", "GET /repos/a/b/pulls HTTP/1.1\r\nHost: evil.test\r\n\r\n", 421, runtime.CodeMisdirected, ""},
	{"CB-033 port", "GET /repos/a/b/pulls HTTP/1.1\r\nHost: api.good.test:8443\r\n\r\n", 421, runtime.CodeMisdirected, ""},
	{"CB-036", "GET https://evil.test/v1 HTTP/1.1\r\nHost: api.good.test\r\n\r\n", 421, runtime.CodeMisdirected, ""},
	{"CB-036 both", "GET https://evil.test/v1 HTTP/1.1\r\nHost: evil.test\r\n\r\n", 421, runtime.CodeMisdirected, ""},
	{"CB-037", "GET http://plain.test/v1 HTTP/1.1\r\nHost: api.good.test\r\n\r\n", 421, runtime.CodeMisdirected, ""},
	{"CB-037 scheme", "GET http://api.good.test/open HTTP/1.1\r\nHost: api.good.test\r\n\r\n", 421, runtime.CodeMisdirected, ""},
	{"CB-039", "CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n", 405, runtime.CodeInvalidInput, runtime.ReasonMethodNotAllowed},
	{"CB-068", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, runtime.CodeInvalidInput, ""},
	{"PC-008 CL.TE", "POST /open HTTP/1.1\r\nHost: api.good.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /open HTTP/1.1\r\nHost: api.good.test\r\n\r\n", 400, runtime.CodeAmbiguousTarget, ""},
	{"PC-008 TE.CL", "POST /open HTTP/1.1\r\nHost: api.good.test\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", 400, runtime.CodeAmbiguousTarget, ""},
	{"PC-009 twice", "POST /open HTTP/1.1\r\nHost: api.good.test\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400, runtime.CodeAmbiguousTarget, ""},
	{"PC-009 list", "POST /open HTTP/1.1\r\nHost: api.good.test\r\nContent-Length: 3, 3\r\n\r\nabc", 400, runtime.CodeAmbiguousTarget, ""},
	{"PC-009 plus", "POST /open HTTP/1.1\r\nHost: api.good.test\r\nContent-Length: +3\r\n\r\nabc", 400, runtime.CodeAmbiguousTarget, ""},
	{"PC-009 minus", "POST /open HTTP/1.1\r\nHost: api.good.test\r\nContent-Length: -1\r\n\r\nabc", 400, runtime.CodeAmbiguousTarget, ""},
	{"PC-009 hex", "POST /open HTTP/1.1\r\nHost: api.good.test\r\nContent-Length: 0x3\r\n\r\nabc", 400, runtime.CodeAmbiguousTarget, ""},
	{"PC-009 huge", "POST /open HTTP/1.1\r\nHost: api.good.test\r\nContent-Length: 99999999999999999999\r\n\r\nabc", 400, runtime.CodeAmbiguousTarget, ""},
	{"PC-010 identity", "POST /open HTTP/1.1\r\nHost: api.good.test\r\nTransfer-Encoding: identity\r\n\r\n", 400, runtime.CodeAmbiguousTarget, ""},
	{"PC-010 twice", "POST /open HTTP/1.1\r\nHost: api.good.test\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", 400, runtime.CodeAmbiguousTarget, ""},
	{"PC-012 obs-fold", "GET /open HTTP/1.1\r\nHost: api.good.test\r\nX-A: 1\r\n Authorization: x\r\n\r\n", 400, runtime.CodeAmbiguousTarget, ""},
	{"PC-012 leading space", "GET /open HTTP/1.1\r\n Host: api.good.test\r\n\r\n", 400, runtime.CodeAmbiguousTarget, ""},
	{"PC-012 space in name", "GET /open HTTP/1.1\r\nHost : api.good.test\r\n\r\n", 400, runtime.CodeInvalidInput, ""},
	{"PC-012 paren in name", "GET /open HTTP/1.1\r\nHost: api.good.test\r\nX(a): 1\r\n\r\n", 400, runtime.CodeInvalidInput, ""},
	{"PC-012 bare CR", "GET /open HTTP/1.1\r\nHost: api.good.test\r\nX: a\rb\r\n\r\n", 400, runtime.CodeInvalidInput, ""},
	{"PC-012 bare LF", "GET /open HTTP/1.1\nHost: api.good.test\n\n", 400, runtime.CodeAmbiguousTarget, ""},
	{"PC-012 NUL", "GET /open HTTP/1.1\r\nHost: api.good.test\r\nX: a\x00b\r\n\r\n", 400, runtime.CodeInvalidInput, ""},
	{"PC-013", "GET /open HTTP/1.1\r\nHost: api.good.test\r\nX: " + strings.Repeat("x", 70<<10) + "\r\n\r\n", 431, runtime.CodeInvalidInput, runtime.ReasonHeaderTooLarge},
	{"PC-014", "GET /open HTTP/1.1\r\nHost: api.good.test\r\n" + strings.Repeat("A: b\r\n", 10000) + "\r\n", 431, runtime.CodeInvalidInput, runtime.ReasonHeaderTooLarge},
	{"PC-014 trailers", "POST /open HTTP/1.1\r\nHost: api.good.test\r\nTransfer-Encoding: chunked\r\nTrailer: X" + strings.Repeat(",Proxy-A", 256) + "\r\n\r\n0\r\n\r\n", 431, runtime.CodeInvalidInput, runtime.ReasonHeaderTooLarge},
	{"PC-015 none", "GET /open HTTP/1.1\r\n\r\n", 400, runtime.CodeInvalidInput, ""},
	{"PC-015 two", "GET /open HTTP/1.1\r\nHost: api.good.test\r\nHost: api.good.test\r\n\r\n", 400, runtime.CodeAmbiguousTarget, ""},
	{"PC-015 space", "GET /open HTTP/1.1\r\nHost: api.good test\r\n\r\n", 400, runtime.CodeAmbiguousTarget, runtime.ReasonInvalidHost},
	{"PC-015 user", "GET /open HTTP/1.1\r\nHost: u@api.good.test\r\n\r\n", 400, runtime.CodeAmbiguousTarget, runtime.ReasonInvalidHost},
	{"PC-015 slash", "GET /open HTTP/1.1\r\nHost: api.good.test/b\r\n\r\n", 400, runtime.CodeAmbiguousTarget, runtime.ReasonInvalidHost},
	{"PC-015 braces", "GET /open HTTP/1.1\r\nHost: {api.good.test}\r\n\r\n", 400, runtime.CodeAmbiguousTarget, runtime.ReasonInvalidHost},
	{"PC-015 UTF-8", "GET /open HTTP/1.1\r\nHost: \u0430pi.good.test\r\n\r\n", 400, runtime.CodeAmbiguousTarget, runtime.ReasonInvalidHost},
	{"PC-004 unknown", "POST /open HTTP/1.1\r\nHost: api.good.test\r\nExpect: more\r\nContent-Length: 2\r\n\r\nab", 417, runtime.CodeInvalidInput, runtime.ReasonExpectation},
	{"PC-023 length", "POST /open HTTP/1.1\r\nHost: api.good.test\r\nTransfer-Encoding: chunked\r\nTrailer: X, Content-Length\r\n\r\n0\r\n\r\n", 400, runtime.CodeInvalidInput, ""},
	{"PC-015 1.0", "GET /open HTTP/1.0\r\n\r\n", 400, runtime.CodeInvalidInput, ""},
	{"PC-015 1.2", "GET /open HTTP/1.2\r\nHost: api.good.test\r\n\r\n", 400, runtime.CodeInvalidInput, ""},
	{"PC-015 2.0", "GET /open HTTP/2.0\r\nHost: api.good.test\r\n\r\n", 400, runtime.CodeInvalidInput, ""},
	{"PC-015 0.9", "GET /open\r\n\r\n", 400, runtime.CodeInvalidInput, ""},
	{"PC-025", "TRACE /open HTTP/1.1\r\nHost: api.good.test\r\nMax-Forwards: 0\r\n\r\n", 405, runtime.CodeInvalidInput, runtime.ReasonMethodNotAllowed},
	{"reserved method", refusedMethod + " / HTTP/1.1\r\nHost: api.good.test\r\n\r\n", 400, runtime.CodeInvalidInput, ""},
	{"relative target", "GET repos HTTP/1.1\r\nHost: api.good.test\r\n\r\n", 400, runtime.CodeAmbiguousTarget, runtime.ReasonInvalidTarget},
	{"body too large to judge", "POST /judged HTTP/1.1\r\nHost: api.good.test\r\nContent-Type: application/json\r\nContent-Length: 1048577\r\n\r\n", 413, runtime.CodeInvalidInput, runtime.ReasonBodyTooLarge},
	{"CB-043", "POST /judged HTTP/1.1\r\nHost: api.good.test\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"a\":1,\"a\":2}", 400, runtime.CodeInvalidInput, runtime.ReasonDuplicateKey},
	{"CB-058", "POST /judged HTTP/1.1\r\nHost: api.good.test\r\nContent-Type: application/json; charset=utf-7\r\nContent-Length: 7\r\n\r\n{\"a\":1}", 415, runtime.CodeInvalidInput, runtime.ReasonUnsupportedMedia},
}

func TestRefusedInTunnel(t *testing.T) {
	r := newRig(t, nil)
	received := r.upstream("api.good.test:443", answering(okAnswer))
	evil := r.upstream("evil.test:443", answering(okAnswer))
	for _, c := range tunnelCases {
		t.Run(c.id, func(t *testing.T) {
			inside := r.open("api.good.test:443")
			inside.t = t
			inside.send(c.request)
			rec := r.outcome()
			p := inside.refused(c.status, c.code)
			if p.Reason != c.reason {
				t.Errorf("reason %q (%s), want %q", p.Reason, p.Detail, c.reason)
			}
			if rec.Err == nil || rec.Err.Code != c.code || rec.ID != p.RequestID {
				t.Errorf("recorded %+v", rec.Err)
			}
			_ = inside.Close()
		})
	}
	if got := received() + evil(); got != "" {
		t.Errorf("the upstream got %q", got)
	}
}

func TestRefusedOnListener(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for _, c := range []struct {
		id, request string
		status      int
		code        runtime.Code
	}{
		{"CB-026", "CONNECT api.good.test..:443 HTTP/1.1\r\nHost: x\r\n\r\n", 400, runtime.CodeInvalidInput},
		{"CB-027", "GET http://[api.good.test]/repos/a/b/pulls HTTP/1.1\r\nHost: x\r\n\r\n", 400, runtime.CodeInvalidInput},
		{"CB-028", "CONNECT user:pw@api.good.test:443 HTTP/1.1\r\nHost: x\r\n\r\n", 400, runtime.CodeAmbiguousTarget},
		{"CB-028 absolute-form", "GET http://user@plain.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n", 400, runtime.CodeAmbiguousTarget},
		{"CB-030 zero", "CONNECT api.good.test:0443 HTTP/1.1\r\nHost: x\r\n\r\n", 400, runtime.CodeInvalidInput},
		{"CB-030 plus", "CONNECT api.good.test:+443 HTTP/1.1\r\nHost: x\r\n\r\n", 400, runtime.CodeInvalidInput},
		{"CB-030 empty", "CONNECT api.good.test: HTTP/1.1\r\nHost: x\r\n\r\n", 400, runtime.CodeInvalidInput},
		{"CB-040", "GET http://api.good.test/repos/a/b/pulls HTTP/1.1\r\nHost: api.good.test\r\n\r\n", 403, runtime.CodeForbidden},
		{"CB-042", "GET https://api.good.test/repos/a/b/pulls HTTP/1.1\r\nHost: api.good.test\r\n\r\n", 400, runtime.CodeInvalidInput},
		{"absolute-form and Host differ", "GET http://plain.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", 421, runtime.CodeMisdirected},
		{"CONNECT and Host differ", "CONNECT plain.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n", 421, runtime.CodeMisdirected},
		{"PC-017 body", "CONNECT plain.test:443 HTTP/1.1\r\nHost: plain.test:443\r\nContent-Length: 5\r\n\r\nhello", 400, runtime.CodeInvalidInput},
		{"PC-017 no port", "CONNECT plain.test HTTP/1.1\r\nHost: plain.test\r\n\r\n", 400, runtime.CodeInvalidInput},
		{"PC-017 path", "CONNECT /x HTTP/1.1\r\nHost: x\r\n\r\n", 400, runtime.CodeInvalidInput},
		{"PC-017 URL", "CONNECT http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, runtime.CodeInvalidInput},
		{"TLS to the listener", "\x16\x03\x01\x02\x00\x01\x00", 400, runtime.CodeInvalidInput},
		{"ftp", "GET ftp://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n", 400, runtime.CodeAmbiguousTarget},
	} {
		t.Run(c.id, func(t *testing.T) {
			conn := r.dial()
			conn.t = t
			_ = conn.SetDeadline(time.Now().Add(patience / 2)) // at once, and not when the head is late
			conn.send(c.request)
			conn.refused(c.status, c.code)
			if rec := r.outcome(); rec.Err == nil || rec.Err.Code != c.code {
				t.Errorf("recorded %+v", rec.Err)
			}
			_ = conn.Close()
		})
	}
	if len(r.stages.dials) > 0 {
		t.Errorf("dialled %v", r.stages.dials)
	}
}

// CB-025: one canonical host, whatever way it is written.
func TestCanonicalConnect(t *testing.T) {
	r := newRig(t, nil)
	received := r.upstream("api.good.test:443", answering(okAnswer))
	inside := r.open("API.Good.Test.:443")
	inside.send("GET /repos/a/b/pulls HTTP/1.1\r\nHost: Api.Good.Test.\r\n\r\n")
	if resp, body := inside.get("GET"); resp.StatusCode != 200 || body != "ok" {
		t.Fatalf("%s %q", resp.Status, body)
	}
	if rec := r.outcome(); rec.Action.Ref != "good.open" || rec.Target.Authority != "api.good.test:443" {
		t.Errorf("judged as %s at %s", rec.Action.Ref, rec.Target.Authority)
	}
	if !strings.HasPrefix(received(), "GET /repos/a/b/pulls HTTP/1.1\r\n") {
		t.Errorf("the upstream got %q", received())
	}
}

// CB-029: another port is another host: no service's, passed raw.
func TestOtherPortIsForeign(t *testing.T) {
	r := newRig(t, nil)
	c := r.dial()
	c.send("CONNECT api.good.test:8443 HTTP/1.1\r\nHost: api.good.test:8443\r\n\r\n")
	c.refused(403, runtime.CodeEgressDenied)
	if rec := r.outcome(); rec.Action.Ref != runtime.ActionPass || rec.Target.Scheme != "tcp" {
		t.Errorf("judged as %s %s", rec.Action.Ref, rec.Target.Scheme)
	}
}

// CB-034: a foreign host inside an opened tunnel does not become an owned one.
func TestForeignTunnelOwnedHost(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) { o.InterceptAll = always })
	received := r.upstream("evil.test:443", answering(okAnswer))
	inside := r.open("evil.test:443")
	inside.send("GET /repos/a/b HTTP/1.1\r\nHost: api.good.test\r\n\r\n")
	inside.refused(421, runtime.CodeMisdirected)
	if received() != "" {
		t.Errorf("the upstream got %q", received())
	}
}

// CB-035: the TLS server name is the host of the CONNECT or there is no TLS,
// also when a session of another host is resumed.
func TestServerNameDiffers(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) { o.InterceptAll = always })
	r.upstream("evil.test:443", answering(okAnswer))
	config := &tls.Config{RootCAs: r.roots, ServerName: "evil.test", ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	connect := func(authority string) *client {
		c := r.dial()
		c.send("CONNECT " + authority + " HTTP/1.1\r\nHost: " + authority + "\r\n\r\n")
		c.answer("CONNECT")
		return c
	}
	for try := range 2 { // without a session to resume, then with one
		c := connect("api.good.test:443")
		if err := tls.Client(c.Conn, config).Handshake(); err == nil {
			t.Fatalf("try %d: the handshake went well", try)
		}
		if rec := r.outcome(); rec.Err == nil || rec.Err.Code != runtime.CodeMisdirected {
			t.Errorf("try %d: recorded %+v", try, rec.Err)
		}
		for again := range 2 {
			own := connect("evil.test:443").tls(config)
			own.send("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
			own.get("GET")
			r.outcome()
			if resumed := own.Conn.(*tls.Conn).ConnectionState().DidResume; resumed != (again > 0) {
				t.Errorf("try %d: resumed %v", again, resumed)
			}
		}
	}
}

// Another server name is told by the alert that TLS has for it (RFC 6066 section 3),
// in every version that we speak, and before anything else of a handshake.
func TestServerNameThatDiffersIsAlerted(t *testing.T) {
	r := newRig(t, nil)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		c := r.connected("api.good.test:443")
		hello := &heard{Conn: c.Conn}
		_ = tls.Client(hello, &tls.Config{RootCAs: r.roots, ServerName: "evil.test", MinVersion: version, MaxVersion: version}).Handshake()
		want := []byte{recordAlert, 3, 3, 0, 2, 2, 112} // fatal, unrecognized_name
		if got := hello.said.Bytes(); !bytes.Equal(got, want) {
			t.Errorf("%s: answered % x, want % x", tls.VersionName(version), got, want)
		}
		rec := r.outcome()
		if rec.Err == nil || rec.Err.Code != runtime.CodeMisdirected || !strings.Contains(rec.Err.Msg, "evil.test") || rec.Target.Authority != "api.good.test:443" {
			t.Errorf("%s: recorded %+v", tls.VersionName(version), rec.Err)
		}
		_ = c.Close()
	}
	if n := len(r.stages.outcomes); n != 0 {
		t.Errorf("%d records more", n)
	}
}

// heard is a connection that keeps what is read.
type heard struct {
	net.Conn
	said bytes.Buffer
}

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	h.said.Write(p[:n])
	return n, err
}

// CB-041: cleartext HTTP inside CONNECT is judged as http, and refused where
// the service wants https. Node sends its http:// requests this way.
func TestCleartextInTunnel(t *testing.T) {
	r := newRig(t, nil)
	received := r.upstream("plain.good.test:80", answering(okAnswer))
	c := r.dial()
	c.send("CONNECT api.good.test:443 HTTP/1.1\r\nHost: api.good.test:443\r\n\r\n")
	c.answer("CONNECT")
	c.send("GET /repos/a/b/pulls HTTP/1.1\r\nHost: api.good.test:443\r\n\r\n")
	if p := c.refused(403, runtime.CodeForbidden); p.Reason != runtime.ReasonInsecureScheme {
		t.Errorf("reason %q", p.Reason)
	}
	c = r.dial()
	// Sent at once, with the CONNECT: the bytes must not be lost.
	c.send("CONNECT plain.good.test:80 HTTP/1.1\r\nHost: plain.good.test:80\r\n\r\nGET /open HTTP/1.1\r\nHost: plain.good.test\r\n\r\n")
	c.answer("CONNECT")
	if resp, body := c.get("GET"); resp.StatusCode != 200 || body != "ok" {
		t.Errorf("%s %q", resp.Status, body)
	}
	if !strings.Contains(received(), "GET /open") {
		t.Errorf("the upstream got %q", received())
	}
}

// CB-065: an upgrade passes, and the bytes after it.
func TestUpgrade(t *testing.T) {
	r := newRig(t, nil)
	received := r.upstream("api.good.test:443", func(c net.Conn, br *bufio.Reader) {
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\nfirst")
		_, _ = io.Copy(c, br)
	})
	inside := r.open("api.good.test:443")
	inside.send("GET /open HTTP/1.1\r\nHost: api.good.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n")
	resp := inside.answer("GET")
	if resp.StatusCode != 101 || resp.Header.Get("Upgrade") != "websocket" || resp.Header.Get("Sec-Websocket-Accept") != "x" {
		t.Fatalf("%s %v", resp.Status, resp.Header)
	}
	inside.send("ping")
	got := make([]byte, len("firstping"))
	if _, err := io.ReadFull(inside.br, got); err != nil || string(got) != "firstping" {
		t.Fatalf("%q %v", got, err)
	}
	_ = inside.Close()
	if rec := r.outcome(); rec.Err != nil || rec.Result.Status != 101 {
		t.Errorf("recorded %+v", rec)
	}
	if !strings.Contains(received(), "Upgrade: websocket") {
		t.Errorf("the upstream got %q", received())
	}
}

// Some clients look for the fields of a 101 as RFC 6455 spells them.
func TestUpgradesAreSpelledAsInTheRFC(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("api.good.test:443", func(c net.Conn, br *bufio.Reader) {
		if _, err := http.ReadRequest(br); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n")
		}
	})
	inside := r.open("api.good.test:443")
	inside.send("GET /open HTTP/1.1\r\nHost: api.good.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n")
	if head, err := io.ReadAll(inside.br); err != nil || !strings.Contains(string(head), "\r\nSec-WebSocket-Accept: x\r\n") {
		t.Errorf("%q %v", head, err)
	}
}

// CB-067: h2c is not an upgrade we pass on.
func TestNoH2C(t *testing.T) {
	r := newRig(t, nil)
	received := r.upstream("api.good.test:443", answering(okAnswer))
	inside := r.open("api.good.test:443")
	for range 2 { // the connection stays a connection of requests
		inside.send("GET /open HTTP/1.1\r\nHost: api.good.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nTE: deflate\r\n\r\n")
		if resp, body := inside.get("GET"); resp.StatusCode != 200 || resp.ProtoMajor != 1 || body != "ok" {
			t.Fatalf("%s %q", resp.Status, body)
		}
	}
	if got := received(); strings.Contains(strings.ToLower(got), "upgrade") || strings.Contains(strings.ToLower(got), "http2-settings") || strings.Contains(got, "deflate") {
		t.Errorf("the upstream got %q", got)
	}
}
