package egress

import (
	"net/netip"
	"strings"
	"testing"
)

// cases are those of the area "SSRF / egress guard" in the list of security
// cases that the guard decides; internal/app holds the same ones against the
// whole proxy. The others are elsewhere: SS-014 (no redirect is followed) and
// SS-019 (ports of raw tunnels) in internal/app. SS-017 (notifiers) is in
// internal/app, SS-018 (URLs of settings and installs) in internal/config and scripts.
var cases = []struct {
	id          string
	authorities string // separated by spaces
	want        string // "denied", "self"; or the address that alone is dialled
}{
	{"SS-001", "127.0.0.1:22", "denied"},
	{"SS-002", "[::1]:443", "denied"},
	{"SS-003", "[::ffff:127.0.0.1]:443 [::ffff:7f00:1]:443", "denied"},
	{"SS-005", "[64:ff9b::a9fe:a9fe]:80 [64:ff9b:1::7f00:1]:80 [2002:7f00:1::]:80 [2001:0:7f00:1::]:80", "denied"},
	{"SS-006", "169.254.169.254:80 [fd00:ec2::254]:80 metadata.google.internal:80 169.254.170.2:80 100.100.100.200:80 192.0.0.192:80 168.63.129.16:80", "denied"},
	{"SS-007", "0.0.0.0:80 [::]:80 0.1.2.3:80", "denied"},
	{"SS-008", "198.18.0.1:443 192.0.2.1:443 224.0.0.1:443 240.0.0.1:443 255.255.255.255:443 [fe80::1]:443 [fec0::1]:443 [ff02::1]:443", "denied"},
	{"SS-009", "2130706433:443 0x7f000001:443 0177.0.0.1:443 127.1:443", "denied"},
	{"SS-010", "127.0.0.1.:443 LOCALHOST.:443 localhost.localdomain:443 1.0.0.127.in-addr.arpa:443", "denied"},
	{"SS-011", "rebind.test:443", "93.184.216.34:443"},
	{"SS-015", "127.0.0.1:7788 127.0.0.1:8080 192.168.1.5:7788 192.168.1.5:8080 localhost:8080 0.0.0.0:8080", "self"},
	{"SS-016", "[fe80::1%25eth0]:80 [fe80::1%eth0]:443", "denied"},
}

// private are the cases about ranges that egress.private is about.
var private = []struct{ id, authorities string }{
	{"SS-008", "10.0.0.1:443 172.31.255.255:443 192.168.1.1:443 100.64.0.1:443 [fc00::1]:443"},
	{"SS-013", "inner.test:443"}, // the base_url of a service, and it resolves to a private address
}

// Whoever asks, by whichever mode, and with private ranges allowed, nothing is
// dialled that these cases forbid.
func TestSSRFCases(t *testing.T) {
	for _, mode := range []Mode{ModeAuto, ModeAllow, ModeDeny} {
		for _, trusts := range []bool{false, true} {
			for _, c := range cases {
				for authority := range strings.FieldsSeq(c.authorities) {
					g, _, w := guard(t, Options{Private: mode, Own: func() []netip.AddrPort {
						return []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:7788"), netip.MustParseAddrPort("127.0.0.1:8080")}
					}})
					got := outcome(g.Dial(t.Context(), Request{Authority: authority, Trusted: trusts}))
					if want := c.want; !strings.HasPrefix(got, want) && got != "→ "+want {
						t.Errorf("%s %s, private %s, trusted %v: got %s, want %s", c.id, authority, mode, trusts, got, want)
					}
					for _, address := range w.list() {
						if address != c.want {
							t.Errorf("%s %s: dialled %s", c.id, authority, address)
						}
					}
				}
			}
		}
	}
}

// SS-011: a name is asked once for a connection, and what was judged is dialled,
// whatever the name means a moment later.
func TestAnswersThatChange_SS011(t *testing.T) {
	const public, inner = "93.184.216.34", "127.0.0.1"
	g, n, w := guard(t, Options{Private: ModeAllow})
	n.turns = []string{public, inner, public}
	for turn, want := range []string{"→ " + public + ":443", "denied " + string(ClassLoopback), "→ " + public + ":443"} {
		if got := outcome(g.Dial(t.Context(), Request{Authority: "turns.test:443", Trusted: true})); got != want || len(n.asked) != turn+1 {
			t.Errorf("turn %d: got %s after %d questions, want %s", turn, got, len(n.asked), want)
		}
	}
	if got := strings.Join(w.list(), " "); got != public+":443 "+public+":443" {
		t.Errorf("dialled %s", got)
	}
}

// Private ranges by mode: for auto only without a token; never by deny.
func TestSSRFCasesOfPrivateRanges(t *testing.T) {
	for _, c := range private {
		for authority := range strings.FieldsSeq(c.authorities) {
			for _, by := range []struct {
				mode    Mode
				trusted bool
				passes  bool
			}{
				{ModeAuto, true, true}, {ModeAuto, false, false}, {ModeAllow, false, true},
				{ModeAllow, true, true}, {ModeDeny, false, false}, {ModeDeny, true, false},
			} {
				g, _, w := guard(t, Options{Private: by.mode})
				_, info, err := g.Dial(t.Context(), Request{Authority: authority, Trusted: by.trusted})
				if (err == nil) != by.passes || len(w.list()) > 0 != by.passes || info.Private != by.passes {
					t.Errorf("%s %s, %+v: %v, %+v, dialled %v", c.id, authority, by, err, info, w.list())
				}
			}
		}
	}
}

