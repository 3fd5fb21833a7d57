package home_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// Who changes the keys keeps others away until it is done.
func TestTheKeysHaveOneLock(t *testing.T) {
	f := home.Folder{Dir: t.TempDir()}
	unlock, err := f.LockKeys(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.LockKeys(t.Context(), 0); !errors.Is(err, system.ErrTaken) || runtime.CodeOf(err) != runtime.CodeStorageBusy {
		t.Errorf("a second one got: %v", err)
	}
	unlock()
	if unlock, err = f.LockKeys(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	unlock()
}

// A process is told from one that ended, or never was.
func TestHoldersDieWithTheirProcess(t *testing.T) {
	states := t.TempDir()
	if me := home.Holder(os.Getpid()); !home.Alive(states, me) {
		t.Errorf("%s is this process", me)
	}
	for _, holder := range []string{"", "x", "x:y", fmt.Sprintf("%d:other", os.Getpid()), home.Holder(1 << 30)} {
		if home.Alive(states, holder) {
			t.Errorf("%q is taken to be alive", holder)
		}
	}
}

// What was fetched is held to its hash, for the same address and for the one demanded.
func TestFetchedServicesAreHeldToTheirHash(t *testing.T) {
	f := home.Folder{Dir: t.TempDir()}
	p, err := f.ReadPins()
	if err != nil {
		t.Fatal(err)
	}
	const at = "https://example.com/shop.yaml"
	p.Services["shop"] = home.Pin{URL: at, SHA256: "aa"}
	if err := f.WritePins(p); err != nil {
		t.Fatal(err)
	}
	if p, err = f.ReadPins(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, demanded, sum string
		update, ok          bool
	}{
		{at, "", "aa", false, true},
		{at, "", "bb", false, false},
		{at, "", "bb", true, true},
		{at, "AA", "aa", false, true},
		{at, "bb", "aa", true, false},
		{"https://example.com/other.yaml", "", "bb", false, true},
	} {
		err := p.Check(c.from, c.demanded, c.sum, c.update)
		if (err == nil) != c.ok || err != nil && runtime.AsError(err).Reason != runtime.ReasonContentChanged {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := os.WriteFile(filepath.Join(f.Dir, "services.lock"), []byte(`{"version": 2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadPins(); err == nil || !strings.Contains(err.Error(), "version 2 is not known") {
		t.Errorf("a file of another version: %v", err)
	}
}

// A folder that has lost its database is a home still, wherever its key is kept: it is not
// made anew.
func TestWhatIsLeftOfAHomeIsOne(t *testing.T) {
	for _, left := range []func(home.Folder) string{home.Folder.Database, home.Folder.MasterKey, home.Folder.WrappedKey, home.Folder.SealedKey} {
		f := home.Folder{Dir: t.TempDir()}
		if f.Exists() {
			t.Error("an empty folder is a home")
		}
		if err := os.WriteFile(left(f), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if !f.Exists() {
			t.Errorf("a folder with %s is none", filepath.Base(left(f)))
		}
	}
}
