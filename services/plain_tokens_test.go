package services

import (
	"strings"
	"testing"
)

// plainTokens are what service files are made of, and what is just outside of it.
// Texts made of them meet the borders far more often than texts made of bytes.
func plainTokens() []string {
	return []string{
		"\n", "\n  ", "\n    ", "\n- ", "\n  - ", "\n# x\n", "\n  # x\n", "\n\n", "a: ", "b: ", "a:", "c", " ", "  ", ": ", ":", " #", "#", " # x",
		"- ", "-", "?", "? ", ",", ", ", "{", "}", "[", "]", "{a: ", "[a, ", "\"", "'", "\"a\"", "'a'", "\"a\": ", "''", "\\", "\\n", "\\\"", "|", ">", "|-\n", "&a ", "*a", "!!str ", "!", "<<: ", "<<",
		"---", "--- ", "...", "%YAML 1.2", "~", "null", "true", "True", "no", "yes", "on", "0", "1", "12", "0x1f", "0o7", "017", "0b1", "1_000", "1e3", ".5", ".inf", "-.inf", "+1", "-1", ".nan", "190:20:30", "2026-01-02", "2026-01-02T03:04:05Z",
		"=", "@", "`", "\t", "\r", "\r\n", "\u00e9", "\ufeff", "\u2028", "\u0085", "\x7f", "\x00", "https://a.b/c?d=e#f", "{x}", "a b", "1: ", "true: ", "\n   ", "\n a: ", "\n  b: ", "\n    c: ",
	}
}

// Texts made of the words of YAML are read alike too, or left to the library.
func FuzzPlainTokens(f *testing.F) {
	f.Add([]byte("\x08\x0b\x01\x09\x0b\x02\x08\x0b"))
	f.Add([]byte("\x08\x03\x0b\x03\x1a\x0b\x17\x09\x0b\x17"))
	tokens := plainTokens()
	f.Fuzz(func(t *testing.T, picks []byte) {
		var b strings.Builder
		for _, pick := range picks[:min(len(picks), 64)] {
			b.WriteString(tokens[int(pick)%len(tokens)])
		}
		if d := agrees(b.String()); d != "" {
			t.Errorf("%q: %s", b.String(), d)
		}
	})
}
