package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
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
	t.Parallel()
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
			t.Parallel()
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

// counted is an upstream that answers: what it has received so far, and what it has when
// all of the proxy's connections to it have ended.
func (r *rig) counted(authority string) (received, all func() string) {
	r.t.Helper()
	var ended atomic.Int64
	received = r.upstream(authority, func(c net.Conn, br *bufio.Reader) {
		answering(okAnswer)(c, br)
		ended.Add(1)
	})
	return received, func() string {
		r.t.Helper()
		r.eventually("the end of what is sent", func() bool { return ended.Load() == int64(r.dials()) })
		return received()
	}
}

// A form too large to be held passes as it comes, since most are files whose client
// says of everything that it is a form; one that asks for another method never ends.
// So does one that does not say how long it is.
func TestLargeFormsAreLookedAtAsTheyPass(t *testing.T) {
	const before = 100_000
	for name, c := range map[string]struct {
		end    string
		status int
	}{
		"a file":         {"&more=\x00\x1f;x%zz", 200},
		"a method":       {"&_method=DELETE", 400},
		"and more":       {"&_method=DELETE&" + strings.Repeat("y", 9000), 400},
		"the own method": {"&_method=POST", 200},
	} {
		text := strings.Repeat("x", before) + c.end
		for framing, body := range map[string]string{
			"length":  fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(text), text),
			"chunked": fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", before, text[:before], len(c.end), c.end),
		} {
			for _, engine := range []Engine{EngineStd, EngineRelay} {
				t.Run(name+" "+framing+" "+string(engine), func(t *testing.T) {
					r := newRig(t, func(o *Options, _ *stages) { o.Engine, o.Limits.BodyBytes = engine, 1000 })
					received, all := r.counted("api.good.test:443")
					client := r.open("api.good.test:443")
					client.send("POST /open HTTP/1.1\r\nHost: api.good.test\r\nContent-Type: application/x-www-form-urlencoded\r\n" + body)
					if c.status == 200 {
						if resp, body := client.get("POST"); resp.StatusCode != 200 || body != "ok" {
							t.Fatalf("%s %q", resp.Status, body)
						}
						if got := received(); !strings.Contains(got, "xxx"+c.end) && !strings.Contains(got, "\r\n"+c.end+"\r\n") || strings.Count(got, "x") < before {
							t.Errorf("sent %d bytes", len(got))
						}
					} else {
						client.refused(400, runtime.CodeAmbiguousTarget)
						if got := all(); strings.Contains(got, "DELETE") || strings.Contains(got, "\r\n0\r\n") {
							t.Error("it was sent to its end")
						}
					}
					if rec := r.outcome(); rec.Body != "streamed" {
						t.Errorf("recorded as %s", rec.Body)
					}
				})
			}
		}
	}
}

// A form that does not say how long it is and asks for another method early on is
// refused before anything is sent; what must be judged whole keeps its limit.
func TestFormsWithoutALength(t *testing.T) {
	const head = "POST /open HTTP/1.1\r\nHost: api.good.test\r\nTransfer-Encoding: chunked\r\nContent-Type: "
	long := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", 1<<20+1, "[1"+strings.Repeat(" ", 1<<20-2)+"]")
	for name, c := range map[string]struct {
		send, detail string
		judged       bool
		status       int
		code         runtime.Code
	}{
		"short":   {"application/x-www-form-urlencoded\r\n\r\n16\r\nx=12345&_method=DELETE\r\n0\r\n\r\n", "_method", false, 400, runtime.CodeAmbiguousTarget},
		"at once": {"application/x-www-form-urlencoded\r\n\r\n16\r\n_method=DELETE&x=12345\r\n11000\r\n" + strings.Repeat("y", 0x11000) + "\r\n0\r\n\r\n", "_method", false, 400, runtime.CodeAmbiguousTarget},
		"judged":  {"application/json\r\n\r\n" + long, "only be judged by its body, which is over 1048576 bytes", true, 413, runtime.CodeInvalidInput},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(_ *Options, st *stages) {
				if c.judged {
					st.judge = whenRead
				}
			})
			client := r.open("api.good.test:443")
			go func() { _, _ = io.WriteString(client.Conn, head+c.send) }() // the answer may come before its end
			if p := client.refused(c.status, c.code); !strings.Contains(p.Detail, c.detail) {
				t.Errorf("told %q", p.Detail)
			}
			if r.dials() != 0 {
				t.Error("something was sent")
			}
		})
	}
}

// Where nothing needs the body, it is looked at all the same as it passes, in every
// form in which frameworks find a method: what asks for another one never ends.
func TestMethodsInBodiesThatPass(t *testing.T) {
	pad := strings.Repeat("x", 100_000)
	part := func(name string) string {
		return "--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n" + pad + "\r\n" +
			"--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\nDELETE\r\n--b--\r\n"
	}
	for name, c := range map[string]struct {
		kind, body string
		status     int
	}{
		"JSON":           {"Content-Type: application/json\r\n", `{"x":"` + pad + `","_method":"DELETE","y":"` + pad + `"}`, 400},
		"JSON, nested":   {"Content-Type: application/json\r\n", `{"x":"` + pad + `","y":{"_method":"DELETE"}}`, 200},
		"parts":          {"Content-Type: multipart/form-data; boundary=b\r\n", part("_method"), 400},
		"parts, another": {"Content-Type: multipart/form-data; boundary=b\r\n", part("method"), 200},
		"no type":        {"", "x=" + pad + "&_method=DELETE&y=" + pad, 400},
		"text":           {"Content-Type: text/plain\r\n", "x=" + pad + "&_method=DELETE", 200},
	} {
		for _, engine := range []Engine{EngineStd, EngineRelay} {
			t.Run(name+" "+string(engine), func(t *testing.T) {
				r := newRig(t, func(o *Options, _ *stages) { o.Engine = engine })
				received, all := r.counted("api.good.test:443")
				client := r.open("api.good.test:443")
				client.send(fmt.Sprintf("POST /open HTTP/1.1\r\nHost: api.good.test\r\n%sContent-Length: %d\r\n\r\n%s", c.kind, len(c.body), c.body))
				if c.status == 200 {
					if resp, body := client.get("POST"); resp.StatusCode != 200 || body != "ok" {
						t.Fatalf("%s %q", resp.Status, body)
					}
					if got := received(); !strings.HasSuffix(got, c.body) {
						t.Errorf("sent %d bytes", len(got))
					}
				} else {
					client.refused(400, runtime.CodeAmbiguousTarget)
					if got := all(); strings.Contains(got, "DELETE") {
						t.Error("the method was sent")
					}
				}
				if rec := r.outcome(); rec.Body != "streamed" || (rec.Err == nil) != (c.status == 200) {
					t.Errorf("recorded as %s, %v", rec.Body, rec.Err)
				}
			})
		}
	}
}
