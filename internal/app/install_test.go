package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/runtime"
)

const extra = "name: extra\nversion: 1.0.0\ndescription: More\nbase_url: https://extra.test\nauth: {type: none}\nactions:\n  get: {description: Get, method: GET, path: /x, risk: {level: low}}\n"

// installs are the events of installations in the trail, and how they ended.
func installs(t *testing.T, k *apptest.Kimbap) (out []string) {
	t.Helper()
	for _, r := range k.Records(t) {
		if r.Kind == "event" && r.Event == "service.install" {
			out = append(out, r.Fields["service"]+" "+r.Fields["result"])
		}
	}
	return out
}

// A service whose record cannot be written is not put in force, and one that is there
// stays as it is.
func TestNoServiceIsInForceWithoutItsRecord(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	k := apptest.New(t, apptest.Options{})
	a := k.Open(t, "")
	for i := range 20 { // a ledger that is longer than the file of a service
		if err := a.RemoveAlias(t.Context(), "none"); err == nil {
			t.Fatal("removed an alias that is none")
		}
		if _, err := a.RemoveSecret(t.Context(), fmt.Sprint("none-", i)); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]string{}
	for name, text := range map[string]string{"extra": extra, "notes": strings.Replace(apptest.Notes, "1.0.0", "2.0.0", 1)} {
		files[name] = filepath.Join(t.TempDir(), name+".yaml")
		if err := os.WriteFile(files[name], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := installs(t, k)
	release := limitFiles(t, 2<<10)
	for name, file := range files {
		if _, err := a.InstallService(t.Context(), file, nil); runtime.CodeOf(err) != runtime.CodeAuditUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	release()
	if _, err := os.Lstat(filepath.Join(k.Dir, "services", "extra.yaml")); err == nil {
		t.Error("a service without a record is there")
	}
	if stored(t, k, "services/notes.yaml") != apptest.Notes {
		t.Error("a service was replaced without a record")
	}
	if after := installs(t, k); len(after) != len(before) {
		t.Errorf("recorded %q", after)
	}
}

// A service whose pin cannot be written is not put in force, and one that cannot be put in
// force is not pinned; the trail says how both ended.
func TestAServiceIsInForceAndPinnedOrNeither(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	k := apptest.New(t, apptest.Options{})
	folder := home.Folder{Dir: k.Dir}
	if err := os.Mkdir(filepath.Join(folder.Services(), "resend.yaml"), 0o700); err != nil { // nothing takes its place
		t.Fatal(err)
	}
	a := k.Open(t, "")
	if _, err := a.InstallService(t.Context(), "resend", nil); runtime.AsError(err).Reason != runtime.ReasonStorageUnavailable {
		t.Errorf("a service that cannot be written: %v", err)
	}
	pins, err := folder.ReadPins()
	if err != nil || len(pins.Catalogue) != 0 {
		t.Errorf("what is not there is pinned: %v, %v", pins, err)
	}

	for i := range 2000 {
		pins.Catalogue[fmt.Sprint("other-", i)] = strings.Repeat("a", 64)
	}
	if err := folder.WritePins(pins); err != nil {
		t.Fatal(err)
	}
	fresh := k.Open(t, "fresh") // whose ledger is short
	release := limitFiles(t, 100<<10)
	_, err = fresh.Install(t.Context(), app.Install{From: "vercel"})
	release()
	if err == nil || folder.Installed("vercel") {
		t.Errorf("it is in force without its pin: %v", err)
	}
	if got := installs(t, k); len(got) < 4 || got[len(got)-4] != "resend " || got[len(got)-3] != "resend internal" || got[len(got)-2] != "vercel " || got[len(got)-1] != "vercel internal" {
		t.Errorf("recorded %q", got)
	}
	k.Verify(t)
}

// A service that does not fit those that are there is a mistake in its file.
func TestAServiceThatFitsNoOtherIsInvalid(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	file := filepath.Join(t.TempDir(), "rival.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(apptest.Notes, "name: notes", "name: rival", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Open(t, "").InstallService(t.Context(), file, nil); runtime.CodeOf(err) != runtime.CodeInvalidInput {
		t.Errorf("%v", err)
	}
}
