package runtime_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

func TestFirstWrongIsTheLineThatMakesItSo(t *testing.T) {
	has := func(upTo string) (string, int) {
		if strings.Contains(upTo, "wrong") {
			return "it is wrong", 1
		}
		return "", 0
	}
	for text, want := range map[string]int{
		"": 0, "right": 0, "wrong": 1, "right\nright\n": 0,
		"right\nwrong\nright\n": 2, "right\n\n\nso wrong": 4,
	} {
		if got := runtime.FirstWrong(text, has); got != want {
			t.Errorf("%q: line %d, want %d", text, got, want)
		}
	}
}

// What is cut off within brackets is wrong by the same words as a bracket that closes
// nothing, at its own end, and says nothing of where the mistake is.
func TestFirstWrongIsNoLineThatIsOnlyCutOff(t *testing.T) {
	brackets := func(upTo string) (string, int) {
		open := false
		for i, line := range strings.Split(upTo, "\n") {
			switch {
			case strings.HasSuffix(line, "}"):
				return "no value", i
			case strings.HasSuffix(line, "["):
				open = true
			case strings.HasSuffix(line, "]"):
				open = false
			}
		}
		if open {
			return "no value", strings.Count(upTo, "\n")
		}
		return "", 0
	}
	for text, want := range map[string]int{
		"[\n1\n2\n}\n3\n": 4,
		"[\n1\n2\n}":      4,
		"1\n[\n2\n3\n":    2, // it ends too soon
	} {
		if got := runtime.FirstWrong(text, brackets); got != want {
			t.Errorf("%q: line %d, want %d", text, got, want)
		}
	}
}

// Looking for the line costs no more than some looks at a file of the usual size.
func TestFirstWrongIsNotLookedForInWhatIsVeryLong(t *testing.T) {
	read := 0
	wrong := func(upTo string) (string, int) { read += len(upTo); return "wrong", 1 }
	if line := runtime.FirstWrong(strings.Repeat("line\n", 200_000), wrong); line != 0 || read > 4<<20 {
		t.Errorf("line %d, after %d bytes were read", line, read)
	}
}
