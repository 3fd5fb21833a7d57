package app_test

import (
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// openTunnels lets policy refuse nothing, so that it is the guard that does.
const openTunnels = `version: 1
rules:
  - {name: tunnels, match: {action: net.tunnel}, then: allow}
`

// The cases of the area "SSRF / egress guard" against the whole proxy, as a
// client asks for them; proxy/egress holds them against the guard with a dialer
// that tells. SS-014: nothing follows a redirect (TestACallFollowsNoRedirect).
// SS-017 is in notify_test.go, SS-018 in internal/config and scripts.
func TestSSRFCases(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Config: "egress: {private: deny}\n", Policy: openTunnels})
	for _, c := range []struct {
		id, connects string // by CONNECT, separated by spaces
		status       string // of which one must come
		codes        string // the same
	}{
		{"SS-001", "127.0.0.1:22 127.0.0.1:443", "403", "egress_denied"},
		{"SS-002", "[::1]:443", "403", "egress_denied"},
		{"SS-003", "[::ffff:127.0.0.1]:443 [::ffff:7f00:1]:443", "403", "egress_denied"},
		{"SS-005", "[64:ff9b::a9fe:a9fe]:80 [64:ff9b:1::7f00:1]:80 [2002:7f00:1::]:80 [2001:0:7f00:1::]:80", "403", "egress_denied"},
		{"SS-006", "169.254.169.254:80 [fd00:ec2::254]:80 metadata.google.internal:80 169.254.170.2:80 100.100.100.200:80 192.0.0.192:80 168.63.129.16:80", "403", "egress_denied"},
		{"SS-007", "0.0.0.0:80 [::]:80 0.1.2.3:80", "403", "egress_denied"},
		{"SS-008", "10.0.0.1:443 172.31.255.255:443 192.168.1.1:443 100.64.0.1:443 198.18.0.1:443 192.0.2.1:443 224.0.0.1:443 240.0.0.1:443 255.255.255.255:443 [fe80::1]:443 [fec0::1]:443 [fc00::1]:443 [ff02::1]:443", "403", "egress_denied"},
		{"SS-009", "2130706433:443 0x7f000001:443 0177.0.0.1:443 127.1:443", "400 403", "egress_denied invalid_input/invalid_host ambiguous_target/invalid_target"},
		{"SS-010", "127.0.0.1.:443 LOCALHOST.:443 1.0.0.127.in-addr.arpa:443", "403", "egress_denied"},
		{"SS-015", k.Proxy, "403", "egress_denied/self_connection"},
		{"SS-016", "[fe80::1%eth0]:443 [fe80::1%25eth0]:443", "400 403", "egress_denied invalid_input/invalid_host ambiguous_target/invalid_target"},
	} {
		for authority := range strings.FieldsSeq(c.connects) {
			mark := k.Mark(t)
			_, a := k.Connect(t, authority)
			refused(t, k, mark, c.id+" CONNECT "+authority, a, c.status, c.codes)
		}
	}
	for _, c := range []struct{ id, url, status, codes string }{
		{"SS-001", "http://127.0.0.1/", "403", "egress_denied"},
		{"SS-006", "http://169.254.169.254/latest/meta-data/", "403", "egress_denied"},
		{"SS-006", "http://metadata.google.internal/computeMetadata/v1/", "403", "egress_denied"},
		{"SS-009", "http://2130706433/", "400 403", "egress_denied invalid_input/invalid_host ambiguous_target/invalid_target"},
		{"SS-010", "http://LOCALHOST./", "403", "egress_denied"},
		{"SS-015", "http://" + k.Proxy + "/kimbap/approvals/x", "403", "egress_denied/self_connection"},
		{"SS-016", "http://[fe80::1%25eth0]/", "400 403", "egress_denied invalid_input/invalid_host ambiguous_target/invalid_target"},
	} {
		mark := k.Mark(t)
		host, _, _ := strings.Cut(strings.TrimPrefix(c.url, "http://"), "/")
		a := k.Dial(t).Ask("GET " + c.url + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
		refused(t, k, mark, c.id+" GET "+c.url, a, c.status, c.codes)
	}
}

