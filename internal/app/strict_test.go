package app_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime/policy"
)

// An init that could not write the policy leaves none, so that the next one writes all of it.
func TestANewHomeHasTheWholePolicyOrNone(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	dir := filepath.Join(t.TempDir(), "home")
	o := apptest.OptionsOver(dir, "", &apptest.Buffer{}, true)
	o.Strict = true
	release := limitFiles(t, 200)
	a, err := app.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if a.Open(t.Context()) == nil {
		t.Error("a home was made on a full disk")
	}
	_ = a.Close()
	release()
	if text, err := os.ReadFile(filepath.Join(dir, "policy.yaml")); err == nil {
		t.Errorf("left a part of the policy: %q", text)
	}
	if a, err = app.New(o); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.Open(t.Context()), a.Close()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "policy.yaml"))
	if err != nil || string(text) != string(policy.DefaultFile(true)) {
		t.Errorf("the next init wrote %q, %v", text, err)
	}
}
