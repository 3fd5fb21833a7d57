package proxy

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// What a client sent before it broke off is no whole upload: its upstream sees that.
func TestAClientsResetIsOneForTheUpstream(t *testing.T) {
	r := newRig(t, nil)
	arrived, ended := make(chan struct{}), make(chan error, 1)
	r.upstream("plain.test:80", func(_ net.Conn, br *bufio.Reader) {
		for line := ""; line != "part\n"; line, _ = br.ReadString('\n') {
		}
		close(arrived)
		_, err := io.ReadAll(br)
		ended <- err
	})
	c := r.connect("plain.test:80", "PUT / HTTP/1.1\r\nHost: plain.test\r\nConnection: close\r\n\r\npart\n")
	<-arrived
	_ = c.Conn.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
	if err := <-ended; err == nil || isTimeout(err) {
		t.Errorf("the upload ended with %v", err)
	}
	if rec := r.outcome(); rec.Err != nil {
		t.Errorf("recorded %+v", rec.Err)
	}
}

// An answer without a length that flows in a tunnel looks cut, whoever ends the tunnel.
func TestATunnelThatIsEndedLooksCut(t *testing.T) {
	const head, part = "GET / HTTP/1.0\r\nHost: plain.test\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\npart of it"
	ends := make(chan func(), 1)
	for name, end := range map[string]func(*rig){
		"the guard":    func(*rig) { (<-ends)() },
		"a reload":     func(r *rig) { r.stages.denying(runtime.ActionPass); r.server.Reloaded() },
		"a revocation": func(r *rig) { r.stages.revoke(); r.server.Recheck(t.Context()) },
		"the end":      func(r *rig) { r.server.tunnels.closeAll() },
	} {
		for range 5 { // which of its ends was closed first was left to chance
			r := newRig(t, func(o *Options, st *stages) {
				throughTunnel(t, o, st, TunnelOptions{Dialer: st, Peek: time.Second, Hold: func(_, _ string, _, _ bool, end func()) func() {
					ends <- end
					return func() {
						select {
						case <-ends:
						default:
						}
					}
				}})
			})
			over := make(chan struct{})
			r.upstream("plain.test:80", func(c net.Conn, br *bufio.Reader) {
				_, _ = br.ReadString('\n')
				_, _ = io.WriteString(c, part)
				<-over
			})
			c := r.dial()
			c.send("CONNECT plain.test:80 HTTP/1.1\r\nHost: plain.test:80\r\n" + asGood + "\r\n\r\n" + head)
			c.answer("CONNECT")
			if _, err := io.ReadFull(c.br, make([]byte, len(part))); err != nil {
				t.Fatal(err)
			}
			end(r)
			if rest, err := io.ReadAll(c.br); err == nil || isTimeout(err) {
				t.Errorf("%s: %q, then %v", name, rest, err)
			}
			close(over)
			r.outcome()
		}
	}
}

// From the dial on a tunnel is held, before its client has said what it speaks and while
// it is judged again: what the guard does not let be any more is not opened then.
func TestATunnelIsHeldBeforeItIsJudged(t *testing.T) {
	ends, released := make(chan func(), 1), make(chan string, 1)
	r := newRig(t, func(o *Options, st *stages) {
		throughTunnel(t, o, st, TunnelOptions{Dialer: st, Peek: patience, Hold: func(authority, _ string, _, _ bool, end func()) func() {
			ends <- end
			return func() { released <- authority }
		}})
	})
	received := r.upstream("other.test:80", func(_ net.Conn, br *bufio.Reader) { _, _ = io.Copy(io.Discard, br) })
	c := r.connect("other.test:80", "")
	select {
	case end := <-ends:
		end()
	case <-time.After(patience / 3):
		t.Fatal("nobody holds it")
	}
	_, _ = io.WriteString(c.Conn, "GET / HTTP/1.1\r\nHost: other.test\r\n\r\n")
	c.gone()
	if authority := <-released; authority != "other.test:80" || received() != "" {
		t.Errorf("released %q, sent %q", authority, received())
	}
	r.outcome()
	c = r.connect("other.test:80", "\x00") // is judged again, and denied
	<-ends
	c.gone()
	<-released
}

// revoke takes the token of the test back.
func (s *stages) revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked = true
}