// SS-019: ports that speak no HTTPS need a rule of their own, even where
// somebody would answer there; others follow what is said of unmatched hosts.
func TestSensitivePorts_SS019(t *testing.T) {
	t.Parallel()
	var resolve []string
	for _, port := range []string{"22", "25", "53", "6379", "8443"} {
		resolve = append(resolve, "other.test:"+port)
	}
	k := apptest.New(t, apptest.Options{Resolve: resolve})
	for _, authority := range resolve[:4] {
		mark := k.Mark(t)
		_, a := k.Connect(t, authority)
		refused(t, k, mark, "CONNECT "+authority, a, "403", "forbidden")
		said := a.Body
		mark = k.Mark(t)
		a = k.Dial(t).Ask("POST http://" + authority + "/ HTTP/1.1\r\nHost: " + authority + "\r\nContent-Length: 10\r\n\r\nFLUSHALL\r\n")
		refused(t, k, mark, "POST http://"+authority, a, "403", "forbidden")
		if one, other := without(said, "kimbap explain"), without(a.Body, "kimbap explain"); a.Problem.Action != "net.tunnel" || one != other {
			t.Errorf("%s is told\n%s and not\n%s", authority, other, one)
		}
	}
	if n := k.Up.Connections(); n != 0 {
		t.Errorf("%d connections", n)
	}
	if _, a := k.Connect(t, "other.test:8443"); a.Status != http.StatusOK {
		t.Errorf("another port: %d %+v", a.Status, a.Problem)
	}
	k.Write(t, "policy.yaml", "version: 1\ndefaults: {unmatched: deny}\n")
	apptest.Within(t, soon, "the new policy", func() bool { _, a := k.Connect(t, "other.test:8443"); return a.Status == http.StatusForbidden })
}

// spellings are the ways to say this machine's own address.
const spellings = "127.0.0.1 127.0.0.1. 127.1 127.8.8.8 2130706433 0x7f000001 0177.0.0.1 0 0.0.0.0 localhost LOCALHOST. a.localhost " +
	"[::1] [::] [::ffff:127.0.0.1] [::ffff:7f00:1] [::127.0.0.1] [64:ff9b::7f00:1] [2002:7f00:1::]"

// SS-001, SS-002, SS-003, SS-007, SS-009, SS-010: whoever listens on this machine
// gets no connection by way of the proxy, however its address is spelled and
// whatever is said of private ranges.
func TestNobodyOnThisMachineIsReached(t *testing.T) {
	t.Parallel()
	for _, private := range []string{"auto", "allow", "deny"} {
		k := apptest.New(t, apptest.Options{Config: "egress: {private: " + private + "}\n", Policy: openTunnels})
		ln, taken := counting(t)
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		for host := range strings.FieldsSeq(spellings) {
			at := host + ":" + port
			w, a := k.Connect(t, at)
			_ = w.Close()
			b := k.Dial(t).Ask("GET http://" + at + "/ HTTP/1.1\r\nHost: " + at + "\r\n\r\n")
			for way, got := range map[string]apptest.Answer{"CONNECT": a, "GET": b} {
				if got.Status != 403 && got.Status != 400 || got.Problem.Code == "" {
					t.Errorf("private %s, %s %s: %d %s", private, way, at, got.Status, got.Body)
				}
			}
		}
		if n := taken.Load(); n > 0 {
			t.Errorf("private %s: %d connections to this machine", private, n)
		}
	}
}

// counting listens on this machine and counts who comes.
func counting(t *testing.T) (net.Listener, *atomic.Int64) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var taken atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			taken.Add(1)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-done })
	return ln, &taken
}

