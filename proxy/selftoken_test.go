package proxy

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// closed is a proxy that knows nobody without a token, and has approvals, which
// it shows to the principal token:good alone.
func closed(t *testing.T) *rig {
	t.Helper()
	return newRig(t, func(o *Options, st *stages) {
		o.RequireToken = true
		o.Approval = func(ctx context.Context, c runtime.Caller, _ string) (any, error) {
			me, err := st.Identify(ctx, c)
			if err != nil {
				return nil, err
			}
			return map[string]string{"shown_to": me.ID}, nil
		}
	})
}

// A page of the proxy's own takes a token as any origin server does, and says so.
func TestTheOwnPagesTakeATokenInAuthorization(t *testing.T) {
	r := closed(t)
	for _, c := range []struct {
		fields string
		known  bool
	}{
		{"Authorization: Bearer " + goodToken, true},
		{"authorization: " + basic("kimbap", goodToken), true},
		{"Authorization: " + basic(goodToken, ""), true},
		{"Proxy-Authorization: Bearer " + goodToken, true},
		{"Proxy-Authorization: Bearer " + goodToken + "\r\nAuthorization: Bearer of-something-else", true},
		{"", false},
		{"Authorization: Bearer kmb_other", false},
		{"Authorization: Digest " + goodToken, false},
		{"Authorization: Bearer " + goodToken + "\r\nAuthorization: Bearer " + goodToken, false},
		{"Proxy-Authorization: Bearer kmb_other\r\nAuthorization: Bearer " + goodToken, false},
		{"X-Api-Key: " + goodToken, false},
		{"Cookie: token=" + goodToken, false},
	} {
		client := r.dial()
		client.send("GET /kimbap/approvals/apr_1 HTTP/1.1\r\nHost: " + r.addr + "\r\n" + strings.TrimPrefix(c.fields+"\r\n", "\r\n") + "\r\n")
		resp, body := client.get("GET")
		if c.known {
			if resp.StatusCode != http.StatusOK || !strings.Contains(body, "token:good") {
				t.Errorf("%q: %s %s", c.fields, resp.Status, body)
			}
			continue
		}
		offered := strings.Join(resp.Header["Www-Authenticate"], ", ")
		if resp.StatusCode != http.StatusUnauthorized || offered != `Basic realm="kimbap", Bearer realm="kimbap"` || resp.Header["Proxy-Authenticate"] != nil {
			t.Errorf("%q: %s %v", c.fields, resp.Status, resp.Header)
		}
		if !strings.Contains(body, `"status":401`) || !strings.Contains(body, "Authorization: Bearer TOKEN") || strings.Contains(body, "token:good") {
			t.Errorf("%q: %s", c.fields, body)
		}
	}
}

// What names a reader of the proxy's own pages names nobody who wants something forwarded:
// not on the same connection, and not in the form of a page.
func TestATokenInAuthorizationForwardsNothing(t *testing.T) {
	const shown = "Authorization: Bearer " + goodToken + "\r\n\r\n"
	r := closed(t)
	received := r.upstream("plain.good.test:80", answering(okAnswer))
	for _, c := range []struct {
		head   string
		status int
	}{
		{"GET http://plain.good.test/open HTTP/1.1\r\nHost: plain.good.test\r\n", http.StatusProxyAuthRequired},
		{"GET http://" + r.addr + "/kimbap/approvals/apr_1 HTTP/1.1\r\nHost: " + r.addr + "\r\n", http.StatusProxyAuthRequired},
		{"CONNECT plain.good.test:80 HTTP/1.1\r\nHost: plain.good.test:80\r\n", http.StatusProxyAuthRequired},
		{"GET /open HTTP/1.1\r\nHost: plain.good.test\r\n", http.StatusNotFound},
		{"GET //plain.good.test/open HTTP/1.1\r\nHost: plain.good.test\r\n", http.StatusNotFound},
		{"GET /kimbap/approvals/apr_1 HTTP/1.1\r\nHost: plain.good.test\r\n", http.StatusMisdirectedRequest},
	} {
		for _, after := range []bool{false, true} {
			client := r.dial()
			if after {
				client.send("GET /kimbap/approvals/apr_1 HTTP/1.1\r\nHost: " + r.addr + "\r\n" + shown)
				if resp, body := client.get("GET"); resp.StatusCode != http.StatusOK {
					t.Fatalf("the page: %s %s", resp.Status, body)
				}
			}
			client.send(c.head + shown)
			resp, body := client.get("GET")
			if resp.StatusCode != c.status || strings.Contains(body, "token:good") || c.status != http.StatusProxyAuthRequired && resp.Header["Proxy-Authenticate"] != nil {
				t.Errorf("%q, after the page %v: %s %s", c.head, after, resp.Status, body)
			}
		}
	}
	if bytes := received(); bytes != "" {
		t.Errorf("forwarded for nobody: %q", bytes)
	}
}
