package proxy

import (
	"bufio"
	"io"
	"net"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// A client that ends its half without a word, and listens, wants what a server says first:
// mail, a shell, a database on a port of its own. That is net.tunnel like silence, and
// where policy has none the client hears nothing and leaves no refusal: it may just be gone.
func TestSilenceThatEndsIsNoWayToABanner(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("banner.test:2525", func(c net.Conn, br *bufio.Reader) {
		_, _ = io.WriteString(c, "220 banner\r\n")
		_, _ = io.Copy(io.Discard, br)
	})
	listen := func() string {
		c := r.connect("banner.test:2525", "")
		if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(c.br)
		return string(got)
	}
	if got := listen(); got != "" {
		t.Errorf("the client heard %q", got)
	}
	if rec := r.outcome(); rec.Err != nil || rec.Action.Ref != runtime.ActionPass || rec.Result.BytesIn != 0 {
		t.Errorf("recorded %+v", rec)
	}
	r.allow(runtime.ActionTunnel)
	if got := listen(); got != "220 banner\r\n" {
		t.Errorf("allowed, the client heard %q", got)
	}
	for _, want := range []runtime.Ref{runtime.ActionPass, runtime.ActionTunnel} {
		if rec := r.outcome(); rec.Err != nil || rec.Action.Ref != want {
			t.Errorf("allowed: %+v", rec)
		}
	}
}
