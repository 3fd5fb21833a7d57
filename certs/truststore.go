package certs

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"time"
	"unicode/utf16"
)

// TrustStorePassword is Java's usual one. It keeps nothing secret: a store of
// certificates is not encrypted, the password only keys the digest at its end.
const TrustStorePassword = "changeit"

// The numbers of a Java key store (JKS), as every Java since 1.2 reads it.
const (
	storeMagic   = 0xFEEDFEED
	storeVersion = 2
	storeTrusted = 2 // an entry that is a trusted certificate
)

// TrustStore returns the certificates of a PEM text as a Java key store, for
// programs on a JVM, which read no PEM. Certificates that Go cannot parse are
// left out, because one that Java cannot parse spoils the whole store. The same
// text gives the same bytes.
func TrustStore(bundle []byte) ([]byte, error) {
	roots := Parse(bundle)
	if len(roots) == 0 {
		return nil, errors.New("trust store: no certificate in the bundle")
	}
	w := storeWriter{digest: storeDigest(TrustStorePassword)}
	w.number(4, storeMagic)
	w.number(4, storeVersion)
	w.number(4, uint64(len(roots)))
	for _, root := range roots {
		sum := sha1.Sum(root.Raw)
		w.number(4, storeTrusted)
		w.text(hex.EncodeToString(sum[:])) // an alias must be there once
		w.number(8, milliseconds(root.NotBefore))
		w.text("X.509")
		w.number(4, uint64(len(root.Raw)))
		w.bytes(root.Raw)
	}
	return w.digest.Sum(w.out.Bytes()), nil
}

// milliseconds since 1970, as Java counts; 0 for what is older.
func milliseconds(t time.Time) uint64 { return uint64(max(0, t.UnixMilli())) }

// storeDigest starts the digest over a store: SHA-1 of the password in
// big-endian UTF-16, a phrase that is part of the format, and all that follows.
func storeDigest(password string) hash.Hash {
	digest := sha1.New()
	for _, unit := range utf16.Encode([]rune(password)) {
		digest.Write([]byte{byte(unit >> 8), byte(unit)})
	}
	digest.Write([]byte("Mighty Aphrodite"))
	return digest
}

// storeWriter writes as Java's DataOutputStream does: big-endian, a text behind
// its length in two bytes.
type storeWriter struct {
	out    bytes.Buffer
	digest hash.Hash
}

func (w *storeWriter) bytes(p []byte) {
	w.out.Write(p)
	w.digest.Write(p)
}

// number writes the low bytes of n.
func (w *storeWriter) number(size int, n uint64) {
	var all [8]byte
	binary.BigEndian.PutUint64(all[:], n)
	w.bytes(all[8-size:])
}

func (w *storeWriter) text(s string) {
	w.number(2, uint64(len(s)))
	w.bytes([]byte(s))
}
