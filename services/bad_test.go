package services_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// Each NAME.yaml of testdata/bad is a file that somebody could write, and
// NAME.want exactly what is said of it.
func TestBadFilesAndWhatIsSaidOfThem(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, problem := services.Parse(filepath.Base(file), text)
			if problem == nil {
				t.Fatal("nothing is said of it")
			}
			got, expected := problem.Error()+"\n", strings.TrimSuffix(file, ".yaml")+".want"
			if *update {
				if err := os.WriteFile(expected, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(expected)
			if err != nil || got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s\n%v", got, want, err)
			}
		})
	}
}

// Files that are made to cost much are refused for little.
func TestHostileFilesCostLittle(t *testing.T) {
	bomb := "a0: &a0 [x, x]\n"
	for i := range 30 {
		n, m := string(rune('a'+i%26))+strings.Repeat("x", i/26), string(rune('a'+(i+1)%26))+strings.Repeat("x", (i+1)/26)
		bomb += m + "9: &" + m + "9 [*" + n + "9, *" + n + "9, *" + n + "9]\n"
	}
	const head = "name: a\nversion: 1.0.0\nbase_url: https://a.test\nactions:\n"
	powers := head
	for i := range 40 {
		powers += fmt.Sprintf("  a%d: {method: POST, path: /x, match: {body: {/l: \"1%se%d\"}}}\n", i, strings.Repeat("0", i), 1_000_000-i)
	}
	alike, many, template := head, head+"  a:\n    method: POST\n    path: /x\n    args:\n", ""
	for i := range 2000 {
		alike += fmt.Sprintf("  a%d: {method: GET, path: /x}\n", i)
	}
	for i := range 800 {
		many += fmt.Sprintf("      - {name: a%d}\n", i)
		template += fmt.Sprintf("{a%d},", i)
	}
	long := many + "    request: {body: {x: \"" + template[:strings.Index(template, "{a32}")] + strings.Repeat("x", 700_000) + "\", y: {}}}\nwrong: 1\n"
	parts := many + "      - {name: s, split: \"" + strings.Repeat(template, 100) + "\"}\n"
	many += "    request: {body: {x: \"" + template + "\"}}\n"
	names := strings.Builder{}
	for i := range 150_000 {
		fmt.Fprintf(&names, "{a%d}", i)
	}
	for name, text := range map[string]string{
		"10 MiB": strings.Repeat("# a comment\n", 10<<20/12), "alias bomb": bomb,
		"deep lists":    "name: " + strings.Repeat("[", 100_000),
		"deep mappings": "actions: " + strings.Repeat("{a: ", 100_000),
		"many keys":     "name: acme\n" + strings.Repeat("x: 1\n", 100_000),
		"long line":     "name: " + strings.Repeat("x", 1<<19),
		"many holes":    "name: a\nversion: 1.0.0\nbase_url: https://" + strings.Repeat("{a}", 10_000) + ".test\n",
		"great numbers": powers, "routes alike": alike, "many arguments": many, "a long text": long, "a long split": parts,
		"many names": head + "  a: {method: GET, path: /x, match: {query: {q: \"" + names.String()[:1_000_000] + "\"}}}\n",
		"NUL":        "name: a\x00b\n", "bidi": "name: \u202eacme\n",
	} {
		start, before := time.Now(), allocated()
		_, err := services.Parse("hostile.yaml", []byte(text))
		if more := allocated() - before; more > 256<<20 {
			t.Errorf("%s took %d MiB", name, more>>20)
		}
		if err == nil || len(err.Error()) > 256<<10 {
			t.Errorf("%s: %.200v", name, err)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s took %v", name, took)
		}
		if err != nil && bytes.ContainsAny([]byte(err.Error()), "\x00\x1b") {
			t.Errorf("%s: the message holds what a terminal obeys", name)
		}
	}
}

// allocated is how many bytes were asked for since the start, kept or not.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// A service's name becomes a file name: none leads out of the folder.
func TestInstallStaysInItsFolder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"../up", "/abs", "a/b", `a\b`, ".hidden", "a.b", "..", "CON:", "a\u0000", strings.Repeat("x", 100)} {
		_, err := servicestest.Install(dir, "x.yaml", []byte("name: \""+strings.ReplaceAll(strings.ReplaceAll(name, `\`, `\\`), "\x00", `\0`)+"\"\nversion: 1.0.0\nbase_url: https://a.test\nactions: {a: {description: x, method: GET, path: /}}\n"), nil)
		if err == nil {
			t.Errorf("%q was installed", name)
		}
		if services.Remove(dir, name) == nil || services.Enable(dir, name) == nil || services.Disable(dir, name) == nil {
			t.Errorf("%q was found", name)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v", left)
	}
}

// What was disabled is found again, whatever characters the path of its folder has.
func TestADisabledServiceOfAFolderWithABracketInItsPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[1]")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := servicestest.Install(dir, "x.yaml", []byte("name: x\nversion: 1.0.0\nbase_url: https://a.test\nactions: {a: {description: x, method: GET, path: /}}\n"), nil)
	if err == nil {
		err = services.Disable(dir, "x")
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := services.Disabled(dir); len(got) != 1 || got[0] != "x" {
		t.Errorf("%q", got)
	}
}
