package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestDialJudgesEveryAuthority(t *testing.T) {
	for _, c := range []struct {
		options   Options
		authority string
		as        string // trusted, loopback
		want      string
	}{
		// Nothing opens these.
		{Options{Private: ModeAllow}, "169.254.169.254:80", trusted, "denied metadata"},
		{Options{Private: ModeAllow}, "[fd00:ec2::254]:80", trusted, "denied metadata"},
		{Options{Private: ModeAllow}, "metadata.google.internal:80", trusted, "denied metadata"},
		{Options{Private: ModeAllow}, "Metadata.Google.Internal.:80", trusted, "denied metadata"},
		{Options{Private: ModeAllow}, "metadata:80", trusted, "denied metadata"},
		{Options{Private: ModeAllow}, "metadata.goog:80", trusted, "denied metadata"},
		{Options{Private: ModeAllow}, "instance-data:80", trusted, "denied metadata"},
		{Options{Private: ModeAllow}, "instance-data.ec2.internal:80", trusted, "denied metadata"},
		{Options{Allow: []string{"0.0.0.0/0", "::/0"}}, "100.100.100.200:80", trusted, "denied metadata"},
		{Options{Allow: []string{"0.0.0.0/0", "::/0"}}, "[64:ff9b::a9fe:a9fe]:80", trusted, "denied metadata"},
		{Options{Allow: []string{"meta.test"}}, "meta.test:80", trusted, "denied metadata"},
		{Options{Resolve: map[string]string{"a.test:80": "169.254.169.254:80"}}, "a.test:80", trusted, "denied metadata"},
		{Options{Allow: []string{"169.254.0.0/16"}}, "169.254.1.1:80", trusted, "denied linklocal"},
		{Options{}, "[fe80::1%25eth0]:443", trusted, "denied linklocal"},
		{Options{}, "[fe80::1%eth0]:443", trusted, "denied linklocal"},
		{Options{}, "zoned.test:443", trusted, "denied linklocal"},
		{Options{Allow: []string{"0.0.0.0/0"}}, "0.0.0.0:80", loopback, "denied unspecified"},
		{Options{Allow: []string{"zero.test"}}, "zero.test:80", loopback, "denied unspecified"},
		{Options{Allow: []string{"::/0"}}, "[::]:80", loopback, "denied unspecified"},
		{Options{}, "224.0.0.1:80", trusted, "denied multicast"},
		{Options{}, "0.1.2.3:80", trusted, "denied special"},
		{Options{}, "255.255.255.255:80", trusted, "denied special"},

		// Spellings that only some resolvers understand.
		{Options{}, "2130706433:443", loopback, "denied special"},
		{Options{}, "0x7f000001:443", loopback, "denied special"},
		{Options{}, "0X7F000001:443", loopback, "denied special"},
		{Options{}, "0177.0.0.1:443", loopback, "denied special"},
		{Options{}, "127.1:443", loopback, "denied special"},
		{Options{}, "127.0.0.1.:443", trusted, "denied loopback"},
		{Options{}, "LOCALHOST.:443", trusted, "denied loopback"},
		{Options{}, "localhost.localdomain:443", loopback, "denied loopback"},
		{Options{}, "1.0.0.127.in-addr.arpa:443", trusted, "denied special"},
		{Options{}, "b.a.9.8.7.6.5.ip6.arpa:443", trusted, "denied special"},
		{Options{}, "127.0.0.1..:443", trusted, "error"},
		{Options{}, "a b:443", trusted, "error"},
		{Options{}, "public.test", trusted, "error"},
		{Options{}, "public.test:0", trusted, "error"},
		{Options{}, "public.test:65536", trusted, "error"},
		{Options{}, "public.test:+443", trusted, "error"},
		{Options{}, "nowhere.test:443", trusted, "error"},

		// Loopback.
		{Options{}, "127.0.0.1:22", trusted, "denied loopback"},
		{Options{Private: ModeAllow}, "[::1]:443", trusted, "denied loopback"},
		{Options{}, "[::ffff:127.0.0.1]:443", trusted, "denied loopback"},
		{Options{}, "loop.test:443", loopback, "denied loopback"}, // a name that resolves there is not a name for it
		{Options{}, "127.0.0.1:8080", loopback, "→ 127.0.0.1:8080"},
		{Options{}, "localhost:8080", loopback, "→ 127.0.0.1:8080"},
		{Options{Private: ModeDeny}, "127.0.0.1:8080", loopback, "denied loopback"},
		{Options{Allow: []string{"127.0.0.0/8"}}, "127.0.0.1:8080", "", "→ 127.0.0.1:8080"},
		{Options{Allow: []string{"::ffff:127.0.0.0/104"}}, "127.0.0.1:8080", "", "→ 127.0.0.1:8080"},
		{Options{Allow: []string{"loop.test"}}, "loop.test:8080", "", "→ 127.0.0.1:8080"},
		{Options{Allow: []string{"*.test"}}, "loop.test:8080", "", "→ 127.0.0.1:8080"},
		{Options{Allow: []string{"*.test"}}, "test:8080", "", "error"},
		{Options{Allow: []string{"*.corp.test", "*.op.test", "*.loop.test", "op.test", "test"}}, "loop.test:8080", "", "denied loopback"},

		// Private ranges by mode.
		{Options{}, "10.0.0.1:443", trusted, "→ 10.0.0.1:443"},
		{Options{}, "10.0.0.1:443", "", "denied private"},
		{Options{}, "cgnat.test:443", trusted, "→ 100.64.0.1:443"},
		{Options{}, "cgnat.test:443", "", "denied cgnat"},
		{Options{Private: ModeAllow}, "inner.test:443", "", "→ 10.0.0.5:443"},
		{Options{Private: ModeDeny}, "inner.test:443", trusted, "denied private"},
		{Options{Private: ModeDeny, Allow: []string{"10.0.0.5"}}, "inner.test:443", "", "→ 10.0.0.5:443"},
		{Options{Allow: []string{"fd00::1/128"}}, "[fd00::1]:443", "", "→ [fd00::1]:443"},
		{Options{Allow: []string{"fd00::1/128"}}, "[fd00::2]:443", "", "denied private"},
		{Options{}, "mixed.test:443", "", "denied metadata"},
		{Options{}, "mixed.test:443", trusted, "→ 10.0.0.5:443"},
		{Options{}, "turned.test:443", "", "denied metadata"},

		// Public, and what config says of it.
		{Options{Private: ModeDeny}, "public.test:443", "", "→ 93.184.216.34:443"},
		{Options{}, "[::ffff:93.184.216.34]:443", "", "→ 93.184.216.34:443"},
		{Options{}, "rebind.test:443", "", "→ 93.184.216.34:443"},
		{Options{Deny: []string{"public.test"}}, "PUBLIC.test:443", trusted, "denied public"},
		{Options{Deny: []string{"93.184.216.0/24"}, Allow: []string{"public.test"}}, "public.test:443", trusted, "denied public"},
		{Options{Deny: []string{"*.public.test", "*.c.test", "c.test"}}, "public.test:443", "", "→ 93.184.216.34:443"},
		{Options{Deny: []string{"::ffff:8.8.8.8"}}, "8.8.8.8:443", trusted, "denied public"},
		{Options{Deny: []string{"::ffff:0:0/96"}}, "8.8.8.8:443", trusted, "denied public"},
		{Options{Deny: []string{"8.8.8.8"}}, "[64:ff9b::808:808]:443", trusted, "denied public"},
		{Options{Allow: []string{"198.18.0.0/15"}}, "198.18.0.1:80", trusted, "denied special"},
		{Options{Allow: []string{"::/0"}}, "[::ffff:0:a9fe:a9fe]:80", trusted, "denied special"},
		{Options{Resolve: map[string]string{"a.test:80": "198.18.0.1:80"}}, "a.test:80", trusted, "denied special"},

		// upstream.resolve opens exactly what it names.
		{Options{Private: ModeDeny, Resolve: map[string]string{"a.test:443": "127.0.0.1:18443"}}, "A.test.:443", "", "→ 127.0.0.1:18443"},
		{Options{Resolve: map[string]string{"a.test:443": "127.0.0.1:18443"}}, "a.test:80", "", "error"},
		{Options{Resolve: map[string]string{"a.test:443": "127.0.0.1:18443"}}, "127.0.0.1:18443", "", "denied loopback"},
		{Options{Resolve: map[string]string{"a.test:443": "loop.test:1"}}, "a.test:443", "", "denied loopback"},
		{Options{Resolve: map[string]string{"a.test:443": "localhost:1"}}, "a.test:443", "", "→ 127.0.0.1:1"},
		{Options{Resolve: map[string]string{"a.test:443": "public.test:8443"}}, "a.test:443", "", "→ 93.184.216.34:8443"},
		{Options{Resolve: map[string]string{"[2606:4700:0:0::1111]:443": "127.0.0.1:1"}}, "[2606:4700::1111]:443", "", "→ 127.0.0.1:1"},
		{Options{Deny: []string{"a.test"}, Resolve: map[string]string{"a.test:443": "127.0.0.1:1"}}, "a.test:443", "", "denied public"},
	} {
		t.Run(fmt.Sprintf("%s %s", c.authority, c.as), func(t *testing.T) {
			g, _, w := guard(t, c.options)
			got := outcome(g.Dial(t.Context(), Request{Authority: c.authority, Trusted: c.as == trusted, Loopback: c.as == loopback}))
			if got != c.want {
				t.Errorf("got %s, want %s (%+v)", got, c.want, c.options)
			}
			if dialed := w.list(); !strings.HasPrefix(got, "→") && len(dialed) > 0 {
				t.Errorf("refused, but dialled %v", dialed)
			} else if strings.HasPrefix(got, "→") && (len(dialed) != 1 || "→ "+dialed[0] != got) {
				t.Errorf("dialled %v", dialed)
			}
		})
	}
}

