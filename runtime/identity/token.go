package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"math/big"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// A token is "kmb_", 256 random bits in 43 characters of base 62, and their
// CRC-32 in 6: a typo is told from a revoked token without a look-up, and a
// scanner of repositories can be sure of what it found. All characters may stand
// in a URL's userinfo as they are.
const (
	valueLength  = 43
	checkLength  = 6
	tokenLength  = len(runtime.TokenPrefix) + valueLength + checkLength
	base62Digits = 62
)

// newToken returns a fresh token.
func newToken() runtime.Secret {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails since Go 1.24
	value := base62(new(big.Int).SetBytes(random[:]), valueLength)
	return runtime.NewSecret(runtime.TokenPrefix + value + checksum(value))
}

// wellFormed reports whether text can be a token at all.
func wellFormed(text string) bool {
	rest, ours := strings.CutPrefix(text, runtime.TokenPrefix)
	return ours && len(text) == tokenLength && checksum(rest[:valueLength]) == rest[valueLength:]
}

// IsToken reports whether a text begins as every token does, and no id of one. It need not
// be a good one: whoever mistypes a token does not want it repeated either.
func IsToken(text string) bool { return strings.HasPrefix(text, runtime.TokenPrefix) }

// leastHidden is how much behind the prefix is hidden, in bytes: one that lost a few
// characters on the way gives the rest away.
const leastHidden = 16

// WithoutTokens shortens the tokens in a message, and what is left of them, to what all have
// in common: whoever puts one in a wrong place does not have it repeated, in a log maybe.
func WithoutTokens(text string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, runtime.TokenPrefix)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteString(runtime.TokenPrefix)
		rest := strings.TrimLeftFunc(after, func(r rune) bool {
			return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		})
		if len(after)-len(rest) >= leastHidden {
			out.WriteString("…")
			after = rest
		}
		text = after
	}
}

// hashOf is what is stored and looked up. The value has 256 bits of its own, so
// that neither salt nor a slow hash would add anything.
func hashOf(token runtime.Secret) [32]byte { return sha256.Sum256([]byte(token.Reveal())) }

// checksum is base62 of the CRC-32, written digit by digit: it is made for every
// request that shows a token.
func checksum(value string) string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	var out [checkLength]byte
	n := crc32.ChecksumIEEE([]byte(value))
	for i := len(out) - 1; i >= 0; i-- {
		out[i] = digits[n%base62Digits]
		n /= base62Digits
	}
	return string(out[:])
}

func base62(n *big.Int, length int) string {
	text := n.Text(base62Digits)
	return strings.Repeat("0", length-len(text)) + text
}
