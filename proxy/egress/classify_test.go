package egress

import (
	"net/netip"
	"testing"
)

func TestClassify(t *testing.T) {
	for class, addrs := range map[Class][]string{
		ClassPublic: {
			"1.1.1.1", "8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "169.253.255.255",
			"172.15.255.255", "172.32.0.0", "192.0.1.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "11.0.0.0", "168.63.129.17",
			"::ffff:8.8.8.8", "64:ff9b::808:808", "2606:4700:4700::1111", "2a00:1450::1", "2001:4860:4860::8888",
			"2606:4700::5efe:808:808", // ISATAP of a public address
		},
		ClassPrivate: {
			"10.0.0.0", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fc00::1", "fdff::1", "::ffff:10.0.0.1",
			"64:ff9b::a00:1", "2606:4700::5efe:a00:1", "2606:4700::200:5efe:c0a8:101",
		},
		ClassCGNAT:     {"100.64.0.0", "100.127.255.255", "::ffff:100.64.0.1", "64:ff9b::6440:1"},
		ClassLoopback:  {"127.0.0.1", "127.255.255.255", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1", "64:ff9b::7f00:1", "2606:4700::5efe:7f00:1"},
		ClassLinkLocal: {"169.254.0.1", "169.254.255.255", "fe80::1", "febf::1", "::ffff:169.254.1.1", "2002:a9fe:1::"},
		ClassMetadata: {
			"169.254.169.254", "169.254.170.2", "169.254.171.255", "168.63.129.16", "100.100.100.200", "192.0.0.192",
			"fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42", "fd00:a9fe:a9fe::1", "fd00:100::100:200",
			"::ffff:169.254.169.254", "::169.254.169.254",
			"64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "64:ff9b:1:a9fe:a9:fe00::", "64:ff9b:1:a9:fe:a9fe::", "64:ff9b:1:0:a9:fea9:fe00::",
			"2002:a9fe:a9fe::1", "2001:0:a9fe:a9fe::", "2001::5601:5601", "fe80::5efe:a9fe:a9fe", "64:ff9b::6464:64c8",
		},
		ClassSpecial: {
			"0.1.2.3", "0.255.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1",
			"::127.0.0.1", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2001:0:7f00:1::", "2001:0:808:808::80ff:fffe", "2002:a00:1::",
			"::ffff:0:7f00:1", "::ffff:0:a9fe:a9fe", // SIIT, RFC 2765: no reading of it is needed
			"240.0.0.1", "255.255.255.255", "::8.8.8.8", "64:ff9b:1::808:808", "100::1", "2001:2::1", "2001:db8::1", "2001:0:808:808::f7f7:f7f7",
			"2002:808:808::1", "3fff::1", "5f00::1", "fec0::1", "4000::1", "64:ff9c::1", "::2:0:0",
		},
		ClassMulticast:   {"224.0.0.1", "239.255.255.255", "ff02::1", "ff0e::1", "::ffff:224.0.0.1"},
		ClassUnspecified: {"0.0.0.0", "::", "::ffff:0.0.0.0", "64:ff9b::"},
	} {
		for _, text := range addrs {
			if got := Classify(netip.MustParseAddr(text)); got != class {
				t.Errorf("%s is %s, want %s", text, got, class)
			}
		}
	}
	if got := Classify(netip.Addr{}); got != ClassSpecial {
		t.Errorf("the zero address is %s", got)
	}
	if got := Classify(netip.MustParseAddr("2606:4700::1%eth0")); got != ClassLinkLocal {
		t.Errorf("an address with a zone is %s", got)
	}
	if Class("").openable() || Class("new").openable() {
		t.Error("an unknown class can be opened")
	}
}

// An IPv4 address keeps its refusal in every disguise.
func FuzzEmbeddingNeverHelps(f *testing.F) {
	f.Add(byte(169), byte(254), byte(169), byte(254))
	f.Add(byte(127), byte(0), byte(0), byte(1))
	f.Add(byte(10), byte(0), byte(0), byte(1))
	f.Add(byte(0), byte(0), byte(0), byte(0))
	f.Fuzz(func(t *testing.T, a, b, c, d byte) {
		plain := Classify(netip.AddrFrom4([4]byte{a, b, c, d}))
		for name, disguise := range map[string][16]byte{
			"mapped":     {10: 0xff, 0xff, a, b, c, d},
			"NAT64":      {0, 0x64, 0xff, 0x9b, 12: a, b, c, d},
			"6to4":       {0x20, 0x02, a, b, c, d, 15: 1},
			"teredo":     {0x20, 0x01, 12: ^a, ^b, ^c, ^d},
			"server":     {0x20, 0x01, 4: a, b, c, d},
			"ISATAP":     {0x26, 0x06, 10: 0x5e, 0xfe, a, b, c, d},
			"compatible": {12: a, b, c, d},
		} {
			addr := netip.AddrFrom16(disguise)
			if got := Classify(addr); got.severity() < plain.severity() && addr != netip.IPv6Unspecified() && addr != netip.IPv6Loopback() {
				t.Errorf("%s is %s, but %s %s is %s", netip.AddrFrom4([4]byte{a, b, c, d}), plain, name, addr, got)
			}
		}
	})
}
