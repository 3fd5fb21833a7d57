package app_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// shownBy is what kimbap env says of the proxy.
func shownBy(t *testing.T, a *app.App) *url.URL {
	t.Helper()
	text, _, err := a.Env(t.Context(), app.EnvOptions{Shell: "json"})
	if err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{}
	if err := json.Unmarshal([]byte(text), &vars); err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(vars["HTTPS_PROXY"])
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// A proxy that runs for longer than half of its token's life has a new one for the
// next shell, and the shells before keep theirs until it has expired.
func TestAPassIsRenewedAndTheOldOneStaysGood(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	k := apptest.New(t, apptest.Options{Nameless: true, Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	old, _ := shownBy(t, k.App).User.Password()
	ahead.Store(int64(15 * 24 * time.Hour))
	fresh := old
	apptest.Eventually(t, "another token", func() bool { fresh, _ = shownBy(t, k.App).User.Password(); return fresh != old })
	try := func(what, token string, status int) {
		// No TLS: its certificates are of the other clock.
		if _, got := k.Connect(t, apptest.Authority, "Proxy-Authorization: Bearer "+token); got.Status != status {
			t.Errorf("the %s one: %d %+v", what, got.Status, got.Problem)
		}
	}
	try("old", old, http.StatusOK)
	try("new", fresh, http.StatusOK)
	ahead.Store(int64(28*24*time.Hour) + int64(time.Hour))
	try("expired", old, http.StatusProxyAuthRequired)
	try("new", fresh, http.StatusOK)
	for _, text := range []string{k.Log.String(), ledger(t, k)} {
		if strings.Contains(text, "kmb_") {
			t.Error("a token was written down")
		}
	}
}

// Nobody but the owner can read the token, and nobody gets through without it.
func TestAPassIsForTheOwnerAlone(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Nameless: true})
	files, err := filepath.Glob(filepath.Join(k.Dir, "state", "proxy-*.pass"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	info, err := os.Stat(files[0])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	if _, got := k.Connect(t, apptest.Authority); got.Status != http.StatusProxyAuthRequired || got.Problem.Reason != "no_token" {
		t.Errorf("without it: %d %+v", got.Status, got.Problem)
	}
	token, _ := shownBy(t, k.App).User.Password()
	if got := apptest.Send(t, k.Client(t, token), "GET https://api.notes.test/notes/1", ""); got.Status != http.StatusOK {
		t.Errorf("with it: %d %+v", got.Status, got.Problem)
	}
}
