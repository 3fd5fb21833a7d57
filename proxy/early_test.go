package proxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// An answer before the end of its request's body says whether the connection goes on
// (RFC 9110 section 10.1.1): a client that is not told sends its next request on one
// that ends.
func TestEarlyAnswersSayWhetherTheConnectionGoesOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body string
		ends bool
	}{
		"long":               {"Content-Length: 1000000\r\n\r\nhalf", true},
		"long, asked before": {"Expect: 100-continue\r\nContent-Length: 1000000\r\n\r\n", true},
		"chunked":            {"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", true},
		"chunked, all here":  {"Transfer-Encoding: chunked\r\n\r\n4\r\nGET \r\n0\r\nX: y\r\n\r\n", false},
		"short":              {"Content-Length: 4\r\n\r\nhalf", false},
	} {
		for _, path := range []string{"/open", "/denied"} {
			t.Run(name+path, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, func(_ *Options, st *stages) {
					st.execute = func(_ context.Context, _ *runtime.Call, out runtime.Responder) (runtime.Result, error) {
						return reply(out, runtime.Form{Reason: "Too Large"}, 413, http.Header{"Content-Length": {"2"}}, "no")
					}
				})
				inside := r.open("api.good.test:443")
				inside.send("POST " + path + " HTTP/1.1\r\nHost: api.good.test\r\nContent-Type: text/plain\r\n" + c.body)
				resp, _ := inside.get("POST")
				if resp.StatusCode/100 != 4 || resp.Close != c.ends {
					t.Errorf("%s, says that the connection ends: %t", resp.Status, resp.Close)
				}
				if c.ends {
					inside.ended()
					return
				}
				inside.send(openGood)
				if resp, body := inside.get("GET"); resp.StatusCode != 413 || body != "no" {
					t.Errorf("then %s %q", resp.Status, body)
				}
			})
		}
	}
}

// A refusal does not wait for the rest of a short body: its client may wait for the answer
// before it sends that.
func TestARefusalDoesNotWaitForTheBody(t *testing.T) {
	for _, engine := range []Engine{EngineRelay, EngineStd} {
		t.Run(string(engine), func(t *testing.T) {
			r := newRig(t, func(o *Options, st *stages) {
				o.Engine = engine
				st.execute = func(_ context.Context, _ *runtime.Call, out runtime.Responder) (runtime.Result, error) {
					return reply(out, runtime.Form{}, 200, http.Header{"Content-Length": {"2"}}, "ok")
				}
			})
			inside := r.open("api.good.test:443")
			inside.send("POST /denied HTTP/1.1\r\nHost: api.good.test\r\nContent-Type: text/plain\r\nContent-Length: 8\r\n\r\nhalf")
			resp, _ := inside.get("POST")
			if resp.StatusCode != 403 {
				t.Fatal(resp.Status)
			}
			inside.send("rest" + openGood)
			if resp.Close {
				inside.ended()
			} else if resp, _ := inside.get("GET"); resp.StatusCode != 200 {
				t.Errorf("then %s", resp.Status)
			}
		})
	}
}

// A client that is still sending when its early answer ends the connection gets all of the
// answer: an end with bytes that nobody has read would be a reset, which takes the rest.
func TestAnEarlyAnswerThatEndsTheConnectionIsReadToItsEnd(t *testing.T) {
	for _, engine := range []Engine{EngineRelay, EngineStd} {
		t.Run(string(engine), func(t *testing.T) {
			large := strings.Repeat("answer", 50_000)
			r := newRig(t, func(o *Options, st *stages) {
				o.Engine = engine
				st.execute = func(_ context.Context, call *runtime.Call, out runtime.Responder) (runtime.Result, error) {
					first := make(chan struct{})
					go func() {
						_, _ = call.Request.Raw.Body.Read(make([]byte, 4))
						close(first)
						_, _ = call.Request.Raw.Body.Read(make([]byte, 4)) // until it is taken back
					}()
					<-first
					return reply(out, runtime.Form{}, 200, nil, large)
				}
			})
			whole := false
			for range 3 { // there is half a second to read it in, which is enough
				inside := r.open("api.good.test:443")
				inside.send("POST /open HTTP/1.1\r\nHost: api.good.test\r\nContent-Type: text/plain\r\nContent-Length: 100000\r\n\r\nhalf")
				r.outcome()
				_, _ = io.WriteString(inside.Conn, strings.Repeat("more", 10_000))
				res, err := http.ReadResponse(inside.br, nil)
				if err != nil {
					continue
				}
				body, err := io.ReadAll(res.Body)
				whole = whole || err == nil && string(body) == large
				_ = res.Body.Close()
			}
			if !whole {
				t.Error("the end of the answer was lost")
			}
		})
	}
}
