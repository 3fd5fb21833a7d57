package witness

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// The reader of the check of changes finds in an answer what net/http finds,
// and the same however it is cut.
func FuzzTranscript(f *testing.F) {
	for _, text := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n2;x=y\r\nok\r\n0\r\nX-A: 1\r\n\r\n",
		"HTTP/1.0 404\r\n\r\nuntil the end", "HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 204 No\r\n\r\n", "HTTP/1.1 200 OK\nA: b\n c\nA: d\n\nx",
		"HTTP/1.1 304 \r\nContent-Length: 9\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
	} {
		f.Add([]byte(text), []byte{2, 0, 5})
	}
	f.Fuzz(func(t *testing.T, raw, sizes []byte) {
		whole, cut := follow(raw, nil), follow(raw, sizes)
		if !slices.Equal(whole.heads, cut.heads) || whole.body != cut.body || whole.over != cut.over {
			t.Fatalf("%q is read as %+v whole and as %+v in pieces", raw, whole, cut)
		}
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), &http.Request{Method: "GET"})
		if err != nil || resp.StatusCode/100 == 1 || resp.Uncompressed {
			return
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return
		}
		if len(whole.sides) == 0 || whole.sides[0].status != resp.StatusCode || whole.body != string(body) {
			t.Fatalf("%q: net/http reads %d and %q, we %+v", raw, resp.StatusCode, body, whole)
		}
		for name, list := range resp.Header {
			if name == "Content-Length" || name == "Cache-Control" && resp.Header.Get("Pragma") == "no-cache" {
				continue // net/http joins the one, and adds the other by itself
			}
			same := func(ours, theirs string) bool { return ours == strings.Trim(theirs, " \t") } // a folded blank line leaves one
			if got := whole.sides[0].fields[strings.ToLower(name)]; !slices.EqualFunc(got, list, same) {
				t.Fatalf("%q: net/http reads %s as %q, we as %q", raw, name, list, got)
			}
		}
	})
}

// followed is what a transcript has told.
type followed struct {
	heads []int
	sides []side
	body  string
	over  bool
}

// follow reads a text in pieces whose sizes are the bytes of sizes, over and over;
// none of them: in one piece.
func follow(raw, sizes []byte) followed {
	var got followed
	w := &transcript{
		answer: true, method: "GET",
		head: func(s side) error {
			got.heads, got.sides = append(got.heads, s.status), append(got.sides, s)
			return nil
		},
		body: func(p []byte) error { got.body += string(p); return nil },
		end:  func(side) error { got.over = true; return nil },
	}
	for at := 0; len(raw) > 0; at++ {
		n := len(raw)
		if len(sizes) > 0 {
			n = min(n, int(sizes[at%len(sizes)])+1)
		}
		if w.feed(raw[:n]) != nil {
			break
		}
		raw = raw[n:]
	}
	return got
}
