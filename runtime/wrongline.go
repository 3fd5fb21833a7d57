package runtime

import (
	"sort"
	"strings"
)

// FirstWrong is the number of the line that makes a text wrong: the first up to which it is
// wrong already, 0 when it never is. Readers that go from the top to the bottom, as that of
// YAML, often name the place where what they were reading began: of a file of fifty lines
// the first, for a mistake in the last.
func FirstWrong(text string, wrong func(upTo string) bool) int {
	var ends []int
	for at := 0; at < len(text); {
		if n := strings.IndexByte(text[at:], '\n'); n >= 0 {
			at += n + 1
		} else {
			at = len(text)
		}
		ends = append(ends, at)
	}
	i := sort.Search(len(ends), func(i int) bool { return wrong(text[:ends[i]]) })
	if i == len(ends) {
		return 0
	}
	return i + 1
}
