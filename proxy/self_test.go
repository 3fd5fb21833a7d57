package proxy

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// The proxy's own pages.
func TestOwnPages(t *testing.T) {
	well := error(nil)
	r := newRig(t, func(o *Options, _ *stages) {
		o.Health = func(context.Context) error { return well }
		o.Approval = func(_ context.Context, c runtime.Caller, id string) (any, error) {
			if id != "apr_1" || !c.Peer.Owner {
				return nil, &runtime.Error{Code: runtime.CodeUnknownAction, Msg: "no such approval"}
			}
			return map[string]string{"state": "pending"}, nil
		}
	})
	for _, c := range []struct {
		line, host string
		status     int
		body       string
	}{
		{"GET /healthz", r.addr, 200, "ok\n"},
		{"GET /kimbap/ca.pem", r.addr, 200, "PEM"},
		{"GET /kimbap/proxy.pac", r.addr, 200, "PROXY " + r.addr},
		{"GET /kimbap/proxy.pac", "rebound.test", 200, "PROXY " + r.addr},
		{"GET /kimbap/approvals/apr_1", r.addr, 200, `{"state":"pending"}`},
		{"GET /kimbap/approvals/apr_2", r.addr, 403, "no such approval"},
		{"GET /kimbap/approvals/apr_1", "rebound.test", 421, "misdirected"},
		{"POST /healthz", r.addr, 405, "read only"},
		{"GET /", r.addr, 404, "no such page"},
	} {
		conn := r.dial()
		conn.send(c.line + " HTTP/1.1\r\nHost: " + c.host + "\r\n\r\n")
		if resp, body := conn.get("GET"); resp.StatusCode != c.status || !strings.Contains(body, c.body) {
			t.Errorf("%s of %s: %s %q", c.line, c.host, resp.Status, body)
		}
		_ = conn.Close()
	}
	well = errors.New("disk full")
	conn := r.dial()
	conn.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	if resp, body := conn.get("GET"); resp.StatusCode != 503 || strings.Contains(body, "disk") {
		t.Errorf("%s %q", resp.Status, body)
	}
}

// A proxy that listens on every address names the one that it was reached at.
func TestWhereAProxyOnEveryAddressIs(t *testing.T) {
	asked := &asking{urls: make(chan string, 2)}
	r := newRig(t, func(o *Options, _ *stages) { asked.Doer, o.Pipeline = o.Pipeline, asked })
	ln, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	r.eventually("the first listener", func() bool { return r.server.Addr() != nil })
	served := make(chan error, 1)
	go func() { served <- r.server.Serve(ln) }()
	t.Cleanup(func() { _ = ln.Close(); <-served })
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	r.addr = "127.0.0.1:" + port
	page := func(path string) string {
		c := r.dial()
		c.send("GET " + path + " HTTP/1.1\r\nHost: kimbap.test\r\n\r\n")
		_, body := c.get("GET")
		return body
	}
	r.eventually("the new listener", func() bool { return r.server.Addr() == ln.Addr() })
	if body := page("/kimbap/proxy.pac"); !strings.Contains(body, `"PROXY `+r.addr+`"`) {
		t.Errorf("%s", body)
	}
	for _, request := range []string{
		"GET http://plain.good.test/open HTTP/1.1\r\nHost: plain.good.test\r\n\r\n",
		"CONNECT db.test:22 HTTP/1.1\r\nHost: db.test:22\r\n\r\n",
	} {
		c := r.dial()
		c.send(request)
		if url, want := <-asked.urls, "http://"+r.addr+"/kimbap/approvals/apr_1"; url != want {
			t.Errorf("%q: the approval stands at %s, want %s", request, url, want)
		}
		_ = c.Close()
	}
}

// asking is a pipeline that asks where approvals stand.
type asking struct {
	Doer
	urls chan string
}

func (a *asking) Do(ctx context.Context, req *runtime.Request, out runtime.Responder) error {
	a.urls <- req.Results("apr_1")
	return a.Doer.Do(ctx, req, out)
}
