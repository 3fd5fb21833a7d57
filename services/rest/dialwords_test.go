package rest_test

import (
	"context"
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
