package trial_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/kimbap-run/kimbap/internal/trial"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// Whoever copies a file of the catalogue as a start sees no fault that is not theirs: each of
// its actions is called with made-up arguments, or is not tried.
func TestTheCatalogueIsTriedWithoutFaults(t *testing.T) {
	tried := 0
	for _, name := range catalog.Names() {
		data, err := catalog.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), name+".yaml")
		if err := os.WriteFile(file, bytes.ReplaceAll(data, []byte("{site}"), []byte(site(name))), 0o600); err != nil {
			t.Fatal(err)
		}
		list, err := trial.Run(t.Context(), trial.Options{File: file})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, one := range list {
			if one.Outcome == "failed" {
				t.Errorf("%s.%s: %s", name, one.Action, one.Why)
			}
			if one.Outcome == "ok" {
				tried++
			}
		}
	}
	if tried < 1200 {
		t.Errorf("only %d actions were tried", tried)
	}
}

// site is a value of the variable that some files have.
func site(name string) string {
	if name == "datadog" {
		return "datadoghq.com"
	}
	return "acme"
}
