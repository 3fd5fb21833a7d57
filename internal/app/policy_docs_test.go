package app_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
)

// The policies of docs/policy.md are policies, checked against the catalogue,
// and its tests pass.
func TestThePoliciesOfTheDocumentation(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(app.Options{Home: filepath.Join(t.TempDir(), "none"), Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	var rules, tests int
	for i, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		name := "policy.yaml"
		if strings.Contains(block[1], "\ntests:") {
			name = "policy_test.yaml"
		}
		file := filepath.Join(folder, string(rune('a'+i)), name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(block[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		if name == "policy.yaml" {
			d, err := a.Draft(file)
			if err != nil {
				t.Errorf("%s\n%v", block[1], err)
				continue
			}
			known, err := app.KnownServices(nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, loose := range d.Unused(known) {
				if loose.Pattern != "*.delete-*" {
					t.Errorf("the catalogue has no action %s", loose.Pattern)
				}
			}
			rules++
			continue
		}
		d, err := a.Draft(filepath.Join(folder, "b", "policy.yaml")) // the one about conditions
		if err != nil {
			t.Fatal(err)
		}
		tested, err := d.Test(file)
		if err != nil || len(tested) == 0 {
			t.Fatal(err)
		}
		for _, one := range tested {
			tests++
			if !one.OK {
				t.Errorf("%s: %s", one.Name, one.Said)
			}
		}
	}
	if rules < 3 || tests < 1 {
		t.Errorf("found %d policies and %d tests only", rules, tests)
	}
}
