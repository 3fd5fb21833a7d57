package http1_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/proxy/http1"
)

const limit = 64 << 10

func TestAnswersAreFramed(t *testing.T) {
	for _, c := range []struct {
		head    string
		framing string // chunked, length, close
	}{
		{"HTTP/1.1 200 OK\r\n", "false -1 false"},
		{"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n", "false 7 false"},
		{"HTTP/1.1 200 OK\r\ncontent-LENGTH:\t007 \r\n", "false 7 false"},
		{"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nContent-Length: 7\r\n", "false 7 false"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n", "true -1 false"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 7\r\n", "true -1 true"},
		{"HTTP/1.1 200 OK\r\nContent-Length: x\r\nTransfer-Encoding: chunked\r\n", "true -1 true"},
		{"HTTP/1.1 200 OK\r\nConnection: a, Close\r\n", "false -1 true"},
		{"HTTP/1.1 200 OK\r\nConnection: a\r\nconnection: close\r\n", "false -1 true"},
		{"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n", "false -1 false"},
		{"HTTP/1.0 200 OK\r\nContent-Length: 7\r\n", "false 7 true"},
		{"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 7\r\n", "false 7 false"},
		{"HTTP/1.1 200 OK\nContent-Length: 7\n", "false 7 false"},
	} {
		r, _, err := http1.ReadResponse(reader(c.head+"\r\nrest"), nil, limit)
		if err != nil {
			t.Errorf("%q: %v", c.head, err)
			continue
		}
		if got := fmt.Sprint(r.Chunked, r.Length, r.Close); got != c.framing {
			t.Errorf("%q: framing %s, want %s", c.head, got, c.framing)
		}
		if _, there := r.Header["Content-Length"]; r.Chunked && there {
			t.Errorf("%q: a length stays beside the chunks", c.head)
		}
		if n := len(r.Header["Content-Length"]); n > 1 {
			t.Errorf("%q: %d lengths", c.head, n)
		}
	}
}

// What two readers could frame in two ways, or one of them not at all.
func TestAmbiguousAnswersAreRefused(t *testing.T) {
	for _, head := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nContent-Length: 8\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nContent-Length: 07\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 7, 7\r\n", "HTTP/1.1 200 OK\r\nContent-Length: \r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: +7\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -7\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 0x7\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: \r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: \"chunked\"\r\n",
		"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n",
		"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n", "HTTP/1.1 200 OK\r\n A: b\r\n", "HTTP/1.1 200 OK\r\nA : b\r\n",
		"HTTP/1.1 200 OK\r\nA\r\n", "HTTP/1.1 200 OK\r\n: b\r\n", "HTTP/1.1 200 OK\r\nA: b\rC: d\r\n",
		"HTTP/1.1 200 OK\r\nA: b\x00\r\n", "HTTP/1.1 200 OK\r\nA: b\r\r\n", "HTTP/1.1 200 OK\r\nA\xff: b\r\n",
		"HTTP/1.2 200 OK\r\n", "HTTP/2 200\r\n", "http/1.1 200 OK\r\n", "ICY 200 OK\r\n", "HTTP/1.1\r\n",
		"HTTP/1.1  200 OK\r\n", "HTTP/1.1 20 OK\r\n", "HTTP/1.1 2000 OK\r\n", "HTTP/1.1 099 OK\r\n", "HTTP/1.1 +20 OK\r\n",
		"HTTP/1.1 200OK\r\n", "HTTP/1.1 200 O\x00K\r\n", "HTTP/1.1\t200 OK\r\n",
	} {
		if r, _, err := http1.ReadResponse(reader(head+"\r\n"), nil, limit); !errors.Is(err, http1.ErrMalformed) {
			t.Errorf("%q: %+v %v", head, r, err)
		}
	}
}

