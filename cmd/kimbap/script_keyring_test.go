package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/kimbap-run/kimbap/runtime/vault/wrap/wraptest"
)

// keyrings are the started ones, by script.
var keyrings sync.Map

func startKeyring(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: keyring")
	}
	dir, err := os.MkdirTemp("", "bus-*") // a script's own folder may have too long a name for a socket
	ts.Check(err)
	ts.Defer(func() { _ = os.RemoveAll(dir) })
	s, err := wraptest.Listen(filepath.Join(dir, "bus"))
	ts.Check(err)
	ts.Defer(s.Close)
	keyrings.Store(ts, s)
	ts.Setenv("DBUS_SESSION_BUS_ADDRESS", s.Address())
}

func keeps(ts *testscript.TestScript, neg bool, args []string) {
	s, ok := keyrings.Load(ts)
	if neg || !ok {
		ts.Fatalf("usage: keeps [FOLDER...], after keyring")
	}
	var want []string
	for _, dir := range args {
		want = append(want, ts.MkAbs(dir))
	}
	if got := s.(*wraptest.SecretService).Accounts(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		ts.Fatalf("the keyring keeps %q, not %q", got, want)
	}
}
