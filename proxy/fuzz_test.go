package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

// Two readers of one stream, one cut: where the guard sees a request begin,
// net/http sees it begin, with the same request line, and neither sees another.
func FuzzRequestsOfAStream(f *testing.F) {
	for _, h := range heads() {
		f.Add([]byte(h + openGood))
		f.Add([]byte("POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: v\r\n\r\n" + h))
		f.Add([]byte("POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 21\r\n\r\nGET /x HTTP/1.1\r\nA:\r\n\r\n" + h))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		g := guarded(bytes.NewReader(raw))
		g.keep, g.check = true, checkRouting
		br := bufio.NewReader(g)
		for {
			r, err := http.ReadRequest(br)
			if err != nil {
				if head := g.taken(); head != nil {
					t.Fatalf("the guard let %q pass, net/http says %v", head, err)
				}
				return
			}
			if r.Method == refusedMethod {
				return
			}
			head := g.taken()
			if want := r.Method + " " + r.RequestURI + " " + r.Proto + "\r\n"; !bytes.HasPrefix(head, []byte(want)) {
				t.Fatalf("net/http reads %q where the guard reads %q", want, head)
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil || r.Method == http.MethodConnect || len(r.Header["Upgrade"]) > 0 {
				return // a body that breaks off, or bytes that need no longer be HTTP
			}
		}
	})
}

// script is a client that says these bytes and then closes its half.
type script struct {
	net.Conn
	r io.Reader
}

func (s *script) Read(p []byte) (int, error)      { return s.r.Read(p) }
func (s *script) Write(p []byte) (int, error)     { return len(p), nil }
func (s *script) Close() error                    { return nil }
func (s *script) SetReadDeadline(time.Time) error { return nil }
func (s *script) SetDeadline(time.Time) error     { return nil }
func (s *script) LocalAddr() net.Addr             { return &net.TCPAddr{} }
func (s *script) RemoteAddr() net.Addr            { return &net.TCPAddr{} }

// scripted is a connection that was taken over, with these bytes on it.
func scripted(raw []byte) *taken {
	own := &conn{Conn: &script{r: bytes.NewReader(raw)}}
	limits := Limits{}.withDefaults()
	own.guard = &guard{src: own.Conn, deadline: func(time.Time) error { return nil }, limits: &limits, state: readOpaque}
	return &taken{conn: own}
}

// hello is a ClientHello with that server name.
func hello(f *testing.F, name string) []byte {
	f.Helper()
	near, far := net.Pipe()
	var seen bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 16<<10)
		n, _ := far.Read(buf)
		seen.Write(buf[:n])
		_ = far.Close()
	}()
	c := tls.Client(near, &tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
	_ = c.HandshakeContext(context.Background())
	_ = near.Close()
	<-done
	return seen.Bytes()
}

// Whatever a client begins a raw tunnel with, all of its bytes are still there
// after the look at them; and what counts as known names the host of the
// CONNECT in the bytes themselves, or no host at all.
func FuzzPeek(f *testing.F) {
	const authority = "a.test:443"
	for _, name := range []string{"a.test", "b.test", "A.test", "a.test.", "xn--a.test"} {
		f.Add(hello(f, name))
	}
	for _, text := range []string{
		openGood, "GET / HTTP/1.1\r\nHost: a.test:443\r\n\r\nmore", "GET http://a.test:443/ HTTP/1.1\r\nHost: a.test:443\r\n\r\n", "SSH-2.0-x\r\n",
		"GET / HTTP/1.1\nHost: a.test:443\n\n", "\x16\x03\x01\x00\x05hello", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "", "\x16",
	} {
		f.Add([]byte(text))
	}
	tunnel := &Tunnel{o: TunnelOptions{Limits: Limits{}.withDefaults(), Peek: time.Hour, Hello: time.Hour}}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c := scripted(raw)
		known, err := tunnel.peek(c, authority)
		if rest, _ := io.ReadAll(c); !bytes.Equal(rest, raw) {
			t.Fatalf("%q became %q", raw, rest)
		}
		if !known || err != nil || len(raw) == 0 {
			return
		}
		if raw[0] == recordHandshake {
			if name, ok := serverName(raw); ok && !sameHost(name, authority) {
				t.Fatalf("a hello for %q passes", name)
			}
			return
		}
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			t.Fatalf("%q passes as a request, net/http says %v", raw, err)
		}
		if host, err := classifier.CanonicalAuthority(r.Host, "80"); err != nil || host != authority {
			t.Fatalf("a request for %q passes", r.Host)
		}
	})
}

