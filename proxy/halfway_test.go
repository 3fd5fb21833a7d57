package proxy

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// ways is a connection that can end one way, without a socket: what is written waits
// until it is read.
type ways struct {
	net.Conn // what is read
	out      net.Conn
}

func newWays() (near, far ways) {
	a, b := net.Pipe()
	c, d := net.Pipe()
	return ways{a, d}, ways{c, b}
}

func (w ways) Write(p []byte) (int, error)        { return w.out.Write(p) }
func (w ways) SetWriteDeadline(t time.Time) error { return w.out.SetWriteDeadline(t) }
func (w ways) CloseWrite() error                  { return w.out.Close() }

func (w ways) Close() error {
	_ = w.out.Close()
	return w.Conn.Close()
}

// spliced is a raw tunnel between the two far ends, until both ways have ended.
func spliced(t *testing.T, idle time.Duration) (client, upstream ways, ended <-chan runtime.Result) {
	t.Helper()
	near, client := newWays()
	to, upstream := newWays()
	seat, full := newTunnels(Limits{}.withDefaults()).enter(t.Context(), runtime.Caller{}, runtime.Principal{ID: "a"}, raw)
	if full != nil {
		t.Fatal(full)
	}
	tunnel, err := NewTunnel(TunnelOptions{Dialer: &stages{}, Idle: func() time.Duration { return idle }})
	if err != nil {
		t.Fatal(err)
	}
	results := make(chan runtime.Result, 1)
	go func() {
		defer seat.leave()
		result, _ := tunnel.splice(t.Context(), &dialled{client: &taken{conn: &conn{Conn: near, raw: near}}, upstream: to, release: func() {}}, seat)
		results <- result
	}()
	return client, upstream, results
}

// Who reads nothing once its own way has ended, and so does not hear that the other side
// has gone, keeps the tunnel no longer than one who says nothing.
func TestABlockedWayEndsOnceTheOtherHas(t *testing.T) {
	const idle = 10 * time.Second
	for _, client := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			deaf, sends, ended := spliced(t, idle)
			if !client {
				deaf, sends = sends, deaf
			}
			went := make(chan error, 1)
			go func() {
				_, err := sends.Write(make([]byte, 1<<20))
				went <- err
			}()
			synctest.Wait() // the write to the deaf one waits
			began := time.Now()
			_ = deaf.CloseWrite()
			if soon(t, went) == nil {
				t.Error("all of it was taken")
			}
			if <-ended; time.Since(began) != idle {
				t.Errorf("client %t: ended after %s", client, time.Since(began))
			}
			_, _ = deaf.Close(), sends.Close()
		})
	}
}

// Slow is not deaf: a way in which something moves goes on, however long one write takes.
func TestASlowWayGoesOnOnceTheOtherHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, upstream, ended := spliced(t, time.Minute)
		_ = upstream.CloseWrite()
		if _, err := client.Read(make([]byte, 1)); err != io.EOF {
			t.Fatal(err)
		}
		go func() {
			_, _ = client.Write([]byte("slow but sure"))
			_ = client.CloseWrite()
		}()
		for i := range "slow but sure" {
			time.Sleep(40 * time.Second) // of the bubble's clock
			if _, err := io.ReadFull(upstream, make([]byte, 1)); err != nil {
				t.Fatalf("after %d bytes: %v", i, err)
			}
		}
		if result := <-ended; result.BytesOut != int64(len("slow but sure")) {
			t.Errorf("%d bytes of it", result.BytesOut)
		}
		_, _ = client.Close(), upstream.Close()
	})
}

// Nor has one a time while both go on: whoever has paused a download may come back.
func TestAPauseIsNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, upstream, ended := spliced(t, time.Minute)
		go func() { _, _ = upstream.Write(make([]byte, 1<<10)) }()
		time.Sleep(24 * time.Hour) // of the bubble's clock
		if _, err := io.ReadFull(client, make([]byte, 1<<10)); err != nil {
			t.Error(err)
		}
		_, _ = client.Close(), upstream.Close()
		<-ended
	})
}
