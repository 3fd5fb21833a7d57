package egress

import (
	"context"
	"net"
	"net/netip"
	"testing"
)

// What is held open is ended by the guard that would not open it there, the same way, and
// by no other.
func TestAChangedGuardEndsWhatItWouldNotOpen(t *testing.T) {
	before := Options{Resolve: map[string]string{"mapped.test:443": "127.0.0.1:18443"}}
	for _, c := range []struct {
		authority, address string
		after              Options
		ends               bool
	}{
		{"public.test:443", "93.184.216.34:443", before, false},
		{"public.test:443", "93.184.216.34:443", Options{}, false},
		{"public.test:443", "93.184.216.34:443", Options{Deny: []string{"*.test"}}, true},
		{"public.test:443", "93.184.216.34:443", Options{Deny: []string{"93.184.0.0/16"}}, true},
		{"public.test:443", "93.184.216.34:443", Options{Deny: []string{"other.test", "10.0.0.0/8"}}, false},
		{"public.test:443", "93.184.216.34:443", Options{Resolve: map[string]string{"public.test:443": "127.0.0.1:18443"}}, true},
		{"public.test:443", "93.184.216.34:443", Options{Via: &Via{Authority: "proxy.test:3128"}}, true},
		{"public.test:443", "93.184.216.34:443", Options{Via: &Via{Authority: "proxy.test:3128", Except: []string{"public.test"}}}, false},
		{"inner.test:443", "10.0.0.5:443", Options{Private: ModeDeny}, true},
		{"inner.test:443", "10.0.0.5:443", Options{Private: ModeAllow}, false},
		{"mapped.test:443", "127.0.0.1:18443", before, false},
		{"mapped.test:443", "127.0.0.1:18443", Options{}, true},
		{"mapped.test:443", "127.0.0.1:18443", Options{Resolve: map[string]string{"mapped.test:443": "127.0.0.1:19443"}}, true},
		{"mapped.test:443", "127.0.0.1:18443", Options{Resolve: before.Resolve, Deny: []string{"127.0.0.0/8"}}, true},
	} {
		first, _, _ := guard(t, before)
		after, _, _ := guard(t, c.after)
		l, ended := NewLive(first), 0
		release := l.Hold(Request{Authority: c.authority, Trusted: true}, c.address, func() { ended++ })
		gone := l.Hold(Request{Authority: c.authority, Trusted: true}, c.address, func() { t.Errorf("%s: ended after its end", c.authority) })
		if gone(); ended > 0 {
			t.Errorf("%s is ended by the guard that opened it", c.authority)
		}
		if l.Swap(after); (ended > 0) != c.ends {
			t.Errorf("%s at %s, then %+v: ended %d times", c.authority, c.address, c.after, ended)
		}
		release()
	}
}

// A dial that another guard overtakes is judged by that one as soon as it is held.
func TestWhatIsHeldTooLateEndsAtOnce(t *testing.T) {
	first, _, _ := guard(t, Options{})
	l, ended := NewLive(first), 0
	conn, info, err := l.Dial(t.Context(), Request{Authority: "public.test:443"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	closed, _, dialled := guard(t, Options{Deny: []string{"public.test"}})
	l.Swap(closed)
	l.Hold(Request{Authority: "public.test:443"}, info.Address, func() { ended++ })()
	if ended != 1 {
		t.Errorf("ended %d times", ended)
	}
	if _, _, err := l.Dial(t.Context(), Request{Authority: "public.test:443"}); err == nil || len(dialled.list()) > 0 {
		t.Errorf("dialled by the guard before: %v", err)
	}
}

// swaps is a dialer during whose first dial another guard comes.
type swaps struct {
	*wires
	swap func()
}

func (s *swaps) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if swap := s.swap; swap != nil {
		s.swap = nil
		swap()
	}
	return s.wires.DialContext(ctx, network, address)
}

// A guard that comes in the middle of a dial counts for it, also where it would only have
// gone another way to the same place.
func TestAGuardThatOvertakesADialCounts(t *testing.T) {
	for _, c := range []struct {
		then Options
		want string
		anew bool
	}{
		{Options{}, "→ 93.184.216.34:443", false},
		{Options{Deny: []string{"public.test"}}, "denied public", true},
		{Options{Resolve: map[string]string{"public.test:443": "lan.test:443"}}, "→ 192.168.1.5:443", true},
		{Options{Private: ModeDeny}, "→ 93.184.216.34:443", false},
	} {
		first, _, wires := guard(t, Options{})
		c.then.Local = func() ([]netip.Addr, error) { return nil, nil }
		second, _, _ := guard(t, c.then)
		l := NewLive(first)
		first.dialer = &swaps{wires, func() { l.Swap(second) }}
		if got := outcome(l.Dial(t.Context(), Request{Authority: "public.test:443", Trusted: true})); got != c.want || (wires.closed == 1) != c.anew {
			t.Errorf("%+v: %s, %d closed", c.then, got, wires.closed)
		}
	}
	first, _, wires := guard(t, Options{})
	wires.fail["93.184.216.34:443"] = true
	l := NewLive(first)
	first.dialer = &swaps{wires, func() { l.Swap(&Guard{}) }}
	if got := outcome(l.Dial(t.Context(), Request{Authority: "public.test:443"})); got != "error" {
		t.Errorf("a dial that failed meanwhile: %s", got)
	}
}

// Where upstream.resolve leads a name elsewhere between a dial and its hold, the connection
// is one that the guard in force would not have opened.
func TestWhatWasDialledElsewhereEndsAtOnce(t *testing.T) {
	for to, ends := range map[string]bool{
		"127.0.0.1:18443": false, "[::ffff:127.0.0.1]:18443": false, "127.0.0.1:19443": true, "127.0.0.2:18443": true, "": true,
	} {
		first, _, _ := guard(t, Options{Resolve: map[string]string{"mapped.test:443": "127.0.0.1:18443"}})
		l, ended := NewLive(first), false
		conn, info, err := l.Dial(t.Context(), Request{Authority: "mapped.test:443"})
		if err != nil {
			t.Fatal(err)
		}
		var now Options
		if to != "" {
			now.Resolve = map[string]string{"mapped.test:443": to}
		}
		second, _, _ := guard(t, now)
		l.Swap(second)
		l.Hold(Request{Authority: "mapped.test:443"}, info.Address, func() { ended = true })()
		if ended != ends {
			t.Errorf("to %q: ended %v", to, ended)
		}
		_ = conn.Close()
	}
}

// What goes through a company's proxy is held by its name: where that leads only the
// proxy knows.
func TestATunnelThroughAProxyIsJudgedByItsName(t *testing.T) {
	via := &Via{Authority: "proxy.test:3128"}
	for _, c := range []struct {
		after Options
		ends  bool
	}{
		{Options{Via: via}, false},
		{Options{Via: &Via{Authority: "proxy.test:3128", Authorization: func() string { return "Basic eDp5" }}}, false},
		{Options{Via: &Via{Authority: "other.test:3128"}}, true},
		{Options{Via: via, Deny: []string{"public.test"}}, true},
		{Options{}, true},
	} {
		first, _, _ := guard(t, Options{Via: via})
		after, _, _ := guard(t, c.after)
		l, ended := NewLive(first), false
		release := l.Hold(Request{Authority: "public.test:443"}, "10.0.0.9:3128", func() { ended = true })
		if l.Swap(after); ended != c.ends {
			t.Errorf("%+v: ended %v", c.after, ended)
		}
		release()
	}
}
