package certs

import (
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
)

// rootKey is where the key of a root is. Open gives it for a few signatures.
type rootKey interface {
	open() (*ecdsa.PrivateKey, error)
}

var _, _, _ rootKey = fileKey{}, sealedKey{}, clearKey{}

// fileKey is sealed in a folder.
type fileKey struct {
	files rootFiles
	cert  *x509.Certificate
}

func (k fileKey) open() (*ecdsa.PrivateKey, error) { return k.files.unseal(k.cert) }

// sealedKey is sealed in memory.
type sealedKey struct {
	sealer Sealer
	sealed []byte
}

func (k sealedKey) open() (*ecdsa.PrivateKey, error) { return openKey(k.sealer, k.sealed) }

// clearKey lies open in memory, between the making of a run's root and its
// only signatures.
type clearKey struct{ key *ecdsa.PrivateKey }

func (k clearKey) open() (*ecdsa.PrivateKey, error) { return k.key, nil }

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
