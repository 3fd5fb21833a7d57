package app

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"

	"github.com/kimbap-run/kimbap/internal/remote"
	"github.com/kimbap-run/kimbap/runtime"
)

// maxLentRoots is how many certificates a server may have its programs trust: two
// roots, while one takes over, and some room.
const maxLentRoots = 4

// lentRoot is what a server has the programs behind its proxy trust: certificates,
// and with pins only those that have one of these fingerprints; and the services
// there with a port of their own.
func lentRoot(ctx context.Context, there *remote.Client, pins []string) (root []byte, authorities []string, err error) {
	text, authorities, err := there.Proxy(ctx)
	switch {
	case err != nil:
		return nil, nil, err
	case len(pins) > 0:
		root, err = pinned("the server", text, pins)
	default:
		root, err = roots(text)
	}
	return root, authorities, err
}

// roots are the certificates of a PEM text that can sign others. There are at least
// one and at most maxLentRoots of them.
func roots(text []byte) ([]byte, error) {
	var out bytes.Buffer
	n := 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil || block.Type != "CERTIFICATE" || !cert.IsCA {
			continue
		}
		if n++; n > maxLentRoots {
			break
		}
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}); err != nil {
			return nil, err
		}
	}
	if n == 0 || n > maxLentRoots {
		return nil, &runtime.Error{
			Code: runtime.CodeUpstreamTLS, Msg: "the server shows no certificate that its programs could trust", Hint: "on its machine: kimbap ca show",
		}
	}
	return out.Bytes(), nil
}
