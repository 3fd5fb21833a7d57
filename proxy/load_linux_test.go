package proxy

import (
	"bufio"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// Hundreds of connections whose heads drip, on the listener and inside TLS, all
// end, and requests beside them go on as before.
func TestSlowLorisIsDropped(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) { o.Limits.HeadTimeout = dripTimeout })
	r.upstream("api.good.test:443", answering(okAnswer))
	r.upstream("plain.test:80", answering(okAnswer))
	request := func() time.Duration {
		start := time.Now()
		c := r.dial()
		defer func() { _ = c.Close() }()
		c.send("GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n")
		if resp, _ := c.get("GET"); resp.StatusCode != 200 {
			t.Errorf("beside slow clients: %s", resp.Status)
		}
		return time.Since(start)
	}
	p99 := func(n int) time.Duration {
		var took []time.Duration
		for range n {
			took = append(took, request())
		}
		slices.Sort(took)
		return took[n*99/100]
	}
	before := p99(200)

	clients := make([]*client, drippers)
	for i := range clients {
		if i%4 == 0 {
			clients[i] = r.open("api.good.test:443")
		} else {
			clients[i] = r.dial()
		}
		_ = clients[i].SetDeadline(time.Now().Add(10 * dripTimeout))
	}
	start, during := time.Now(), time.Duration(0)
	var left atomic.Int64
	left.Add(drippers)
	var group sync.WaitGroup
	for _, c := range clients {
		group.Go(func() {
			defer left.Add(-1)
			stop := drip(c, "G")
			defer stop()
			if _, err := io.ReadAll(c.br); isTimeout(err) {
				t.Error("a slow client is still there")
			}
		})
	}
	for left.Load() > 0 {
		during = max(during, p99(50))
	}
	group.Wait()
	t.Logf("%d dropped after %v; p99 of others %v before, at most %v meanwhile", drippers, time.Since(start), before, during)
}

// CR-013: when the process really has no descriptor left, accepting waits, says
// so once, leaves open tunnels alone, and goes on when there is one again.
func TestNoDescriptorLeft_CR013(t *testing.T) {
	var said atomic.Int32
	r := newRig(t, func(o *Options, _ *stages) {
		o.Log = zerolog.New(writerFunc(func(p []byte) (int, error) {
			if strings.Contains(string(p), "cannot accept") {
				said.Add(1)
			}
			return len(p), nil
		}))
	})
	r.upstream("plain.test:80", func(c net.Conn, br *bufio.Reader) { _, _ = io.Copy(c, br) })
	live := r.connect("plain.test:80", "GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n")
	echo := func(text string) {
		t.Helper()
		live.send(text)
		if got, err := live.br.ReadString('\n'); got != text || err != nil {
			t.Errorf("the open tunnel: %q, %v", got, err)
		}
	}
	for line := "?"; line != "\r\n"; { // what opened it comes back first
		var err error
		if line, err = live.br.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	echo("before\n")

	fillers := runtimetest.Exhaust(t)
	_ = fillers[0].Close()
	waiting := r.dial() // has the last one
	r.eventually("the log line", func() bool { return said.Load() == 1 })
	echo("meanwhile\n")
	for _, f := range fillers[1:] {
		_ = f.Close()
	}
	if !waiting.served() {
		t.Error("not served once there were descriptors again")
	}
	if n := said.Load(); n != 1 {
		t.Errorf("said so %d times", n)
	}
}
