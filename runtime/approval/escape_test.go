package approval

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzVisible: whatever comes in, one line of visible characters comes out.
func FuzzVisible(f *testing.F) {
	f.Add("a\x1b[0m\u202e\xff\\n\u0301\u0301\u0301\u0301", 3)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		shown, whole := visible(text, max(limit, 0))
		if !utf8.ValidString(shown) || strings.ContainsFunc(shown, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x202e }) {
			t.Fatalf("%q shows as %q", text, shown)
		}
		if limit <= 0 && !whole {
			t.Fatal("cut without a limit")
		}
	})
}
