//go:build unix

package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// keyServices are the variables of a kimbap that has its key with one of two key services, each of which opens only what it wrapped.
func keyServices(t *testing.T) (command, transit []string) {
	t.Helper()
	script := filepath.Join(t.TempDir(), "service.sh")
	const text = "#!/bin/sh\ncase \"$1\" in\nwrap) echo wrapped; tr 0-9a-f g-v ;;\nunwrap) read first && test \"$first\" = wrapped && tr g-v 0-9a-f ;;\nesac\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	const mark = "vault:v1:"
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in, out struct{ Plaintext, Ciphertext string }
		err := json.NewDecoder(r.Body).Decode(&in)
		kept, ours := strings.CutPrefix(in.Ciphertext, mark)
		switch {
		case err != nil || in.Ciphertext != "" && !ours:
			w.WriteHeader(http.StatusBadRequest)
			return
		case ours:
			out.Plaintext = kept
		default:
			out.Ciphertext = mark + in.Plaintext
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]string{"plaintext": out.Plaintext, "ciphertext": out.Ciphertext}})
	}))
	t.Cleanup(engine.Close)
	both := []string{
		"PATH=" + os.Getenv("PATH"), "KIMBAP_MASTER_KEY_COMMAND=" + script, "KIMBAP_MASTER_KEY_TRANSIT_ADDRESS=" + engine.URL,
		"KIMBAP_MASTER_KEY_TRANSIT_KEY=kimbap", "KIMBAP_MASTER_KEY_TRANSIT_TOKEN=t", "KIMBAP_MASTER_KEY_SOURCE=",
	}
	source := func(name string) []string { return append(both[:len(both)-1:len(both)-1], both[len(both)-1]+name) }
	return source("command"), source("transit")
}

// cutShort is a wrapper of a process that is killed before it settles.
type cutShort struct{ vault.KeyWrapper }

func (cutShort) Settle(context.Context, vault.MasterKey) error { return errors.New("killed") }

// VC-008: a move of the master key from one key service to another that is cut short, before
// the database has changed or after it. The configuration of the key in force opens the home
// and leaves one key; the move begins anew, or has been made.
func TestMovesBetweenKeyServicesThatAreCutShort_VC008(t *testing.T) {
	t.Parallel()
	command, transit := keyServices(t)
	k := &apptest.Kimbap{Dir: filepath.Join(t.TempDir(), "home"), Log: &apptest.Buffer{}}
	open := func(from string, env ...string) *app.App {
		t.Helper()
		o := apptest.OptionsOver(k.Dir, "", k.Log, true)
		o.Env, o.KeyFrom = env, from
		return apptest.OpenWith(t, o)
	}
	left := func() bool {
		_, err := os.Stat(filepath.Join(k.Dir, "master.wrapped.next"))
		return err == nil
	}
	opens := func(env ...string) {
		t.Helper()
		a := open("", env...)
		c, err := a.Vault().Credential(t.Context(), runtime.DefaultTenant, &runtime.Auth{Type: runtime.AuthBearer, Ref: "acme.key"})
		if err != nil || c.Value.Reveal() != "value-of-acme" || left() {
			t.Errorf("%q, %v; two keys are kept: %v", c.Value.Reveal(), err, left())
		}
	}
	first := open("", command...)
	if _, _, err := first.SetSecret(t.Context(), "acme.key", runtime.NewSecret("value-of-acme"), app.SecretOptions{Hosts: []string{"a.test"}}); err != nil {
		t.Fatal(err)
	}
	begun := func(a *app.App) vault.KeyWrapper {
		t.Helper()
		to, err := app.WrapperOf(a, "transit")
		if err == nil {
			_, err = to.Next(t.Context())
		}
		if err != nil || !left() {
			t.Fatal(err, left())
		}
		return to
	}
	begun(open("", command...))
	opens(command...)

	begun(open("", command...))
	if _, err := open("command", transit...).RotateMasterKey(t.Context()); err != nil {
		t.Fatalf("the same command once more: %v", err)
	}
	opens(transit...)

	back := open("transit", command...)
	to, err := app.WrapperOf(back, "command")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := back.Vault().RotateMaster(t.Context(), cutShort{to}); err == nil || !left() {
		t.Fatal(err, left())
	}
	opens(command...)
}

