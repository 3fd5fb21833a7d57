package installer

import (
	"slices"
	"strings"
	"testing"
)

// What differs is shown with three lines around it, and nothing of what does not.
func TestDiffLines(t *testing.T) {
	numbers := strings.Fields("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20")
	for name, c := range map[string]struct {
		change func(list []string) []string
		want   string
	}{
		"nothing":     {func(list []string) []string { return list }, ""},
		"in between":  {func(list []string) []string { list[9] = "x"; return list }, "@@| 7| 8| 9|-10|+x| 11| 12| 13"},
		"two places":  {func(list []string) []string { list[0] = "x"; list[19] = "y"; return list }, "-1|+x| 2| 3| 4|@@| 17| 18| 19|-20|+y"},
		"a line more": {func(list []string) []string { return slices.Insert(list, 1, "x") }, " 1|+x| 2| 3| 4"},
		"one less":    {func(list []string) []string { return slices.Delete(list, 19, 20) }, "@@| 17| 18| 19|-20"},
		"moved":       {func(list []string) []string { return append(list[1:], "1") }, "-1| 2| 3| 4|@@| 18| 19| 20|+1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(diffLines(numbers, c.change(slices.Clone(numbers))), "|"); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	many := make([]string, 5000)
	other := make([]string, 5000)
	for i := range many {
		many[i], other[i] = "a", "b"
	}
	if got := diffLines(many, other); len(got) != 10_000 || got[0] != "-a" || got[9999] != "+b" { // beyond what is compared
		t.Errorf("%d lines", len(got))
	}
}
