package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

const (
	leafLife  = 3 * day
	leafRenew = day // a leaf with less left is replaced, so that no tunnel begins with a stale one
)

var errNotOpen = errors.New("the certificate authority is not open")

// Leaf returns the certificate that answers for the host of authority
// ("host:port", canonical: lower case, no trailing dot, IPv6 in brackets), with
// the intermediate behind it. Its only subject alternative name is that host,
// as a DNS name or an IP address (RFC 6125, RFC 5280 section 4.2.1.6). A host
// that no intermediate permits is refused, see [Authority.Permits].
//
// Leaves are cached; callers that ask for the same host at once share one
// signature. The certificate must not be changed.
func (a *Authority) Leaf(authority string) (*tls.Certificate, error) {
	st := a.standing.Load()
	if st == nil {
		return nil, errNotOpen
	}
	host, err := leafHost(authority)
	if err != nil {
		return nil, err
	}
	if leaf := a.cached(st, host); leaf != nil {
		return leaf, nil
	}
	made, err, _ := a.making.Do(host, func() (any, error) {
		if leaf := a.cached(a.standing.Load(), host); leaf != nil {
			return leaf, nil
		}
		m, err := a.mint(host)
		if err != nil {
			return nil, fmt.Errorf("certificate for %s: %w", host, err)
		}
		a.leaves.Add(host, m)
		return m.leaf, nil
	})
	if err != nil {
		return nil, err
	}
	return made.(*tls.Certificate), nil
}

// minted is a cached leaf and the root that it leads to.
type minted struct {
	leaf *tls.Certificate
	root *x509.Certificate
}

// cached returns the leaf of a host that can begin a connection, or nil. One
// that ends with the root is kept to its end: a new one would not last longer.
// The intermediate that signed it may have been renewed since.
func (a *Authority) cached(st *standing, host string) *tls.Certificate {
	m, ok := a.leaves.Get(host)
	if !ok || m.root != st.roots.cert || !a.permitted(st, host) {
		return nil
	}
	now, c := a.clock(), m.leaf.Leaf
	if now.Before(c.NotBefore) || !now.Before(c.NotAfter) {
		return nil
	}
	if c.NotAfter.Sub(now) > leafRenew || c.NotAfter.Equal(m.root.NotAfter) {
		return m.leaf
	}
	return nil
}

// mint signs one leaf with the intermediate that permits the host.
func (a *Authority) mint(host string) (*minted, error) {
	now := a.clock()
	st, is, err := a.issuerFor(host, now)
	if err != nil {
		return nil, err
	}
	begin, end := within(now, leafLife, is.signer)
	cert, err := signLeaf(leafForm{host: host, begin: begin, end: end, public: a.leafInfo}, is.cert, is.key)
	if err != nil {
		return nil, err
	}
	leaf := &tls.Certificate{Certificate: [][]byte{cert.Raw, is.cert.Raw}, PrivateKey: a.leafKey, Leaf: cert}
	return &minted{leaf, st.roots.cert}, nil
}

// leafHost takes the host out of an authority and refuses what cannot stand in
// a certificate as one exact name: wildcards, zones, spellings that are not
// canonical.
func leafHost(authority string) (string, error) {
	host, _, err := net.SplitHostPort(authority)
	if err != nil {
		return "", fmt.Errorf("certificate for %q: not host:port", authority)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" || ip.Is4In6() || ip.String() != host {
			return "", fmt.Errorf("certificate for %q: the address is not canonical", authority)
		}
		return host, nil
	}
	if len(host) == 0 || len(host) > 253 {
		return "", fmt.Errorf("certificate for %q: a name has 1 to 253 characters", authority)
	}
	for label := range strings.SplitSeq(host, ".") {
		if len(label) == 0 || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", fmt.Errorf("certificate for %q: the name is not canonical", authority)
		}
	}
	return host, nil
}
