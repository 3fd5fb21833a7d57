package proxy

import (
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// rawPorts are those of SSH, mail, DNS and databases: what is said there need not be HTTP.
var rawPorts = []string{"22", "25", "53", "110", "143", "3306", "5432", "6379", "11211"}

// A server of Redis or of mail skips what it does not know, line by line: commands in
// a request would be heard. Cleartext to such a port is net.tunnel, as a CONNECT to it
// is, also where every host is looked into.
func TestPlainHTTPToRawPorts(t *testing.T) {
	for name, all := range map[string]bool{"as it is": false, "intercept all": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *Options, _ *stages) { o.InterceptAll = func() bool { return all } })
			for _, port := range rawPorts {
				r.upstream("db.test:"+port, answering(okAnswer))
				c := r.dial()
				c.send("POST http://db.test:" + port + "/ HTTP/1.1\r\nHost: db.test:" + port + "\r\nContent-Length: 10\r\n\r\nFLUSHALL\r\n")
				c.refused(403, runtime.CodeForbidden)
				if rec := r.outcome(); rec.Action.Ref != runtime.ActionTunnel {
					t.Errorf("port %s is %s", port, rec.Action.Ref)
				}
				c = r.dial()
				c.send("CONNECT db.test:" + port + " HTTP/1.1\r\nHost: db.test:" + port + "\r\n\r\nPOST / HTTP/1.1\r\nHost: db.test:" + port + "\r\nContent-Length: 0\r\n\r\n")
				c.refused(403, runtime.CodeForbidden)
				r.outcome()
			}
			if len(r.stages.dials) > 0 {
				t.Errorf("dialled %v", r.stages.dials)
			}
			r.allow(runtime.ActionTunnel)
			c := r.dial()
			c.send("GET http://db.test:6379/ HTTP/1.1\r\nHost: db.test:6379\r\n\r\n")
			if resp, body := c.get("GET"); resp.StatusCode != 200 || body != "ok" {
				t.Errorf("allowed: %s %q", resp.Status, body)
			}
			if rec := r.outcome(); rec.Err != nil || rec.Action.Ref != runtime.ActionTunnel {
				t.Errorf("allowed: %+v", rec)
			}
		})
	}
}

// Whoever gives a service such a port has decided it: its requests are its actions,
// on the listener and inside a tunnel.
func TestAServiceMayHaveARawPort(t *testing.T) {
	r := newRig(t, func(_ *Options, st *stages) { st.own(t, "http://own.test:6379") })
	r.upstream("own.test:6379", answering(okAnswer))
	direct := r.dial()
	direct.send("GET http://own.test:6379/open HTTP/1.1\r\nHost: own.test:6379\r\n\r\n")
	direct.get("GET")
	inside := r.connect("own.test:6379", "GET /open HTTP/1.1\r\nHost: own.test:6379\r\n\r\n")
	inside.get("GET")
	for range 2 {
		if rec := r.outcome(); rec.Err != nil || rec.Action.Ref != "good.open" {
			t.Errorf("recorded %+v", rec)
		}
	}
	other := r.dial()
	other.send("GET http://own.test:5432/open HTTP/1.1\r\nHost: own.test:5432\r\n\r\n")
	other.refused(403, runtime.CodeForbidden)
}

