//go:build signins && linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// `make signins`: sign-ins at a provider that others have written and certified, in a browser and
// on another device, with each kind of client; then many processes at once with a token that has
// ended, of which one may renew it, since a refresh token that is used twice ends the grant; and
// the same of a client that no person stands behind.

const signInService = `name: notes
version: 1.0.0
base_url: HOME
auth:
  type: oauth2
  credential_ref: notes.token
  oauth2:
    authorize_url: HOME/auth
    device_url: HOME/device/auth
    token_url: HOME/token
    revoke_url: HOME/token/revocation
    issuer: HOME
    client_auth: STYLE
    scopes: [openid, offline_access, "notes:read"]
    params: {prompt: consent, resource: HOME/api}
actions:
  list-notes: {description: List, method: GET, path: /api/notes, idempotent: true, risk: {level: low}}
`

// realProvider is one that runs, and a person who agrees.
type realProvider struct{ home string }

func newRealProvider(t *testing.T) *realProvider {
	t.Helper()
	needProgram(t, installed("node"))
	script, err := filepath.Abs("testdata/signins/provider.mjs")
	check(t, err)
	cmd := exec.Command("node", script)
	cmd.Stderr = os.Stderr
	alive, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() { alive.Close(); _ = cmd.Wait() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "http://") {
			go func() {
				for lines.Scan() { // it goes on to say things
				}
			}()
			return &realProvider{lines.Text()}
		}
	}
	t.Fatal("the provider does not start")
	return nil
}

// ask asks something of the side of the provider that is for tests.
func (p *realProvider) ask(t *testing.T, path string, into any) {
	t.Helper()
	answer, err := http.Get(p.home + "/test/" + path)
	check(t, err)
	defer answer.Body.Close()
	check(t, json.NewDecoder(answer.Body).Decode(into))
}

type signInCounts struct{ Refreshes, Ended, Given, Returned int }

func (p *realProvider) counts(t *testing.T) (n signInCounts) {
	t.Helper()
	p.ask(t, "counts", &n)
	return n
}

// link is kimbap link, with a person who agrees where it says.
func (p *realProvider) link(t *testing.T, env []string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kimbap", append([]string{"link", "notes"}, args...)...)
	cmd.Env = env
	said, err := os.CreateTemp(t.TempDir(), "said")
	check(t, err)
	cmd.Stderr = said
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	lines := bufio.NewScanner(out)
	var page struct{ Text string }
	if lines.Scan() {
		if first := lines.Text(); strings.HasPrefix(first, "http") {
			p.ask(t, "agree?url="+url.QueryEscape(first), &page)
		} else {
			p.ask(t, "types?url="+url.QueryEscape(p.home+"/device")+"&code="+url.QueryEscape(first), &page)
		}
	}
	for lines.Scan() { // what was linked
	}
	if err := cmd.Wait(); err != nil {
		text, _ := os.ReadFile(said.Name())
		t.Fatalf("%v\n%s\nthe page says: %s", err, text, page.Text)
	}
}

