package proxy

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// guarded reads stream through a guard, for tests without a socket.
func guarded(stream io.Reader) *guard {
	limits := Limits{}.withDefaults()
	return &guard{
		src: stream, deadline: func(time.Time) error { return nil }, limits: &limits, spare: &scratches{},
		check: func(head) *runtime.Error { return nil },
	}
}

// heads seeds the parsers' fuzzing.
func heads() []string {
	list := []string{openGood, "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"}
	for _, c := range tunnelCases {
		if len(c.request) < 1000 {
			list = append(list, c.request)
		}
	}
	return list
}

// What parseHead accepts, net/http accepts and reads the same way. That is the
// whole point of it: two parsers, one reading.
func FuzzHead(f *testing.F) {
	for _, h := range heads() {
		f.Add([]byte(h))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		end, bad := headEnd(raw, 0)
		if bad != nil || end == 0 {
			return
		}
		h, bad := parseHead(raw[:end], 256)
		if bad == nil {
			bad = checkRouting(h)
		}
		if bad != nil {
			return
		}
		req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw[:end])))
		if err != nil {
			t.Fatalf("accepted %q, net/http says %v", raw[:end], err)
		}
		// What net/http would answer by itself, our handler never sees.
		if expect := req.Header.Get("Expect"); expect != "" && !strings.EqualFold(expect, "100-continue") {
			t.Fatalf("accepted %q", raw[:end])
		}
		chunked := len(req.TransferEncoding) > 0
		if req.Method != h.method || req.RequestURI != h.target || chunked != h.chunked || !chunked && req.ContentLength != h.length {
			t.Fatalf("%q read as %+v, by net/http as %s %s %d %v", raw[:end], h, req.Method, req.RequestURI, req.ContentLength, req.TransferEncoding)
		}
		if strings.HasPrefix(h.target, "/") && req.Host != h.host {
			t.Fatalf("%q has host %q, for net/http %q", raw[:end], h.host, req.Host)
		}
	})
}

// What chunks takes for a whole body, the standard library does, to the byte.
func FuzzChunks(f *testing.F) {
	for _, seed := range []string{"3\r\nabc\r\n0\r\n\r\n", "a;x=y\r\n0123456789\r\n0\r\nT: v\r\n\r\nrest", "0\r\n\r\n", "3\nabc\n0\n\n", "00\r\n\r\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		n, done, err := new(chunks).scan(raw)
		slow, step, sdone := new(chunks), 0, false
		var serr error
		for i := 0; i < len(raw) && !sdone && serr == nil; i++ {
			_, sdone, serr = slow.scan(raw[i : i+1])
			step++
		}
		if sdone != done || (serr != nil) != (err != nil) || done && step != n {
			t.Fatalf("%q: whole %d %v %v, byte by byte %d %v %v", raw, n, done, err, step, sdone, serr)
		}
		if !done {
			return
		}
		br := bufio.NewReader(bytes.NewReader(raw[:n]))
		if _, err := io.Copy(io.Discard, httputil.NewChunkedReader(br)); err != nil {
			t.Fatalf("accepted %q, net/http says %v", raw[:n], err)
		}
	})
}

// begins reports whether raw begins with text, but for empty lines between the requests.
func begins(raw, text []byte) bool {
	for len(text) > 0 {
		same := 0
		for same < min(len(raw), len(text)) && raw[same] == text[same] {
			same++
		}
		if raw, text = raw[same:], text[same:]; len(text) == 0 {
			return true
		}
		var empty bool
		if raw, empty = bytes.CutPrefix(raw, []byte("\r\n")); !empty {
			return false
		}
	}
	return true
}

// However the bytes arrive, the same ones pass, and none is invented: what
// passes is a beginning of what came, or ends with the refusal.
func FuzzGuard(f *testing.F) {
	for _, h := range heads() {
		f.Add([]byte(h))
		f.Add([]byte(openGood + "POST /open HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" + h))
		f.Add([]byte("POST /open HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + h))
		f.Add([]byte(openGood + "\r\n" + h))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		whole, _ := io.ReadAll(guarded(bytes.NewReader(raw)))
		single, _ := io.ReadAll(guarded(iotest.OneByteReader(bytes.NewReader(raw))))
		passed, refused := bytes.CutSuffix(whole, []byte(refusedHead))
		if !begins(raw, passed) && !begins(raw, whole) {
			t.Fatalf("%q became %q", raw, whole)
		}
		// A body that goes wrong passes up to where that was seen, which depends
		// on the pieces; a head passes whole or not at all.
		if refused && !bytes.Equal(whole, single) {
			t.Fatalf("%q became %q whole and %q in pieces", raw, whole, single)
		}
	})
}

// An answer that is no tunnel makes what follows a request again; bytes that
// were sent in hope of a tunnel are never read as one.
func TestLimbo(t *testing.T) {
	connect := "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n"
	head := make([]byte, len(connect))
	t.Run("refused", func(t *testing.T) {
		g := guarded(strings.NewReader(connect + openGood))
		_, _ = io.ReadFull(g, head)
		g.resume()
		if rest, _ := io.ReadAll(g); string(rest) != openGood {
			t.Errorf("got %q", rest)
		}
	})
	t.Run("refused, bytes were seen", func(t *testing.T) {
		g := guarded(strings.NewReader(connect + openGood))
		_, _ = io.ReadFull(g, head)
		_, _ = io.ReadFull(g, make([]byte, 1))
		g.resume()
		if rest, err := io.ReadAll(g); len(rest) > 0 || err == nil {
			t.Errorf("got %q %v", rest, err)
		}
	})
	t.Run("taken over", func(t *testing.T) {
		g := guarded(strings.NewReader(connect + "\x16\x03\x01 no request\n"))
		_, _ = io.ReadFull(g, head)
		g.release()
		if rest, err := io.ReadAll(g); string(rest) != "\x16\x03\x01 no request\n" || err != nil {
			t.Errorf("got %q %v", rest, err)
		}
	})
}

// A connection on which nothing happens holds no buffer, and none that is lent
// again has a byte of an earlier head in it.
func TestIdleGuardHoldsNothing(t *testing.T) {
	client, server := net.Pipe()
	g := guarded(server)
	go func() {
		_, _ = io.WriteString(client, openGood)
		_, _ = io.WriteString(client, openGood+"GE")
		_ = client.Close()
	}()
	buf := make([]byte, 4<<10)
	for range 2 {
		if n, err := io.ReadAtLeast(g, buf, len(openGood)); string(buf[:n]) != openGood || err != nil {
			t.Fatalf("%q, %v", buf[:n], err)
		}
		if g.scratch != nil {
			t.Error("a buffer is kept between two heads")
		}
	}
	if n, err := g.Read(buf); n > 0 || err == nil {
		t.Errorf("half a head: %d bytes, %v", n, err)
	}
	if lent := g.spare.take(); !bytes.Equal(lent[:scratchSize], make([]byte, scratchSize)) {
		t.Errorf("lent with %q in it", lent[:64])
	}
}

// Clients and first bytes of raw tunnels.
func TestMayBeHTTP(t *testing.T) {
	for first, want := range map[string]bool{
		"GET / HTTP/1.1\r\n": true, "G": true, "PROPFIND ": true, "": false, "\x00": false, " GET": false,
		"SSH-2.0-x\r\n": false, strings.Repeat("A", 40): false,
	} {
		if got := mayBeHTTP([]byte(first)); got != want {
			t.Errorf("%q: %v", first, got)
		}
	}
}
