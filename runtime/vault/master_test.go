package vault_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// VC-007: what is not exactly one private file of 64 hex digits is refused.
func TestMasterKeyFile(t *testing.T) {
	const open = 0o604
	for _, c := range []struct {
		name, content string
		mode          os.FileMode
		reason        runtime.Reason
		want          string // in the message; "" when the key is good
	}{
		{"good", keyA, 0o600, "", ""},
		{"read only", keyA, 0o400, "", ""},
		{"line end", keyA + "\n", 0o600, "", ""},
		{"DOS line end", keyA + "\r\n", 0o600, "", ""},
		{"upper case", strings.ToUpper(keyA), 0o600, "", ""},
		{"31 bytes", keyA[2:], 0o600, "", "64 hex digits"},
		{"33 bytes", keyA + "ff", 0o600, "", "64 hex digits"},
		{"two line ends", keyA + "\n\n", 0o600, "", "64 hex digits"},
		{"space before", " " + keyA, 0o600, "", "64 hex digits"},
		{"empty", "", 0o600, "", "64 hex digits"},
		{"huge", strings.Repeat(keyA, 1000), 0o600, "", "64 hex digits"},
		{"not hex", "zz" + keyA[2:], 0o600, "", "not a hex digit"},
		{"all zero", strings.Repeat("0", 64), 0o600, "", "all zero"},
		{"world can read", keyA, open, runtime.ReasonOpenHome, "can be used by others"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "master.key")
			if err := errors.Join(os.WriteFile(path, []byte(c.content), 0o600), os.Chmod(path, c.mode&0o700)); err != nil {
				t.Fatal(err)
			}
			if c.mode == open {
				runtimetest.Open(t, path)
			}
			_, err := vault.LoadMasterKey(path)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wants(t, err, runtime.CodeVaultLocked, c.reason)
			if e := runtime.AsError(err); !strings.Contains(e.Msg, c.want) || !strings.Contains(e.Msg, path) || strings.Contains(e.Error()+e.Hint, keyA[2:]) {
				t.Errorf("message %q", e.Error())
			}
		})
	}
}

func TestMasterKeyMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "master.key")
	_, err := vault.LoadMasterKey(path)
	wants(t, err, runtime.CodeVaultLocked, runtime.ReasonNoMasterKey)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("not fs.ErrNotExist: %v", err)
	}
	if _, err := vault.LoadMasterKey(t.TempDir()); err == nil {
		t.Error("a folder is a key")
	}
	if _, err := vault.NewMasterKeyFile(filepath.Join(path, "no such folder", "key")); err == nil {
		t.Error("made a key where there is no folder")
	}
}

// A new key is private whatever the umask, and of many who make one at once all
// get the same.
func TestNewMasterKeyFile(t *testing.T) {
	runtimetest.Umask(t, 0)
	dir := t.TempDir()
	path := filepath.Join(dir, "master.key")
	var wg sync.WaitGroup
	keys := make([]vault.MasterKey, 16)
	for i := range keys {
		wg.Go(func() {
			var err error
			if keys[i], err = vault.NewMasterKeyFile(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	store := newMemory()
	for _, key := range keys {
		v, err := vault.New(vault.Options{Store: store, Key: key, Clock: newRig(t).clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Open(t.Context()); err != nil {
			t.Errorf("one of the keys is another: %v", err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("files %v (%v)", files, err)
	}
	if info, err := os.Stat(path); err != nil || system.Exposed(path, info) != "" || info.Size() != 65 {
		t.Errorf("%v %v", info, err)
	}
}

func TestMasterKeyCannotPrint(t *testing.T) {
	key, err := vault.ParseMasterKey(keyA + "\n")
	if err != nil {
		t.Fatal(err)
	}
	type nested struct {
		hidden vault.MasterKey
		Shown  *vault.MasterKey
	}
	for _, what := range []any{key, &key, nested{key, &key}, []vault.MasterKey{key}, vault.Options{Key: key}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%X", "%d", "%q", "%b", "%o", "%08b"} {
			text := strings.ToLower(fmt.Sprintf(verb, what))
			for _, part := range []string{"112233", "34 51 68", "17 34 51", "0x11, 0x22"} {
				if strings.Contains(text, part) {
					t.Errorf("%s of %T shows the key: %s", verb, what, text)
				}
			}
		}
		if text, _ := json.Marshal(what); strings.Contains(string(text), "1122") {
			t.Errorf("JSON of %T shows the key", what)
		}
	}
}

func FuzzParseMasterKey(f *testing.F) {
	for _, seed := range []string{keyA, keyA + "\n", keyA + "\r\n", "", "\n", strings.Repeat("0", 64), keyA[:63] + "g", strings.Repeat("é", 32)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := vault.ParseMasterKey(text)
		if (err == nil) == (key == vault.MasterKey{}) {
			t.Errorf("key %v, error %v", key, err)
		}
		if err == nil && strings.Trim(strings.TrimRight(text, "\r\n"), "0123456789abcdefABCDEF") != "" {
			t.Errorf("accepted %q", text)
		}
	})
}

// No key is the same as no key, and none seals anything.
func TestNoKeyIsNoKey(t *testing.T) {
	a, err := vault.ParseMasterKey(keyA)
	if err != nil {
		t.Fatal(err)
	}
	b, err := vault.ParseMasterKey(keyB)
	if err != nil {
		t.Fatal(err)
	}
	if none := (vault.MasterKey{}); none.Same(none) || a.Same(none) || none.Same(a) || a.Same(b) || !a.Same(a) {
		t.Error("keys are taken for one another")
	}
	if s, err := vault.NewSealer(runtime.Secret{}, "anything"); err == nil || s != nil {
		t.Error("a sealer without a key")
	}
}
