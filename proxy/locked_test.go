package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
	return newRig(t, func(o *Options, _ *stages) { o.Locked, o.InterceptAll = l.why.Load, func() bool { return all } }), &l
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

// What was begun with a credential does not go on behind the lock: neither an
// upgraded connection nor an answer that flows, in a tunnel or in plain HTTP. What
// no service owns does.
func TestWhatFlowsEndsWithTheLock(t *testing.T) {
	t.Parallel()
	r, l := newLockedRig(t, false)
	l.set(false)
	flow := func(c net.Conn, br *bufio.Reader) {
		head := "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\npart"
		if q, err := http.ReadRequest(br); err == nil && q.Header.Get("Upgrade") != "" {
			head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
		}
		_, _ = io.WriteString(c, head)
		_, _ = io.Copy(c, br)
	}
	for _, host := range []string{"api.good.test:443", "plain.good.test:80", "raw.test:80"} {
		r.upstream(host, flow)
	}
	const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
	begun := map[string]*client{
		"an upgrade":               r.open("api.good.test:443"),
		"an answer":                r.open("api.good.test:443"),
		"an upgrade in plain HTTP": r.dial(),
		"an answer in plain HTTP":  r.dial(),
	}
	begun["an upgrade"].send("GET /open HTTP/1.1\r\nHost: api.good.test\r\n" + upgrade + "\r\n")
	begun["an answer"].send("GET /open HTTP/1.1\r\nHost: api.good.test\r\n\r\n")
	begun["an upgrade in plain HTTP"].send("GET http://plain.good.test/open HTTP/1.1\r\nHost: plain.good.test\r\n" + upgrade + "\r\n")
	begun["an answer in plain HTTP"].send("GET http://plain.good.test/open HTTP/1.1\r\nHost: plain.good.test\r\n\r\n")
	kept := r.connect("raw.test:80", "GET / HTTP/1.1\r\nHost: raw.test\r\n\r\n")
	begun["kept"] = kept
	for name, c := range begun {
		if _, err := c.br.ReadString('\n'); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	delete(begun, "kept")
	r.server.Recheck(t.Context()) // an open vault ends nothing
	l.set(true)
	stop := make(chan struct{})
	var looks sync.WaitGroup
	looks.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				r.server.Recheck(t.Context())
			}
		}
	})
	for name, c := range begun {
		if rest, err := io.ReadAll(c.br); isTimeout(err) {
			t.Errorf("%s goes on after %q", name, rest)
		}
	}
	close(stop)
	looks.Wait()
	kept.send("still here")
	if got, err := kept.br.ReadString('e'); err != nil {
		t.Errorf("what no service owns: %q %v", got, err)
	}
}

// Where all hosts are opened, what no service owns goes on behind the lock all the
// same: no credential is in it.
func TestWhatNoServiceOwnsFlowsOnBehindTheLock(t *testing.T) {
	t.Parallel()
	r, l := newLockedRig(t, true)
	l.set(false)
	r.upstream("any.test:443", func(c net.Conn, br *bufio.Reader) {
		head := "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\npart"
		if q, err := http.ReadRequest(br); err == nil && q.Header.Get("Upgrade") != "" {
			head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
		}
		_, _ = io.WriteString(c, head)
		_, _ = io.Copy(c, br)
	})
	begun := map[string]*client{"an upgrade": r.open("any.test:443"), "an answer": r.open("any.test:443")}
	begun["an upgrade"].send("GET / HTTP/1.1\r\nHost: any.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	begun["an answer"].send("GET / HTTP/1.1\r\nHost: any.test\r\n\r\n")
	for name, c := range begun {
		if _, err := c.br.ReadString('\n'); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	time.Sleep(refusalTime + refusalTime/5) // both flow
	l.set(true)
	r.server.Recheck(t.Context())
	for name, c := range begun {
		_ = c.SetReadDeadline(time.Now().Add(refusalTime / 2))
		if rest, err := io.ReadAll(c.br); !isTimeout(err) {
			t.Errorf("%s ended: %q %v", name, rest, err)
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
	for path, want := range map[string]string{"/healthz": "not well: vault_locked: the vault is locked (put the key back)\n", "/kimbap/ca.pem": "there is no certificate yet\n"} {
		c := r.dial()
		c.send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if resp, body := c.get("GET"); resp.StatusCode != http.StatusServiceUnavailable || body != want {
			t.Errorf("%s: %s %q", path, resp.Status, body)
		}
		_ = c.Close()
	}
}

// A tunnel that a lock ends while it opens is closed, and not left as one that refuses
// whatever comes.
func TestALockWhileATunnelOpensClosesIt(t *testing.T) {
	var l lock
	var r *rig
	r = newRig(t, func(o *Options, _ *stages) {
		o.Locked = l.why.Load
		o.Permits = func(string) error {
			l.set(true)
			r.server.Recheck(t.Context())
			l.set(false)
			return nil
		}
	})
	r.upstream("api.good.test:443", answering(okAnswer))
	c := r.dial()
	c.send("CONNECT api.good.test:443 HTTP/1.1\r\nHost: api.good.test:443\r\n\r\n")
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the tunnel stays open")
	}
}

// A request that comes while the lock closes its tunnel is refused for the lock.
func TestARequestTooLateForTheLockIsToldOfIt(t *testing.T) {
	var l lock
	r := newRig(t, func(o *Options, _ *stages) { o.Locked = l.why.Load })
	seat, full := r.server.tunnels.enter(t.Context(), runtime.Caller{}, runtime.Principal{ID: "local:1"}, intercepted)
	if full != nil {
		t.Fatal(full)
	}
	defer seat.leave()
	l.set(true)
	r.server.Recheck(t.Context())
	_, e := r.server.begin(t.Context(), &conn{tunnel: &tunnel{seat: seat}}, &runtime.Request{})
	if e == nil || e.Code != runtime.CodeVaultLocked || !errors.Is(e, errCloses) {
		t.Errorf("%+v", e)
	}
}
