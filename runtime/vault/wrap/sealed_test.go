package wrap_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
	"github.com/kimbap-run/kimbap/runtime/vault/wrap"
)

const kept = "c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee01"

func pinKey(letter string) runtime.Secret { return runtime.NewSecret(strings.Repeat(letter, 32)) }

func sealed(t *testing.T, f wrap.Seal) wrap.Sealed {
	t.Helper()
	s, err := f.Read()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What is sealed opens with the key of the PIN alone, and only as it was written; the
// file shows nothing of it.
func TestASealedKeyOpensWithItsPINAlone(t *testing.T) {
	f := wrap.Seal{Path: filepath.Join(t.TempDir(), "master.sealed")}
	if _, err := f.Read(); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, value := range []string{"earlier", kept} { // the newer one takes the place of the older
		if err := f.Write(wrap.Sealed{Who: "local:7", Place: "file", Recipe: []byte("slow")}, pinKey("k"), []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	s := sealed(t, f)
	if got, err := s.Open(pinKey("k")); err != nil || string(got) != kept || s.Who != "local:7" || s.Place != "file" || string(s.Recipe) != "slow" || !s.Holds([]byte(kept)) || s.Holds([]byte("earlier")) {
		t.Errorf("%q %v of %+v", got, err, s)
	}
	if got, err := s.Open(pinKey("l")); !errors.Is(err, vault.ErrTampered) {
		t.Errorf("another key: %q %v", got, err)
	}
	for name, edit := range map[string]func(s *wrap.Sealed){
		"who":    func(s *wrap.Sealed) { s.Who = "local:8" },
		"place":  func(s *wrap.Sealed) { s.Place = "keyring" },
		"recipe": func(s *wrap.Sealed) { s.Recipe = []byte("fast") },
		"key":    func(s *wrap.Sealed) { s.Key[len(s.Key)-1] ^= 1 },
		"sum":    func(s *wrap.Sealed) { s.Sum[0] ^= 1 },
	} {
		s := sealed(t, f)
		edit(&s)
		if got, err := s.Open(pinKey("k")); !errors.Is(err, vault.ErrTampered) {
			t.Errorf("with another %s: %q %v", name, got, err)
		}
	}
	text, err := os.ReadFile(f.Path)
	info, serr := os.Stat(f.Path)
	if errors.Join(err, serr) != nil || strings.Contains(string(text), kept[:16]) || info.Mode().Perm() != 0o600 {
		t.Errorf("%s (%v %v)", text, err, serr)
	}
	for range 2 {
		if err := f.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A file that is cut short, or of another version, is an error that says where it
// stands, and never no file.
func TestASealedKeyThatCannotBeReadIsNotMissing(t *testing.T) {
	f := wrap.Seal{Path: filepath.Join(t.TempDir(), "master.sealed")}
	newer, err := json.Marshal(wrap.Sealed{Version: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "{", string(newer)} {
		if err := os.WriteFile(f.Path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := f.Read()
		if e := runtime.AsError(err); err == nil || errors.Is(err, fs.ErrNotExist) || e.Code != runtime.CodeVaultLocked || !strings.Contains(e.Msg, f.Path) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A place gives back what it held, byte for byte, and never loses another key to it.
func TestPlacesGiveBackWhatTheyHeld(t *testing.T) {
	startSecretService(t)
	for name, place := range map[string]wrap.Place{
		"file":    wrap.KeyFile{Path: filepath.Join(t.TempDir(), "master.key")},
		"keyring": wrap.Keyring{Home: t.TempDir(), Env: os.Environ()},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			holds := func(want string) {
				t.Helper()
				got, err := place.Take(ctx)
				if want == "" && !errors.Is(err, fs.ErrNotExist) || want != "" && (err != nil || string(got) != want) {
					t.Errorf("it holds %q (%v), want %q", got, err, want)
				}
			}
			do := func(err error) {
				t.Helper()
				if err != nil {
					t.Error(err)
				}
			}
			holds("")
			do(place.Put(ctx, []byte(kept)))
			do(place.Put(ctx, []byte(kept)))
			holds(kept)
			other := strings.Repeat("ab", 32)
			if err := place.Put(ctx, []byte(other)); runtime.CodeOf(err) != runtime.CodeInvalidInput {
				t.Errorf("another key beside it: %v", err)
			}
			holds(kept)
			do(place.Drop(ctx))
			do(place.Drop(ctx))
			holds("")
		})
	}
}

// What somebody left who was killed while he wrote a key, or the next one, goes with it
// or by itself; files of others stay.
func TestCopiesThatAKillLeftAreSwept(t *testing.T) {
	dir := t.TempDir()
	place := wrap.KeyFile{Path: filepath.Join(dir, "master.key")}
	litter := []string{"master.key.new-1", "master.key.next.new-22"}
	others := []string{"master.key.next", "master.key.old", "master.keys.new-1", "other.new-1"}
	leave := func() {
		for _, name := range append(slices.Clone(litter), others...) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(kept), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	names := func() (all []string) {
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			all = append(all, f.Name())
		}
		return all
	}
	for what, clean := range map[string]func() error{"sweep": place.Sweep, "drop": func() error { return place.Drop(t.Context()) }} {
		leave()
		if !place.Littered() {
			t.Errorf("%s: nothing is seen", what)
		}
		if err := errors.Join(clean(), clean()); err != nil || place.Littered() || !slices.Equal(names(), others) {
			t.Errorf("%s: %v, and there is %q", what, err, names())
		}
	}
}

// To settle is to keep one key: what a killed rotation was about to keep goes too, whether a key
// follows or not.
func TestToSettleSweeps(t *testing.T) {
	for name, keeps := range map[string]func(path string) vault.KeyWrapper{
		"file":    func(path string) vault.KeyWrapper { return wrap.File{Path: path} },
		"service": func(path string) vault.KeyWrapper { return wrap.Service{Path: path, Cipher: command("good")} },
	} {
		path := filepath.Join(t.TempDir(), "master.key")
		w := keeps(path)
		key, err := w.Next(t.Context())
		for range 2 {
			if err == nil {
				err = os.WriteFile(path+".next.new-1", []byte(kept), 0o600)
			}
			if err == nil {
				err = w.Settle(t.Context(), key)
			}
			if left := (wrap.KeyFile{Path: path}).Littered(); err != nil || left {
				t.Errorf("%s: something is left: %v, %v", name, left, err)
			}
		}
	}
}
