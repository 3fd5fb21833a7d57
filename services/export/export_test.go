package export_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
	"github.com/kimbap-run/kimbap/services/export"
)

// golden compares with a file of testdata; KIMBAP_UPDATE=1 writes it.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if os.Getenv("KIMBAP_UPDATE") != "" {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(got) {
		t.Errorf("%s is not what is made; write it with KIMBAP_UPDATE=1. Got:\n%s", file, got)
	}
}

func notes(t *testing.T) *services.Service {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "notes.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := services.Parse("notes.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSkillSaysWhatTheServiceCanDo(t *testing.T) {
	golden(t, "testdata/notes.SKILL.md", export.Skill(notes(t)))
}

func TestDeclarationsAreThoseOfTheActions(t *testing.T) {
	golden(t, "testdata/notes.d.ts", export.Declarations([]*services.Service{notes(t)}))
}

// Texts of a service file end no line, no front matter and no comment of what is
// written from it.
func TestTextsOfAServiceStayText(t *testing.T) {
	s := notes(t)
	s.Description = "x\n---\n# evil */ code"
	s.Gotchas[0].Recovery, s.Recipes[0].Steps[0] = "a\n# b", "c\n\n# d"
	s.Triggers.Objects = []string{"o\n# e"}
	skill := string(export.Skill(s))
	if strings.Count(skill, "\n---\n") != 1 || strings.Contains(skill, "\n# evil") || strings.Contains(skill, "\n# b") || strings.Contains(skill, "\n# d") || strings.Contains(skill, "\n# e") {
		t.Errorf("a text became structure:\n%s", skill)
	}
	s.Actions[0].Description = "a */ evil(); /*"
	for line := range strings.Lines(string(export.Declarations([]*services.Service{s}))) {
		if strings.HasPrefix(strings.TrimSpace(line), "/**") && strings.Count(line, "*/") != 1 {
			t.Errorf("a comment ends early: %s", line)
		}
	}
}

// What Go writes for a text is another text in TypeScript: \a is an a, \U0001f600 a U.
func TestValuesOfAnArgumentAreLiteralsOfTypeScript(t *testing.T) {
	s := notes(t)
	s.Actions[0].Params = []runtime.Param{{Name: "a\ab", Type: runtime.TypeString, Enum: []any{"\a", "<\U000e0001>", "\u00e9\"", 1}}}
	if text := string(export.Declarations([]*services.Service{s})); !strings.Contains(text, `"a\u0007b"?: "\u0007" | "\u003c`+"\U000e0001"+`\u003e" | "é\"" | 1`) {
		t.Errorf("the argument is not there: %q", text)
	}
}

// Every service of the catalogue makes a skill and declarations that name each
// action that can be called.
func TestWholeCatalogueIsExported(t *testing.T) {
	for _, name := range catalog.Names() {
		data, err := catalog.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := services.Parse(name+".yaml", data)
		if err != nil {
			t.Fatal(err)
		}
		skill, declarations := string(export.Skill(s)), string(export.Declarations([]*services.Service{s}))
		for _, a := range s.Actions {
			called := a.HTTP == nil || !strings.HasSuffix(a.HTTP.Path, "**")
			if strings.Contains(skill, "`"+string(a.Ref)+"`") != called {
				t.Errorf("%s in the skill: %t, can be called: %t", a.Ref, !called, called)
			}
		}
		if strings.Count(declarations, "Promise<any>;") < strings.Count(skill, "\n| `"+name+".") {
			t.Errorf("%s: fewer declarations than actions", name)
		}
	}
}

// What another argument fills can be left out, and is not declared as required.
func TestWhatAnotherArgumentFillsIsOptional(t *testing.T) {
	s, err := services.Parse("split.yaml", []byte(`name: split
version: 1.0.0
description: Split
base_url: https://split.example.com
auth: {type: none}
actions:
  get:
    method: GET
    path: /{owner}/{repo}
    risk: {level: low}
    args: [{name: owner, required: true}, {name: repo, required: true}, {name: full, split: "{owner}/{repo}"}]
`))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(export.Declarations([]*services.Service{s})); !strings.Contains(text, "get(args?: {") || !strings.Contains(text, "owner?: string") {
		t.Errorf("the owner cannot be left out:\n%s", text)
	}
	if text := string(export.Skill(s)); strings.Contains(text, "**`--owner`**") {
		t.Errorf("the owner is required:\n%s", text)
	}
}
