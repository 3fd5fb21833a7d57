package runtime

import (
	"sort"
	"strings"
)

// wrongMost is the longest text, in bytes, whose wrong line is looked for. Each look reads
// what is before it, and there are some twenty: of a megabyte that takes seconds.
const wrongMost = 128 << 10

// missing is how the reader of YAML begins to say that something is not closed, or goes on
// without a comma.
const missing = "did not find expected ','"

// FirstWrong is the number of the line that makes a text wrong: the first up to which it is
// wrong already, 0 when it never is, or is too long to find out. Readers that go from the top
// to the bottom, as that of YAML, often name the place where what they were reading began: of
// a file of fifty lines the first, for a mistake in the last.
//
// What read says is wrong, "" for nothing, and the line that it names are the same for every
// text that has the mistake. A text that ends within brackets may be wrong by the same words
// with no mistake in it: the line that is named then moves with the end. Only of one that
// ends too soon itself, or that has a comma or a bracket too few, the words alone tell: what
// is missing there is missing before the line that shows it.
func FirstWrong(text string, read func(upTo string) (msg string, line int)) int {
	if len(text) > wrongMost {
		return 0
	}
	msg, line := read(text)
	if msg == "" {
		return 0
	}
	var ends []int
	for at := 0; at < len(text); {
		if n := strings.IndexByte(text[at:], '\n'); n >= 0 {
			at += n + 1
		} else {
			at = len(text)
		}
		ends = append(ends, at)
	}
	blank := strings.Repeat("\n", len(ends)+2) // the end is behind every line of the text
	_, moved := read(text + blank)
	alone := moved != line || strings.HasPrefix(msg, missing)
	i := sort.Search(len(ends), func(i int) bool {
		said, at := read(text[:ends[i]] + blank)
		return said == msg && (alone || at == line)
	})
	if i == len(ends) {
		return 0
	}
	return i + 1
}
