package app_test

import (
	"crypto/x509"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// AU-008: so do connections that never became a request: one that does not trust
// our certificate, and one that a program opened and left.
func TestConnectionsWithoutARequestAreRecorded_AU008(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	mark := k.Mark(t)
	w, a := k.Connect(t, apptest.Authority)
	if a.Status != http.StatusOK {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	if _, err := w.TryTLS(x509.NewCertPool(), apptest.Authority); err == nil {
		t.Fatal("a client that trusts nobody went on")
	}
	got := k.Await(t, mark, 1)
	if len(got) != 1 || got[0].Kind != "refusal" || got[0].Reason != "tls_client_rejected" || got[0].Host != apptest.Authority {
		t.Errorf("recorded %v", got)
	}
	mark = k.Mark(t)
	_ = k.Tunnel(t, apptest.Authority).Close()
	if got := k.Await(t, mark, 1); len(got) != 1 || got[0].Kind != "refusal" || got[0].Code != "canceled" || got[0].Host != apptest.Authority {
		t.Errorf("left: recorded %v", got)
	}
	for name, c := range map[string]struct{ code, said string }{
		"":                                     {"canceled", "before it spoke TLS"},
		"\x16":                                 {"canceled", "in the TLS handshake"},
		"\x16\x03\x01\x00\x04\x02\x00\x00\x00": {"invalid_input", "no TLS came about"}, // a message that begins no handshake
	} {
		mark = k.Mark(t)
		w, _ := k.Connect(t, apptest.Authority)
		_, _ = io.WriteString(w.Conn, name)
		hangUp(w)
		got := k.Await(t, mark, 1)
		if len(got) != 1 || got[0].Kind != "refusal" || got[0].Code != c.code || got[0].Reason != "tunnel_unopened" ||
			got[0].Host != apptest.Authority || got[0].Principal == "" || !strings.Contains(got[0].Line, c.said) {
			t.Errorf("%q: recorded %v", name, got)
		}
	}
	if n := k.Up.Connections(); n != 0 {
		t.Errorf("%d connections to the upstream", n)
	}
	k.Verify(t)
}

// hangUp ends what a client says, and waits until the proxy has closed the
// connection: it records before.
func hangUp(w *apptest.Wire) {
	if half, ok := w.Conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, w.Conn)
}

// AU-008: what only looks whether somebody is there, over and over, does not fill the
// trail: of a minute fifty stand in it by themselves, and one event tells of the rest.
func TestKnocksDoNotFillTheTrail_AU008(t *testing.T) {
	t.Parallel()
	const knocks = 80
	now := time.Now() // all of them in one minute
	k := apptest.New(t, apptest.Options{Clock: func() time.Time { return now }})
	mark := k.Mark(t)
	for range knocks {
		w, a := k.Connect(t, apptest.Authority)
		if a.Status != http.StatusOK {
			t.Fatalf("%d %+v", a.Status, a.Problem)
		}
		hangUp(w)
	}
	if err := k.App.TellCrowds(t.Context()); err != nil {
		t.Fatal(err)
	}
	alone, sum := 0, ""
	for _, r := range k.Records(t) {
		switch {
		case r.Seq <= mark[r.Slot]:
		case r.Kind == "refusal" && r.Reason == "tunnel_unopened":
			alone++
		case r.Event == "tunnels.unopened":
			sum += r.Fields["tunnels"] + " "
		}
	}
	if alone != 50 || sum != "30 " {
		t.Errorf("%d by themselves, then %s", alone, sum)
	}
	if a := k.Do(t, "GET https://"+apptest.Host+"/notes/1", ""); a.Status != 200 {
		t.Errorf("a request: %d %+v", a.Status, a.Problem)
	}
	k.Verify(t)
}
