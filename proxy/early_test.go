package proxy

import (
	"context"
	"net/http"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// An answer before the end of its request's body says whether the connection goes on
// (RFC 9110 section 10.1.1): a client that is not told sends its next request on one
// that ends.
func TestEarlyAnswersSayWhetherTheConnectionGoesOn(t *testing.T) {
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
