package app_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// The cases of conformance that are more than one text and one answer.

// PC-011: a chunked body that could end in two places ends the request and the
// connection. What stands behind it is no request, and the upstream never takes
// the first one for whole.
func TestBadChunksEndTheRequest(t *testing.T) {
	t.Parallel()
	w := newCaseWorld(t)
	const smuggled = "GET /repos/smug/gled HTTP/1.1\r\nHost: api.good.test\r\n\r\n"
	for _, bad := range []string{
		"3\nabc\r\n0\r\n\r\n", "3;\nxx\r\nabc\r\n0\r\n\r\n", "0x3\r\nabc\r\n0\r\n\r\n", "-3\r\nabc\r\n0\r\n\r\n",
		"fffffffffffffffff\r\nabc\r\n0\r\n\r\n", "3\r\nabcXX0\r\n\r\n", "3;" + strings.Repeat("x", 1<<20) + "\r\nabc\r\n0\r\n\r\n",
	} {
		before := len(w.Up.Requests())
		wire := w.Tunnel(t, "api.good.test:443")
		a := wire.Ask("POST /upload HTTP/1.1\r\nHost: api.good.test\r\nTransfer-Encoding: chunked\r\n\r\n" + bad + smuggled)
		if a.Status != 0 && a.Status < 400 {
			t.Errorf("%.20q: %d", bad, a.Status)
		}
		rest, _ := io.ReadAll(wire)
		answers := bytes.Count(rest, []byte("HTTP/1.1 "))
		if a.Status != 0 { // else it came while the request was being written
			answers++
		}
		if answers > 1 {
			t.Errorf("%.20q: another answer: %q", bad, rest)
		}
		_ = wire.Close()
		w.settled(t)
		for _, r := range w.Up.Requests()[before:] {
			if strings.Contains(r.Target, "smug") || r.Whole {
				t.Errorf("%.20q: the upstream took for a request: %s, %q", bad, r.Line, r.RawBody)
			}
		}
	}
	for _, r := range w.Records(t) {
		if strings.Contains(r.Path, "smug") {
			t.Errorf("judged: %s", r.Line)
		}
	}
}

// PC-013: of a head without end no more is read than the limit, and what a
// client pushes after that has nowhere to go.
func TestHeadsAreBounded(t *testing.T) {
	t.Parallel()
	w := newCaseWorld(t)
	wire := w.Tunnel(t, "api.good.test:443")
	if _, err := io.WriteString(wire, "GET /repos/a/b HTTP/1.1\r\nHost: api.good.test\r\n"); err != nil {
		t.Fatal(err)
	}
	field := "X-Field: " + strings.Repeat("x", 16<<10) + "\r\n"
	sent, over := 0, false
	const buffers = 24 << 20 // what the sockets of both sides may hold beside the 64 KiB that are read
	for ; sent < buffers && !over; sent += len(field) {
		_, err := io.WriteString(wire, field)
		over = err != nil
	}
	if !over {
		t.Errorf("%d bytes of fields were taken", sent)
	}
	if n := w.Up.Received(); n != 0 {
		t.Errorf("the upstream got %d bytes", n)
	}
	if r := w.Await(t, nil, 1); r[0].Code != "invalid_input" || r[0].Reason != "header_too_large" {
		t.Errorf("recorded %s", r[0].Line)
	}
}

// PC-017: the answer that opens a tunnel has no body and announces none (RFC
// 9110 section 9.3.6).
func TestConnectAnswersHaveNoBody(t *testing.T) {
	t.Parallel()
	w := newCaseWorld(t)
	for _, authority := range []string{"api.good.test:443", "evil.test:443"} {
		wire := w.Dial(t)
		if _, err := io.WriteString(wire, "CONNECT "+authority+" HTTP/1.1\r\nHost: "+authority+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		var head []string
		lines := bufio.NewReader(wire)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if line = strings.TrimRight(line, "\r\n"); line == "" {
				break
			}
			head = append(head, line)
		}
		if !strings.HasPrefix(head[0], "HTTP/1.1 200 ") || lines.Buffered() > 0 {
			t.Errorf("%s: %q and %d bytes more", authority, head[0], lines.Buffered())
		}
		for _, line := range head[1:] {
			name, _, _ := strings.Cut(line, ":")
			if name = http.CanonicalHeaderKey(name); name == "Content-Length" || name == "Transfer-Encoding" {
				t.Errorf("%s: %s", authority, line)
			}
		}
		_ = wire.Close()
	}
}

// PC-030: a body that must be judged and is over the limit is refused before
// anything leaves, whether its length was announced or not.
func TestBodiesBeyondTheLimit(t *testing.T) {
	t.Parallel()
	w := newCaseWorld(t)
	const limit = 1 << 20
	const head = "POST /v1/refunds HTTP/1.1\r\nHost: pay.good.test\r\nContent-Type: application/json\r\n"
	body := `{"amount":1,"reason":"` + strings.Repeat("x", limit) + `"}`
	chunked := fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	fits := strings.Repeat(" ", limit-len(`{"amount":1}`)) + `{"amount":1}`
	for name, c := range map[string]struct {
		text   string
		status int
	}{
		"announced": {head + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)), 413},
		"chunked":   {head + chunked, 413},
		"at it":     {head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(fits), fits), 200},
	} {
		before := w.Up.Received()
		wire := w.Tunnel(t, "pay.good.test:443")
		go func() { _, _ = io.WriteString(wire.Conn, c.text) }() // the answer may come before its end
		a := wire.Answer()
		_ = wire.Close()
		if a.Status != c.status || c.status == 413 && a.Problem.Reason != "body_too_large" {
			t.Errorf("%s: %d %+v %v", name, a.Status, a.Problem, a.Err)
		}
		if left := w.Up.Received() > before; left != (c.status == 200) {
			t.Errorf("%s: bytes left: %v", name, left)
		}
	}
}
