package certs

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// Anchor returns what a trust store of the machine is given: a certificate with the
// root's name, key and validity that is good for the hosts of services ("host:port",
// canonical) and what is below them, by critical name constraints. Chains that end in
// the root end in it as well. One of have is returned when it says just that; so what
// is installed already need not change.
//
// Most clients hold an anchor to its constraints, some do not (docs/clients.md);
// ca.pem and bundle.pem have the root itself. Hosts that cannot stand in a
// certificate are left out. With [Options.AnyHost] it is the root, which stands for
// all hosts.
func (a *Authority) Anchor(have []*x509.Certificate, services ...[]string) (*x509.Certificate, error) {
	st := a.standing.Load()
	if st == nil {
		return nil, errNotOpen
	}
	root := st.roots.cert
	if a.anyHost.Load() {
		return root, nil
	}
	template := *root
	template.PublicKey, template.Extensions = nil, nil
	template.ExtraExtensions = caTemplate("", root.NotBefore, root.NotAfter).ExtraExtensions
	confine(&template, namesOf(services))
	for _, c := range have {
		if sameAnchor(c, &template, root) {
			return c, nil
		}
	}
	key, err := a.rootKey(st, a.clock())
	if err != nil {
		return nil, fmt.Errorf("sign the certificate for trust stores: %w", err)
	}
	template.SerialNumber = nil // a number of its own
	return sign(&template, &template, &key.PublicKey, key)
}

// namesOf are the hosts of services that a certificate can name, each once.
func namesOf(services [][]string) []string {
	var out []string
	for _, authorities := range services {
		for _, authority := range authorities {
			if host, err := leafHost(authority); err == nil {
				out = append(out, host)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// confine writes the constraints of an anchor. Unlike an intermediate's they may hold
// names and addresses of both families; of two families, one that has none is closed
// by an address that nobody has.
func confine(template *x509.Certificate, hosts []string) {
	template.PermittedDNSDomainsCritical = true
	var four, six bool
	for _, host := range hosts {
		ip, err := netip.ParseAddr(host)
		if err != nil {
			template.PermittedDNSDomains = append(template.PermittedDNSDomains, host)
			continue
		}
		four, six = four || ip.Is4(), six || ip.Is6()
		template.PermittedIPRanges = append(template.PermittedIPRanges, onlyAddress(ip))
	}
	if len(template.PermittedDNSDomains) == 0 {
		template.PermittedDNSDomains = []string{noHost}
	}
	if !four && !six {
		template.ExcludedIPRanges = allAddresses()
		return
	}
	if !four {
		template.PermittedIPRanges = append(template.PermittedIPRanges, onlyAddress(netip.MustParseAddr(noIPv4)))
	}
	if !six {
		template.PermittedIPRanges = append(template.PermittedIPRanges, onlyAddress(netip.MustParseAddr(noIPv6)))
	}
}

// sameAnchor reports whether c is an anchor of the root that permits what the
// template does.
func sameAnchor(c, template, root *x509.Certificate) bool {
	if !bytes.Equal(c.RawSubjectPublicKeyInfo, root.RawSubjectPublicKeyInfo) || !bytes.Equal(c.RawSubject, root.RawSubject) || !c.NotAfter.Equal(root.NotAfter) {
		return false
	}
	if !slices.Equal(c.PermittedDNSDomains, template.PermittedDNSDomains) || len(c.PermittedIPRanges) != len(template.PermittedIPRanges) {
		return false
	}
	for i, r := range c.PermittedIPRanges {
		if r.String() != template.PermittedIPRanges[i].String() {
			return false
		}
	}
	return true
}

// Anchors reports whether an anchor, as [Authority.Anchor] made it, stands for the
// host of an authority. The root itself stands for all.
func Anchors(c *x509.Certificate, authority string) bool {
	host, err := leafHost(authority)
	if err != nil || !c.PermittedDNSDomainsCritical {
		return err == nil
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return slices.ContainsFunc(c.PermittedIPRanges, func(r *net.IPNet) bool { return r.Contains(ip.AsSlice()) })
	}
	return slices.ContainsFunc(c.PermittedDNSDomains, func(name string) bool {
		return host == name || len(host) > len(name) && host[len(host)-len(name)-1:] == "."+name
	})
}
