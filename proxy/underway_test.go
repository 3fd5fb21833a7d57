package proxy

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// What is under way ends as it began, a stream of events or of gRPC too, which may be
// long: a reload that denies its action judges what is asked from then on, on the same
// connection. Only what passes raw, or was upgraded, has no next request to wait for, and
// is closed (TestReloadClosesWhatPolicyDenies).
func TestWhatIsUnderWayOutlivesAReload(t *testing.T) {
	kinds := map[string]func(r *rig) (answer io.Reader, next func() int){
		"HTTP/1.1": func(r *rig) (io.Reader, func() int) {
			return r.under(r.open("api.good.test:443"), openGood)
		},
		"plain HTTP": func(r *rig) (io.Reader, func() int) {
			return r.under(r.dial(), "GET http://plain.good.test/open HTTP/1.1\r\nHost: plain.good.test\r\n\r\n")
		},
		"HTTP/2, both ways": func(r *rig) (io.Reader, func() int) {
			c := r.openH2("api.good.test:443")
			body, more := io.Pipe()
			r.t.Cleanup(func() { _ = more.Close() })
			resp, err := c.RoundTrip(c.request("POST", "/open", body))
			if err != nil {
				r.t.Fatal(err)
			}
			r.t.Cleanup(func() { _ = resp.Body.Close() })
			return resp.Body, func() int { resp, _ := c.get("GET", "/open"); return resp.StatusCode }
		},
	}
	for name, begin := range kinds {
		t.Run(name, func(t *testing.T) {
			end := make(chan struct{})
			r := newRig(t, func(_ *Options, st *stages) {
				st.execute = func(ctx context.Context, _ *runtime.Call, out runtime.Responder) (runtime.Result, error) {
					err := out.Start(200, http.Header{})
					if err == nil {
						_, err = io.WriteString(out, "one\n")
					}
					select {
					case <-end:
					case <-ctx.Done():
						return runtime.Result{}, ctx.Err()
					}
					if err == nil {
						_, err = io.WriteString(out, "two\n")
					}
					return runtime.Result{Status: 200}, err
				}
			})
			answer, next := begin(r)
			lines := bufio.NewReader(answer)
			if line, err := lines.ReadString('\n'); line != "one\n" || err != nil {
				t.Fatalf("%q %v", line, err)
			}
			r.stages.denying("good.open")
			r.server.Reloaded()
			close(end)
			if rest, err := io.ReadAll(lines); string(rest) != "two\n" || err != nil {
				t.Errorf("after the reload: %q %v", rest, err)
			}
			if rec := r.outcome(); rec.Err != nil {
				t.Errorf("recorded %v", rec.Err)
			}
			if status := next(); status != 403 {
				t.Errorf("the next request: %d", status)
			}
		})
	}
}

// under sends a request and returns its answer, and what the next one is answered.
func (r *rig) under(c *client, request string) (answer io.Reader, next func() int) {
	r.t.Helper()
	c.send(request)
	resp, err := http.ReadResponse(c.br, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.Body, func() int {
		c.send(request)
		resp, _ := c.get("GET")
		return resp.StatusCode
	}
}
