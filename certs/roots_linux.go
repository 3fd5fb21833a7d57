package certs

// firstFiles are those of crypto/x509, in its order: with another one a file could be
// trusted that it does not read.
func firstFiles() []string {
	return []string{
		"/etc/ssl/certs/ca-certificates.crt",                // Debian, Ubuntu, Gentoo
		"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora, RHEL 6
		"/etc/ssl/ca-bundle.pem",                            // openSUSE
		"/etc/pki/tls/cacert.pem",                           // OpenELEC
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // RHEL 7
		"/etc/ssl/cert.pem",                                 // Alpine
	}
}
