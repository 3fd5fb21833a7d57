package catalog_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
)

var update = flag.Bool("update", false, "write docs/catalogue.md anew")

// docs/catalogue.md says what the files say.
func TestDocsAreMadeOfTheFiles(t *testing.T) {
	file := filepath.Join("..", "..", "docs", "catalogue.md")
	want := page(t)
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("docs/catalogue.md is not what the service files say (%v): go test ./services/catalog -run Docs -update", err)
	}
}

const preface = `# The catalogue

These service files come with kimbap. ` + "`kimbap link NAME`" + ` installs one and stores its key;
` + "`kimbap service install NAME`" + ` only installs it. A host in braces needs a value:
` + "`kimbap service install jira --var site=acme`" + `.

- **Typed actions** have a name and arguments of their own. A request that none of them covers
  goes through one of three **catch-alls**: reads are low risk, writes medium, deletes high. A
  service that runs a program has no catch-alls: it can perform its actions and nothing else.
- **critical** counts the actions that are denied by default. A read-only service can have some
  too: a host of ` + "`pypi-index`" + ` also serves the forms by which people change their accounts
  and projects.

This page is generated from the files: ` + "`go test ./services/catalog -run Docs -update`" + `.

| service | what it is | hosts | typed actions | critical | key goes | how to get a key |
|---|---|---|---|---|---|---|
`

func page(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	out.WriteString(preface)
	for _, name := range catalog.Names() {
		data, err := catalog.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := services.Parse(name+".yaml", data)
		if err != nil {
			t.Fatal(err)
		}
		typed, critical := 0, 0
		for _, a := range s.Actions {
			if s.Adapter != "http" || !catchAll(a) {
				typed++
			}
			if a.Risk == runtime.RiskCritical {
				critical++
			}
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %d | %d | %s | %s |\n", s.Name, s.Description, hosts(t, s, data), typed, critical, place(s), key(t, s))
	}
	out.WriteString(sources)
	for _, name := range catalog.Names() {
		fmt.Fprintf(&out, "%s", source(t, name))
	}
	return out.Bytes()
}

const sources = `
## What the files were compared with

The last column is the number of operations in the source. Where there is one, tests check the
service file against them: the methods, paths and required parameters of typed actions, and that
whatever hands out access or takes something away is guarded. For the mutations of GitHub,
GitLab and Linear they check that by name.

| service | source | operations |
|---|---|---|
`

// elsewhere says of services without an index of paths what their files were
// compared with.
func elsewhere() map[string]string {
	return map[string]string{
		"linear":     "the 386 mutations and the types in @linear/sdk, version 98.0.0",
		"pypi":       "the upload API in warehouse's documentation for users",
		"pypi-index": "warehouse's documentation for users and the routes in warehouse/routes.py; methods by hand",
	}
}

// source is the row of a service: the first line of its index, without what all say.
func source(t *testing.T, name string) string {
	if text, ok := elsewhere()[name]; ok {
		return fmt.Sprintf("| `%s` | %s | |\n", name, text)
	}
	data, err := os.ReadFile(filepath.Join("testdata", "index", name+".tsv"))
	if err != nil {
		return ""
	}
	head, _, _ := strings.Cut(strings.TrimPrefix(string(data), "# "), "\n")
	head, _, _ = strings.Cut(head, ": method, path")
	return fmt.Sprintf("| `%s` | %s | %d |\n", name, head, len(readIndex(t, name)))
}

// hosts are the service's hosts as they stand in the file, variables among them, or its program.
func hosts(t *testing.T, s *services.Service, data []byte) string {
	t.Helper()
	if s.Adapter != "http" {
		return "the program `" + s.Actions[0].Command.Executable + "`"
	}
	var at struct {
		BaseURL string `yaml:"base_url"`
		Hosts   []string
	}
	if err := yaml.Unmarshal(data, &at); err != nil {
		t.Fatal(err)
	}
	return strings.Join(append([]string{strings.Split(at.BaseURL, "/")[2]}, at.Hosts...), ", ")
}

func place(s *services.Service) string {
	auth := s.Auth
	if s.Adapter != "http" && auth.Ref != "" {
		return "into the program's environment"
	}
	switch auth.Type {
	case runtime.AuthOAuth2:
		return "as bearer token, by an OAuth sign-in"
	case runtime.AuthBearer:
		return "as bearer token"
	case runtime.AuthBasic:
		return "as password"
	case runtime.AuthHeader:
		return "into " + auth.Header
	case runtime.AuthPath:
		return "into the path"
	}
	return "nowhere"
}

// key is how to get one: the recipe of that name.
func key(t *testing.T, s *services.Service) string {
	t.Helper()
	i := slices.IndexFunc(s.Recipes, func(r services.Recipe) bool { return r.Name == "get a key" })
	if i < 0 {
		if s.Auth.Type == runtime.AuthNone {
			return "it needs none"
		}
		if s.Name != "demo" {
			t.Errorf("%s: no recipe says how to get a key", s.Name)
		}
		return "`make demo` makes one for itself."
	}
	text := s.Recipes[i].Description
	if strings.Contains(text, "://") || !strings.HasSuffix(text, ".") {
		t.Errorf("%s: how to get a key is one sentence without a link, not %q", s.Name, text)
	}
	return text
}
