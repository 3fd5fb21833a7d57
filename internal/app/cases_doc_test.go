package app_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs/security-cases.md is made from testdata/cases, so that it cannot lag
// behind: KIMBAP_UPDATE=1 go test ./internal/app -run SecurityCasesDocument writes it.
func TestSecurityCasesDocument(t *testing.T) {
	t.Parallel()
	const file = "../../docs/security-cases.md"
	want := securityDocument(securityAreas(t))
	if os.Getenv("KIMBAP_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Error("docs/security-cases.md is not what testdata/cases says; write it with: KIMBAP_UPDATE=1 go test ./internal/app -run SecurityCasesDocument")
	}
}

// Each case stands once and says who holds it; every test that it names is there.
func TestEverySecurityCaseIsHeld(t *testing.T) {
	t.Parallel()
	tests, seen := testNames(t), map[string]bool{}
	for _, a := range securityAreas(t) {
		for _, c := range a.cases {
			switch {
			case !regexp.MustCompile(`^[A-Z]{2}-[0-9]{3}$`).MatchString(c.id) || c.about == "":
				t.Errorf("%s: %q %q is not an id and a sentence", a.file, c.id, c.about)
			case seen[c.id]:
				t.Errorf("%s stands twice", c.id)
			case len(c.tries) == 0 && len(c.held) == 0 && c.none == "" && !c.open:
				t.Errorf("%s: nothing holds it, and it does not say why", c.id)
			case c.none != "" && len(c.tries)+len(c.held) > 0:
				t.Errorf("%s: it is held, and says why not", c.id)
			}
			seen[c.id] = true
			for _, name := range c.held {
				if !tests[name] {
					t.Errorf("%s names %s, which is not there", c.id, name)
				}
			}
		}
	}
	if len(seen) < 150 {
		t.Errorf("%d cases only: the test looks in the wrong place", len(seen))
	}
}

// testNames are the tests of the module.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, found := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllSubmatch(source, -1) {
			out[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func securityDocument(areas []area) string {
	var b bytes.Buffer
	b.WriteString(`# Security cases

Each row is an input that has broken a program of this kind, or could, and the
tests that hold what kimbap does with it. For a row that names
` + "`TestSecurityCases/AREA/ID`" + `, the input itself is in
[internal/app/testdata/cases](../internal/app/testdata/cases): the test sends it to
a whole kimbap and checks the response, the records and every byte at the upstream.
A test generates this page from those files.
`)
	for _, a := range areas {
		fmt.Fprintf(&b, "\n## %s\n\n| id | case | held by |\n|---|---|---|\n", a.title)
		for _, c := range a.cases {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", c.id, cell(c.about), cell(c.holders(a.file)))
		}
	}
	return b.String()
}

// holders are the tests of a case, or why there are none, and what differs.
func (c securityCase) holders(file string) string {
	var names []string
	if len(c.tries) > 0 {
		names = append(names, fmt.Sprintf("`TestSecurityCases/%s/%s`", file, c.id))
	}
	for _, name := range c.held {
		names = append(names, "`"+name+"`")
	}
	text := strings.Join(names, ", ")
	if text == "" {
		text = c.none
	}
	if text == "" {
		text = "not listed here yet"
	}
	if c.note != "" {
		text += ". " + c.note
	}
	return text
}

func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }
