package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(runtimetest.Settled{M: m}) }

// names is a resolver with fixed answers, or one answer after the other; it notes
// what it was asked.
type names struct {
	answers map[string][]string
	turns   []string // for whatever is asked, one for each question
	asked   []string
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.asked = append(n.asked, host)
	if turn := len(n.asked) - 1; turn < len(n.turns) {
		return []netip.Addr{netip.MustParseAddr(n.turns[turn])}, nil
	}
	var out []netip.Addr
	for _, a := range n.answers[host] {
		out = append(out, netip.MustParseAddr(a))
	}
	if out == nil {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return out, nil
}

// wires is a dialer that notes addresses and reaches nothing.
type wires struct {
	mu     sync.Mutex
	dialed []string
	fail   map[string]bool
	slow   map[string]time.Duration
	closed int
}

type wire struct {
	net.Conn
	close func()
}

func (w *wire) Close() error { w.close(); return nil }

func (w *wires) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	w.dialed = append(w.dialed, address)
	w.mu.Unlock()
	if d := w.slow[address]; d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if w.fail[address] || network != "tcp" {
		return nil, fmt.Errorf("connect %s: refused", address)
	}
	return &wire{close: func() { w.mu.Lock(); w.closed++; w.mu.Unlock() }}, nil
}

func (w *wires) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.dialed)
}

func guard(t *testing.T, o Options) (*Guard, *names, *wires) {
	t.Helper()
	n := &names{answers: map[string][]string{
		"public.test": {"93.184.216.34"}, "inner.test": {"10.0.0.5"}, "loop.test": {"127.0.0.1"}, "meta.test": {"169.254.169.254"},
		"rebind.test": {"127.0.0.1", "93.184.216.34"}, "cgnat.test": {"100.64.0.1"}, "localhost.localdomain": {"127.0.0.1"},
		"mixed.test": {"10.0.0.5", "169.254.169.254"}, "turned.test": {"169.254.169.254", "10.0.0.5"}, "zero.test": {"0.0.0.0"}, "lan.test": {"192.168.1.5"}, "zoned.test": {"fe80::1%eth0"},
	}}
	w := &wires{fail: map[string]bool{}, slow: map[string]time.Duration{}}
	o.Resolver, o.Dialer = n, w
	if o.Private == "" {
		o.Private = ModeAuto
	}
	if o.Own == nil {
		o.Own = func() []netip.AddrPort { return nil }
	}
	if o.Local == nil {
		o.Local = func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("192.168.1.5")}, nil }
	}
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return g, n, w
}

// outcome is "→ address", "denied class", "self" or "error".
func outcome(conn net.Conn, info Info, err error) string {
	var denied *Denied
	var self *Self
	switch {
	case errors.As(err, &self):
		return "self"
	case errors.As(err, &denied):
		return "denied " + string(denied.Class)
	case err != nil:
		return "error"
	case conn == nil:
		return "nothing"
	}
	return "→ " + info.Address
}

const (
	trusted  = "trusted"
	loopback = "loopback"
)
