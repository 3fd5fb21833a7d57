package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// A token is "kmb_" and 56 characters of base 32 (RFC 4648, lower case): 32
// random bytes and 3 bytes of checksum. 35 bytes fill the characters exactly,
// so that one token has one spelling. The checksum keeps nobody out; it tells a
// typo from an unknown token, and lets scanners of leaked secrets be sure.
const (
	prefix       = "kmb_"
	randomSize   = 32
	checksumSize = 3
	tokenLength  = len(prefix) + 56
)

const alphabet = "abcdefghijklmnopqrstuvwxyz234567"

var encoding = base32.NewEncoding(alphabet).WithPadding(base32.NoPadding)

// newToken returns a token nobody can guess.
func newToken() string {
	var b [randomSize + checksumSize]byte
	_, _ = rand.Read(b[:randomSize]) // never fails since Go 1.24
	sum := checksum(b[:randomSize])
	copy(b[randomSize:], sum[:])
	return prefix + encoding.EncodeToString(b[:])
}

func checksum(random []byte) (out [checksumSize]byte) {
	sum := sha256.Sum256(append([]byte(prefix), random...))
	copy(out[:], sum[:])
	return out
}

// WellFormed reports whether text has the form and the checksum of a token. It
// says nothing of whether such a token was ever made.
func WellFormed(text string) bool {
	digits, ok := strings.CutPrefix(text, prefix)
	if !ok || len(text) != tokenLength {
		return false
	}
	var b [randomSize + checksumSize]byte
	n, err := encoding.Decode(b[:], []byte(digits))
	if err != nil || n != len(b) { // the decoder skips line ends, so the length is checked again
		return false
	}
	sum := checksum(b[:randomSize])
	return string(sum[:]) == string(b[randomSize:])
}
