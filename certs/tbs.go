package certs

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"net/netip"
	"time"

	"golang.org/x/crypto/cryptobyte"
	tag "golang.org/x/crypto/cryptobyte/asn1"
)

// A leaf is made for the first connection to each host, while the client waits. What
// crypto/x509 does for any certificate takes it four times as long as this, which
// writes one kind only, in the same bytes: it goes over the template by reflection,
// and verifies its own signature, which the client does too.

// Object identifiers of a leaf: RFC 5758 section 3.2, RFC 5280 sections 4.1.2.4 and
// 4.2.1, and appendix A.1.
var (
	oidECDSAWithSHA256  = asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 2}
	oidCommonName       = asn1.ObjectIdentifier{2, 5, 4, 3}
	oidOrganization     = asn1.ObjectIdentifier{2, 5, 4, 10}
	oidKeyUsage         = asn1.ObjectIdentifier{2, 5, 29, 15}
	oidAlternativeName  = asn1.ObjectIdentifier{2, 5, 29, 17}
	oidBasicConstraints = asn1.ObjectIdentifier{2, 5, 29, 19}
	oidAuthorityKey     = asn1.ObjectIdentifier{2, 5, 29, 35}
	oidExtendedUsage    = asn1.ObjectIdentifier{2, 5, 29, 37}
	oidServerAuth       = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 1}
)

// leafForm is what a leaf says.
type leafForm struct {
	host       string // a DNS name or an IP address, canonical
	begin, end time.Time
	public     []byte // SubjectPublicKeyInfo, DER
}

// signLeaf makes a leaf with a random serial number and reads it back. The key is
// the parent's, of P-256.
func signLeaf(f leafForm, parent *x509.Certificate, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	var serial [20]byte // RFC 5280 section 4.1.2.2: at most, and positive
	if _, err := rand.Read(serial[:]); err != nil {
		return nil, err
	}
	serial[0] = serial[0]&0x7f | 0x40
	tbs, err := f.tbs(serial[:], parent)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(tbs)
	signature, err := ecdsa.SignASN1(rand.Reader, key, digest[:])
	if err != nil {
		return nil, err
	}
	var b cryptobyte.Builder
	b.AddASN1(tag.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddBytes(tbs)
		algorithm(b)
		b.AddASN1BitString(signature)
	})
	der, err := b.Bytes()
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// tbs is the TBSCertificate (RFC 5280 section 4.1), DER. The serial number has no
// leading zeros and is positive.
func (f *leafForm) tbs(serial []byte, parent *x509.Certificate) ([]byte, error) {
	var b cryptobyte.Builder
	b.AddASN1(tag.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1(tag.Tag(0).Constructed().ContextSpecific(), func(b *cryptobyte.Builder) { b.AddASN1Int64(2) }) // version 3
		b.AddASN1(tag.INTEGER, func(b *cryptobyte.Builder) { b.AddBytes(serial) })
		algorithm(b)
		b.AddBytes(parent.RawSubject)
		b.AddASN1(tag.SEQUENCE, func(b *cryptobyte.Builder) {
			moment(b, f.begin)
			moment(b, f.end)
		})
		f.subject(b)
		b.AddBytes(f.public)
		b.AddASN1(tag.Tag(3).Constructed().ContextSpecific(), func(b *cryptobyte.Builder) {
			b.AddASN1(tag.SEQUENCE, func(b *cryptobyte.Builder) { f.extensions(b, parent) })
		})
	})
	return b.Bytes()
}

func algorithm(b *cryptobyte.Builder) {
	b.AddASN1(tag.SEQUENCE, func(b *cryptobyte.Builder) { b.AddASN1ObjectIdentifier(oidECDSAWithSHA256) })
}

// moment adds a time (RFC 5280 section 4.1.2.5).
func moment(b *cryptobyte.Builder, t time.Time) {
	if t = t.UTC(); t.Year() < 2050 {
		b.AddASN1UTCTime(t)
	} else {
		b.AddASN1GeneralizedTime(t)
	}
}

// subject adds the name. Clients still take a common name for a DNS name, and OpenSSL
// and GnuTLS hold even an address there against the permitted names. Its upper bound is
// that of RFC 5280 appendix A.1.
func (f *leafForm) subject(b *cryptobyte.Builder) {
	oid, value := oidCommonName, f.host
	if _, err := netip.ParseAddr(f.host); err == nil || len(f.host) > 64 {
		oid, value = oidOrganization, organization
	}
	kind := tag.PrintableString
	for _, c := range value {
		if c == '_' { // the one character of a canonical name that such a string has not
			kind = tag.UTF8String
		}
	}
	b.AddASN1(tag.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1(tag.SET, func(b *cryptobyte.Builder) {
			b.AddASN1(tag.SEQUENCE, func(b *cryptobyte.Builder) {
				b.AddASN1ObjectIdentifier(oid)
				b.AddASN1(kind, func(b *cryptobyte.Builder) { b.AddBytes([]byte(value)) })
			})
		})
	})
}

// extensions adds those of a leaf (RFC 5280 section 4.2.1).
func (f *leafForm) extensions(b *cryptobyte.Builder, parent *x509.Certificate) {
	extension(b, oidKeyUsage, true, func(b *cryptobyte.Builder) {
		b.AddASN1(tag.BIT_STRING, func(b *cryptobyte.Builder) { b.AddBytes([]byte{7, 0x80}) }) // digitalSignature
	})
	extension(b, oidExtendedUsage, false, func(b *cryptobyte.Builder) {
		b.AddASN1(tag.SEQUENCE, func(b *cryptobyte.Builder) { b.AddASN1ObjectIdentifier(oidServerAuth) })
	})
	extension(b, oidBasicConstraints, true, func(b *cryptobyte.Builder) {
		b.AddASN1(tag.SEQUENCE, func(*cryptobyte.Builder) {}) // no authority
	})
	extension(b, oidAuthorityKey, false, func(b *cryptobyte.Builder) {
		b.AddASN1(tag.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1(tag.Tag(0).ContextSpecific(), func(b *cryptobyte.Builder) { b.AddBytes(parent.SubjectKeyId) })
		})
	})
	extension(b, oidAlternativeName, false, func(b *cryptobyte.Builder) {
		b.AddASN1(tag.SEQUENCE, func(b *cryptobyte.Builder) {
			kind, value := tag.Tag(2), []byte(f.host) // dNSName
			if ip, err := netip.ParseAddr(f.host); err == nil {
				kind, value = tag.Tag(7), ip.AsSlice() // iPAddress
			}
			b.AddASN1(kind.ContextSpecific(), func(b *cryptobyte.Builder) { b.AddBytes(value) })
		})
	})
}

func extension(b *cryptobyte.Builder, oid asn1.ObjectIdentifier, critical bool, value func(*cryptobyte.Builder)) {
	b.AddASN1(tag.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1ObjectIdentifier(oid)
		if critical {
			b.AddASN1Boolean(true)
		}
		b.AddASN1(tag.OCTET_STRING, value)
	})
}
