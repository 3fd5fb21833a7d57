package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// errOurs is the refusal of an upstream whose chain holds a certificate of a
// kimbap authority.
var errOurs = errors.New("the upstream's certificate was made by a kimbap authority, not by a public one")

// errUnverified is the refusal of a connection that nobody verified.
var errUnverified = errors.New("the upstream's certificate has no verified chain")

// Upstream is the configuration of every TLS connection on which a credential
// may leave: Go's own verification of chain and host, from roots (nil: the
// system's), TLS 1.2 or later, and no chain of a kimbap authority.
func Upstream(roots *x509.CertPool) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		RootCAs:    roots,
		VerifyConnection: func(state tls.ConnectionState) error {
			return refuseOurs(state.VerifiedChains)
		},
	}
}

// refuseOurs returns [errOurs] when any chain holds a certificate of a kimbap
// authority, and an error when there is no chain at all. In
// [crypto/tls.Config.VerifyConnection] it also sees resumed sessions: a process
// that inherited SSL_CERT_FILE from `kimbap env` trusts our root without
// knowing.
func refuseOurs(chains [][]*x509.Certificate) error {
	if len(chains) == 0 {
		return errUnverified
	}
	for _, chain := range chains {
		for _, c := range chain {
			if IsOurs(c) {
				return errOurs
			}
		}
	}
	return nil
}