// SS-015: our own ports stay closed where loopback is opened on purpose.
func TestSSRFOwnPortsWithLoopbackOpened_SS015(t *testing.T) {
	for _, authority := range []string{"127.0.0.1:7788", "[::1]:7788", "localhost:7788", "192.168.1.5:7788"} {
		g, _, w := guard(t, Options{
			Private: ModeAllow, Allow: []string{"127.0.0.0/8", "::1", "localhost", "192.168.0.0/16"},
			Own: func() []netip.AddrPort { return []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:7788")} },
		})
		if got := outcome(g.Dial(t.Context(), Request{Authority: authority, Trusted: true, Loopback: true})); got != "self" || len(w.list()) > 0 {
			t.Errorf("%s: %s, dialled %v", authority, got, w.list())
		}
	}
}

// The list of request-path.md section 5, first and last address of each range.
func TestAlwaysRefusedRanges(t *testing.T) {
	for _, ends := range []string{
		"169.254.169.254", "169.254.170.0 169.254.171.255", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254",
		"fd00:c1::a9fe:a9fe", "fd00:42::42", "fd00:a9fe:a9fe::1", "fd00:100::100:200",
		"169.254.0.0 169.254.255.255", "fe80:: febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "224.0.0.0 239.255.255.255",
		"ff00:: ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "0.0.0.0 0.255.255.255", "::",
		"192.0.2.0 192.0.2.255", "198.18.0.0 198.19.255.255", "198.51.100.0 198.51.100.255", "203.0.113.0 203.0.113.255",
		"240.0.0.0 255.255.255.255", "2001:db8:: 2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "100:: 100::ffff:ffff:ffff:ffff", "2001:2:: 2001:2:0:ffff:ffff:ffff:ffff:ffff",
		"3fff:: 3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "5f00:: 5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
	} {
		for text := range strings.FieldsSeq(ends) {
			addr := netip.MustParseAddr(text)
			all := []netip.Addr{addr}
			if addr.Is4() {
				all = append(all, disguises(addr)...)
			}
			for _, a := range all {
				g, _, w := guard(t, Options{Private: ModeAllow, Allow: []string{"0.0.0.0/0", "::/0"}})
				got := outcome(g.Dial(t.Context(), Request{Authority: netip.AddrPortFrom(a, 443).String(), Trusted: true, Loopback: true}))
				if !strings.HasPrefix(got, "denied") || len(w.list()) > 0 {
					t.Errorf("%s (of %s): %s", a, addr, got)
				}
			}
		}
	}
}

// disguises are the embeddings of an IPv4 address that the contract names.
func disguises(addr netip.Addr) []netip.Addr {
	b := addr.As4()
	v4, turned := b[:], []byte{^b[0], ^b[1], ^b[2], ^b[3]}
	var out []netip.Addr
	for _, at := range []struct {
		head []byte
		put  []byte
		to   int
	}{
		{[]byte{10: 0xff, 0xff}, v4, 12},                   // v4-mapped
		{[]byte{0, 0x64, 0xff, 0x9b}, v4, 12},              // NAT64
		{[]byte{0, 0x64, 0xff, 0x9b, 0, 1}, v4, 12},        // local NAT64
		{[]byte{0x20, 0x02}, v4, 2},                        // 6to4
		{[]byte{0x20, 0x01}, v4, 4},                        // Teredo server
		{[]byte{0x20, 0x01, 0, 0, 8, 8, 8, 8}, turned, 12}, // Teredo client
		{nil, v4, 12}, // ::/96
		{[]byte{0x26, 0x06, 0x47, 10: 0x5e, 0xfe}, v4, 12},          // ISATAP
		{[]byte{0x26, 0x06, 0x47, 8: 0x02, 10: 0x5e, 0xfe}, v4, 12}, // ISATAP, global
		{[]byte{0xfe, 0x80, 8: 0x02, 0, 10: 0x5e, 0xfe}, v4, 12},    // ISATAP, link-local
	} {
		var a [16]byte
		copy(a[:], at.head)
		copy(a[at.to:], at.put)
		out = append(out, netip.AddrFrom16(a))
	}
	return out
}

// Whatever is an address, or could be taken for one, no resolver is asked about.
func TestAddressesAreNoNames_SS009(t *testing.T) {
	for host := range strings.FieldsSeq("1.2.3.4 1.2.3.4. 1.2.3.4.. [::1] [::1]. [fe80::1%eth0] 127.1 127.1. 0x7f.1 0x7f000001. 2130706433 0177.0.0.1 0 0x 1.2.3.4%00 %31.2.3.4 １.2.3.4") {
		g, n, w := guard(t, Options{Private: ModeAllow})
		got := outcome(g.Dial(t.Context(), Request{Authority: host + ":80", Trusted: true}))
		if want := "1.2.3.4:80"; len(n.asked) > 0 || len(w.list()) > 0 && (w.list()[0] != want || strings.TrimSuffix(host, ".") != "1.2.3.4") {
			t.Errorf("%s: %s, asked for %v, dialled %v", host, got, n.asked, w.list())
		}
	}
}
