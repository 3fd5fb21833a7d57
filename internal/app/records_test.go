package app_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime/audit/proof"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// Other hosts: one without a service, one that policy denies.
const (
	plainHost = "plain.test:80"
	otherHost = "other.test:443"
)

const askDeletes = `version: 1
defaults: {low: allow, medium: allow, high: require_approval, critical: deny, unmatched: allow}
rules:
  - {name: no-blocked, match: {host: "blocked.test"}, then: deny, reason: blocked for this test}
`

// Whatever a request is, the trail says what became of it, and a request that
// must not leave did not.
func TestEveryRequestLeavesItsRecords(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{
		Policy: askDeletes, Resolve: []string{otherHost},
		Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{"/dead": func(c *servicestest.Conn, _ *servicestest.Request) bool { return c.Reset() }}},
	})
	head := func(line, host string) string { return line + " HTTP/1.1\r\nHost: " + host + "\r\n" }
	inside := func(text string) func(t *testing.T) apptest.Answer {
		return func(t *testing.T) apptest.Answer { return k.Tunnel(t, apptest.Authority).Ask(text) }
	}
	plain := func(text string) func(t *testing.T) apptest.Answer {
		return func(t *testing.T) apptest.Answer { return k.Dial(t).Ask(text) }
	}
	connect := func(authority string, fields ...string) func(t *testing.T) apptest.Answer {
		return func(t *testing.T) apptest.Answer {
			w, a := k.Connect(t, authority, fields...)
			_ = w.Close()
			return a
		}
	}
	do := func(line, body string) func(t *testing.T) apptest.Answer {
		return func(t *testing.T) apptest.Answer { return k.Do(t, line, body) }
	}
	const host = apptest.Host
	for _, c := range []struct {
		name    string
		send    func(t *testing.T) apptest.Answer
		status  int
		seen    int // requests the upstream sees
		records []string
	}{
		{"matched", do("GET https://"+host+"/notes/7", ""), 200, 1, []string{
			"intent allow notes.get-note", "outcome allow notes.get-note ok -"}},
		{"matched with a body", do("POST https://"+host+"/notes", `{"text":"hello"}`), 200, 1, []string{
			"intent allow notes.create-note", "outcome allow notes.create-note ok -"}},
		{"unmatched path on an owned host", do("GET https://"+host+"/a/b/c", ""), 403, 0, []string{
			"refusal - - error unknown_action/unmatched"}},
		{"denied by policy", do("POST https://"+host+"/keys", `{}`), 403, 0, []string{
			"refusal deny notes.create-key error forbidden"}},
		{"waits for a person", do("DELETE https://"+host+"/notes/7", ""), 403, 0, []string{
			"intent require_approval notes.delete-note", "outcome require_approval notes.delete-note error approval_pending"}},
		{"ambiguous target", inside(head("GET /notes/../keys", host) + "\r\n"), 400, 0, []string{
			"refusal - - error ambiguous_target/dot_segment"}},
		{"misdirected Host", inside(head("GET /notes/7", "elsewhere.test") + "\r\n"), 421, 0, []string{
			"refusal - - error misdirected"}},
		{"malformed head", inside("GET /notes/7 HTTP/1.1\nHost: " + host + "\n\n"), 400, 0, []string{
			"refusal - - error ambiguous_target"}},
		{"length and chunks", inside(head("POST /notes", host) + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400, 0, []string{
			"refusal - - error ambiguous_target"}},
		{"unknown token", connect(apptest.Authority, "Proxy-Authorization: Bearer kmb_no"), 407, 0, []string{
			"refusal - net.pass error unauthenticated/token_unknown"}},
		{"cleartext to an owned host", plain(head("GET http://"+host+"/notes/7", host) + "\r\n"), 403, 0, []string{
			"refusal - - error forbidden/insecure_scheme"}},
		{"metadata address", plain(head("GET http://169.254.169.254/latest", "169.254.169.254") + "\r\n"), 403, 0, []string{
			"intent allow net.pass", "outcome allow net.pass error egress_denied"}},
		{"tunnel to a metadata address", connect("169.254.169.254:443"), 403, 0, []string{
			"intent allow net.pass", "outcome allow net.pass error egress_denied"}},
		{"the proxy itself", connect(k.Proxy), 403, 0, []string{
			"intent allow net.pass", "outcome allow net.pass error egress_denied/self_connection"}},
		{"unmatched host denied by policy", connect("blocked.test:443"), 403, 0, []string{
			"refusal deny net.pass error forbidden"}},
		{"raw port", connect("other.test:22"), 403, 0, []string{
			"refusal deny net.tunnel error forbidden"}},
		{"upstream closes without an answer", do("GET https://"+host+"/dead", ""), 502, 1, []string{
			"intent allow notes.read-as", "outcome allow notes.read-as error upstream/upstream_unavailable"}},
		{"upstream speaks no HTTP", do("GET https://"+host+"/garbage", ""), 502, 1, []string{
			"intent allow notes.read-as", "outcome allow notes.read-as error upstream"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mark, before := k.Mark(t), len(k.Up.Requests())
			a := c.send(t)
			if a.Status != c.status {
				t.Errorf("status %d (%+v, %v), want %d", a.Status, a.Problem, a.Err, c.status)
			}
			wantRecords(t, k, mark, c.records...)
			seen := len(k.Up.Requests()) - before
			if c.name == "upstream closes without an answer" && seen == 2 {
				seen = 1 // an idempotent request may be tried once more
			}
			if seen != c.seen {
				t.Errorf("the upstream saw %d requests, want %d", seen, c.seen)
			}
		})
	}
	k.Verify(t)
}