// What follows an upgrade to anything but WebSocket is bytes of any protocol: such a
// request is net.tunnel where policy lets it, and else one that asks for no upgrade,
// as it is to be when nobody heeds the offer (RFC 9110 section 7.8).
func TestUpgradesOfForeignHosts(t *testing.T) {
	for _, c := range []struct {
		name, fields  string
		denied, allow runtime.Ref
	}{
		{"websocket", "Upgrade: websocket", runtime.ActionPass, runtime.ActionPass},
		{"websocket in capitals", "Upgrade: WebSocket", runtime.ActionPass, runtime.ActionPass},
		{"tcp", "Upgrade: tcp", runtime.ActionPass, runtime.ActionTunnel},
		{"beside websocket", "Upgrade: websocket, tcp", runtime.ActionPass, runtime.ActionTunnel},
		{"TLS", "Upgrade: TLS/1.2", runtime.ActionPass, runtime.ActionTunnel},
		{"h2c", "Upgrade: h2c", runtime.ActionPass, runtime.ActionPass},
		{"h2c in a list", "Upgrade: websocket, h2c", runtime.ActionPass, runtime.ActionPass},
		{"twice", "Upgrade: websocket\r\nUpgrade: tcp", runtime.ActionPass, runtime.ActionPass},
		{"empty", "Upgrade:", runtime.ActionPass, runtime.ActionPass},
		{"with a body", "Upgrade: tcp\r\nContent-Length: 2", runtime.ActionPass, runtime.ActionPass},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, func(o *Options, _ *stages) { o.InterceptAll = func() bool { return true } })
			r.upstream("plain.test:80", answering(okAnswer))
			r.upstream("any.test:443", answering(okAnswer))
			body := ""
			if c.name == "with a body" {
				body = "{}"
			}
			rest := " HTTP/1.1\r\nConnection: Upgrade\r\n" + c.fields + "\r\n"
			for _, want := range []runtime.Ref{c.denied, c.allow} {
				direct := r.dial()
				direct.send("POST http://plain.test/" + rest + "Host: plain.test\r\n\r\n" + body)
				inside := r.open("any.test:443")
				inside.send("POST /" + rest + "Host: any.test\r\n\r\n" + body)
				for name, client := range map[string]*client{"direct": direct, "inside": inside} {
					if resp, text := client.get("POST"); resp.StatusCode != 200 || text != "ok" {
						t.Errorf("%s: %s %q", name, resp.Status, text)
					}
					if rec := r.outcome(); rec.Err != nil || rec.Action.Ref != want {
						t.Errorf("%s: %s, want %s: %+v", name, rec.Action.Ref, want, rec.Err)
					}
				}
				r.allow(runtime.ActionTunnel)
			}
		})
	}
}

// An offer to upgrade, which nobody need take up, is no way to a host that may be a
// tunnel and may not be asked.
func TestAnUpgradeIsNoWayAroundARule(t *testing.T) {
	r := newRig(t, nil)
	r.allow(runtime.ActionTunnel)
	r.stages.mu.Lock()
	r.stages.deny[runtime.ActionPass] = true
	r.stages.mu.Unlock()
	received := r.upstream("plain.test:80", answering(okAnswer))
	c := r.dial()
	c.send("GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
	c.refused(403, runtime.CodeForbidden)
	if rec := r.outcome(); rec.Action.Ref != runtime.ActionPass || received() != "" {
		t.Errorf("recorded %+v, the upstream got %q", rec, received())
	}
}

// A connection that was upgraded as net.tunnel ends when policy lets none be any more.
func TestReloadClosesUpgradesThatAreTunnels(t *testing.T) {
	r := newRig(t, nil)
	r.allow(runtime.ActionTunnel)
	r.upstream("docker.test:2375", websocket)
	c := r.dial()
	c.send("GET http://docker.test:2375/ HTTP/1.1\r\nHost: docker.test:2375\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
	if resp := c.answer("GET"); resp.StatusCode != 101 {
		t.Fatalf("no upgrade: %s", resp.Status)
	}
	c.alive()
	r.server.Reloaded()
	c.alive()
	r.stages.mu.Lock()
	r.stages.deny[runtime.ActionTunnel] = true
	r.stages.mu.Unlock()
	r.server.Reloaded()
	c.gone()
}

// allow takes an action from those that policy denies.
func (r *rig) allow(ref runtime.Ref) {
	r.stages.mu.Lock()
	defer r.stages.mu.Unlock()
	delete(r.stages.deny, ref)
}
