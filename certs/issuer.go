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

	// noHost stands among the permitted names of an intermediate for addresses. A
	// list without any DNS name would permit them all (RFC 5280 section 4.2.1.10);
	// this one belongs to nobody, ever (RFC 6761 section 6.4).
	noHost = "kimbap.invalid"
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
// takes its subdomains with it; an address is permitted alone. The family of
// which nothing is permitted is excluded by name, because not every client
// reads one family's list as a bound on the other.
func constrain(template *x509.Certificate, hosts []string) {
	template.PermittedDNSDomainsCritical = true
	var four, six bool
	for _, host := range hosts {
		ip, err := netip.ParseAddr(host)
		if err != nil {
			template.PermittedDNSDomains = append(template.PermittedDNSDomains, host)
			continue
		}
		four, six = four || ip.Is4(), six || ip.Is6()
		template.PermittedIPRanges = append(template.PermittedIPRanges, &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(ip.BitLen(), ip.BitLen())})
	}
	if len(template.PermittedDNSDomains) == 0 {
		template.PermittedDNSDomains = []string{noHost}
	}
	if !four {
		template.ExcludedIPRanges = append(template.ExcludedIPRanges, &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)})
	}
	if !six {
		template.ExcludedIPRanges = append(template.ExcludedIPRanges, &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)})
	}
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