// serverName reads the name out of a ClientHello in one record by hand (RFC
// 8446 section 4.1.2, RFC 6066 section 3); ok is false when it is not one.
func serverName(raw []byte) (name string, ok bool) {
	skip := func(n int) bool {
		if n < 0 || n > len(raw) {
			return false
		}
		raw = raw[n:]
		return true
	}
	number := func(size int) int {
		if len(raw) < size {
			return -1
		}
		n := 0
		for _, b := range raw[:size] {
			n = n<<8 | int(b)
		}
		raw = raw[size:]
		return n
	}
	if !skip(5) || number(1) != 1 || !skip(3+2+32) || !skip(number(1)) || !skip(number(2)) || !skip(number(1)) || number(2) < 0 {
		return "", false
	}
	for len(raw) >= 4 {
		kind, size := number(2), number(2)
		if size > len(raw) {
			return "", false
		}
		if kind == 0 && size >= 5 && raw[2] == 0 {
			n := int(raw[3])<<8 | int(raw[4])
			if 5+n <= size {
				return string(raw[5 : 5+n]), true
			}
		}
		raw = raw[size:]
	}
	return "", false
}

// However the field is spelled: no text is read that is not in it, nobody who
// shows something is anonymous, and what clients write comes back.
func FuzzProxyAuthorization(f *testing.F) {
	for _, seed := range []string{
		"Bearer kmb_abc", "bearer  kmb_abc ", "Basic a21iX2FiYzo=", "Basic OmttYl9hYmM=", "basic", "", "Basic !!", "Digest x", "Bearer", "Basic a21iX2E6a21iX2I=",
	} {
		f.Add(seed, "kmb_abc")
	}
	s := &Server{o: Options{DefaultToken: runtime.NewSecret("kmb_default")}}
	f.Fuzz(func(t *testing.T, value, token string) {
		caller := s.caller(&conn{peer: runtime.Peer{Owner: true}}, http.Header{"Proxy-Authorization": {value}})
		got := caller.Token.Reveal()
		if !caller.RequireToken || got == "kmb_default" && !strings.Contains(value, got) && !strings.HasPrefix(strings.ToLower(value), "basic ") {
			t.Fatalf("%q is the owner without a token", value)
		}
		_, rest, _ := strings.Cut(value, " ")
		plain, _ := base64.StdEncoding.DecodeString(strings.Trim(rest, " "))
		if !strings.Contains(value, got) && !bytes.Contains(plain, []byte(got)) {
			t.Fatalf("%q is read as %q", value, got)
		}
		if twice := s.caller(&conn{peer: runtime.Peer{Owner: true}}, http.Header{"Proxy-Authorization": {value, value}}); !twice.Token.Empty() || !twice.RequireToken {
			t.Fatalf("two fields are read as %q", twice.Token.Reveal())
		}
		if token == "" || strings.ContainsAny(token, ": ") {
			return
		}
		for _, written := range []string{
			"Bearer " + token, "Basic " + base64.StdEncoding.EncodeToString([]byte(token+":")), "Basic " + base64.StdEncoding.EncodeToString([]byte("x:"+token)),
		} {
			if got := credentialToken(written); got != token {
				t.Fatalf("%q is read as %q", written, got)
			}
		}
	})
}
