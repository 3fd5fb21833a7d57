package certs

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// What a leaf says is, byte for byte, what crypto/x509 would write.
func TestALeafIsWrittenAsCryptoX509Would(t *testing.T) {
	a := opened(t, Options{Sealer: newBox(t, 1), Clock: newClock().Now, AnyHost: true})
	long := strings.Repeat("a", 60) + "." + strings.Repeat("b", 60) + ".test"
	for _, host := range []string{"a.test", "api.github.com", "under_score.test", long[:64], long[:65], long, "1.2.3.4", "::1", "2001:db8::5"} {
		_, is, err := a.issuerFor(host, a.clock())
		if err != nil {
			t.Fatal(err)
		}
		for _, year := range []int{1999, 2026, 2049, 2050, 2101} {
			begin := time.Date(year, 12, 30, 23, 4, 5, 0, time.FixedZone("", 3600))
			f := leafForm{host: host, begin: begin, end: begin.AddDate(0, 0, 3), public: a.leafInfo}
			serial := []byte{0x40, 1, 2, 3}
			got, err := f.tbs(serial, is.cert)
			if err != nil {
				t.Fatal(err)
			}
			template := &x509.Certificate{
				SerialNumber: new(big.Int).SetBytes(serial), NotBefore: begin, NotAfter: begin.AddDate(0, 0, 3),
				KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
				Subject: pkix.Name{Organization: []string{organization}},
			}
			if ip, err := netip.ParseAddr(host); err == nil {
				template.IPAddresses = []net.IP{ip.AsSlice()}
			} else if template.DNSNames = []string{host}; len(host) <= 64 {
				template.Subject = pkix.Name{CommonName: host}
			}
			der, err := x509.CreateCertificate(rand.Reader, template, is.cert, &a.leafKey.PublicKey, is.key)
			if err != nil {
				t.Fatal(err)
			}
			var want struct{ TBS, Algorithm, Signature asn1.RawValue }
			if _, err := asn1.Unmarshal(der, &want); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want.TBS.FullBytes) {
				t.Errorf("%s in %d:\n%x, crypto/x509 writes\n%x", host, year, got, want.TBS.FullBytes)
			}
		}
	}
}

// Serial numbers are of 20 bytes, positive, and not the same twice; the signature is
// the intermediate's.
func TestALeafIsSigned(t *testing.T) {
	a := opened(t, Options{Sealer: newBox(t, 1), Clock: newClock().Now, AnyHost: true})
	seen := map[string]bool{}
	for range 300 {
		m, err := a.mint("a.test")
		if err != nil {
			t.Fatal(err)
		}
		_, is, err := a.issuerFor("a.test", a.clock())
		if err != nil {
			t.Fatal(err)
		}
		cert := m.leaf.Leaf
		if err := cert.CheckSignatureFrom(is.cert); err != nil {
			t.Fatal(err)
		}
		if serial := cert.SerialNumber; serial.Sign() <= 0 || len(serial.Bytes()) != 20 || seen[serial.String()] {
			t.Errorf("serial number %x", serial)
		}
		seen[cert.SerialNumber.String()] = true
	}
}
