package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"net"
	"net/netip"
	"time"
)

const (
	issuerLife = 7 * day
	// issuerRenew leaves a fresh leaf its full life under the old intermediate.
	issuerRenew = leafLife + day
	// renewPause keeps a root that cannot be unsealed from costing every request.
	renewPause = time.Minute

	// maxHosts is how many hosts one intermediate permits. Clients bound what they
	// read: 2,000 names make a certificate of 40 KB, which Java refuses.
	maxHosts = 32

	// These stand in the constraints of intermediates for addresses, where nothing
	// of their kind is to be permitted: without any name of a kind all would be
	// (RFC 5280 section 4.2.1.10). No server has them, ever.
	noHost = "kimbap.invalid"  // RFC 6761 section 6.4
	noIPv4 = "255.255.255.255" // the limited broadcast, RFC 919
	noIPv6 = "100::"           // discarded, RFC 6666
)

// issuer is an intermediate and the root it leads to. It is never stored.
type issuer struct {
	signer
	root *x509.Certificate
}

// newIssuer signs an intermediate that can sign leaves for hosts only: either
// names, with all addresses excluded, or addresses of one family.
func newIssuer(root signer, hosts []string, now time.Time, life time.Duration) (*issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	begin, end := within(now, life, root)
	template := caTemplate("kimbap local intermediate", begin, end)
	template.MaxPathLen, template.MaxPathLenZero = 0, true
	constrain(template, hosts)
	cert, err := sign(template, root.cert, &key.PublicKey, root.key)
	if err != nil {
		return nil, err
	}
	return &issuer{signer{cert, key}, root.cert}, nil
}

// constrain writes the name constraints (RFC 5280 section 4.2.1.10), critical,
// so that a client which does not know them refuses the chain. A permitted name
// takes its subdomains with it; an address is permitted alone. Beside names all
// addresses are excluded.
//
// Beside addresses the other family is closed by a permitted address that nobody
// has, because clients disagree: GnuTLS does not read the list of one family as
// a bound on the other, and Java fails on any range of the other family that it
// meets, so it must find the host's own address first.
func constrain(template *x509.Certificate, hosts []string) {
	template.PermittedDNSDomainsCritical = true
	var four bool
	for _, host := range hosts {
		if ip, err := netip.ParseAddr(host); err == nil {
			four = ip.Is4()
			template.PermittedIPRanges = append(template.PermittedIPRanges, onlyAddress(ip))
		} else {
			template.PermittedDNSDomains = append(template.PermittedDNSDomains, host)
		}
	}
	switch {
	case len(template.PermittedDNSDomains) > 0:
		template.ExcludedIPRanges = allAddresses()
	case four:
		template.PermittedDNSDomains = []string{noHost}
		template.PermittedIPRanges = append(template.PermittedIPRanges, onlyAddress(netip.MustParseAddr(noIPv6)))
	default:
		template.PermittedDNSDomains = []string{noHost}
		template.PermittedIPRanges = append(template.PermittedIPRanges, onlyAddress(netip.MustParseAddr(noIPv4)))
	}
}

// allAddresses are the ranges of all addresses of both families.
func allAddresses() []*net.IPNet {
	return []*net.IPNet{{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, {IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}}
}

// onlyAddress is the range of one address.
func onlyAddress(ip netip.Addr) *net.IPNet {
	return &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(ip.BitLen(), ip.BitLen())}
}

// within returns the validity of a certificate made now: no part of it lies
// outside its parent's.
func within(now time.Time, life time.Duration, parent signer) (begin, end time.Time) {
	begin, end = now.Add(-clockSkew).UTC(), now.Add(life).UTC()
	if begin.Before(parent.cert.NotBefore) {
		begin = parent.cert.NotBefore
	}
	if end.After(parent.cert.NotAfter) {
		end = parent.cert.NotAfter
	}
	return begin, end
}

// serves reports whether is, which may be nil, can sign now and need not be
// renewed: it has time left, or ends with the root, so that renewing gains
// nothing.
func (is *issuer) serves(now time.Time) bool {
	return is.valid(now) && (is.cert.NotAfter.Sub(now) > issuerRenew || is.cert.NotAfter.Equal(is.root.NotAfter))
}

func (is *issuer) valid(now time.Time) bool {
	return is != nil && now.After(is.cert.NotBefore) && now.Before(is.cert.NotAfter)
}
