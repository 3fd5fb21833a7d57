package egress

import (
	"net/netip"
	"strings"
	"testing"
)

// What can never be opened is told, if it stands in egress.allow; what can, in part even, is not.
func TestCheckAllow(t *testing.T) {
	for entry, want := range map[string]Class{
		"169.254.0.0/16": ClassLinkLocal, "169.254.1.1": ClassLinkLocal, "fe80::/10": ClassLinkLocal, "fe80::1": ClassLinkLocal,
		"169.254.169.254": ClassMetadata, "169.254.169.254/32": ClassMetadata, "fd00:ec2::254": ClassMetadata, "100.100.100.200": ClassMetadata,
		"metadata.google.internal": ClassMetadata, "Metadata.": ClassMetadata,
		"224.0.0.0/4": ClassMulticast, "239.1.2.0/24": ClassMulticast, "ff02::/16": ClassMulticast,
		"0.0.0.0": ClassUnspecified, "::": ClassUnspecified, "0.0.0.0/8": ClassSpecial, "0.0.0.0/31": ClassSpecial,
		"198.18.0.0/15": ClassSpecial, "192.0.0.0/24": ClassSpecial, "240.0.0.0/4": ClassSpecial, "255.255.255.255": ClassSpecial,
		"2001:db8::/32": ClassSpecial, "4000::/3": ClassSpecial, "::10.0.0.0/104": ClassSpecial, "2002:a00::/24": ClassSpecial,
		"::ffff:169.254.0.0/112": ClassLinkLocal, "64:ff9b::a9fe:a9fe": ClassMetadata,
		"*.in-addr.arpa": ClassSpecial, "1.0.0.10.in-addr.arpa": ClassSpecial,
	} {
		err := CheckAllow([]string{"10.0.0.0/8", entry})
		if err == nil || !strings.HasPrefix(err.Error(), "egress.allow: ") || !strings.Contains(err.Error(), "("+string(want)+")") {
			t.Errorf("%s: %v, want %s", entry, err, want)
		}
	}
	for _, entry := range []string{
		"0.0.0.0/0", "::/0", "0.0.0.0/1", "128.0.0.0/1", "168.0.0.0/7", "192.0.0.0/16", "100.100.100.200/31", "100.64.0.0/10",
		"10.0.0.0/8", "127.0.0.1", "::1", "::/127", "fc00::/7", "fd00:ec2::254/127", "fd00:ec2::/32", "64:ff9b::/96", "64:ff9b::a00:5", "::ffff:10.0.0.0/104",
		"8.8.8.8", "2000::/3", "localhost", "*.corp.test", "*.internal", "metadata.corp.test", "*.arpa",
	} {
		if err := CheckAllow([]string{entry}); err != nil {
			t.Error(err)
		}
	}
}

// No address of a range that is told so could be opened: those at the borders of all spans show it.
func TestWhatIsClosedHasNothingThatOpens(t *testing.T) {
	for _, s := range append(v4Spans(), v6Spans()...) {
		for bits := range s.prefix.Addr().BitLen() + 1 {
			p, _ := s.prefix.Addr().Prefix(bits)
			_, never := closed(p)
			for _, inside := range borders() {
				if never && p.Contains(inside) && Classify(inside).openable() {
					t.Errorf("%s is closed, but %s is %s", p, inside, Classify(inside))
				}
			}
		}
	}
}

// borders are the first and the last address of each span, and their neighbours.
func borders() (out []netip.Addr) {
	for _, s := range append(v4Spans(), v6Spans()...) {
		first, last := s.prefix.Addr().AsSlice(), s.prefix.Addr().AsSlice()
		for bit := s.prefix.Bits(); bit < len(last)*8; bit++ {
			last[bit/8] |= 1 << (7 - bit%8)
		}
		for _, raw := range [][]byte{first, last} {
			a, _ := netip.AddrFromSlice(raw)
			out = append(out, a, a.Prev(), a.Next())
		}
	}
	return out
}