// Of two commands that move the key at once, the second finds the move made.
func TestTwoMovesSideBySide(t *testing.T) {
	t.Parallel()
	command, transit := keyServices(t)
	k := &apptest.Kimbap{Dir: filepath.Join(t.TempDir(), "home"), Log: &apptest.Buffer{}}
	open := func(from string, env []string) *app.App {
		o := apptest.OptionsOver(k.Dir, "", k.Log, true)
		o.Env, o.KeyFrom = env, from
		return apptest.OpenWith(t, o)
	}
	open("", command)
	movers := []*app.App{open("command", transit), open("command", transit)}
	for i, a := range movers {
		if done, err := a.RotateMasterKey(t.Context()); err != nil || done.Already != (i > 0) {
			t.Errorf("move %d: %+v, %v", i, done, err)
		}
	}
}

// A proxy takes up a key that has moved to where its config.yaml says, also where that was
// edited a moment before. One that is told otherwise by a variable locks itself, which is no
// order of the owner's.
func TestProxiesFollowAKeyThatMoves(t *testing.T) {
	t.Parallel()
	command, _ := keyServices(t)
	path, service := command[0], command[1]
	k := &apptest.Kimbap{Dir: filepath.Join(t.TempDir(), "home"), Log: &apptest.Buffer{}}
	with := openerOver(t, k)
	follows, told := with("follows", path), with("told", path, "KIMBAP_MASTER_KEY_SOURCE=file")
	if _, _, err := follows.SetSecret(t.Context(), "acme.key", runtime.NewSecret("value-of-acme"), app.SecretOptions{Hosts: []string{"a.test"}}); err != nil {
		t.Fatal(err)
	}
	for _, a := range []*app.App{follows, told} {
		k.Serve(t, a, app.ServeOptions{Listen: "127.0.0.1:0", State: true})
	}
	_, script, _ := strings.Cut(service, "=")
	k.Write(t, "config.yaml", "master_key: {source: command, command: ["+script+"]}\n")
	o := apptest.OptionsOver(k.Dir, "", k.Log, false)
	o.Env, o.KeyFrom = []string{path}, "file"
	person := apptest.OpenWith(t, o)
	if _, err := person.RotateMasterKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := person.Reach(t.Context()); len(left) > 0 {
		t.Errorf("behind: %+v", left)
	}
	credential := func(a *app.App) error {
		_, err := a.Vault().Credential(t.Context(), runtime.DefaultTenant, &runtime.Auth{Type: runtime.AuthBearer, Ref: "acme.key"})
		return err
	}
	if err := credential(follows); err != nil || follows.Locked() != nil {
		t.Errorf("%v, locked: %v", err, follows.Locked())
	}
	if restart := person.Proxies()[0].Restart; len(restart) > 0 {
		t.Errorf("it wants a restart because of %v", restart)
	}
	why := runtime.AsError(credential(told))
	if told.Locked() == nil || why.Reason != runtime.ReasonNoMasterKey || strings.Contains(why.Msg, "by its owner") {
		t.Errorf("%v, locked: %v", why, told.Locked())
	}
	if out := person.LockedOut(); len(out) != 1 || out[0].Slot != "told" {
		t.Errorf("locked out: %+v", out)
	}
	locks := 0
	apptest.Eventually(t, "the record of the lock", func() bool {
		locks = 0
		for _, r := range k.Records(t) {
			if r.Event == "vault.locked" {
				locks++
			}
		}
		return locks > 0
	})
	if locks != 1 {
		t.Errorf("%d proxies were locked, want the one", locks)
	}
}
