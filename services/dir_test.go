package services_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

const tracker = `# keep this comment
name: tracker
version: 1.0.0
base_url: "https://{site}.tracker.test/rest"   # {site} here stays
hosts: ["files.{site}.tracker.test", cdn.tracker.test]
vars: {site: {pattern: "[a-z0-9.:/@-]+"}}
actions:
  get: {description: x, method: GET, path: "/issue/{site}"}
`

func TestInstallWritesAFileWithItsValues(t *testing.T) {
	dir := t.TempDir()
	s, err := servicestest.Install(dir, "tracker.yaml", []byte(tracker), map[string]string{"site": "acme"})
	if err != nil {
		t.Fatal(err)
	}
	if s.BaseURL != "https://acme.tracker.test/rest" || len(s.Routes) != 1 || len(s.Unset) > 0 {
		t.Errorf("installed %+v", s)
	}
	path := filepath.Join(dir, "tracker.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(tracker, `"https://{site}.`, `"https://acme.`, 1)
	want = strings.Replace(want, "files.{site}.", "files.acme.", 1)
	if string(text) != want {
		t.Errorf("wrote\n%s\nwant\n%s", text, want)
	}
	if info, err := os.Stat(path); err != nil || system.Exposed(path, info) != "" {
		t.Errorf("it is open to others: %v, %v", info.Mode(), err)
	}
	if one, err := services.LoadOne(dir, "tracker"); err != nil || one.Digest != s.Digest {
		t.Errorf("loaded %v, %v", one, err)
	}
	if _, err := servicestest.Install(dir, "tracker.yaml", []byte(tracker), map[string]string{"site": "other"}); err != nil {
		t.Errorf("installing again: %v", err)
	}
	if err := services.Remove(dir, "tracker"); err != nil {
		t.Fatal(err)
	}
	if err := services.Remove(dir, "tracker"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removing what is not there: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestInstallRefusesWhatWouldNotLoad(t *testing.T) {
	dir := t.TempDir()
	if _, err := servicestest.Install(dir, "a.yaml", []byte(strings.ReplaceAll(tracker, "{site}.", "")), nil); err != nil {
		t.Fatal(err)
	}
	rival := strings.ReplaceAll(strings.ReplaceAll(tracker, "{site}.", ""), "name: tracker", "name: rival")
	for _, c := range []struct {
		name, text string
		vars       map[string]string
		want       string
	}{
		{"no value", tracker, nil, "needs a value for its variable site"},
		{"a variable that is not there", tracker, map[string]string{"sites": "x", "site": "y"}, "has no variable"},
		{"pattern", tracker, map[string]string{"site": "ACME"}, "does not match its pattern"},
		{"a value that ends the host", tracker, map[string]string{"site": "evil.test/"}, "cannot stand in a host"},
		{"a value with a user", tracker, map[string]string{"site": "evil@x"}, "cannot stand in a host"},
		{"a value that is no host", tracker, map[string]string{"site": "a..b"}, "a label has 1 to 63 characters"},
		{"an overlap with an installed service", rival, nil, "nothing says which one wins"},
		{"a name that leaves the folder", strings.Replace(rival, "rival", "../rival", 1), nil, "is not a name"},
		{"too large", tracker + strings.Repeat("#\n", 1<<20), nil, "1 MiB"},
		{"not UTF-8", tracker + "# \xff", nil, "is not UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := servicestest.Install(dir, "x.yaml", []byte(c.text), c.vars)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("a refused install left files: %v", files)
	}
}

func TestLoadDirNamesEveryProblemOfEveryFile(t *testing.T) {
	dir := t.TempDir()
	if list, err := services.LoadDir(filepath.Join(dir, "missing")); err != nil || list != nil {
		t.Errorf("a missing folder: %v, %v", list, err)
	}
	for name, text := range map[string]string{
		"b.yaml": "name: B\n", "a.yaml": "nam: a\n", "c.yaml": tracker, ".d.yaml": "x", "notes.txt": "x",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := services.LoadDir(dir)
	var problems services.Problems
	if !errors.As(err, &problems) {
		t.Fatalf("got %v", err)
	}
	seen := map[string]bool{}
	for _, p := range problems {
		seen[filepath.Base(p.File)] = true
	}
	if len(seen) != 2 || !seen["a.yaml"] || !seen["b.yaml"] {
		t.Errorf("problems of %v", seen)
	}
	for _, name := range []string{"../a", "", "A", "c"} {
		if _, err := services.LoadOne(dir, name); err == nil {
			t.Errorf("LoadOne took %q", name)
		}
	}
}

// `call` reads one file before anything else: it must cost next to nothing.
func TestParseIsCheap(t *testing.T) {
	var b strings.Builder
	b.WriteString("name: many\nversion: 1.0.0\nbase_url: https://many.test\nactions:\n")
	for i := range 40 {
		fmt.Fprintf(&b, "  get-%d:\n    description: Read one\n    method: GET\n    path: /p%d/{owner}/{repo}\n    args:\n", i, i)
		b.WriteString("      - {name: owner, type: string, required: true, pattern: \"^[\\\\w.-]+$\"}\n      - {name: state, enum: [open, closed], default: open}\n      - {name: per_page, type: integer, minimum: 1, maximum: 100}\n")
	}
	data, best := []byte(b.String()), time.Hour
	for range 10 {
		start := time.Now()
		s, err := services.Parse("many.yaml", data)
		if err != nil || len(s.Actions) != 40 {
			t.Fatal(err)
		}
		best = min(best, time.Since(start))
	}
	t.Logf("40 actions in %v", best)
	if limit := 50 * time.Millisecond; best > limit { // 5 ms without -race and neighbours
		t.Errorf("40 actions took %v", best)
	}
}

func TestHostileFilesEndSoon(t *testing.T) {
	for name, text := range map[string]string{
		"deep":    strings.Repeat("[", 1<<19),
		"aliases": "a: &a x\nb: [" + strings.Repeat("*a,", 1<<18) + "]",
		"braces":  "name: x\nactions: {a: {errors: {404: {code: c, message: \"" + strings.Repeat("{", 1<<19) + "}\"}}}}",
		"names":   "base_url: \"" + strings.Repeat("{a", 1<<18) + "}\"",
		"keys":    strings.Repeat("k: v\n", 1<<17),
		"huge":    strings.Repeat("x", 50<<20),
	} {
		start := time.Now()
		_, err := services.Parse(name+".yaml", []byte(text))
		if err == nil || len(err.Error()) > 1<<16 {
			t.Errorf("%s: an error of %d bytes", name, len(fmt.Sprint(err)))
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}

// Whatever stands in a file, Parse ends with a service or with problems that
// point into the file.
func TestParseNeverPanics(t *testing.T) {
	words := []string{
		"name", "version", "base_url", "hosts", "auth", "type", "actions", "a", "method", "path", "args", "request", "query",
		"body", "match", "risk", "{a}", "\"{a}/{b}\"", "[", "]", "{", "}", ": ", ", ", "- ", "\n", "\n  ", "\n    ", "&x ", "*x",
		"<<", "!!binary ", "1.0.0", "GET", "/x/{a}", "https://a.test", "null", "~", "---\n", "split", "rest", "true", "é", "\t",
	}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, 60).Draw(t, "words"), "")
		parse(t, []byte(text))
	})
}

type failer interface {
	Fatalf(format string, args ...any)
}

func parse(t failer, data []byte) {
	s, err := services.Parse("x.yaml", data)
	if err == nil {
		if _, err := services.NewSet([]*services.Service{s}); err != nil {
			t.Fatalf("a service that parses makes no set: %v", err)
		}
		return
	}
	var problems services.Problems
	if !errors.As(err, &problems) || len(problems) == 0 || s != nil {
		t.Fatalf("the error is %T: %v", err, err)
	}
	for _, p := range problems {
		if p.Msg == "" || p.Line < 0 || p.Column < 0 {
			t.Fatalf("a problem points nowhere: %+v", p)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(shop))
	f.Add([]byte(tracker))
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		given, _, _ := strings.Cut(string(text), "-- want --\n")
		for _, s := range sections(given) {
			f.Add([]byte(s.text))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) { parse(t, data) })
}
