package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"time"
)

const (
	day = 24 * time.Hour

	organization = "kimbap" // in the subjects of our certificates

	// clockSkew is how far a client's clock may be behind ours: every
	// certificate begins this much before it is made.
	clockSkew = day

	rootLife    = 365 * day // all of it, clockSkew included
	runLife     = 31 * day  // the same of a root in memory, for one run
	rootWarning = 30 * day
)

// markerOID marks every CA certificate we make. The number is random, under
// the arc that needs no registration (ITU-T X.667, 2.25).
func markerOID() asn1.ObjectIdentifier {
	return asn1.ObjectIdentifier{2, 25, 1801073962, 740135529, 1}
}

func marker() pkix.Extension {
	// A critical extension would make every client refuse the chain. The value
	// is the DER NULL: being there is all it says.
	return pkix.Extension{Id: markerOID(), Value: asn1.NullBytes}
}

// IsOurs reports whether c is a CA certificate of any kimbap authority, this
// one or another, by the private extension all of them carry.
func IsOurs(c *x509.Certificate) bool {
	if c == nil {
		return false
	}
	ours := markerOID()
	for _, e := range c.Extensions {
		if e.Id.Equal(ours) {
			return true
		}
	}
	return false
}

// signer is a CA certificate and its key.
type signer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newRoot makes a self-signed root that may have one level of CA below it.
func newRoot(now time.Time, life time.Duration) (signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return signer{}, err
	}
	begin := now.Add(-clockSkew).UTC().Truncate(time.Second)
	template := caTemplate("kimbap local root", begin, begin.Add(life))
	template.MaxPathLen = 1
	cert, err := sign(template, template, &key.PublicKey, key)
	return signer{cert, key}, err
}

// caTemplate holds what root and intermediate share: they sign certificates
// for servers and nothing else. The name is unique, because trust stores and
// path builders look CAs up by it.
func caTemplate(name string, begin, end time.Time) *x509.Certificate {
	var unique [8]byte
	_, _ = rand.Read(unique[:]) // never fails: crypto/rand aborts the process first
	return &x509.Certificate{
		Subject:   pkix.Name{Organization: []string{organization}, CommonName: name + " " + hex.EncodeToString(unique[:])},
		NotBefore: begin, NotAfter: end,
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:        x509.KeyUsageCertSign,
		ExtKeyUsage:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		ExtraExtensions: []pkix.Extension{marker()},
	}
}

// sign makes a certificate with a random serial number (RFC 5280 section
// 4.1.2.2) and reads it back.
func sign(template, parent *x509.Certificate, public *ecdsa.PublicKey, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}