func TestOwnListenersAreOutOfReach(t *testing.T) {
	for _, c := range []struct {
		own, authority string
		want           string
	}{
		{"127.0.0.1:7788", "127.0.0.1:7788", "self"},
		{"127.0.0.1:7788", "localhost:7788", "self"},
		{"127.0.0.1:7788", "[::1]:7788", "self"},
		{"127.0.0.1:7788", "127.8.8.8:7788", "self"},
		{"127.0.0.1:7788", "[::ffff:127.0.0.1]:7788", "self"},
		{"127.0.0.1:7788", "[64:ff9b::7f00:1]:7788", "self"},
		{"127.0.0.1:7788", "0.0.0.0:7788", "self"},
		{"127.0.0.1:7788", "192.168.1.5:7788", "self"},
		{"0.0.0.0:7788", "192.168.1.5:7788", "self"},
		{"[::]:7788", "lan.test:7788", "self"},
		{"172.17.0.1:7788", "172.17.0.1:7788", "self"},
		{"127.0.0.1:7788", "mapped.test:443", "self"},
		{"127.0.0.1:7788", "192.168.1.6:7788", "→ 192.168.1.6:7788"},
		{"127.0.0.1:7788", "127.0.0.1:7789", "→ 127.0.0.1:7789"},
	} {
		g, _, w := guard(t, Options{
			Private: ModeAllow, Allow: []string{"0.0.0.0/0", "::/0"},
			Resolve: map[string]string{"mapped.test:443": "127.0.0.1:7788"},
			Own:     func() []netip.AddrPort { return []netip.AddrPort{netip.MustParseAddrPort(c.own)} },
		})
		got := outcome(g.Dial(t.Context(), Request{Authority: c.authority, Trusted: true, Loopback: true}))
		if got != c.want {
			t.Errorf("own %s, dial %s: got %s, want %s (dialled %v)", c.own, c.authority, got, c.want, w.list())
		}
	}
	g, _, w := guard(t, Options{
		Private: ModeAllow,
		Own:     func() []netip.AddrPort { return []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:7788")} },
		Local:   func() ([]netip.Addr, error) { return nil, errors.New("no netlink") },
	})
	if got := outcome(g.Dial(t.Context(), Request{Authority: "192.168.1.5:7788"})); got != "error" || len(w.list()) > 0 {
		t.Errorf("not knowing our addresses gives %s", got)
	}
}

// Who says nothing else has the addresses of its interfaces for its own, and no resolver of
// the C library.
func TestOwnAddressesAreThoseOfTheInterfaces(t *testing.T) {
	g, err := New(Options{Private: ModeAuto, Own: func() []netip.AddrPort { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	local, err := g.local()
	if err != nil || !slices.Contains(local, netip.MustParseAddr("127.0.0.1")) {
		t.Errorf("%v %v", local, err)
	}
	if own, ok := g.resolver.(*net.Resolver); !ok || !own.PreferGo {
		t.Errorf("resolver %+v", g.resolver)
	}
}

func TestRefusalsSayWhatOpensThem(t *testing.T) {
	for authority, fix := range map[string]string{
		"inner.test:443":       `egress: {allow: ["inner.test"]}`,
		"[::1]:443":            `egress: {allow: ["::1"]}`,
		"meta.test:80":         "",
		"127.1:80":             "",
		"denied.test:443":      `egress.deny without "denied.test"`,
		"public.test:443":      `egress.deny without the range that covers "public.test"`,
		"[fe80::1%25eth0]:443": "",
	} {
		g, _, _ := guard(t, Options{Deny: []string{"denied.test", "93.184.216.0/24"}})
		g.resolver.(*names).answers["denied.test"] = []string{"1.1.1.1"}
		_, _, err := g.Dial(t.Context(), Request{Authority: authority})
		var denied *Denied
		if !errors.As(err, &denied) || denied.Fix != fix {
			t.Errorf("%s: %v, want fix %q", authority, err, fix)
		}
		if err != nil && (strings.Contains(err.Error(), "10.0.0.5") || strings.Contains(err.Error(), "169.254")) {
			t.Errorf("%s: the refusal shows the address: %v", authority, err)
		}
	}
}

func TestFixesWork(t *testing.T) {
	for _, authority := range []string{"inner.test:443", "loop.test:443", "[::1]:443", "10.0.0.1:80", "cgnat.test:443"} {
		closed, _, _ := guard(t, Options{})
		_, _, err := closed.Dial(t.Context(), Request{Authority: authority})
		var denied *Denied
		if !errors.As(err, &denied) {
			t.Fatalf("%s: %v", authority, err)
		}
		entry := strings.Split(denied.Fix, `"`)[1]
		open, _, _ := guard(t, Options{Allow: []string{entry}})
		if got := outcome(open.Dial(t.Context(), Request{Authority: authority})); !strings.HasPrefix(got, "→") {
			t.Errorf("%s: after %s: %s", authority, denied.Fix, got)
		}
	}
}

func TestLiteralsAndLocalhostAskNoResolver(t *testing.T) {
	g, n, _ := guard(t, Options{})
	for _, authority := range []string{"93.184.216.34:443", "localhost:80", "api.localhost:80", "127.1:80", "metadata.google.internal:80"} {
		_, _, _ = g.Dial(t.Context(), Request{Authority: authority, Loopback: true})
	}
	if len(n.asked) > 0 {
		t.Errorf("asked for %v", n.asked)
	}
}

// Where nothing listens on 127.0.0.1, localhost is ::1.
func TestLocalhostIsBothAddresses(t *testing.T) {
	g, _, w := guard(t, Options{})
	w.fail["127.0.0.1:8080"] = true
	if got := outcome(g.Dial(t.Context(), Request{Authority: "localhost:8080", Loopback: true})); got != "→ [::1]:8080" {
		t.Error(got)
	}
}

func TestInfoMarksWhatIsNotPublic(t *testing.T) {
	g, _, _ := guard(t, Options{})
	for authority, private := range map[string]bool{"public.test:443": false, "inner.test:443": true, "cgnat.test:443": true, "localhost:1": true} {
		_, info, err := g.Dial(t.Context(), Request{Authority: authority, Trusted: true, Loopback: true})
		if err != nil || info.Private != private {
			t.Errorf("%s: %+v %v", authority, info, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	own := func() []netip.AddrPort { return nil }
	for name, o := range map[string]Options{
		"no mode":        {Own: own},
		"unknown mode":   {Private: "maybe", Own: own},
		"no own":         {Private: ModeAuto},
		"bad allow":      {Private: ModeAuto, Own: own, Allow: []string{"10.0.0.0/99"}},
		"numeral deny":   {Private: ModeAuto, Own: own, Deny: []string{"127.1"}},
		"deny a zone":    {Private: ModeAuto, Own: own, Deny: []string{"fd00::1%eth0"}}, // no address that is dialled has one
		"a long label":   {Private: ModeAuto, Own: own, Deny: []string{strings.Repeat("a", 64) + ".test"}},
		"a long name":    {Private: ModeAuto, Own: own, Deny: []string{strings.Repeat("a.", 125) + "test"}},
		"allow a port":   {Private: ModeAuto, Own: own, Allow: []string{"db.test:5432"}},
		"bad resolve":    {Private: ModeAuto, Own: own, Resolve: map[string]string{"a.test": "127.0.0.1:1"}},
		"resolve to bad": {Private: ModeAuto, Own: own, Resolve: map[string]string{"a.test:1": "127.1:1"}},
	} {
		if g, err := New(o); err == nil {
			t.Errorf("%s: made %+v", name, g)
		}
	}
	longest := []string{strings.Repeat("a", 63) + ".test", strings.Repeat("a.", 124) + "tests"}
	if _, err := New(Options{Private: ModeAuto, Own: own, Deny: longest}); err != nil {
		t.Errorf("names of 63 bytes in a label and of 253 in all: %v", err)
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, seed := range []string{"a.test:443", "[::1]:1", "127.1:1", "0x7f.1:1", "[fe80::1%25x]:1", "::1:1", "a..b:1", ".:1", ":1", "x:99999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, authority string) {
		parsed, err := parseTarget(authority)
		if err != nil {
			return
		}
		again, err := parseTarget(parsed.String())
		if err != nil || again != parsed {
			t.Errorf("%q is %+v, then %+v %v", authority, parsed, again, err)
		}
		if !parsed.addr.IsValid() && numeric(parsed.host) {
			t.Errorf("%q went through as a name", authority)
		}
	})
}
