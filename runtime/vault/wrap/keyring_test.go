package wrap_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/runtime/vault/wrap"
	"github.com/kimbap-run/kimbap/runtime/vault/wrap/wraptest"
)

// startSecretService lets this process find one as its session bus.
func startSecretService(t *testing.T) *wraptest.SecretService {
	t.Helper()
	s, err := wraptest.Listen(filepath.Join(t.TempDir(), "bus"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", s.Address())
	t.Cleanup(func() {
		conn, err := dbus.SessionBus() // the one that all tests share, until it is known to have ended
		if s.Close(); err == nil {
			runtimetest.Eventually(t, "the end of the connection", func() bool { return !conn.Connected() })
		}
	})
	return s
}

// A system without a keyring says so and what to do instead, at once: it starts
// no bus of its own to ask.
func TestNoKeyringService(t *testing.T) {
	w := wrap.Keyring{Home: "/home/x", Env: []string{"DBUS_SESSION_BUS_ADDRESS=", "XDG_RUNTIME_DIR=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}}
	_, err := w.Keys(t.Context())
	refusedAs(t, err, runtime.ReasonKeyUnavailable)
	if e := runtime.AsError(err); !strings.Contains(e.Msg, "no keyring service") || !strings.Contains(e.Hint, "source: file") {
		t.Errorf("%q, %q", e.Msg, e.Hint)
	}
	_, err = w.Next(t.Context())
	refusedAs(t, err, runtime.ReasonKeyUnavailable)
}

// Two homes do not share a key, and a keyring that refuses is no empty one: a
// new key would be made beside the old one.
func TestKeyringOfTwoHomes(t *testing.T) {
	s := startSecretService(t)
	a, b := wrap.Keyring{Home: t.TempDir(), Env: os.Environ()}, wrap.Keyring{Home: t.TempDir(), Env: os.Environ()}
	if _, err := a.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := b.Keys(t.Context())
	refusedAs(t, err, runtime.ReasonNoMasterKey)
	s.Break(true)
	_, err = a.Keys(t.Context())
	e := runtime.AsError(err)
	if e.Reason != runtime.ReasonKeyUnavailable || strings.Contains(e.Msg, "hunter2") {
		t.Errorf("a keyring that refuses: %v", err)
	}
	left, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Keys(left); err == nil {
		t.Error("a caller who left got a key")
	}
}

// What is forgotten of a home is its key and the one that should follow, and of no other.
func TestTheKeyringForgetsOneHome(t *testing.T) {
	s := startSecretService(t)
	a, b := wrap.Keyring{Home: "/home/a", Env: os.Environ()}, wrap.Keyring{Home: "/home/a/b", Env: os.Environ()}
	for _, k := range []wrap.Keyring{a, b} {
		key, err := k.Next(t.Context())
		if err == nil {
			err = k.Settle(t.Context(), key)
		}
		if err == nil {
			_, err = k.Next(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if found, err := a.Holds(t.Context()); !found || err != nil {
		t.Errorf("it holds a key: %v %v", found, err)
	}
	if err := a.Forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.Accounts(); !slices.Equal(got, []string{"/home/a/b", "/home/a/b.next"}) {
		t.Errorf("left: %v", got)
	}
	if found, err := a.Holds(t.Context()); found || err != nil {
		t.Errorf("after that: %v %v", found, err)
	}
	if err := a.Forget(t.Context()); err != nil {
		t.Errorf("what is gone already: %v", err)
	}
	s.Break(true)
	if a.Forget(t.Context()) == nil {
		t.Error("a keyring that refuses has forgotten")
	}
	if _, err := a.Holds(t.Context()); err == nil {
		t.Error("a keyring that refuses is empty")
	}
}
