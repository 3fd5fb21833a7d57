package runtime_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

func TestFirstWrongIsTheLineThatMakesItSo(t *testing.T) {
	has := func(upTo string) bool { return strings.Contains(upTo, "wrong") }
	for text, want := range map[string]int{
		"": 0, "right": 0, "wrong": 1, "right\nright\n": 0,
		"right\nwrong\nright\n": 2, "right\n\n\nso wrong": 4,
	} {
		if got := runtime.FirstWrong(text, has); got != want {
			t.Errorf("%q: line %d, want %d", text, got, want)
		}
	}
}
