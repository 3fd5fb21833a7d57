package rest

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// cutter gives a text in pieces whose sizes are the bytes of sizes, over and
// over; none of them: in one piece.
type cutter struct {
	text, sizes []byte
	at          int
}

func (c *cutter) Read(p []byte) (int, error) {
	if len(c.text) == 0 {
		return 0, io.EOF
	}
	n := len(c.text)
	if len(c.sizes) > 0 {
		n = int(c.sizes[c.at%len(c.sizes)]) + 1
		c.at++
	}
	n = copy(p[:min(n, len(p))], c.text)
	c.text = c.text[n:]
	return n, nil
}

// scrub passes a body through the scrubber.
func scrub(m *matcher, body, sizes []byte, coding string) (runtimetest.Answer, runtime.Result, error) {
	var result runtime.Result
	out := &runtimetest.Responder{}
	x := &exchange{b: &Backend{}, message: &message{scrub: m, authority: "a.test:443"}, out: out, result: &result}
	_ = out.Start(200, nil)
	var err error
	if src := (&cutter{text: body, sizes: sizes}); coding == "" {
		err = x.copyMasked(src)
	} else {
		err = x.copyScanned(src, decoderOf(coding))
	}
	return out.Answer(), result, err
}

func zipped(text []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(text)
	_ = w.Close()
	return out.Bytes()
}

// However an answer is cut, the same bytes are overwritten as when it comes
// whole; compressed, it is cut off in either case or in neither.
func FuzzScrub(f *testing.F) {
	f.Add("a-secret-value", "", []byte("xxa-secret-valuexxa-secret-value"), []byte{3})
	f.Add("aaaaaaaa", "", []byte("aaaaaaaaaaaaaaaaaaaab"), []byte{0})
	f.Add("s3cr3t/Value+x", "", []byte("czNjcjN0L1ZhbHVlK3g= s3cr3t%2FValue%2Bx s3cr3t\\/Value+x"), []byte{0, 7, 1})
	f.Add("user:pass", "", []byte("dXNlcjpwYXNz dXNlcjpwYXNzOg== dXNlcjpwYXNz"), []byte{11, 0})
	f.Add("account-47-main", "account-47", []byte("x account-47-main account-47 account-47-mai"), []byte{11, 1})
	f.Fuzz(func(t *testing.T, secret, user string, text, sizes []byte) {
		m := newMatcher(secret, base64.StdEncoding.EncodeToString([]byte(user+":"+secret)), user)
		if m == nil {
			return
		}
		whole, _, err := scrub(m, text, nil, "")
		if err != nil || len(whole.Body) != len(text) || !masks(text, []byte(whole.Body)) {
			t.Fatalf("%q became %q, %v", text, whole.Body, err)
		}
		cut, result, err := scrub(m, text, sizes, "")
		if err != nil || cut.Body != whole.Body {
			t.Fatalf("%q became %q whole and %q in pieces of %v, %v", text, whole.Body, cut.Body, sizes, err)
		}
		if (result.Scrubbed > 0) != (cut.Body != string(text)) && !strings.Contains(secret, "*") {
			t.Fatalf("%d hits in %q, which became %q", result.Scrubbed, text, cut.Body)
		}
		at, _ := m.next(text, 0)
		packed := zipped(text)
		for _, pieces := range [][]byte{nil, sizes} {
			got, _, err := scrub(m, packed, pieces, "gzip")
			var reflected *runtime.Error
			if (at >= 0) != (errors.As(err, &reflected) && reflected.Reason == runtime.ReasonReflectedSecret) || at < 0 && got.Body != string(packed) {
				t.Fatalf("%q compressed, in pieces of %v: %d of %d bytes, %v", text, pieces, len(got.Body), len(packed), err)
			}
		}
	})
}

// The reader of the check of changes finds in an answer what net/http finds,
// and the same however it is cut.
func FuzzWire(f *testing.F) {
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
			same := func(ours, theirs string) bool { return ours == strings.Trim(theirs, " \t") } // a folded blank line leaves one
			if got := whole.sides[0].fields[strings.ToLower(name)]; !slices.EqualFunc(got, list, same) && !implied(resp.Header) && name != "Content-Length" {
				t.Fatalf("%q: net/http reads %s as %q, we as %q", raw, name, list, got)
			}
		}
	})
}

// followed is what a wire has told.
type followed struct {
	heads []int
	sides []side
	body  string
	over  bool
}

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
	src, buf := &cutter{text: raw, sizes: sizes}, make([]byte, 1+len(raw))
	for {
		n, err := src.Read(buf)
		if err != nil || w.feed(buf[:n]) != nil {
			return got
		}
	}
}

// Comparing without a copy finds the same fields as folding does.
func FuzzFold(f *testing.F) {
	for _, seed := range [][2]string{{"X_Kimbap-A", "x-kimbap-"}, {"Proxy", "proxy-"}, {"x-\u212aimbap-", "x-kimbap-"}, {"CONTENT_LENGTH", "content-length"}, {"", ""}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, name, other string) {
		folded := fold(other)
		if foldedAs(name, folded) != (fold(name) == folded) {
			t.Errorf("foldedAs(%q, %q) = %v", name, folded, foldedAs(name, folded))
		}
		if begins(name, folded) != strings.HasPrefix(fold(name), folded) {
			t.Errorf("begins(%q, %q) = %v", name, folded, begins(name, folded))
		}
	})
}
