package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// Of two values of one argument the last would win in silence; of a list each is an element.
func TestAnArgumentThatIsNoListIsGivenOnce(t *testing.T) {
	action := &runtime.Action{Ref: "notes.make", Params: []runtime.Param{
		{Name: "title", Type: runtime.TypeString, Nullable: true}, {Name: "per_page", Type: runtime.TypeInteger},
		{Name: "draft", Type: runtime.TypeBoolean}, {Name: "tags", Type: runtime.TypeArray},
	}}
	for words, want := range map[string]string{
		"--title a --title b":         "--title takes one value, and is given more than once",
		"--title null --title b":      "--title takes one value, and is given more than once",
		"--per_page 1 --per-page 2":   "--per_page takes one value, and is given more than once",
		"--draft --draft=false":       "--draft takes one value, and is given more than once",
		"--title a --tags b --tags c": "map[tags:[b c] title:a]",
		"--tags [\"b\"] --tags c":     "map[tags:[b c]]",
	} {
		c := &cli{out: &bytes.Buffer{}, err: &bytes.Buffer{}}
		args, _, err := c.callWords(newRoot(c), action, append([]string{"notes.make"}, strings.Fields(words)...))
		got := fmt.Sprint(map[string]any(args))
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", words, got, want)
		}
	}
}
