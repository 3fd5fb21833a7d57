package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// forge signs a leaf as somebody would who has the key of an intermediate.
func forge(t testing.TB, a *Authority, is *issuer, template *x509.Certificate) *x509.Certificate {
	t.Helper()
	template.NotBefore, template.NotAfter = within(a.clock(), leafLife, is.signer)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	cert, err := sign(template, is.cert, &a.leafKey.PublicKey, is.key)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// accepted is what Go says of a forged leaf.
func accepted(a *Authority, is *issuer, forged *x509.Certificate, name string) error {
	pool := x509.NewCertPool()
	pool.AddCert(is.cert)
	_, err := forged.Verify(x509.VerifyOptions{DNSName: name, Roots: verifyIn(a), Intermediates: pool, CurrentTime: a.clock()})
	return err
}

// hostsOf draws the authorities of one service.
func hostsOf(t *rapid.T, label string) []string {
	return rapid.SliceOfN(rapid.OneOf(
		rapid.StringMatching(`([a-z][a-z0-9_-]{0,6}\.){0,3}(test|example|a):(443|8443)`),
		rapid.Map(rapid.IntRange(1, 90), func(n int) string { return fmt.Sprintf("h%d.many.test:443", n) }),
		rapid.Map(rapid.IntRange(1, 80), func(n int) string { return fmt.Sprintf("192.0.2.%d:443", n) }),
		rapid.Map(rapid.IntRange(1, 80), func(n int) string { return fmt.Sprintf("[2001:db8::%x]:443", n) }),
	), 0, 60).Draw(t, label)
}

// Whatever the services are: every host of theirs has one intermediate, which
// permits at most 32 hosts of one service and no others, and no leaf is made for
// any other host, be it below a permitted one.
func TestEveryHostHasOneIntermediateAndNoOtherHostALeaf(t *testing.T) {
	c := newClock()
	a := opened(t, Options{Dir: newDir(t), Sealer: newBox(t, 1), Clock: c.Now})
	rapid.Check(t, func(t *rapid.T) {
		services := make([][]string, rapid.IntRange(0, 4).Draw(t, "services"))
		all := map[string]string{} // host → authority
		for i := range services {
			services[i] = hostsOf(t, fmt.Sprint("service ", i))
			for _, authority := range services[i] {
				host, _, _ := net.SplitHostPort(authority)
				all[host] = authority
			}
		}
		if err := a.Permit(services...); err != nil {
			t.Fatal(err)
		}
		named := map[string]int{}
		for _, is := range unique(a) {
			inside := namedBy(is)
			if len(inside) == 0 || len(inside) > maxHosts || !is.cert.PermittedDNSDomainsCritical {
				t.Fatalf("an intermediate permits %d hosts", len(inside))
			}
			for _, host := range inside {
				named[host]++
			}
			if names := is.cert.PermittedDNSDomains[0] != noHost; names != (len(is.cert.ExcludedIPRanges) == 2) || names != (len(is.cert.PermittedIPRanges) == 0) {
				t.Fatalf("%v: addresses %v but for %v", is.cert.PermittedDNSDomains, is.cert.PermittedIPRanges, is.cert.ExcludedIPRanges)
			}
			if !ofOne(inside, services) {
				t.Fatalf("%v are of several services", inside)
			}
		}
		for host, authority := range all {
			if named[host] != 1 || !a.Permits(authority) {
				t.Fatalf("%s is permitted by %d intermediates", host, named[host])
			}
			made, err := a.Leaf(authority)
			if err != nil {
				t.Fatal(err)
			}
			if err := verify(a, made, host, c.Now()); err != nil {
				t.Fatalf("%s: %v", host, err)
			}
			below := "sub." + host + ":443"
			if _, known := all["sub."+host]; !known && !strings.Contains(host, ":") && a.Permits(below) {
				t.Fatalf("a leaf can be made for %s", below)
			}
		}
		if len(named) != len(all) {
			t.Fatalf("%d hosts are permitted, %d are named by services", len(named), len(all))
		}
		other := rapid.StringMatching(`([a-z][a-z0-9_-]{0,6}\.){0,3}(test|example|a)`).Draw(t, "other")
		if _, known := all[other]; !known {
			if _, err := a.Leaf(other + ":443"); !errors.Is(err, errNotPermitted) {
				t.Fatalf("a leaf for %s: %v", other, err)
			}
		}
	})
}

// unique are the intermediates in force, each once.
func unique(a *Authority) map[*issuer]*issuer {
	out := map[*issuer]*issuer{}
	for _, is := range a.standing.Load().issuers {
		out[is] = is
	}
	return out
}

// namedBy are the hosts that an intermediate permits by its own words.
func namedBy(is *issuer) []string {
	var out []string
	for _, name := range is.cert.PermittedDNSDomains {
		if name != noHost {
			out = append(out, name)
		}
	}
	for _, ip := range is.cert.PermittedIPRanges {
		if ones, bits := ip.Mask.Size(); ones != bits {
			out = append(out, ip.String(), "more than one address")
		} else if at := ip.IP.String(); at != noIPv4 && at != noIPv6 {
			out = append(out, at)
		}
	}
	return out
}

func ofOne(hosts []string, services [][]string) bool {
	for _, service := range services {
		have := map[string]bool{}
		for _, authority := range service {
			host, _, _ := net.SplitHostPort(authority)
			have[host] = true
		}
		all := true
		for _, host := range hosts {
			all = all && have[host]
		}
		if all {
			return true
		}
	}
	return false
}

// What a leaked intermediate is good for, as Go reads it: its hosts and their
// subdomains, and nothing else.
func TestAForgedLeafIsGoodForPermittedHostsOnly(t *testing.T) {
	a := open(t, newDir(t), newClock(), "api.notes.test:443", "127.0.0.1:443", "[::1]:443")
	for _, f := range foreign() {
		is := issuerOf(t, a, f.by)
		if err := accepted(a, is, forge(t, a, is, f.leaf()), f.name); (err == nil) != f.good {
			t.Errorf("%s: %v", f.what, err)
		}
	}
}

// With AnyHost a host of no service has an intermediate of its own, for it alone.
func TestAnyHostSignsForOneHostAtATime(t *testing.T) {
	for _, dir := range []string{newDir(t), ""} {
		c := newClock()
		a := opened(t, Options{Dir: dir, Sealer: newBox(t, 1), Clock: c.Now, AnyHost: true}, "a.test:443")
		if !a.Permits("other.test:443") {
			t.Error("another host is not permitted")
		}
		got := leaf(t, a, "other.test:443")
		if err := verify(a, got, "other.test", c.Now()); err != nil {
			t.Error(err)
		}
		inter, err := x509.ParseCertificate(got.Certificate[1])
		if err != nil || len(inter.PermittedDNSDomains) != 1 || inter.PermittedDNSDomains[0] != "other.test" || len(inter.ExcludedIPRanges) != 2 {
			t.Errorf("it permits %v (%v)", inter.PermittedDNSDomains, err)
		}
		c.Add(issuerLife)
		if err := verify(a, leaf(t, a, "other.test:443"), "other.test", c.Now()); err != nil {
			t.Errorf("not renewed: %v", err)
		}
		if holdsRootKey(a) {
			t.Error("the root's key stays in memory in clear")
		}
	}
}

// 2,000 hosts of one service: 63 certificates that every client can read.
func TestAServiceWithManyHosts(t *testing.T) {
	var hosts []string
	for i := range 2000 {
		hosts = append(hosts, fmt.Sprintf("a-rather-long-name-of-a-tenant-%d.service.example:443", i))
	}
	a := open(t, newDir(t), newClock(), hosts...)
	if n := len(unique(a)); n != 63 {
		t.Errorf("%d intermediates", n)
	}
	for is := range unique(a) {
		if len(is.cert.Raw) > 4096 {
			t.Errorf("an intermediate of %d bytes", len(is.cert.Raw))
		}
	}
}

func TestHostsThatCannotBeNamedAreLeftOutAndSaid(t *testing.T) {
	a := open(t, newDir(t), newClock())
	err := a.Permit([]string{"a.test:443", "*.b.test:443", "c.test:443"})
	if err == nil || !strings.Contains(err.Error(), "*.b.test") {
		t.Errorf("%v", err)
	}
	if !a.Permits("a.test:443") || !a.Permits("c.test:443") || a.Permits("b.test:443") || a.Permits("x.b.test:443") {
		t.Error("the others are not permitted")
	}
	if err := os.Remove(keyIn(a.dir)); err != nil {
		t.Fatal(err)
	}
	if err := a.Permit([]string{"d.test:443"}); err == nil || !a.Permits("a.test:443") {
		t.Errorf("without the key: %v", err)
	}
}

func BenchmarkPermit2000(b *testing.B) {
	var hosts []string
	for i := range 2000 {
		hosts = append(hosts, fmt.Sprintf("h%d.service.example:443", i))
	}
	for b.Loop() {
		b.StopTimer()
		a := open(b, newDir(b), newClock())
		b.StartTimer()
		if err := a.Permit(hosts); err != nil {
			b.Fatal(err)
		}
	}
}

// That hosts of no service are signed for begins and ends while the authority is open. One
// that has forgotten its root's key cannot begin.
func TestSignAnyBeginsAndEnds(t *testing.T) {
	a := opened(t, Options{Dir: newDir(t), Sealer: newBox(t, 1), Clock: newClock().Now}, "a.test:443")
	if a.Permits("b.test:443") || !a.SignAny(true) || !a.Permits("b.test:443") {
		t.Error("it does not begin")
	}
	if err := verify(a, leaf(t, a, "b.test:443"), "b.test", newClock().Now()); err != nil {
		t.Error(err)
	}
	if !a.SignAny(false) || a.Permits("b.test:443") || !a.Permits("a.test:443") {
		t.Error("it does not end")
	}
	forgets := opened(t, Options{Sealer: newBox(t, 1), Clock: newClock().Now}, "a.test:443")
	if forgets.SignAny(true) || forgets.Permits("b.test:443") || !forgets.SignAny(false) {
		t.Error("the authority of a run signs with a key that it has forgotten")
	}
	keeps := opened(t, Options{Sealer: newBox(t, 1), Clock: newClock().Now, AnyHost: true}, "a.test:443")
	if !keeps.SignAny(false) || !keeps.SignAny(true) || !keeps.Permits("b.test:443") {
		t.Error("the authority of a run that signs for all cannot again")
	}
}
