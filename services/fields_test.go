package services_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/services"
)

// Each line of testdata/fields.txt is a mistake: what is written in the place of an action's
// fields, of auth, or at the top; the field that is named; and a part of what to write
// instead.
func TestEveryProblemNamesItsFieldAndTheFix(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/fields.txt")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		count++
		parts := strings.Split(line, " ~ ")
		if len(parts) != 4 {
			t.Fatalf("%q has %d parts", line, len(parts))
		}
		file := fileWith(parts[0], parts[1])
		_, err := services.Parse("f.yaml", []byte(file))
		var problems services.Problems
		if !errors.As(err, &problems) {
			t.Errorf("%s: it is taken", line)
			continue
		}
		named := false
		for _, p := range problems {
			if p.Line == 0 || p.Column == 0 || p.Excerpt == "" || p.Field == "" || p.Fix == "" {
				t.Errorf("%s: %+v", line, p)
			}
			named = named || p.Field == parts[2] && strings.Contains(p.Fix, parts[3])
		}
		if !named {
			t.Errorf("%s: %+v", line, problems)
		}
	}
	if count < 80 {
		t.Errorf("%d lines", count)
	}
}

// fileWith is a file with something in one place.
func fileWith(place, text string) string {
	top, auth, action := "", "{type: none}", "{method: POST, path: /notes}"
	switch place {
	case "top":
		top = text + "\n"
	case "auth":
		auth = text
	case "action":
		action = "{" + text + "}"
	case "base":
		return "name: notes\nversion: 1.0.0\nbase_url: " + text + "\nactions: {get: {method: GET, path: /x}}\n"
	}
	return "name: notes\nversion: 1.0.0\nbase_url: https://notes.example.com\n" + top + "auth: " + auth + "\nactions:\n  get: " + action + "\n"
}

// A path as other frameworks write it is one of fixed segments here.
func TestAPathInTheWordsOfOthersIsWarnedOf(t *testing.T) {
	t.Parallel()
	for path, fix := range map[string]string{"/notes/:id": "write {id}", "/notes/<id>/x": "write {id}", "/notes/id": "", "/notes/{id}:read": "", "/notes/:": ""} {
		s, err := services.Parse("f.yaml", []byte(fileWith("action", `method: GET, path: "`+path+`"`)))
		if err != nil {
			t.Fatal(err)
		}
		if (len(s.Warnings) > 0) != (fix != "") || fix != "" && !strings.Contains(s.Warnings[0].Fix, fix) {
			t.Errorf("%s: %v", path, s.Warnings)
		}
	}
}
