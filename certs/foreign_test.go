package certs

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
)

// forgery is a leaf that somebody makes who has the key of an intermediate, and
// what a client must say of it.
type forgery struct {
	what string
	by   string // the permitted host whose intermediate signs
	name string // whom the client believes to reach
	dns  []string
	ips  []net.IP
	cn   string
	good bool
}

func (f forgery) leaf() *x509.Certificate {
	return &x509.Certificate{DNSNames: f.dns, IPAddresses: f.ips, Subject: pkix.Name{CommonName: f.cn}}
}

// foreign are forgeries by the intermediates of api.notes.test, 127.0.0.1 and ::1.
func foreign() []forgery {
	const own, bank = "api.notes.test", "bank.test"
	here, six := net.IPv4(127, 0, 0, 1).To4(), net.IPv6loopback
	return []forgery{
		{what: "its own host", by: own, name: own, dns: []string{own}, good: true},
		{what: "a subdomain", by: own, name: "sub." + own, dns: []string{"sub." + own}, good: true},
		{what: "its own address", by: "127.0.0.1", name: "127.0.0.1", ips: []net.IP{here}, good: true},
		{what: "another host", by: own, name: bank, dns: []string{bank}},
		{what: "another host beside its own", by: own, name: bank, dns: []string{own, bank}},
		{what: "another host in the common name", by: own, name: bank, cn: bank},
		{what: "the parent", by: own, name: "notes.test", dns: []string{"notes.test"}},
		{what: "a sibling", by: own, name: "www.notes.test", dns: []string{"www.notes.test"}},
		{what: "a name that ends like it", by: own, name: "evil-" + own, dns: []string{"evil-" + own}},
		{what: "a wildcard over it", by: own, name: "www.notes.test", dns: []string{"*.notes.test"}},
		{what: "a wildcard over all", by: own, name: "bank.test", dns: []string{"*.test"}},
		{what: "an address", by: own, name: "127.0.0.1", ips: []net.IP{here}},
		{what: "an address of the other family", by: own, name: "::1", ips: []net.IP{six}},
		{what: "an address by that of another", by: "::1", name: "127.0.0.1", ips: []net.IP{here}},
		{what: "an address of the other family by one", by: "127.0.0.1", name: "::1", ips: []net.IP{six}},
		{what: "a host by an address", by: "127.0.0.1", name: bank, dns: []string{bank}},
	}
}
