package runtime

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"time"
)

// idAlphabet sorts as its values do (Crockford's base 32, lower case).
var idAlphabet = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewID returns an identifier that sorts by time and cannot be guessed:
// prefix, "_", 48 bits of milliseconds and 80 random bits.
func NewID(prefix string, now time.Time) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(now.UnixMilli())<<16)
	_, _ = rand.Read(b[6:]) // never fails since Go 1.24
	return spelled(prefix, b)
}

// LeastID is what no identifier of [NewID] made at this time, or later, sorts before.
func LeastID(prefix string, at time.Time) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(at.UnixMilli())<<16)
	return spelled(prefix, b)
}

// spelled writes an identifier. Every request has one.
func spelled(prefix string, b [16]byte) string {
	var room [64]byte
	return string(idAlphabet.AppendEncode(append(append(room[:0], prefix...), '_'), b[:]))
}
