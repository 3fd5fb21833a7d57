package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// jailed is a user who runs programs isolated, before the stub of acme.
type jailed struct {
	*home
	api *upstream
	by  []string // the environment of who isolates: where its kimbap is elsewhere, not that of the home

	remote []string // words for run that lead to a bare proxy elsewhere, if that is where its kimbap is
}

// isolated runs a test as root, as a user who may do nothing, and as that user with
// the kimbap elsewhere; behind a bare proxy elsewhere as both.
func isolated(t *testing.T, test func(t *testing.T, j jailed)) {
	w := newWorld(t)
	api := w.serve(t, "api.acme.example", newAcme(t))
	for _, user := range []string{"root", "daemon", "elsewhere", "root, a proxy elsewhere", "daemon, a proxy elsewhere"} {
		t.Run(user, func(t *testing.T) {
			h := w.newHome(t)
			if !strings.HasPrefix(user, "root") {
				h.plainUser(t, w)
				check(t, os.Chmod(w.dir, 0o755))
				check(t, os.Chmod(filepath.Dir(h.user), 0o755))
			}
			service, err := os.ReadFile("testdata/clients/acme.yaml")
			check(t, err)
			h.write(t, filepath.Join(h.user, "acme.yaml"), service)
			h.kimbap(t, "", "service", "install", "./acme.yaml")
			h.kimbap(t, acmeKey+"\n", "link", "acme", "--no-check")
			j := jailed{home: h, api: api, by: h.env}
			switch {
			case user == "elsewhere":
				far, token := h.far(t)
				j.by = append(far, "KIMBAP_SERVER="+h.serves(t, "serve", "--proxy", "--listen", "127.0.0.1:0"), "KIMBAP_TOKEN_FILE="+token)
			case strings.HasSuffix(user, "proxy elsewhere"):
				far, token := h.far(t)
				pin := h.kimbap(t, "", "ca", "show", "-o", "json", "--jq", ".fingerprint").stdout
				j.by = far
				j.remote = []string{"--remote", h.serves(t, "proxy", "--listen", "127.0.0.1:0", "--auth", "token"), "--token-file", token, "--pin", strings.Trim(pin, "\"\n")}
			}
			api.take()
			test(t, j)
			h.holdsNoKey(t, acmeKey)
		})
	}
}

// far is an environment whose kimbap is elsewhere: it has a home with nothing in it
// that could be used, and a file with a token of this home.
func (h *home) far(t *testing.T) (env []string, tokenFile string) {
	t.Helper()
	token, far := filepath.Join(h.user, "token"), filepath.Join(h.user, "far")
	check(t, os.Mkdir(far, 0o700))
	h.owns(t, far)
	h.write(t, filepath.Join(far, "config.yaml"), nil)
	h.write(t, token, []byte(h.kimbap(t, "", "token", "create", "--agent", "far", "--scope", "*").stdout))
	check(t, os.Chmod(token, 0o600))
	return append(slices.Clone(h.env), "KIMBAP_HOME="+far), token
}

// run is the command that starts a program: isolated, or as how says.
func (j jailed) run(how string, argv ...string) []string {
	return append(append(append([]string{"kimbap", "run", how}, j.remote...), "--"), argv...)
}

func (j jailed) isolate(t *testing.T, argv ...string) result {
	t.Helper()
	return j.exec(t, j.by, "", j.run("--isolate", argv...)...)
}

// token is what is in the file for the kimbap elsewhere, "" where there is none.
func (j jailed) token(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(j.user, "token"))
	if !os.IsNotExist(err) {
		check(t, err)
	}
	return strings.TrimSpace(string(text))
}

// counted fails the test unless the run said at its end what became of the requests;
// a bare proxy elsewhere does not tell.
func (j jailed) counted(t *testing.T, r result, want string) {
	t.Helper()
	if has := strings.HasSuffix(r.stderr, want); has != (j.remote == nil) {
		t.Errorf("at the end %q, want %q", r.stderr, want)
	}
}

// file is a program of testdata/isolate, where every user can read it.
func (j jailed) file(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata/isolate", name))
	check(t, err)
	path := filepath.Join(j.user, name)
	j.write(t, path, data)
	return path
}

// acmeURL is a read that the service of acme has an action for.
const acmeURL = "https://api.acme.example/items/1/notes/a"

// gotKey fails the test unless the upstream got exactly one request, with the
// key.
func (j jailed) gotKey(t *testing.T) {
	t.Helper()
	requests, _ := j.api.take()
	if len(requests) != 1 || !slices.Equal(requests[0].Header.Values("Authorization"), []string{"Bearer " + acmeKey}) {
		t.Errorf("the upstream got %+v, want one request with the key", requests)
	}
}
