package app_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// The cases around classifier and policy that are more than one text and one
// answer.

// CB-032: a host in another script that looks like one of ours is a host
// without a service, and the trail says it in the form that cannot be confused.
func TestLookalikeHostsAreForeign(t *testing.T) {
	t.Parallel()
	w := newCaseWorld(t)
	mark := w.Mark(t)
	wire := w.Tunnel(t, "xn--80ak6aa92e.test:443")
	if a := wire.Ask("GET / HTTP/1.1\r\nHost: xn--80ak6aa92e.test\r\n\r\n"); a.Status != 200 {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	_ = wire.Close()
	for _, r := range w.Await(t, mark, 2) {
		if r.Action != "net.pass" || r.Host != "xn--80ak6aa92e.test:443" || r.Used != "" {
			t.Errorf("%s", r.Line)
		}
	}
	if got := w.Up.Last(t).Header.Get("Authorization"); got != "" {
		t.Errorf("the foreign host got %q", got)
	}
	// The same name as a program might write it is the same host.
	mark = w.Mark(t)
	wire, a := w.Connect(t, "аррӏе.test:443")
	_ = wire.Close()
	if a.Status == 200 {
		for _, r := range w.Await(t, mark, 1) {
			if r.Host != "xn--80ak6aa92e.test:443" {
				t.Errorf("recorded as %s", r.Host)
			}
		}
	} else if a.Status != 400 {
		t.Errorf("%d %+v", a.Status, a.Problem)
	}
}

// CB-057: a compressed body that is to be judged is unpacked as far as it may become
// long. Nobody finds out how large the rest would have become.
func TestCompressedBodiesAreUnpackedToALimit(t *testing.T) {
	w := newCaseWorld(t)
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 256 {
		if _, err := z.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	wire := w.Tunnel(t, "pay.good.test:443")
	a := wire.Ask(fmt.Sprintf("POST /v1/refunds HTTP/1.1\r\nHost: pay.good.test\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", bomb.Len(), &bomb))
	goruntime.ReadMemStats(&after)
	if a.Status != 413 || a.Problem.Reason != "body_too_large" {
		t.Errorf("%d %+v %v", a.Status, a.Problem, a.Err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 32<<20 {
		t.Errorf("%d bytes were allocated for it", grown)
	}
	if n := w.Up.Received(); n != 0 {
		t.Errorf("the upstream got %d bytes", n)
	}
}

// CB-061: a body that is judged is judged whole. Until its end nothing leaves,
// and what the end says counts.
func TestNothingLeavesBeforeTheBodyIsWhole(t *testing.T) {
	t.Parallel()
	w := newCaseWorld(t)
	for _, c := range []struct {
		end    string
		status int
	}{{"1}", 200}, {"999}", 400}, {`1,"amount":2}`, 400}} {
		before := w.Up.Received()
		wire := w.Tunnel(t, "pay.good.test:443")
		head := "POST /v1/refunds HTTP/1.1\r\nHost: pay.good.test\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
		if _, err := io.WriteString(wire, head+"a\r\n{\"amount\":\r\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond) // enough for a proxy that forwards early to show it
		if n := w.Up.Received() - before; n != 0 {
			t.Fatalf("%d bytes left before the end", n)
		}
		a := wire.Ask(fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(c.end), c.end))
		if a.Status != c.status {
			t.Errorf("%s: %d %+v %v", c.end, a.Status, a.Problem, a.Err)
		}
		if left := w.Up.Received() > before; left != (c.status == 200) {
			t.Errorf("%s: bytes left: %v", c.end, left)
		}
		_ = wire.Close()
	}
}

// CB-065: an upgrade is let through or refused by the action it is, and what
// comes after it is covered by that.
func TestUpgradesAreJudged(t *testing.T) {
	t.Parallel()
	const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	w := newCaseWorld(t)
	// Where a service says nothing of websocket, a GET may be upgraded; this upstream
	// does not want to.
	for path, status := range map[string]int{"/ws": http.StatusSwitchingProtocols, "/repos/a/b": http.StatusOK, "/plain": 403, "/repos/admin/x": 403, "/nobody/s": 403} {
		before := w.Up.Received()
		a := w.Tunnel(t, "api.good.test:443").Ask("GET " + path + " HTTP/1.1\r\nHost: api.good.test\r\n" + upgrade)
		if a.Status != status {
			t.Errorf("%s: %d %+v %v", path, a.Status, a.Problem, a.Err)
		}
		if left := w.Up.Received() > before; left != (status < 400) {
			t.Errorf("%s: bytes left: %v", path, left)
		}
		if status >= 400 {
			continue
		}
		if got := w.Up.Last(t); !strings.HasPrefix(got.Line, "GET "+path+" ") || got.Header.Get("Authorization") != "Bearer "+apptest.Key || got.Header.Get("Upgrade") != "websocket" {
			t.Errorf("the upstream got %s", got.Head)
		}
	}
}
