package proxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// execute is what stands in for the backend in a test of the relay engine.
type execute = func(ctx context.Context, call *runtime.Call, out runtime.Responder) (runtime.Result, error)

// newRelayRig is a rig of the relay engine whose backend is do.
func newRelayRig(t *testing.T, do execute) *rig {
	t.Helper()
	return newRig(t, func(o *Options, st *stages) { o.Engine, st.execute = EngineRelay, do })
}

// reply answers with a form, fields and a body.
func reply(out runtime.Responder, form runtime.Form, status int, h http.Header, body string) (runtime.Result, error) {
	if v, ok := out.(runtime.Verbatim); ok {
		v.Like(form)
	}
	err := out.Start(status, h)
	if err == nil && body != "" {
		_, err = io.WriteString(out, body)
	}
	return runtime.Result{Status: status}, err
}

// raw reads what the connection gives up to an end, or to its own end.
func (c *client) raw(end string) string {
	c.t.Helper()
	var text strings.Builder
	for end == "" || !strings.HasSuffix(text.String(), end) {
		b, err := c.br.ReadByte()
		if err == io.EOF && end == "" {
			break
		}
		if err != nil {
			c.t.Fatalf("after %q: %v", text.String(), err)
		}
		text.WriteByte(b)
	}
	return text.String()
}

func TestHeadsPassAsTheyWereWritten(t *testing.T) {
	order := make(chan []string, 1)
	r := newRelayRig(t, func(_ context.Context, call *runtime.Call, out runtime.Responder) (runtime.Result, error) {
		order <- call.Request.Raw.Order
		form := runtime.Form{Reason: "Alles  gut", Order: []string{"x-b", "SERVER", "content-LENGTH", "Keep-Alive", "X-b", "x-b"}}
		return reply(out, form, 200, http.Header{"X-B": {"1", "2"}, "Server": {"a"}, "Content-Length": {"2"}, "Keep-Alive": {"5"}, "X-New": {"3"}}, "ok")
	})
	inside := r.open("api.good.test:443")
	inside.send("GET /open HTTP/1.1\r\nx-a: 1\r\nHOST: api.good.test\r\nAccept: b\r\nX-A: 2\r\n\r\n")
	if got := strings.Join(<-order, " "); got != "x-a HOST Accept X-A" {
		t.Errorf("the request's order: %s", got)
	}
	if got := inside.raw("ok"); got != "HTTP/1.1 200 Alles  gut\r\nx-b: 1\r\nSERVER: a\r\ncontent-LENGTH: 2\r\nX-b: 2\r\nX-New: 3\r\n\r\nok" {
		t.Errorf("the answer: %q", got)
	}
}

// A client of version 1.0 knows neither chunks nor connections that go on.
func TestAnswersToVersion10EndWithTheConnection(t *testing.T) {
	r := newRelayRig(t, func(_ context.Context, _ *runtime.Call, out runtime.Responder) (runtime.Result, error) {
		_ = out.Informational(103, http.Header{"Link": {"x"}})
		defer out.Trailer(http.Header{"X-Sum": {"1"}})
		return reply(out, runtime.Form{Reason: "OK"}, 200, http.Header{"Trailer": {"X-Sum"}}, "all of it")
	})
	inside := r.open("api.good.test:443")
	inside.send("GET /open HTTP/1.0\r\nHost: api.good.test\r\nConnection: keep-alive\r\n\r\n")
	if got := inside.raw(""); got != "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it" {
		t.Errorf("%q", got)
	}
}

// An answer that breaks off has no clean end, whatever its framing.
func TestBrokenAnswersHaveNoCleanEnd(t *testing.T) {
	for name, h := range map[string]http.Header{"length": {"Content-Length": {"1000"}}, "chunked": {}, "held head": {"Content-Length": {"9"}}} {
		t.Run(name, func(t *testing.T) {
			r := newRelayRig(t, func(_ context.Context, _ *runtime.Call, out runtime.Responder) (runtime.Result, error) {
				text := "part"
				if name == "held head" {
					text = ""
				}
				res, _ := reply(out, runtime.Form{Reason: "OK", Ready: true}, 200, h, text)
				return res, &runtime.Error{Code: runtime.CodeUpstream, Reason: runtime.ReasonTruncated, Msg: "reset"}
			})
			inside := r.open("api.good.test:443")
			inside.send(openGood + openGood)
			resp := inside.answer("GET")
			if body, err := io.ReadAll(resp.Body); err == nil {
				t.Errorf("a clean end after %q", body)
			}
			inside.ended()
			r.outcome()
			if n := len(r.stages.outcomes); n > 0 {
				t.Errorf("%d requests more were served on the connection", n)
			}
		})
	}
}

// A head that waits for the body goes out when the upstream makes it wait.
func TestAHeadGoesOutWhenTheBodyIsWaitedFor(t *testing.T) {
	for name, h := range map[string]http.Header{"length": {"Content-Length": {"2"}}, "chunked": {}} {
		t.Run(name, func(t *testing.T) {
			seen := make(chan struct{})
			r := newRelayRig(t, func(_ context.Context, _ *runtime.Call, out runtime.Responder) (runtime.Result, error) {
				_, err := reply(out, runtime.Form{Reason: "OK", Ready: true}, 200, h, "")
				out.(runtime.Verbatim).Hurry()
				select {
				case <-seen:
				case <-time.After(patience):
					t.Error("the head was kept")
				}
				if err == nil {
					_, err = io.WriteString(out, "ok")
				}
				return runtime.Result{Status: 200}, err
			})
			inside := r.open("api.good.test:443")
			for range 2 {
				inside.send(openGood)
				resp := inside.answer("GET")
				seen <- struct{}{}
				if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "ok" {
					t.Errorf("%q %v", body, err)
				}
			}
		})
	}
}

// What follows bytes that are not HTTP is no request, whatever it looks like.
func TestWhatIsNoRequestEndsTheConnection(t *testing.T) {
	r := newRelayRig(t, nil)
	inside := r.open("api.good.test:443")
	inside.send("\x00\x01\x02\r\n\r\n" + openGood)
	inside.refused(400, runtime.CodeInvalidInput)
	inside.ended()
}
