package vault

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// ErrTampered is returned for bytes that are not what was sealed in this place:
// changed, moved, or sealed under another key.
var ErrTampered = errors.New("the sealed bytes were changed or belong elsewhere")

// format is the first byte of everything sealed, and part of what is bound.
const format = 1

// Sealer seals under one key that is used for nothing else. It is safe for
// concurrent use. Nonces are 96 random bits: NIST SP 800-38D section 8.3 allows
// 2^32 messages per key, and a key here seals a home's secrets, not traffic.
type Sealer struct{ aead cipher.AEAD }

// derive makes a key of its own from a random key for each use (HKDF, RFC 5869).
func derive(key []byte, use string) ([]byte, error) {
	return hkdf.Key(sha256.New, key, nil, "kimbap v1 "+use, keySize)
}

// NewSealer returns the sealer of one use of a random or stretched key. The uses are
// texts of the program, never data.
func NewSealer(key runtime.Secret, use string) (*Sealer, error) {
	if key.Empty() {
		return nil, errors.New("vault: a sealer without a key")
	}
	plain := []byte(key.Reveal())
	defer clear(plain)
	return newSealer(plain, use)
}

// newSealer returns the sealer of one use of a key.
func newSealer(key []byte, use string) (*Sealer, error) {
	derived, err := derive(key, use)
	if err != nil {
		return nil, err
	}
	defer clear(derived)
	return sealerUnder(derived)
}

// sealerUnder returns the sealer of a key that was made for one use.
func sealerUnder(key []byte) (*Sealer, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &Sealer{aead}, nil
}

// Seal returns the sealed form of plain. The same aad opens it.
func (s *Sealer) Seal(plain, aad []byte) ([]byte, error) {
	out := make([]byte, 1, 1+s.aead.Overhead()+len(plain))
	out[0] = format
	return s.aead.Seal(out, nil, plain, bound(aad)), nil
}

// Open returns what was sealed, or [ErrTampered].
func (s *Sealer) Open(sealed, aad []byte) ([]byte, error) {
	if len(sealed) < 1+s.aead.Overhead() || sealed[0] != format {
		return nil, ErrTampered
	}
	plain, err := s.aead.Open(nil, nil, sealed[1:], bound(aad))
	if err != nil {
		return nil, ErrTampered
	}
	return plain, nil
}

func bound(aad []byte) []byte { return append([]byte{format}, aad...) }

// fields joins parts so that no two lists of parts join to the same bytes:
// each stands behind its length.
func fields(parts ...string) []byte {
	size := 0
	for _, p := range parts {
		size += 8 + len(p)
	}
	out := make([]byte, 0, size)
	for _, p := range parts {
		out = binary.BigEndian.AppendUint64(out, uint64(len(p)))
		out = append(out, p...)
	}
	return out
}

func number(n int64) string { return string(binary.BigEndian.AppendUint64(nil, uint64(n))) }

// keyFields is what a wrapped key is bound to. The first version is older than
// versions are.
func keyFields(tenant runtime.Tenant, version int) []byte {
	if version == 1 && tenant != filesTenant {
		return fields("tenant key", string(tenant))
	}
	return fields("tenant key", string(tenant), number(int64(version)))
}

// secretFields is what a stored secret is bound to.
func secretFields(s *Sealed) []byte {
	var expires int64 // microseconds, as precise as every store
	if !s.Expires.IsZero() {
		expires = s.Expires.UnixMicro()
	}
	parts := []string{"secret", string(s.Tenant), s.Name, number(int64(s.Version)), number(expires), number(int64(len(s.Authorities)))}
	parts = append(parts, s.Authorities...)
	if s.Reference != "" {
		parts = append(parts, "reference", s.Reference)
	}
	return fields(parts...)
}

// micro cuts a time to what every store keeps.
func micro(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC().Truncate(time.Microsecond)
}
