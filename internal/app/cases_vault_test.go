package app_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// marked stands in every value that the property below stores.
const marked = "canary-51c0ffee"

// forms are how a value could show.
func forms() []string {
	return []string{
		marked, hex.EncodeToString([]byte(marked)), strings.ToUpper(hex.EncodeToString([]byte(marked))),
		base64.RawStdEncoding.EncodeToString([]byte(marked))[:16],
		base64.RawStdEncoding.EncodeToString([]byte("x" + marked))[2:18], base64.RawStdEncoding.EncodeToString([]byte("xx" + marked))[3:19],
	}
}

// keeping is a kimbap, its operator, and everything that was said so far.
type keeping struct {
	k      *apptest.Kimbap
	person *app.App
	said   strings.Builder
	last   int // of said, how much was looked at
	steps  int
	backup []byte
}

// heard notes what an operation returned, as every output would write it.
func (s *keeping) heard(err error, results ...any) {
	for _, r := range results {
		text, _ := json.Marshal(r)
		fmt.Fprintf(&s.said, "%s %v %+v %#v\n", text, r, r, r)
	}
	for ; err != nil; err = errors.Unwrap(err) {
		fmt.Fprintf(&s.said, "%v %+v %#v\n", err, err, err)
		var e *runtime.Error
		if errors.As(err, &e) {
			fmt.Fprintln(&s.said, e.Msg, e.Hint)
		}
	}
}

func (s *keeping) value(t *rapid.T) runtime.Secret {
	s.steps++
	return runtime.NewSecret(fmt.Sprintf("%s%s-%d", rapid.SampledFrom([]string{"", "x", "xx"}).Draw(t, "before"), marked, s.steps))
}

func name(t *rapid.T) string {
	return rapid.SampledFrom([]string{apptest.Secret, "other.key", "third.key", "bad name", "canary"}).Draw(t, "name")
}

// VC-014, G16: no sequence of operations, whether they succeed or not, lets a
// stored value show in a result, an error, an answer, the log, the trail or a
// file of the home other than the master key.
func TestNoSequenceShowsAValue_VC014(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	s := &keeping{k: k, person: k.Open(t, "")}
	rapid.Check(t, func(t *rapid.T) {
		if s.said.Len() < 6<<20 { // of output; one home, so that it grows slower from check to check
			t.Repeat(s.operations())
		}
	})
	said := s.said.String()
	for _, must := range []string{"locked by its owner", "BEGIN AGE", "no credential named", "cannot be the name"} {
		if !strings.Contains(said, must) {
			t.Errorf("%q was never said: the test looks in the wrong place", must)
		}
	}
	for _, kept := range []string{k.Log.String(), ledger(t, k)} {
		for _, form := range forms() {
			if strings.Contains(kept, form) {
				t.Errorf("the log or the trail holds a value as %s", form)
			}
		}
	}
	err := filepath.WalkDir(k.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, form := range forms() {
			if strings.Contains(string(text), form) {
				t.Errorf("%s holds a value", path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (s *keeping) operations() map[string]func(*rapid.T) {
	a, words := s.person, app.Lockbox{Recipients: []string{"age1mehlqgtx940j7f4q4q72rk27ye9m8c0hafedsqjunud37n9djvrsrpgvpu"}}
	key := app.Lockbox{Identities: "AGE-SECRET-KEY-1WYWYKSYMW468HASDANC9XPQ08Q8HA5H3K4Y95YYVKGH3HDEAAV3QA3KJKP"}
	return map[string]func(*rapid.T){
		"set": func(t *rapid.T) {
			o := app.SecretOptions{Hosts: []string{rapid.SampledFrom([]string{"api.notes.test", "*", ""}).Draw(t, "host")}}
			version, hosts, err := a.SetSecret(t.Context(), name(t), s.value(t), o)
			s.heard(err, version, hosts)
		},
		"rotate": func(t *rapid.T) {
			expires := rapid.SampledFrom([]time.Time{{}, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)}).Draw(t, "expires")
			version, err := a.RotateSecret(t.Context(), name(t), s.value(t), expires)
			s.heard(err, version)
		},
		"refer": func(t *rapid.T) {
			how := rapid.SampledFrom([]string{"printf canar; printf y-51c0ffee", "exit 3", "echo a; echo b"}).Draw(t, "how") // no argument holds it
			version, hosts, err := a.SetReference(t.Context(), name(t), app.Reference{Command: []string{"sh", "-c", how}, TTL: time.Minute}, app.SecretOptions{Hosts: []string{"api.notes.test"}})
			s.heard(err, version, hosts)
		},
		"remove":     func(t *rapid.T) { removed, err := a.RemoveSecret(t.Context(), name(t)); s.heard(err, removed) },
		"rebind":     func(t *rapid.T) { linked, err := a.Rebind(t.Context(), "notes"); s.heard(err, linked) },
		"tenant key": func(t *rapid.T) { done, err := a.RotateTenantKey(t.Context()); s.heard(err, done) },
		"master key": func(t *rapid.T) { done, err := a.RotateMasterKey(t.Context()); s.heard(err, done) },
		"lock": func(t *rapid.T) {
			done, err := a.LockVault(t.Context(), rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "for")) // without a PIN only a pause is one
			s.heard(err, done)
		},
		"unlock": func(t *rapid.T) { s.heard(a.UnlockVault(t.Context(), s.value(t))) },
		"export": func(t *rapid.T) {
			data, names, err := a.ExportSecrets(t.Context(), nil, words)
			if s.heard(err, string(data), names); err == nil {
				s.backup = data
			}
		},
		"import": func(t *rapid.T) {
			changes, err := a.ImportSecrets(t.Context(), s.backup, key, app.ImportOptions{Dry: rapid.Bool().Draw(t, "dry"), Force: rapid.Bool().Draw(t, "force")})
			s.heard(err, changes)
		},
		"use": func(t *rapid.T) {
			answer := &app.Answer{}
			err := s.k.App.Pipeline().Do(t.Context(), &runtime.Request{
				Surface: runtime.SurfaceCall, Caller: s.k.App.Local(), Action: "notes.get-note", Unattended: true, Args: runtime.Args{"id": 1},
			}, answer)
			s.heard(err, answer.Status, string(answer.Body))
		},
		"look": func(t *rapid.T) {
			list, lerr := a.Secrets(t.Context())
			status, serr := a.Status(t.Context())
			s.heard(errors.Join(lerr, serr), list, status, a.Doctor(t.Context()))
			s.heard(nil, a.Vault().Live())
		},
		"": func(t *rapid.T) {
			fresh := s.said.String()[s.last:]
			s.last = s.said.Len()
			for _, form := range forms() {
				if at := strings.Index(fresh, form); at >= 0 {
					t.Fatalf("a value was shown: …%.60s", fresh[max(at-30, 0):])
				}
			}
		},
	}
}
