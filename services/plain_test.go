package services

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// agrees reports how the tree of the plain reader differs from the library's; ""
// when it does not, or the text is left to the library.
func agrees(text string) string {
	used := &room{} // nothing of another file may be left in it
	plainTree("a: {b: [\"c\", 1], 'd': ~}\ne:\n  - f: g\n    h: true\n  - [i, {j: k}]\n", used)
	ours, plain := plainTree(text, used)
	if !plain {
		return ""
	}
	dec := yaml.NewDecoder(bytes.NewReader([]byte(text)))
	var doc, second yaml.Node
	if err := decode(dec, &doc); err != nil {
		return "the library says: " + err.Error()
	}
	if err := decode(dec, &second); !errors.Is(err, io.EOF) {
		return "the library sees a second document"
	}
	return differ(ours, doc.Content[0])
}

// differ compares all of a node that service files are made of. Comments mean
// nothing here.
func differ(a, b *yaml.Node) string {
	show := func(n *yaml.Node) string {
		return fmt.Sprintf("%d:%d kind %d style %d tag %s anchor %q value %q, %d children", n.Line, n.Column, n.Kind, n.Style, n.Tag, n.Anchor, n.Value, len(n.Content))
	}
	if x, y := show(a), show(b); x != y {
		return "read " + x + ", the library " + y
	}
	for i := range a.Content {
		if d := differ(a.Content[i], b.Content[i]); d != "" {
			return d
		}
	}
	return ""
}

// plainTexts are at the borders of what is plain.
func plainTexts() []string {
	return []string{
		"a: b", "a:\n  b: c\n  d: e\nf: g\n", "a:\n- b\n", "a:\n  - b\n  - c: d\n    e: f\n  - {g: h}\n",
		"a: b # c", "a: b#c", "a: 'b' # c", "a: \"b\"#c", "a: {b: c}#d", "a: [b, c] # d", "a: #b\n  c: d", "- #b\n  c: d",
		"a: b\n  c", "a: b\n\n  # d\n  c", "a: b\n # c\nd: e", "a: \"b\"\n  c", "a:\n\n\n   b: c\n\n", "a:\n  b: c\n d: e", "  a: b\n", " a: b\nc: d",
		"a: 1\nb: 0\nc: 01\nd: 1.5\ne: -1\nf: +1\ng: 1_000\nh: 0x1f\ni: 2026-01-02\nj: 1.0.0\nk: .5\nl: .inf\nm: 1e3\nn: 99999999999999999999\no: 08\np: 12:30\nq: 0o7\nr: 0b1\ns: -",
		"a: true\nb: True\nc: tRue\nd: null\ne: ~\nf: no\ng: yes\nh: on\ni: off\nj: Null\nk: ~x\nl: y\nm: N",
		"404: a\ntrue: b\nnull: c\n1.5: d\n\"404\": e\n'x': f\n", "a: b: c", "a: b:", "a:b", "a :b", "a : b", "a: -b", "a: - b", "a: -", "a: ?b", "a: ? b",
		"a: {b: c, d: [e, f], g: {h: i}}", "a: {}\nb: []\nc: { }\nd: [ ]", "a: {b: c,}", "a: [b,]", "a: [b, , c]", "a: {b}", "a: {b: }", "a: {b: , c: d}", "a: [b: c]",
		"a: {b:c}", "a: {\"b\":c}", "a: {'b': 'c'}", "a: [b?c]", "a: [b#c]", "a: [b #c]", "a: [b:c, d:]", "a: [x:, y]", "a: {b: https://c.d/e?f=g}", "a: {b: [c]", "a: {b: c}}", "a: [b] c",
		"a: [-b, - c]", "a: [b,c]", "a: {b: c ,d: e}", "a: {b: \"c, d\"}", "a: {b: \"c\"d}", "a: {\n  b: c}", "a: [b\n  ]",
		`a: "b\\c\"d\ne"`, `a: "b\tc"`, `a: "b\u0041"`, `a: "b\/c"`, `a: "b`, `a: "b\`, `a: 'it''s'`, "a: 'b", "a: ''\nb: \"\"", "a: 'b' 'c'", "a: \"b\" : c", "\"a\" : b", "'a': b\n\"c\":\n  d: e",
		"a: *b", "a: &b c", "a: !!str b", "a: |\n  b", "a: >\n  b", "a: @b", "a: `b", "a: %b", "%YAML 1.1\n---\na: b", "---\na: b", "a: b\n---\nc: d", "a: b\n...\n", "--- a: b", "---a: b", "... : a", "...a: b",
		"a: <<", "<<: a", "? a\n: b", "a\n", "a", "", "\n\n# a\n", "# a\nb: c\n# d\n", "- a\n- b: c\n  d: e\n-   f: g\n    h: i\n", "- - a\n", "-\n  a: b\n", "- a\nb: c\n", "a: b\n- c\n", "- \"a\": b\n", "- a:\n    b: c\n  d: e\n", "- a: b\n   c: d\n", "- a: b\n c: d\n",
		"a: b\na: c\n", "a:   b  \nc:    d   # e\n", "a: b  #\n", "a: ---\nb: ...\n", "a:\n  --- b: c\n", "a: b\tc", "a: b\r\nc: d\r\n", "a: \u00e9", "\ufeffa: b", "a: b\x00",
		strings.Repeat("k", 127) + ": a", strings.Repeat("k", 200) + ": a", strings.Repeat("k", 1100) + ": a", "a: " + strings.Repeat("[", 40) + strings.Repeat("]", 40),
		strings.Repeat("- a:\n  ", 3), "a: {" + strings.Repeat("k", 1100) + ": b}", "a: ,b", "a: ]b", "a: }b", "a: :b", "a: =b", "=: b", "a: =", "a: b, c [d] {e}", "a, b: c", "a [b]: c", "a {b}: c",
	}
}

// What the plain reader reads, the YAML library reads alike, places included.
func TestPlainFilesAreReadAsTheLibraryReadsThem(t *testing.T) {
	texts := plainTexts()
	for _, pattern := range []string{"catalog/*.yaml", "testdata/*.txtar", "testdata/bad/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(data))
			if _, plain := plainTree(string(data), &room{}); !plain && strings.HasPrefix(pattern, "catalog") {
				t.Errorf("%s is not plain, and slow to read", file)
			}
		}
	}
	plain := 0
	for _, text := range texts {
		if _, ok := plainTree(text, &room{}); ok {
			plain++
		}
		if d := agrees(text); d != "" {
			t.Errorf("%.200q: %s", text, d)
		}
	}
	if plain < 100 {
		t.Errorf("only %d of %d texts are plain", plain, len(texts))
	}
}

func FuzzPlainTree(f *testing.F) {
	for _, text := range plainTexts() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d := agrees(text); d != "" {
			t.Errorf("%q: %s", text, d)
		}
	})
}
