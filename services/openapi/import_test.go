package openapi_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/openapi"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

var update = flag.Bool("update", false, "write what the files in testdata expect")

// Each file of testdata holds a document, its neighbours and flags, and as
// "report" and "want" what is made of them.
func TestDocumentsBecomeServices(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 3 {
		t.Fatal("the documents are missing", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			archive, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			given, want, _ := strings.Cut(string(archive), "-- report --\n")
			o := options(sections(given))
			r, err := openapi.Import(o)
			if err != nil {
				t.Fatal(err)
			}
			got := r.Report() + "-- want --\n" + string(r.YAML)
			if *update {
				if err := os.WriteFile(file, []byte(given+"-- report --\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
			roundTrip(t, r)
		})
	}
}

// sections reads "-- name --" on a line, then text.
func sections(archive string) map[string]string {
	out, name := map[string]string{}, ""
	for line := range strings.Lines(archive) {
		start, opens := strings.CutPrefix(line, "-- ")
		start, closes := strings.CutSuffix(start, " --\n")
		if opens && closes {
			name = start
		} else {
			out[name] += line
		}
	}
	return out
}

func options(files map[string]string) openapi.Options {
	o := openapi.Options{Document: "doc.yaml"}
	words := strings.Fields(files["flags"])
	for i := 0; i+1 < len(words); i += 2 {
		switch words[i] {
		case "--name":
			o.Name = words[i+1]
		case "--tag":
			o.Tags = append(o.Tags, words[i+1])
		case "--path-prefix":
			o.PathPrefix = words[i+1]
		case "--auth":
			o.Auth = words[i+1]
		}
	}
	folder := fstest.MapFS{}
	for name, text := range files {
		if name != "flags" {
			folder[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	delete(folder, "")
	o.Files = folder
	return o
}

// one imports a document of one file.
func one(t *testing.T, text string, o openapi.Options) (*openapi.Result, error) {
	t.Helper()
	o.Files, o.Document = fstest.MapFS{"doc.yaml": {Data: []byte(text)}}, "doc.yaml"
	return openapi.Import(o)
}

func parse(t *testing.T, r *openapi.Result) *services.Set {
	t.Helper()
	text := string(r.YAML)
	vars := map[string]string{}
	for line := range strings.Lines(text) { // values for variables: one their pattern admits
		if name, pattern, ok := strings.Cut(strings.TrimSpace(line), ": {pattern: "); ok {
			value, _, _ := strings.Cut(strings.Trim(strings.TrimSuffix(pattern, "}"), `"`), "|")
			if strings.HasPrefix(value, "[") {
				value = "acme"
			}
			vars[name] = value
		}
	}
	s, err := servicestest.Install(t.TempDir(), r.Name+".yaml", r.YAML, vars)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	set, err := services.NewSet([]*services.Service{s})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// An operation that has a server of its own is imported when that is the one of
// the file, and not when it is another of the document's: a sandbox is no second
// name of what is real.
func TestOperationsOfAnotherServerAreLeftOut(t *testing.T) {
	const doc = `{"openapi": "3.0.0", "servers": [{"url": "https://api.x.test/v1"}, {"url": "https://sandbox.x.test/v1"}], "paths": {"/a": {"get": {}},
		"/wipe": {"post": {"servers": [{"url": "https://sandbox.x.test/v1"}]}}, "/slash": {"get": {"servers": [{"url": "https://api.x.test/v1/"}]}},
		"/either": {"servers": [{"url": "https://sandbox.x.test/v1"}, {"url": "https://api.x.test/v1"}], "get": {}}}}`
	for base, want := range map[string]string{
		"": "get-a get-either get-slash", "https://sandbox.x.test/v1/": "get-a get-either get-slash post-wipe", "https://mirror.x.test": "get-a get-either get-slash",
	} {
		r, err := one(t, doc, openapi.Options{BaseURL: base})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range parse(t, r).Services()[0].Actions {
			if !strings.HasPrefix(a.Name, "api-") {
				got = append(got, a.Name)
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("with base %q: %s, want %s\n%s", base, got, want, r.Report())
		}
	}
}
