package rest_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// undialled is a dialer that ends like that.
type undialled struct{ err error }

func (d undialled) Dial(context.Context, string, bool, bool) (net.Conn, string, bool, error) {
	return nil, "", false, d.err
}

// Whoever waited for a connection in vain is told what to raise: the time for an answer has no
// effect before there is one.
func TestWhatTakesTooLongBeforeTheRequestLeft(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts, and nobody says anything
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mute.Close() }()
	for name, one := range map[string]struct {
		dialer    rest.Dialer
		msg, hint string
	}{
		"a name":      {undialled{&net.DNSError{Err: "i/o timeout", Name: "a.test", IsTimeout: true}}, "the name 127.0.0.1 could not be resolved in time", "resolver"},
		"a dial":      {undialled{&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}}, "127.0.0.1 could not be reached in time", "upstream.dial_timeout"},
		"its context": {undialled{context.DeadlineExceeded}, "127.0.0.1 could not be reached in time", "upstream.dial_timeout"},
		"a handshake": {to{mute.Addr().String()}, "127.0.0.1 could not be reached in time", "upstream.dial_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, servicestest.Options{}, func(o *rest.Options) { o.Dialer, o.DialTimeout = one.dialer, 50*time.Millisecond })
			e := r.refused(t, body(r.call("POST", "/a"), io.LimitReader(strings.NewReader("x"), 1), 1), runtime.CodeTimeout, "")
			if e.Msg != one.msg || !strings.Contains(e.Hint, one.hint) {
				t.Errorf("%s | %s", e.Msg, e.Hint)
			}
		})
	}
}

// What is between may end a handshake, a firewall that does not like the name: that says nothing
// of a certificate. A server that says by an alert that it fails is one that there is no trust with.
func TestAHandshakeThatIsBrokenOffIsNoDistrust(t *testing.T) {
	for name, one := range map[string]struct {
		end    func(*net.TCPConn)
		code   runtime.Code
		reason runtime.Reason
		msg    string
	}{
		"an end":   {func(c *net.TCPConn) { _ = c.CloseWrite() }, runtime.CodeUpstream, runtime.ReasonUpstreamUnavailable, "127.0.0.1 ended the connection in the middle of the TLS handshake"},
		"a reset":  {func(c *net.TCPConn) { _ = c.SetLinger(0) }, runtime.CodeUpstream, runtime.ReasonUpstreamUnavailable, "127.0.0.1 ended the connection in the middle of the TLS handshake"},
		"an alert": {func(c *net.TCPConn) { _, _ = c.Write([]byte{21, 3, 3, 0, 2, 2, 40}) }, runtime.CodeUpstreamTLS, "", "the certificate or TLS handshake of 127.0.0.1 is not one to trust"},
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = ln.Close() }()
			go func() {
				for {
					c, err := ln.Accept()
					if err != nil {
						return
					}
					head := make([]byte, 5)
					_, _ = io.ReadFull(c, head) // of the record with the ClientHello: what is left unread would become a reset
					_, _ = io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint16(head[3:])))
					if tcp, ok := c.(*net.TCPConn); ok {
						one.end(tcp)
					}
					_ = c.Close()
				}
			}()
			r := newRig(t, servicestest.Options{}, func(o *rest.Options) { o.Dialer = to{ln.Addr().String()} })
			e := r.refused(t, r.call("GET", "/a"), one.code, one.reason)
			if e.Msg != one.msg {
				t.Errorf("%s | %s", e.Msg, e.Hint)
			}
		})
	}
}