// SS-015: no proxy leads to a listener of any kimbap over its home, in whichever
// process and by whichever address of this machine, also where the owner has
// opened loopback and private ranges.
func TestNoProxyLeadsToAKimbap_SS015(t *testing.T) {
	t.Parallel()
	here := []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "127.8.8.8"}
	opened := `127.0.0.0/8, "::1", localhost`
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			here = append(here, n.IP.String())
			opened += ", " + n.IP.String()
		}
	}
	k := apptest.New(t, apptest.Options{
		Config:  "egress: {private: allow, allow: [" + opened + "]}\nadmin: {listen: \"127.0.0.1:0\"}\n",
		Scripts: apptest.Worker(t), Serve: app.ServeOptions{Sidecar: "127.0.0.1:0"},
	})
	api := strings.TrimPrefix(newAPI(t, k).base, "http://")
	_, theirs := startProxy(t, k)
	elsewhere := *k
	elsewhere.Proxy = theirs
	ln, taken := counting(t)
	if _, a := elsewhere.Connect(t, ln.Addr().String()); a.Status != http.StatusOK {
		t.Fatalf("loopback is not open: %d %+v", a.Status, a.Problem)
	}
	apptest.Eventually(t, "the connection arrives", func() bool { return taken.Load() == 1 })
	targets := map[string]string{"itself": theirs, "another proxy": k.Proxy, "the API": api, "the operator's listener": k.App.AdminAddress()}
	for _, at := range k.App.Listens() {
		targets["a listener of another proxy, "+at] = at
	}
	if len(targets) < 6 { // the proxy's own, the operator's and that of the scripts are among them
		t.Errorf("the listeners are %v", targets)
	}
	for what, at := range targets {
		_, port, _ := net.SplitHostPort(at)
		for _, host := range here {
			if _, a := elsewhere.Connect(t, host+":"+port); a.Status != http.StatusForbidden || a.Problem.Reason != "self_connection" {
				t.Errorf("%s, CONNECT %s:%s: %d %+v", what, host, port, a.Status, a.Problem)
			}
			a := elsewhere.Dial(t).Ask("GET http://" + host + ":" + port + "/v1/approvals HTTP/1.1\r\nHost: " + host + ":" + port + "\r\n\r\n")
			if a.Status != http.StatusForbidden || a.Problem.Reason != "self_connection" {
				t.Errorf("%s, GET %s:%s: %d %+v", what, host, port, a.Status, a.Problem)
			}
		}
	}
}

// refused wants one of the statuses, one of the codes, a way on, and records that say the same.
func refused(t *testing.T, k *apptest.Kimbap, mark map[string]uint64, what string, a apptest.Answer, status, codes string) {
	t.Helper()
	code := strings.TrimSuffix(a.Problem.Code+"/"+a.Problem.Reason, "/")
	if !slices.Contains(strings.Fields(status), strconv.Itoa(a.Status)) || !slices.Contains(strings.Fields(codes), code) {
		t.Errorf("%s: %d %s", what, a.Status, a.Body)
	}
	if !strings.Contains(a.Body, `"hint":`) {
		t.Errorf("%s: no hint: %s", what, a.Body)
	}
	records := k.Await(t, mark, 1)
	if last := records[len(records)-1]; last.Kind == "intent" {
		records = k.Await(t, mark, 2)
	}
	if last := records[len(records)-1]; last.Code != a.Problem.Code || last.Used != "" || last.Address != "" {
		t.Errorf("%s: recorded %s", what, last.Line)
	}
}

// SS-013: a service whose host is in a private range gets no credential sent
// there, nor does its caller hear more than the host it knows.
func TestPrivateServiceHost_SS013(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{
		Config:   "egress: {private: deny}\n",
		Services: []string{strings.ReplaceAll(apptest.Notes, "https://api.notes.test", "https://10.0.0.5")},
	})
	mark := k.Mark(t)
	a := k.Do(t, "GET https://10.0.0.5/notes/1", "")
	if a.Status != http.StatusForbidden || a.Problem.Code != "egress_denied" || strings.Contains(a.Body, apptest.Key) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	wantRecords(t, k, mark, "intent allow notes.get-note", "outcome allow notes.get-note error egress_denied")
	for _, r := range k.Requests(t, mark) {
		if r.Used != "" || r.Address != "" {
			t.Errorf("recorded %s", r.Line)
		}
	}
}

// SS-008, SS-019: the line that a refusal names opens what was refused.
func TestTheLineOfARefusalOpensIt(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askDeletes, Resolve: []string{"db.test:6379"}})
	mark := k.Mark(t)
	_, a := k.Connect(t, "db.test:6379")
	_, line, found := strings.Cut(a.Body, "under rules: ")
	line, _, _ = strings.Cut(line, "}, then: allow}")
	if a.Status != http.StatusForbidden || a.Problem.Code != "forbidden" || !found {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	wantRecords(t, k, mark, "refusal deny net.tunnel error forbidden")
	rule := "  - " + strings.ReplaceAll(line, `\"`, `"`) + "}, then: allow}\n"
	k.Write(t, "policy.yaml", askDeletes+rule)
	apptest.Within(t, soon, "the tunnel after "+rule, func() bool { _, a := k.Connect(t, "db.test:6379"); return a.Status == http.StatusOK })
}
