package certs

import (
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
)

// errNoKey hides a parser's error, which may quote what it read.
var errNoKey = errors.New("what was sealed is not a key of ours")

// sealKey seals a root's key.
func sealKey(sealer Sealer, key *ecdsa.PrivateKey) ([]byte, error) {
	plain, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	defer clear(plain)
	return sealer.Seal(plain, []byte(keyAAD))
}

// openKey opens what sealKey sealed.
func openKey(sealer Sealer, sealed []byte) (*ecdsa.PrivateKey, error) {
	plain, err := sealer.Open(sealed, []byte(keyAAD))
	if err != nil {
		return nil, err
	}
	defer clear(plain)
	parsed, err := x509.ParsePKCS8PrivateKey(plain)
	if err != nil {
		return nil, errNoKey
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errNoKey
	}
	return key, nil
}
