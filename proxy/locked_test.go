package proxy

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// lock is the vault of a test: a refusal, or nil when it is open.
type lock struct{ why atomic.Pointer[runtime.Error] }

func (l *lock) set(locked bool) {
	if !locked {
		l.why.Store(nil)
		return
	}
	l.why.Store(&runtime.Error{Code: runtime.CodeVaultLocked, Reason: runtime.ReasonNoMasterKey, Msg: "the vault is locked", Hint: "put the key back"})
}

func newLockedRig(t *testing.T, all bool) (*rig, *lock) {
	t.Helper()
	var l lock
	l.set(true)
	return newRig(t, func(o *Options, _ *stages) { o.Locked, o.InterceptAll = l.why.Load, all }), &l
}

// While the vault is locked a service's host is refused before the 200, in
// every form a request for it can take, recorded, and nothing is dialled.
func TestLockedRefusesHostsOfServices(t *testing.T) {
	r, _ := newLockedRig(t, false)
	for name, head := range map[string]string{
		"CONNECT":                       "CONNECT api.good.test:443 HTTP/1.1\r\nHost: api.good.test:443\r\n\r\n",
		"CONNECT, other spelling":       "CONNECT API.good.test.:443 HTTP/1.1\r\nHost: API.good.test.:443\r\n\r\n",
		"CONNECT, cleartext inside":     "CONNECT plain.good.test:80 HTTP/1.1\r\nHost: plain.good.test:80\r\n\r\n",
		"absolute-form":                 "GET http://plain.good.test/open HTTP/1.1\r\nHost: plain.good.test\r\n\r\n",
		"absolute-form, no action":      "GET http://plain.good.test/nothing HTTP/1.1\r\nHost: plain.good.test\r\n\r\n",
		"absolute-form of a TLS origin": "GET http://api.good.test:443/open HTTP/1.1\r\nHost: api.good.test:443\r\n\r\n",
		"upgrade":                       "GET http://plain.good.test/open HTTP/1.1\r\nHost: plain.good.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"with a body":                   "POST http://plain.good.test/judged HTTP/1.1\r\nHost: plain.good.test\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
	} {
		c := r.dial()
		c.send(head)
		resp, body := c.get("GET")
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Content-Type") != runtime.ProblemType ||
			!strings.Contains(body, `"code":"vault_locked"`) || !strings.Contains(body, "put the key back") {
			t.Errorf("%s: %s %s", name, resp.Status, body)
		}
		rec := r.outcome()
		if rec.Err == nil || rec.Err.Code != runtime.CodeVaultLocked || rec.Action != nil || rec.Ref != "" || rec.Target.Authority == "" {
			t.Errorf("%s: recorded %+v", name, rec)
		}
		_ = c.Close()
	}
	if dials := r.stages.dials; len(dials) > 0 {
		t.Errorf("dialled %v", dials)
	}
}

// A locked vault does not tell strangers apart from callers: who is not known
// is told that, and no more.
func TestLockedAsksWhoItIsFirst(t *testing.T) {
	r, _ := newLockedRig(t, false)
	c := r.dial()
	c.send("CONNECT api.good.test:443 HTTP/1.1\r\nHost: api.good.test:443\r\nProxy-Authorization: Bearer kmb_no\r\n\r\n")
	c.refused(http.StatusProxyAuthRequired, runtime.CodeUnauthenticated)
}

// Hosts that no service owns pass while the vault is locked, raw and recorded.
func TestLockedLetsOtherHostsPass(t *testing.T) {
	r, _ := newLockedRig(t, false)
	r.upstream("other.test:443", answering(okAnswer))
	r.upstream("other.test:80", answering(okAnswer))
	c := r.connect("other.test:443", "GET / HTTP/1.1\r\nHost: other.test:443\r\n\r\n")
	if resp, _ := c.get("GET"); resp.StatusCode != http.StatusOK {
		t.Errorf("tunnel: %s", resp.Status)
	}
	_ = c.Close()
	if rec := r.outcome(); rec.Err != nil || rec.Action.Ref != runtime.ActionPass {
		t.Errorf("tunnel: recorded %+v", rec)
	}
	c = r.dial()
	c.send("GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n")
	if resp, _ := c.get("GET"); resp.StatusCode != http.StatusOK {
		t.Errorf("plain: %s", resp.Status)
	}
	if rec := r.outcome(); rec.Err != nil || rec.Action.Ref != runtime.ActionPass {
		t.Errorf("plain: recorded %+v", rec)
	}
}

// With intercept: all no tunnel can be opened while the vault is locked.
func TestLockedOpensNoTunnelOfOtherHosts(t *testing.T) {
	r, _ := newLockedRig(t, true)
	r.upstream("other.test:443", answering(okAnswer))
	c := r.dial()
	c.send("CONNECT other.test:443 HTTP/1.1\r\nHost: other.test:443\r\n\r\n")
	c.refused(http.StatusServiceUnavailable, runtime.CodeVaultLocked)
	if dials := r.stages.dials; len(dials) > 0 {
		t.Errorf("dialled %v", dials)
	}
}

// Every request is asked about, not every tunnel: one that is open is refused
// when the vault locks, and goes on when it opens.
func TestLockReachesOpenTunnels(t *testing.T) {
	r, l := newLockedRig(t, false)
	r.upstream("api.good.test:443", answering(okAnswer))
	l.set(false)
	c := r.open("api.good.test:443")
	ask := func() int {
		c.send("GET /open HTTP/1.1\r\nHost: api.good.test\r\n\r\n")
		resp, _ := c.get("GET")
		r.outcome()
		return resp.StatusCode
	}
	for _, locked := range []bool{false, true, false} {
		l.set(locked)
		if got := ask(); (got == http.StatusServiceUnavailable) != locked {
			t.Errorf("locked %v: %d", locked, got)
		}
	}
}

// The health page says why in words for callers, and nothing of other errors;
// a root that is not there yet is no empty certificate.
func TestHealthSaysWhyItIsLocked(t *testing.T) {
	var l lock
	l.set(true)
	r := newRig(t, func(o *Options, _ *stages) {
		o.Health = func(context.Context) error {
			why := *l.why.Load()
			why.Err = errors.New("/home/of/somebody/master.key")
			return &why
		}
		o.RootPEM = func() []byte { return nil }
	})
	for path, want := range map[string]string{"/healthz": "not well: vault_locked: the vault is locked\n", "/kimbap/ca.pem": "there is no certificate yet\n"} {
		c := r.dial()
		c.send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if resp, body := c.get("GET"); resp.StatusCode != http.StatusServiceUnavailable || body != want {
			t.Errorf("%s: %s %q", path, resp.Status, body)
		}
		_ = c.Close()
	}
}
