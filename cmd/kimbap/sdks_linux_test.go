package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// SDKs of services work behind kimbap as they are, with the variable that each reads, and what
// kimbap refuses is an error to them that says why. None may take a refusal for an answer.
func TestTheSDKsOfServices(t *testing.T) {
	needProgram(t, installed("node"))
	for _, sdk := range []string{"stripe", "@octokit/rest", "@anthropic-ai/sdk"} {
		_, err := os.Stat(filepath.Join(undiciDir(), sdk))
		needProgram(t, err)
	}
	w := newWorld(t)
	stripe := "sk_live_canary5Tq8Wm2Zr7Xc1Vn"
	door := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"name":"the door"}`)
	})
	all := map[string]*upstream{
		"stripe":    w.serve(t, "api.stripe.com", demands("Authorization", "Bearer "+stripe, door)),
		"github":    w.serve(t, "api.github.com", demands("Authorization", "Bearer "+keys["github"], door)),
		"anthropic": w.serve(t, "api.anthropic.com", demands("X-Api-Key", keys["anthropic"], anthropic())),
	}
	h := w.newHome(t)
	for service, key := range map[string]string{"stripe": stripe, "github": keys["github"], "anthropic": keys["anthropic"]} {
		h.kimbap(t, key+"\n", "link", service, "--no-check")
	}
	script, err := os.ReadFile("testdata/clients/sdks.mjs")
	check(t, err)
	h.write(t, filepath.Join(h.user, "sdks.mjs"), script)
	check(t, os.Symlink(undiciDir(), filepath.Join(h.user, "node_modules"))) // where node looks for what a script imports
	said := h.exec(t, h.env, "", "kimbap", "run", "--isolate", "--", "node", filepath.Join(h.user, "sdks.mjs"))
	const asked, refused = `403: .*kimbap: A person must decide this`, `403: .*kimbap: policy denies this action`
	for step, want := range map[string]string{
		"stripe reads": "the door", "stripe writes": "the door", "stripe is asked about": asked, "stripe is refused": refused,
		"github reads": "the door", "github moves a branch": "the door", "github is asked about": asked, "github is refused": refused,
		"anthropic answers": "who is there\\?", "anthropic, with a bearer token": "who is there\\?", "anthropic is asked about": asked,
	} {
		if !regexp.MustCompile("(?m)^" + step + ": " + want).MatchString(said.stdout) {
			t.Errorf("%s is not %q", step, want)
		}
	}
	for service, api := range all {
		requests, _ := api.take()
		if len(requests) != 2 {
			t.Errorf("%s got %d requests", service, len(requests))
		}
		for _, r := range requests {
			if head := fmt.Sprint(r.Header); strings.Contains(head, "kimbap") {
				t.Errorf("%s got a placeholder: %s", service, head)
			}
		}
	}
	if t.Failed() {
		t.Logf("exit code %d\n%s\n%s", said.code, said.stdout, said.stderr)
	}
	h.holdsNoKey(t, stripe, keys["github"], keys["anthropic"])
}
