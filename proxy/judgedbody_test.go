package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// whenRead allows what was judged with its body, and otherwise asks for it.
func whenRead(q runtime.Question) runtime.Verdict {
	if q.Request.Raw.Body != nil && !q.Request.Parsed {
		return runtime.Verdict{NeedBody: true, Rule: "body"}
	}
	if document, ok := q.Request.Document.(map[string]any); ok && document["bad"] == true {
		return runtime.Verdict{Effect: runtime.EffectDeny, Rule: "body"}
	}
	return runtime.Verdict{Effect: runtime.EffectAllow, Rule: "body"}
}

// A body that policy asks for is read, parsed strictly and judged, and the bytes
// judged are the bytes sent.
func TestPolicyReadsTheBody(t *testing.T) {
	const text = `{"n": 1.50,  "x":"y"}`
	for name, framing := range map[string]string{
		"length":  fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(text), text),
		"chunked": fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n3\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", text[:3], len(text)-3, text[3:]),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(_ *Options, st *stages) { st.judge = whenRead })
			received := r.upstream("api.good.test:443", answering(okAnswer))
			c := r.open("api.good.test:443")
			c.send("POST /open HTTP/1.1\r\nHost: api.good.test\r\nContent-Type: application/json\r\n" + framing)
			if resp, body := c.get("POST"); resp.StatusCode != 200 || body != "ok" {
				t.Fatalf("%s %q", resp.Status, body)
			}
			if rec := r.outcome(); rec.Body != "read" || rec.Verdict.Rule != "body" {
				t.Errorf("recorded %s by %s", rec.Body, rec.Verdict.Rule)
			}
			if got := received(); !strings.Contains(got, text[:3]) || !strings.Contains(got, text[3:]) {
				t.Errorf("sent %q", got)
			}
		})
	}
}

// What policy must judge and cannot be read is refused, and nothing is sent.
func TestBodiesThatPolicyCannotRead(t *testing.T) {
	const head = "POST /open HTTP/1.1\r\nHost: api.good.test\r\n"
	for name, c := range map[string]struct {
		send   string
		status int
		code   runtime.Code
	}{
		"denied":     {head + "Content-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"bad\":true}", 403, runtime.CodeForbidden},
		"twice":      {head + "Content-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"a\":1,\"a\":2}", 400, runtime.CodeInvalidInput},
		"no JSON":    {head + "Content-Type: application/json\r\nContent-Length: 1\r\n\r\n{", 400, runtime.CodeInvalidInput},
		"no type":    {head + "Content-Length: 2\r\n\r\n{}", 415, runtime.CodeInvalidInput},
		"two types":  {head + "Content-Type: application/json\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", 400, runtime.CodeAmbiguousTarget},
		"compressed": {head + "Content-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", 415, runtime.CodeInvalidInput},
		"too large":  {head + "Content-Type: application/json\r\nContent-Length: 1048577\r\n\r\n", 413, runtime.CodeInvalidInput},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(_ *Options, st *stages) { st.judge = whenRead })
			client := r.open("api.good.test:443")
			client.send(c.send)
			client.refused(c.status, c.code)
			if rec := r.outcome(); rec.Verdict.Rule != "body" {
				t.Errorf("recorded %+v", rec.Verdict)
			}
			if r.dials() != 0 {
				t.Error("something was sent")
			}
		})
	}
}

// On a host that no service owns, policy can ask for the body too.
func TestPolicyReadsTheBodyOfAForeignHost(t *testing.T) {
	r := newRig(t, func(_ *Options, st *stages) { st.judge = whenRead })
	received := r.upstream("other.test:80", answering(okAnswer))
	for body, status := range map[string]int{`{"ok":true}`: 200, `{"bad":true}`: 403} {
		c := r.dial()
		c.send(fmt.Sprintf("POST http://other.test/x HTTP/1.1\r\nHost: other.test\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		if resp, _ := c.get("POST"); resp.StatusCode != status {
			t.Errorf("%s: %s", body, resp.Status)
		}
		_ = r.outcome()
	}
	if got := received(); !strings.HasSuffix(got, `{"ok":true}`) || strings.Contains(got, "bad") {
		t.Errorf("sent %q", got)
	}
}

// A body that policy waits for and that drips has a time for all of it.
func TestABodyThatPolicyWaitsForEnds(t *testing.T) {
	r := newRig(t, func(o *Options, st *stages) {
		st.judge, o.Limits.BodyTimeout = whenRead, 300*time.Millisecond
	})
	c := r.open("api.good.test:443")
	c.send("POST /open HTTP/1.1\r\nHost: api.good.test\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n[")
	stop := drip(c, "1,")
	defer stop()
	c.refused(504, runtime.CodeTimeout)
}