func TestHeadsOfAnswersAreBounded(t *testing.T) {
	const many = 2000
	read := func(head string) error { _, _, err := http1.ReadResponse(reader(head), nil, limit); return err }
	if err := read("HTTP/1.1 200 OK\r\n" + strings.Repeat("a:b\r\n", many) + "\r\n"); err != nil {
		t.Error(err)
	}
	if err := read("HTTP/1.1 200 OK\r\n" + strings.Repeat("a:b\r\n", many+1) + "\r\n"); !errors.Is(err, http1.ErrTooLarge) {
		t.Errorf("too many fields: %v", err)
	}
	if err := read("HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", limit) + "\r\n\r\n"); !errors.Is(err, http1.ErrTooLarge) {
		t.Errorf("too many bytes: %v", err)
	}
	if err := read("no http, and no end\n" + strings.Repeat("x", 2*limit)); !errors.Is(err, http1.ErrMalformed) {
		t.Errorf("what is not HTTP to begin with: %v", err)
	}
	if err := read("HTTP/1.1 200 OK\r\nA: b\r\n"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half a head: %v", err)
	}
	if err := read(""); !errors.Is(err, io.EOF) {
		t.Errorf("nothing: %v", err)
	}
}

func TestWordsOfAnAnswerAreKept(t *testing.T) {
	const head = "HTTP/1.1 404 Nicht  da\xe4 \r\nx-b: 1\r\nSet-Cookie: a\r\nX-B:  2\t\r\nset-cookie: c\r\nX-Empty:\r\nTrailer: X-Sum, bad name,x-two\r\nTransfer-Encoding: chunked\r\n\r\n"
	r, _, err := http1.ReadResponse(reader(head), nil, limit)
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != 404 || r.Reason != "Nicht  da\xe4 " || r.Minor != 1 {
		t.Errorf("%d %q %d", r.Status, r.Reason, r.Minor)
	}
	if want := []string{"x-b", "Set-Cookie", "X-B", "set-cookie", "X-Empty", "Trailer", "Transfer-Encoding"}; !slices.Equal(r.Order, want) {
		t.Errorf("order %q", r.Order)
	}
	if !slices.Equal(r.Header["X-B"], []string{"1", "2"}) || !slices.Equal(r.Header["Set-Cookie"], []string{"a", "c"}) || !slices.Equal(r.Header["X-Empty"], []string{""}) {
		t.Errorf("%q", r.Header)
	}
	if !slices.Equal(r.Trailers, []string{"X-Sum", "X-Two"}) {
		t.Errorf("trailers %q", r.Trailers)
	}
	r.Header["X-B"] = append(r.Header["X-B"], "3") // values share an array
	if !slices.Equal(r.Header["X-Empty"], []string{""}) || !slices.Equal(r.Header["Set-Cookie"], []string{"a", "c"}) {
		t.Errorf("one field's values ran into another's: %q", r.Header)
	}
	for line, reason := range map[string]string{"HTTP/1.1 200": "", "HTTP/1.1 200 ": "", "HTTP/1.0 200 a b": "a b"} {
		if r, _, err := http1.ReadResponse(reader(line+"\r\n\r\n"), nil, limit); err != nil || r.Reason != reason {
			t.Errorf("%q: %q %v", line, r.Reason, err)
		}
	}
}

// What is returned holds when the lent bytes are written over.
func TestScratchIsOnlyLent(t *testing.T) {
	r, used, err := http1.ReadResponse(reader("HTTP/1.1 200 Fine\r\nName: value\r\n\r\n"), make([]byte, 0, 512), limit)
	if err != nil {
		t.Fatal(err)
	}
	for i := range used {
		used[i] = 'x'
	}
	if r.Reason != "Fine" || r.Order[0] != "Name" || r.Header.Get("Name") != "value" {
		t.Errorf("%+v", r)
	}
}

func TestAnswersWithoutABody(t *testing.T) {
	for _, c := range []struct {
		method string
		status int
		want   bool
	}{
		{"HEAD", 200, true}, {"HEAD", 404, true}, {"GET", 100, true}, {"GET", 103, true}, {"GET", 199, true}, {"POST", 204, true}, {"GET", 304, true},
		{"GET", 200, false}, {"GET", 205, false}, {"GET", 203, false}, {"GET", 303, false}, {"head", 200, false}, {http.MethodConnect, 404, false},
	} {
		if got := http1.Bodiless(c.method, c.status); got != c.want {
			t.Errorf("%s %d: %v", c.method, c.status, got)
		}
	}
}
