package request

import (
	"strings"
	"testing"
)

func FuzzTemplate(f *testing.F) {
	f.Add("/repos/{owner}/{repo.name}/{path...}")
	f.Add("{{}{a")
	f.Fuzz(func(t *testing.T, template string) {
		var b strings.Builder
		for _, p := range Pieces(template) {
			b.WriteString(p.Text)
			if p.Hole != "" {
				b.WriteString("{" + p.Hole + "}")
			}
		}
		if b.String() != template {
			t.Fatalf("%q came back as %q", template, b.String())
		}
	})
}
