package app_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// The cases of the area "SSRF / egress guard" against the whole proxy, as a
// client asks for them; proxy/egress holds them against the guard with a dialer
// that tells. SS-014: nothing follows a redirect (services/rest). SS-017 is
// in notify_test.go, SS-018 in internal/config and scripts.
func TestSSRFCases(t *testing.T) {
	k := apptest.New(t, apptest.Options{Config: "egress: {private: deny}\n"})
	for _, c := range []struct {
		id, connects string // by CONNECT, separated by spaces
		status       string // of which one must come
		reason       string
	}{
		{"SS-001", "127.0.0.1:22", "403", ""},
		{"SS-002", "[::1]:443", "403", ""},
		{"SS-003", "[::ffff:127.0.0.1]:443 [::ffff:7f00:1]:443", "403", ""},
		{"SS-005", "[64:ff9b::a9fe:a9fe]:80 [64:ff9b:1::7f00:1]:80 [2002:7f00:1::]:80 [2001:0:7f00:1::]:80", "403", ""},
		{"SS-006", "169.254.169.254:80 [fd00:ec2::254]:80 metadata.google.internal:80 169.254.170.2:80 100.100.100.200:80 192.0.0.192:80 168.63.129.16:80", "403", ""},
		{"SS-007", "0.0.0.0:80 [::]:80 0.1.2.3:80", "403", ""},
		{"SS-008", "10.0.0.1:443 172.31.255.255:443 192.168.1.1:443 100.64.0.1:443 198.18.0.1:443 192.0.2.1:443 224.0.0.1:443 240.0.0.1:443 255.255.255.255:443 [fe80::1]:443 [fec0::1]:443 [fc00::1]:443 [ff02::1]:443", "403", ""},
		{"SS-009", "2130706433:443 0x7f000001:443 0177.0.0.1:443 127.1:443", "400 403 502", ""},
		{"SS-010", "127.0.0.1.:443 LOCALHOST.:443 1.0.0.127.in-addr.arpa:443", "403", ""},
		{"SS-015", k.Proxy, "403", "self_connection"},
		{"SS-016", "[fe80::1%eth0]:443 [fe80::1%25eth0]:443", "400 403", ""},
		{"SS-019", "api.good.test:25 api.good.test:22 api.good.test:6379 api.good.test:53", "403", ""},
	} {
		for authority := range strings.FieldsSeq(c.connects) {
			mark := k.Mark(t)
			_, a := k.Connect(t, authority)
			refused(t, k, mark, c.id+" CONNECT "+authority, a, c.status, c.reason)
		}
	}
	for _, c := range []struct{ id, url, status, reason string }{
		{"SS-006", "http://169.254.169.254/latest/meta-data/", "403", ""},
		{"SS-015", "http://" + k.Proxy + "/kimbap/approvals/x", "403", "self_connection"},
		{"SS-016", "http://[fe80::1%25eth0]/", "400 403", ""},
	} {
		mark := k.Mark(t)
		host, _, _ := strings.Cut(strings.TrimPrefix(c.url, "http://"), "/")
		a := k.Dial(t).Ask("GET " + c.url + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
		refused(t, k, mark, c.id+" GET "+c.url, a, c.status, c.reason)
	}
}

// refused wants one of the statuses, a way on, and records that say the same.
func refused(t *testing.T, k *apptest.Kimbap, mark map[string]uint64, what string, a apptest.Answer, status, reason string) {
	t.Helper()
	if !strings.Contains(status, strconv.Itoa(a.Status)) || reason != "" && a.Problem.Reason != reason {
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
