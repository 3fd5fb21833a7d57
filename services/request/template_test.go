package request

import (
	"strings"
	"testing"
)

func FuzzTemplate(f *testing.F) {
	f.Add("/repos/{owner}/{repo:int}/{path...}")
	f.Add("{{}{a")
	f.Fuzz(func(t *testing.T, template string) {
		var b strings.Builder
		for _, p := range split(template) {
			b.WriteString(p.text)
			if p.name != "" {
				b.WriteString("{" + p.name)
				if p.rest {
					b.WriteString("...")
				}
				b.WriteString("}")
			}
		}
		if !strings.Contains(template, ":") && b.String() != template {
			t.Fatalf("%q came back as %q", template, b.String())
		}
	})
}
