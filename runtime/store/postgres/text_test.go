package postgres

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestEveryTextComesBackAndCanBeStored(t *testing.T) {
	for _, text := range []string{
		"", "plain", "a\x00b", "\xff\xfe", "é\x00\xc3", mark, mark + "00", "\x00" + mark + "zz", mark + mark, "a" + mark, mark[:2],
	} {
		comesBack(t, text)
	}
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{"\x00", mark, mark[:1], mark[1:], "00", "7f", "é", "\xff", "x", "\n"})
		comesBack(t, strings.Join(rapid.SliceOf(piece).Draw(t, "pieces"), ""))
		comesBack(t, string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")))
	})
}

func comesBack(t interface{ Errorf(string, ...any) }, text string) {
	stored := escaped(text)
	if !utf8.ValidString(stored) || strings.Contains(stored, "\x00") {
		t.Errorf("%q is stored as %q, which cannot be", text, stored)
	}
	if got := unescaped(stored); got != text {
		t.Errorf("%q came back as %q", text, got)
	}
}

// What somebody else wrote into the table is read as it stands.
func TestAMarkThatWeDidNotWriteIsLeft(t *testing.T) {
	for _, stored := range []string{mark, mark + "0", mark + "zz", "a" + mark + "é"} {
		if got := unescaped(stored); got != stored {
			t.Errorf("%q was read as %q", stored, got)
		}
	}
}