func wantRecords(t *testing.T, k *apptest.Kimbap, mark map[string]uint64, want ...string) []apptest.Record {
	t.Helper()
	records := k.Await(t, mark, len(want))
	var got []string
	for _, r := range records {
		got = append(got, r.Short())
		if r.ID == "" || r.Surface != "proxy" || r.Principal == "" && r.Code != "unauthenticated" {
			t.Errorf("incomplete: %s", r.Line)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("records\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	return records
}

// What is passed untouched is recorded too, with no credential.
func TestUntouchedHostsLeaveTheirRecords(t *testing.T) {
	t.Parallel()
	clear := servicestest.New(t, servicestest.Options{Cleartext: true})
	k := apptest.New(t, apptest.Options{
		Resolve: []string{otherHost},
		Config:  "    \"" + plainHost + "\": \"" + clear.Authority + "\"\n",
	})
	mark := k.Mark(t)
	if a := k.Do(t, "GET http://plain.test/x", ""); a.Status != 200 {
		t.Errorf("plain: %d %+v", a.Status, a.Problem)
	}
	wantRecords(t, k, mark, "intent allow net.pass", "outcome allow net.pass ok -")
	mark = k.Mark(t)
	w := k.Tunnel(t, otherHost)
	if a := w.Ask("GET /secret-path HTTP/1.1\r\nHost: other.test\r\n\r\n"); a.Status != 200 {
		t.Errorf("tunnel: %d %v", a.Status, a.Err)
	}
	_ = w.Close()
	for _, r := range wantRecords(t, k, mark, "intent allow net.pass", "outcome allow net.pass ok -") {
		if strings.Contains(r.Line, "secret-path") || r.Used != "" {
			t.Errorf("a tunnel that is not looked into: %s", r.Line)
		}
	}
	if got := k.Up.Last(t).Header.Get("Authorization"); got != "" {
		t.Errorf("a foreign host got %q", got)
	}

	mark = k.Mark(t)
	w, a := k.Connect(t, otherHost)
	if a.Status != 200 {
		t.Fatalf("CONNECT: %d", a.Status)
	}
	if _, err := w.Write([]byte("\x00\x01 neither TLS nor HTTP")); err != nil {
		t.Fatal(err)
	}
	if n, err := w.Read(make([]byte, 1)); err == nil {
		t.Errorf("an unknown protocol was passed: %d bytes came back", n)
	}
	wantRecords(t, k, mark, "intent allow net.pass", "outcome allow net.pass ok -", "refusal deny net.tunnel error forbidden")
	k.Verify(t)
}

// A request in a tunnel may have a head as long as one to the proxy itself may.
func TestATunnelTakesTheHeadsThatAreConfigured(t *testing.T) {
	t.Parallel()
	clear := servicestest.New(t, servicestest.Options{Cleartext: true})
	k := apptest.New(t, apptest.Options{
		Config: "    \"" + plainHost + "\": \"" + clear.Authority + "\"\nproxy: {limits: {header_bytes: 262144}}\n",
	})
	mark := k.Mark(t)
	w, a := k.Connect(t, plainHost)
	if a.Status != 200 {
		t.Fatalf("CONNECT: %d", a.Status)
	}
	if a := w.Ask("GET /x HTTP/1.1\r\nHost: plain.test\r\nX-Long: " + strings.Repeat("x", 128<<10) + "\r\n\r\n"); a.Status != 200 {
		t.Errorf("a head of 128 KiB: %d %v", a.Status, a.Err)
	}
	_ = w.Close()
	wantRecords(t, k, mark, "intent allow net.pass", "outcome allow net.pass ok -")
}

// An answer that the upstream does not finish does not end cleanly for the client.
func TestCutAnswersAreNotWhole(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	for _, how := range []string{"cut", "cut-chunked"} {
		mark := k.Mark(t)
		a := k.Do(t, "GET https://"+apptest.Host+"/"+how, "")
		if a.Status != 200 || a.Err == nil {
			t.Errorf("%s: %d, body of %d bytes ended with %v", how, a.Status, len(a.Body), a.Err)
		}
		wantRecords(t, k, mark, "intent allow notes.read-as", "outcome allow notes.read-as error upstream/upstream_truncated")
	}
}

func TestWebSocketLeavesItsRecords(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	mark := k.Mark(t)
	w := k.Tunnel(t, apptest.Authority)
	a := w.Ask("GET /ws HTTP/1.1\r\nHost: " + apptest.Host + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	if a.Status != http.StatusSwitchingProtocols {
		t.Fatalf("%d %+v %v", a.Status, a.Problem, a.Err)
	}
	echo := make([]byte, 4)
	if _, err := w.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Read(echo); err != nil || string(echo) != "ping" {
		t.Errorf("%q, %v", echo, err)
	}
	_ = w.Close()
	r := wantRecords(t, k, mark, "intent allow notes.read-as", "outcome allow notes.read-as ok -")
	if r[1].Status != 101 || r[1].Used != "stored" {
		t.Errorf("%s", r[1].Line)
	}
	if got := k.Up.Last(t).Fields("Authorization"); len(got) != 1 || got[0] != "Bearer "+apptest.Key {
		t.Errorf("the upstream got %d values", len(got))
	}
}

func TestUpstreamFaultsBeforeAnyByte(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		o    servicestest.Options
		host string
		down bool
		code string
	}{
		{"expired certificate", servicestest.Options{Expired: true}, apptest.Host, false, "error upstream_tls"},
		{"self-signed certificate", servicestest.Options{TLS: func(c *tls.Config) { c.Certificates = selfSigned(t, apptest.Host) }}, apptest.Host, false, "error upstream_tls"},
		{"another host's certificate", servicestest.Options{}, "api.elsewhere.example", false, "error upstream_tls"},
		{"TLS 1.1 at most", servicestest.Options{TLS: func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }}, apptest.Host, false, "error upstream_tls"},
		{"nobody listens", servicestest.Options{}, apptest.Host, true, "error upstream/upstream_unavailable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := apptest.New(t, apptest.Options{
				Upstream: c.o, Resolve: []string{"api.elsewhere.example:443"},
				Services: []string{strings.ReplaceAll(apptest.Notes, apptest.Host, c.host)},
			})
			if c.down {
				k.Up.Close()
			}
			mark := k.Mark(t)
			if a := k.Do(t, "GET https://"+c.host+"/notes/1", ""); a.Status != 502 {
				t.Errorf("%d %+v", a.Status, a.Problem)
			}
			r := wantRecords(t, k, mark, "intent allow notes.get-note", "outcome allow notes.get-note "+c.code)
			if r[1].Used != "" || len(k.Up.Requests()) != 0 || k.Up.Received() != 0 {
				t.Errorf("a credential left: %s", r[1].Line)
			}
		})
	}
}