func TestSignInsAtARealProvider(t *testing.T) {
	p := newRealProvider(t)
	for name, c := range map[string]struct{ style, file string }{
		"public": {"basic", `{"client_id": "public"}`},
		"basic":  {"basic", `{"client_id": "id:basic", "client_secret": "a secret+%/&="}`},
		"post":   {"post", `{"client_id": "post", "client_secret": "a secret+%/&="}`},
	} {
		for way, flags := range map[string][]string{"browser": nil, "device": {"--device"}} {
			t.Run(name+"/"+way, func(t *testing.T) {
				dir := t.TempDir()
				env := append(os.Environ(), "KIMBAP_HOME="+filepath.Join(dir, "home"), "HOME="+dir, "NO_COLOR=1")
				text := strings.NewReplacer("HOME", p.home, "STYLE", c.style).Replace(signInService)
				check(t, os.WriteFile(filepath.Join(dir, "notes.yaml"), []byte(text), 0o600))
				check(t, os.WriteFile(filepath.Join(dir, "client.json"), []byte(c.file), 0o600))
				kimbap := func(args ...string) {
					cmd := exec.CommandContext(t.Context(), "kimbap", args...)
					cmd.Env = env
					if out, err := cmd.CombinedOutput(); err != nil {
						t.Errorf("kimbap %s: %v\n%s", strings.Join(args, " "), err, out)
					}
				}
				kimbap("service", "install", filepath.Join(dir, "notes.yaml"))
				p.link(t, env, append([]string{"--client", filepath.Join(dir, "client.json")}, flags...)...)
				for range 2 {
					before := p.counts(t)
					time.Sleep(5500 * time.Millisecond) // the token has ended then
					var all sync.WaitGroup
					for range 8 {
						all.Go(func() { kimbap("call", "notes.list-notes") })
					}
					all.Wait()
					if n := p.counts(t); n.Refreshes != before.Refreshes+1 || n.Ended != before.Ended {
						t.Errorf("from %+v to %+v", before, n)
					}
				}
				before := p.counts(t)
				kimbap("unlink", "notes")
				if n := p.counts(t); n.Ended != before.Ended+1 {
					t.Errorf("it was not given back: from %+v to %+v", before, n)
				}
			})
		}
	}
}

const clientService = `name: notes
version: 1.0.0
base_url: HOME
auth:
  type: oauth2
  credential_ref: notes.token
  oauth2:
    grant: client_credentials
    token_url: HOME/token
    revoke_url: HOME/token/revocation
    client_auth: STYLE
    scopes: ["notes:read"]
    params: {resource: HOME/api}
actions:
  list-notes: {description: List, method: GET, path: /api/notes, idempotent: true, risk: {level: low}}
`

// A client itself is given a token, one of many processes asks for the next, and the last goes back.
func TestClientsWithoutSignInsAtARealProvider(t *testing.T) {
	p := newRealProvider(t)
	for style, id := range map[string]string{"basic": "machine:basic", "post": "machine-post"} {
		t.Run(style, func(t *testing.T) {
			dir := t.TempDir()
			env := append(os.Environ(), "KIMBAP_HOME="+filepath.Join(dir, "home"), "HOME="+dir, "NO_COLOR=1")
			text := strings.NewReplacer("HOME", p.home, "STYLE", style).Replace(clientService)
			check(t, os.WriteFile(filepath.Join(dir, "notes.yaml"), []byte(text), 0o600))
			client := func(secret string) string {
				file := filepath.Join(dir, "client.json")
				check(t, os.WriteFile(file, []byte(`{"client_id": "`+id+`", "client_secret": "`+secret+`"}`), 0o600))
				return file
			}
			kimbap := func(good bool, args ...string) {
				cmd := exec.CommandContext(t.Context(), "kimbap", args...)
				cmd.Env = env
				if out, err := cmd.CombinedOutput(); (err == nil) != good {
					t.Errorf("kimbap %s: %v\n%s", strings.Join(args, " "), err, out)
				}
			}
			kimbap(true, "service", "install", filepath.Join(dir, "notes.yaml"))
			kimbap(false, "link", "notes", "--client", client("another"))
			kimbap(true, "link", "notes", "--client", client("a secret+%/&="))
			for range 2 {
				before := p.counts(t)
				time.Sleep(5500 * time.Millisecond) // the token has ended then
				var all sync.WaitGroup
				for range 8 {
					all.Go(func() { kimbap(true, "call", "notes.list-notes") })
				}
				all.Wait()
				if n := p.counts(t); n.Given != before.Given+1 {
					t.Errorf("from %+v to %+v", before, n)
				}
			}
			before := p.counts(t)
			kimbap(true, "unlink", "notes")
			if n := p.counts(t); n.Returned != before.Returned+1 {
				t.Errorf("it was not given back: from %+v to %+v", before, n)
			}
		})
	}
}
