package http1_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/kimbap-run/kimbap/proxy/http1"
)

// answer is what a reader made of the bytes of one.
type answer struct {
	status int
	header http.Header
	body   string
	whole  bool
	rest   string
}

// ours reads an answer to a request of the method.
func ours(src io.Reader, method string) (a answer, ok bool) {
	br := bufio.NewReader(src)
	head, _, err := http1.ReadResponse(br, nil, limit)
	if err != nil {
		return a, false
	}
	a.status, a.header = head.Status, head.Header
	if http1.Bodiless(method, head.Status) {
		head.Framing = http1.Framing{}
	}
	a.read(http1.NewBody(br, head.Framing), br)
	return a, true
}

// theirs is net/http's reading.
func theirs(raw []byte, method string) (a answer, ok bool) {
	br := bufio.NewReader(bytes.NewReader(raw))
	resp, err := http.ReadResponse(br, &http.Request{Method: method})
	if err != nil {
		return a, false
	}
	a.status, a.header = resp.StatusCode, resp.Header
	a.read(resp.Body, br)
	return a, true
}

func (a *answer) read(body io.Reader, br *bufio.Reader) {
	text, err := io.ReadAll(body)
	a.body, a.whole = string(text), err == nil
	if a.whole {
		rest, _ := io.ReadAll(br)
		a.rest = string(rest)
	}
}

// Whatever we take for an answer net/http frames in the same way: what is a body
// to us is no other body, and no second answer, to it.
func FuzzReadResponse(f *testing.F) {
	for _, text := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n2;x=y\r\nok\r\n0\r\nX-A: 1\r\n\r\nrest",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 \r\nok\r\n0\t\r\n\r\nrest", "HTTP/1.0 404\r\n\r\nuntil the end", "HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 204 No\r\n\r\n", "HTTP/1.1 200 OK\nA: b\nA: d\n\nx",
		"HTTP/1.1 304 \r\nContent-Length: 9\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 204 N\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\nx", "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
	} {
		f.Add([]byte(text), false)
		f.Add([]byte(text), true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, head bool) {
		method := "GET"
		if head {
			method = "HEAD"
		}
		we, ok := ours(bytes.NewReader(raw), method)
		pieces, same := ours(iotest.OneByteReader(bytes.NewReader(raw)), method)
		if ok != same || we.body != pieces.body || we.whole != pieces.whole || we.rest != pieces.rest {
			t.Fatalf("%q is %+v whole and %+v in pieces", raw, we, pieces)
		}
		if !ok {
			return
		}
		they, ok := theirs(raw, method)
		if !ok { // it may refuse more than we do, but not read on otherwise
			return
		}
		if we.status != they.status {
			t.Fatalf("%q: status %d, net/http says %d", raw, we.status, they.status)
		}
		if we.whole && they.whole && (we.body != they.body || we.rest != they.rest) {
			t.Fatalf("%q: body %q and then %q, net/http says %q and then %q", raw, we.body, we.rest, they.body, they.rest)
		}
		if we.whole && !they.whole && len(they.body) > len(we.body) || !strings.HasPrefix(we.body, they.body) && !strings.HasPrefix(they.body, we.body) {
			t.Fatalf("%q: body %q, net/http says %q", raw, we.body, they.body)
		}
		for name, list := range they.header {
			if name == "Cache-Control" || name == "Content-Length" { // it adds the one to Pragma; the other is what was compared
				continue
			}
			trimmed := func(ours, theirs string) bool { return ours == strings.Trim(theirs, " \t") }
			if !slices.EqualFunc(we.header[name], list, trimmed) {
				t.Fatalf("%q: %s is %q, net/http says %q", raw, name, we.header[name], list)
			}
		}
	})
}

// A chunked body that we read to its end has the same bytes and the same end for
// net/http, however it comes.
func FuzzBody(f *testing.F) {
	for _, text := range []string{
		"5\r\nhello\r\n0\r\n\r\nrest", "5;a=b\r\nhello\r\n6;\"\r\n world\r\n0\r\nX-A: 1\r\n\r\n", "0\r\n\r\n", "a\r\n0123456789\r\n00\r\n\r\n",
		"5\nhello\n0\n\n", "5 \r\nhello\r\n0\r\n\r\n", "10000000000000005\r\nhello", "0\r\nX: 1\r\n y\r\n\r\n", "1\r\nx\r\n0\r\nX: 1\r\n",
	} {
		f.Add([]byte(text), uint8(3))
	}
	f.Fuzz(func(t *testing.T, raw []byte, size uint8) {
		const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
		read := func(src io.Reader, size int) (string, bool, string) {
			br := bufio.NewReader(src)
			b := http1.NewBody(br, chunked)
			var text []byte
			for buf := make([]byte, size); ; {
				ready := b.Ready()
				n, err := b.Read(buf)
				if ready && n == 0 {
					t.Fatalf("%q: ready, and then %v", raw, err)
				}
				if text = append(text, buf[:n]...); err != nil {
					rest, _ := io.ReadAll(br)
					return string(text), err == io.EOF, string(rest)
				}
			}
		}
		body, whole, rest := read(bytes.NewReader(raw), 1<<10)
		again, same, restToo := read(iotest.OneByteReader(bytes.NewReader(raw)), int(size)+1)
		if whole != same || body != again || whole && rest != restToo {
			t.Fatalf("%q is %q (%v) and then %q at once, %q (%v) and then %q in pieces", raw, body, whole, rest, again, same, restToo)
		}
		they, ok := theirs(append([]byte(head), raw...), "GET")
		if !ok {
			t.Fatal("net/http refuses the head")
		}
		if whole && they.whole && (body != they.body || rest != they.rest) || whole && !strings.HasPrefix(body, they.body) {
			t.Fatalf("%q: %q and then %q, net/http says %q and then %q", raw, body, rest, they.body, they.rest)
		}
	})
}
