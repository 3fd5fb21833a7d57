package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// counting counts how often the root's key is opened.
type counting struct {
	box
	opened int
}

func (c *counting) Open(sealed, aad []byte) ([]byte, error) {
	c.opened++
	return c.box.Open(sealed, aad)
}

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
			if _, err := a.Leaf(other + ":443"); !errors.Is(err, ErrNotPermitted) {
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

func TestTheRootsKeyIsOpenedForSignaturesOnly(t *testing.T) {
	sealer := &counting{box: newBox(t, 1)}
	c := newClock()
	a, err := New(Options{Dir: newDir(t), Sealer: sealer, Clock: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	step := func(what string, want int, do func() error) {
		t.Helper()
		sealer.opened = 0
		if err := do(); err != nil || sealer.opened != want {
			t.Errorf("%s: the key was opened %d times, want %d (%v)", what, sealer.opened, want, err)
		}
	}
	two := [][]string{{"a.test:443", "b.test:443"}, {"c.test:443"}}
	step("two services", 1, func() error { return a.Permit(two...) })
	first := issuerOf(t, a, "a.test")
	step("the same again", 0, func() error { return a.Permit(two...) })
	step("leaves", 0, func() error { leaf(t, a, "a.test:443"); leaf(t, a, "c.test:443"); return nil })
	step("one service more", 1, func() error { return a.Permit(append(two, []string{"d.test:443"})...) })
	if issuerOf(t, a, "a.test") != first {
		t.Error("what was signed is signed again")
	}
	step("one service less", 0, func() error { return a.Permit(two[0]) })
	if a.Permits("d.test:443") {
		t.Error("a service that is gone has certificates")
	}
	if _, err := a.Leaf("c.test:443"); !errors.Is(err, ErrNotPermitted) {
		t.Errorf("a cached leaf of a service that is gone: %v", err)
	}
	c.Add(issuerLife - issuerRenew + time.Hour)
	step("renewal of all", 1, func() error { leaf(t, a, "a.test:443"); leaf(t, a, "b.test:443"); return nil })
	if holdsRootKey(a) {
		t.Error("the root's key stays in memory")
	}
}

// holdsRootKey reports whether the root's key lies in memory in clear.
func holdsRootKey(a *Authority) bool {
	seen := map[uintptr]bool{}
	return heldKey(reflect.ValueOf(a), a.Root().PublicKey, seen) || heldKey(reflect.ValueOf(a.standing.Load()), a.Root().PublicKey, seen)
}

// heldKey walks what v holds for the private key of a public one.
func heldKey(v reflect.Value, public any, seen map[uintptr]bool) bool {
	want := reflect.ValueOf(public).Elem().FieldByName("X").Elem()
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() || v.Kind() == reflect.Pointer && seen[v.Pointer()] {
			return false
		}
		if v.Kind() == reflect.Pointer {
			seen[v.Pointer()] = true
		}
		return heldKey(v.Elem(), public, seen)
	case reflect.Struct:
		if v.Type().Name() == "PrivateKey" {
			x := v.FieldByName("PublicKey").FieldByName("X").Elem()
			return fmt.Sprint(x) == fmt.Sprint(want)
		}
		for i := range v.NumField() {
			if heldKey(v.Field(i), public, seen) {
				return true
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if heldKey(v.MapIndex(key), public, seen) {
				return true
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if v.Type().Elem().Kind() != reflect.Uint8 && heldKey(v.Index(i), public, seen) {
				return true
			}
		}
	}
	return false
}

// The root of a run signs once; what comes later has no certificate.
func TestARunForgetsTheKeyOfItsRoot(t *testing.T) {
	c := newClock()
	a := opened(t, Options{Clock: c.Now}, "a.test:443")
	if a.standing.Load().key != nil {
		t.Error("the key can still be had")
	}
	if err := a.Permit([]string{"a.test:443", "b.test:443"}); err != nil {
		t.Error(err)
	}
	if a.Permits("b.test:443") || !a.Permits("a.test:443") {
		t.Error("the second call permits more, or less")
	}
	if _, err := a.Leaf("b.test:443"); !errors.Is(err, ErrNotPermitted) {
		t.Errorf("%v", err)
	}
	for range 29 { // a run may last as long as its token
		c.Add(day)
		if err := verify(a, leaf(t, a, "a.test:443"), "a.test", c.Now()); err != nil {
			t.Fatal(err)
		}
	}
	c.Add(2 * day)
	if _, err := a.Leaf("a.test:443"); err == nil || !strings.Contains(err.Error(), "start the run again") {
		t.Errorf("after its end: %v", err)
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

// A service that is installed while the root's key cannot be opened has its leaves
// as soon as it can, without being named again.
func TestWhatCouldNotBePermittedIsWhenTheKeyIsBack(t *testing.T) {
	for name, mend := range map[string]func(dir string, c *clock) error{
		"the same root": func(dir string, _ *clock) error { return os.Rename(keyIn(dir)+".away", keyIn(dir)) },
		"a new root": func(dir string, c *clock) error {
			rotate(t, dir, c, day)
			return nil
		},
	} {
		dir, c := newDir(t), newClock()
		a := open(t, dir, c, "a.test:443")
		if err := os.Rename(keyIn(dir), keyIn(dir)+".away"); err != nil {
			t.Fatal(err)
		}
		if err := a.Permit([]string{"a.test:443", "b.test:443"}); err == nil {
			t.Fatalf("%s: permitted without a key", name)
		}
		if a.Permits("b.test:443") || !a.Permits("a.test:443") {
			t.Errorf("%s: what was permitted does not stay", name)
		}
		if err := mend(dir, c); err != nil {
			t.Fatal(err)
		}
		if changed, err := a.Refresh(); !changed || err != nil {
			t.Errorf("%s: %t %v", name, changed, err)
		}
		for _, host := range []string{"a.test", "b.test"} {
			if err := verify(a, leaf(t, a, host+":443"), host, c.Now()); err != nil {
				t.Errorf("%s: %s: %v", name, host, err)
			}
		}
		if changed, err := a.Refresh(); changed || err != nil {
			t.Errorf("%s: it is done twice: %t %v", name, changed, err)
		}
	}
}