// selfSigned is a certificate that nobody vouches for.
func selfSigned(t *testing.T, host string) []tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
}

// An edited record and one taken out of the middle are found.
func TestTamperingShows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(lines []string) []string
	}{
		{"edited", func(l []string) []string {
			at := slices.IndexFunc(l, func(s string) bool { return strings.Contains(s, "notes.get-note") })
			l[at] = strings.Replace(l[at], "notes.get-note", "notes.got-note", 1)
			return l
		}},
		{"removed", func(l []string) []string { return slices.Delete(l, 2, 3) }},
		{"swapped", func(l []string) []string { l[1], l[2] = l[2], l[1]; return l }},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := apptest.New(t, apptest.Options{})
			mark := k.Mark(t)
			for range 3 {
				k.Do(t, "GET https://"+apptest.Host+"/notes/1", "")
			}
			k.Await(t, mark, 6)
			k.Verify(t)
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Join(k.Dir, "audit"))); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "proxy", "00000001.jsonl")
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			lines := c.change(strings.SplitAfter(string(data), "\n"))
			if err := os.WriteFile(file, []byte(strings.Join(lines, "")), 0o600); err != nil {
				t.Fatal(err)
			}
			report, err := proof.Verify(t.Context(), dir, proof.Trust{})
			if err != nil || report.OK {
				t.Errorf("not found: %v\n%s", err, report)
			}
		})
	}
}
