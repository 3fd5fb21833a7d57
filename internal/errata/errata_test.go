package errata_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/errata"
	"github.com/kimbap-run/kimbap/runtime"
)

const filtered = `name: notes
version: 1.0.0
description: Notes
base_url: https://api.notes.test
auth: {type: none}
actions:
  list: {method: GET, path: /notes, risk: {level: low}, response: {filter: ".["}}
  next: {method: GET, path: /next, risk: {level: low}, args: [{name: c}], pagination: {type: cursor, param: c, next: "nosuch"}}
`

// All that is wrong with all files is said at once, each at its place.
func TestAllMistakesOfAllFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	jq, empty, none := write("notes.yaml", filtered), write("empty.yaml", "name: empty\n"), filepath.Join(dir, "none.yaml")
	_, err := errata.Services([]string{jq, empty, none})
	of := map[string][]errata.Problem{}
	for _, p := range errata.Of(err) {
		of[p.File] = append(of[p.File], p)
	}
	if list := of[jq]; len(list) != 2 || list[0].Line != 7 || list[0].Column != 76 || list[0].Field != "list.response.filter" || list[0].Fix == "" ||
		list[1].Line != 8 || list[1].Field != "next.pagination.next" {
		t.Errorf("expressions that do not compile: %+v", list)
	}
	if text := err.Error(); !strings.Contains(text, "notes.yaml:7:76: list.response.filter: the jq expression cannot be read: ") ||
		!strings.Contains(text, strings.Repeat(" ", 79)+"^\n    fix: ") {
		t.Errorf("it is not shown where:\n%s", text)
	}
	if len(of[empty]) < 2 {
		t.Errorf("a file that lacks most: %+v", of[empty])
	}
	if list := of[none]; len(list) != 1 || !list[0].Missing {
		t.Errorf("a file that is not there: %+v", list)
	}
	if e := runtime.AsError(errata.Invalid(err, "mend them")); e.Reason == runtime.ReasonNotFound || e.Hint != "mend them" {
		t.Errorf("where more is wrong than a missing file: %v", e)
	}
	_, err = errata.Services([]string{none})
	if e := runtime.AsError(errata.Invalid(err, "mend them")); e.Reason != runtime.ReasonNotFound || e.Hint != "check the path" {
		t.Errorf("where nothing but a file is missing: %v", e)
	}
}

// What is wrong with expressions is said with the rest, as with two actions that match the same request.
func TestExpressionsAreLookedAtWithTheRest(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "notes.yaml")
	if err := os.WriteFile(file, []byte(filtered+"  again: {method: GET, path: /notes, risk: {level: low}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := errata.Services([]string{file})
	if list := errata.Of(err); len(list) != 3 || list[0].Line != 9 || !strings.Contains(list[0].Message, "both match") || list[1].Line != 7 || list[2].Line != 8 {
		t.Errorf("%+v", list)
	}
}

func TestFilesThatDoNotGoTogether(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var files []string
	for _, name := range []string{"one.yaml", "two.yaml"} {
		text := "name: notes\nversion: 1.0.0\ndescription: Notes\nbase_url: https://api.notes.test\nauth: {type: none}\nactions:\n  list: {method: GET, path: /notes, risk: {level: low}}\n"
		files = append(files, filepath.Join(dir, name))
		if err := os.WriteFile(files[len(files)-1], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := errata.Services(files[:1]); err != nil || len(list) != 1 {
		t.Fatalf("one alone: %v", err)
	}
	_, err := errata.Services(files)
	if list := errata.Of(err); len(list) != 2 || list[0].File != files[1] || list[1].File != files[1] || list[1].Line != 7 {
		t.Errorf("two of one name and one path: %+v", list)
	}
}
