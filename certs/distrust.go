package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// Distrust says, in words for people, what is wrong with the certificate that a handshake
// failed for, and what mends it; "" for an error that does not judge a certificate. Nothing
// in it is text of the peer's: a certificate may say anything.
func Distrust(err error) (why, fix string) {
	var (
		invalid x509.CertificateInvalidError
		name    x509.HostnameError
		unknown x509.UnknownAuthorityError
	)
	switch {
	case errors.Is(err, errOurs):
		return "it was made by a kimbap authority, not by a public one", "find out what answers in the host's place: another kimbap stands between, and no setting makes its certificates good"
	case errors.As(err, &name):
		return "it is for another name", "check the address; if it is right, who runs the host must get a certificate for this name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return outsideItsTime(invalid.Cert), "tell who runs the host, or set this machine's clock if it is wrong"
	case errors.As(err, &unknown):
		return "no authority that is trusted here has signed it", "if the host uses a private CA, add it with upstream.ca_file"
	case errors.As(err, new(*tls.CertificateVerificationError)), errors.Is(err, errUnverified):
		return "its chain breaks a rule of certificates", "tell who runs the host: the certificate must be made anew"
	}
	return "", ""
}

// outsideItsTime gives the dates of a certificate that is not valid now.
func outsideItsTime(cert *x509.Certificate) string {
	if cert == nil {
		return "it has expired, or is not valid yet"
	}
	return fmt.Sprintf("it is valid from %s to %s only", cert.NotBefore.UTC().Format(time.DateOnly), cert.NotAfter.UTC().Format(time.DateOnly))
}
