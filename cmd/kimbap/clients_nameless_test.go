//go:build linux

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Where the kernel does not say whose a connection is, clients show the token that is
// in the proxy's URL, in run and in a shell. The JDK's own do not: docs/clients.md.
func TestClientsShowTheTokenOfTheURL(t *testing.T) {
	w := newWorld(t)
	stub := newAcme(t)
	api := w.serve(t, "api.acme.example", stub)
	h := w.newHome(t)
	h.env = append(h.env, namelessVar+"=1")
	service, err := filepath.Abs("testdata/clients/acme.yaml")
	check(t, err)
	h.kimbap(t, "", "service", "install", service)
	h.kimbap(t, acmeKey+"\n", "link", "acme", "--no-check")
	shell := h.proxied(t)
	all := append(clients(t, w), client{name: "git", argv: []string{"git", "ls-remote"}, missing: installed("git")})
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			needProgram(t, c.missing)
			argv := append(slices.Clone(c.argv), "https://api.acme.example", stub.control.URL, h.user, "get")
			if c.name == "git" { // which finds no repository there
				argv = append(slices.Clone(c.argv), "https://api.acme.example/status/404")
			}
			for where, run := range map[string]func() result{
				"run":           func() result { return h.exec(t, h.env, "", append([]string{"kimbap", "run", "--"}, argv...)...) },
				"proxy and env": func() result { return h.exec(t, shell, "", argv...) },
			} {
				api.take()
				r := run()
				requests, _ := api.take()
				arrived := len(requests) > 0 && requests[0].Header.Get("Authorization") == "Bearer "+acmeKey
				if refused := strings.HasPrefix(c.name, "java"); arrived == refused || refused && len(requests) > 0 {
					t.Errorf("%s: %d requests arrived\n%s\n%s", where, len(requests), r.stdout, r.stderr)
				}
			}
		})
	}
}
