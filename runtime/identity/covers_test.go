package identity

import (
	"hash/crc32"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kimbap-run/kimbap/runtime"
)

// What covers says must hold for every action: none that the new scope matches
// may be one that the creator's do not.
func TestCoversIsSound(t *testing.T) {
	glob := rapid.StringMatching(`[ab.*]{1,6}`)
	rapid.Check(t, func(t *rapid.T) {
		by := []runtime.Scope{runtime.Scope(glob.Draw(t, "by")), runtime.Scope(glob.Draw(t, "or by"))}
		scope := glob.Draw(t, "scope")
		if !covers(by, runtime.Scope(scope)) {
			return
		}
		var action strings.Builder // one that the scope matches
		for _, r := range scope {
			if r == '*' {
				action.WriteString(rapid.StringMatching(`[ab.*]{0,4}`).Draw(t, "any"))
			} else {
				action.WriteRune(r)
			}
		}
		if !by[0].Match(action.String()) && !by[1].Match(action.String()) {
			t.Errorf("%q covered by %q, but not its action %q", scope, by, action.String())
		}
	})
	if !covers([]runtime.Scope{"github.*"}, "github.list-*") || covers([]runtime.Scope{"github.*"}, "git*") || covers(nil, "a.b") {
		t.Error("the plain cases")
	}
}

// The digits of a checksum are those of base 62: tokens made by any version are
// told from typing errors by any other.
func TestChecksumIsBase62(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.String().Draw(t, "value")
		if got, want := checksum(value), base62(big.NewInt(int64(crc32.ChecksumIEEE([]byte(value)))), checkLength); got != want {
			t.Fatalf("%q: %s, want %s", value, got, want)
		}
	})
}

// The budget of a warm check is a microsecond; few allocations keep it there.
func TestTokenCheckIsLean(t *testing.T) {
	token := newToken().Reveal()
	if n := testing.AllocsPerRun(100, func() { wellFormed(token) }); n > 2 {
		t.Errorf("looking at a token allocates %v times", n)
	}
}

// BenchmarkWellFormed is what a check does besides one SHA-256 and one look-up.
func BenchmarkWellFormed(b *testing.B) {
	token := newToken().Reveal()
	b.ReportAllocs()
	for b.Loop() {
		if !wellFormed(token) {
			b.Fatal("it is")
		}
	}
}
