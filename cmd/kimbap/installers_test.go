//go:build linux

package main

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// registryKey opens the private registries; only kimbap holds it.
const registryKey = "registry-canary-8d1e5b7a90c34f62"

// installer is a program that fetches packages from a registry.
type installer struct {
	name, host string
	stub       func(private bool) http.Handler
	key        string            // the Authorization that a private registry wants
	auth       string            // of the service file
	files      map[string]string // below the user's home, before it runs
	argv       []string
	env        []string
	installed  string // a file, as a pattern below the user's home, that holds the package
	missing    error
}

func installers(t *testing.T) []installer {
	basic := base64.StdEncoding.EncodeToString([]byte("__token__:" + registryKey))
	cargo, rustc, noCargo := rust()
	return []installer{{
		name: "cargo", host: "cargo.acme.example",
		stub: func(private bool) http.Handler { return crates(t, "cargo.acme.example", private) },
		key:  registryKey,
		// cargo sends a key to a private registry only, and then wants to have one.
		auth: "{type: header, header: {name: Authorization}, credential_ref: cargo.token}\nplaceholders: {CARGO_REGISTRIES_ACME_TOKEN: acme_kimbap}",
		files: map[string]string{
			".cargo/config.toml":   "[registry]\nglobal-credential-providers = [\"cargo:token\"]\n[registries.acme]\nindex = \"sparse+https://cargo.acme.example/\"\n",
			"for-cargo/Cargo.toml": "[package]\nname = \"house\"\nversion = \"1.0.0\"\nedition = \"2021\"\n[dependencies]\ndoor-hinge = { version = \"1\", registry = \"acme\" }\n",
			"for-cargo/src/lib.rs": "",
		},
		argv: []string{cargo, "fetch", "--manifest-path", "for-cargo/Cargo.toml"}, env: []string{"RUSTC=" + rustc},
		installed: ".cargo/registry/src/*/door-hinge-1.2.3/src/lib.rs", missing: noCargo,
	}, {
		name: "pip", host: "pypi.acme.example",
		stub: func(bool) http.Handler { return pypi(t) },
		key:  "Basic " + basic,
		auth: "{type: basic, basic: {username: __token__, password_ref: pip.token}}",
		argv: []string{"/usr/bin/python3", "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--retries", "0",
			"--index-url", "https://pypi.acme.example/simple/", "--target", "for-pip", "door-hinge"},
		installed: "for-pip/door_hinge.py", missing: library("pip"),
	}, {
		name: "npm", host: "npm.acme.example",
		stub:  func(bool) http.Handler { return registry(t, "npm.acme.example") },
		key:   "Bearer " + registryKey,
		auth:  "{type: bearer, credential_ref: npm.token}",
		files: map[string]string{"for-npm/package.json": `{"name":"house","version":"1.0.0"}`},
		argv: []string{"npm", "--prefix", "for-npm", "--no-audit", "--fetch-retries", "0",
			"--registry", "https://npm.acme.example/", "install", "door-hinge"},
		installed: "for-npm/node_modules/door-hinge/index.js", missing: installed("npm"),
	}}
}

// rust returns the cargo and rustc themselves: those in the PATH may be
// rustup's, which look for the real ones in a home that the test does not have.
func rust() (cargo, rustc string, missing error) {
	find := func(name string) string {
		if out, err := exec.Command("rustup", "which", name).Output(); err == nil {
			return strings.TrimSpace(string(out))
		}
		path, err := exec.LookPath(name)
		if err != nil {
			missing = err
		}
		return path
	}
	return find("cargo"), find("rustc"), missing
}

// TestInstallersWork installs one package from a registry that kimbap knows
// nothing of, and from a private one whose key only kimbap holds.
func TestInstallersWork(t *testing.T) {
	w := newWorld(t)
	for _, c := range installers(t) {
		t.Run(c.name, func(t *testing.T) {
			needProgram(t, c.missing)
			t.Run("unlinked", func(t *testing.T) {
				u := w.serve(t, c.host, c.stub(false))
				h := c.home(t, w)
				h.run(t, c.argv...)
				c.isInstalled(t, h)
				requests, _ := u.take()
				for _, r := range requests {
					if key := r.Header.Get("Authorization"); key != "" {
						t.Errorf("%s %s came with a key: %q", r.Method, r.Target, key)
					}
				}
			})
			t.Run("linked", func(t *testing.T) {
				w.serve(t, c.host, demands("Authorization", c.key, c.stub(true)))
				h := c.home(t, w)
				if r := h.exec(t, h.env, "", append([]string{"kimbap", "run", "--"}, c.argv...)...); r.code == 0 {
					t.Fatalf("without a key it works too:\n%s", r.stdout)
				}
				h.write(t, filepath.Join(h.user, "service.yaml"), fmt.Appendf(nil, registryService, c.name, c.host, c.auth))
				h.kimbap(t, "", "service", "install", filepath.Join(h.user, "service.yaml"))
				h.kimbap(t, registryKey+"\n", "link", c.name, "--no-check")
				h.run(t, c.argv...)
				c.isInstalled(t, h)
				h.holdsNoKey(t, registryKey, strings.TrimPrefix(c.key, "Basic "))
			})
		})
	}
}

const registryService = `
name: %s
version: 1.0.0
description: A private registry
base_url: https://%s
auth: %s
actions:
  read: {description: Any read, method: [GET, HEAD], path: /**, idempotent: true, allow_slash: true, risk: {level: low}}
`

func (c *installer) home(t *testing.T, w *world) *home {
	t.Helper()
	h := w.newHome(t)
	h.env = append(h.env, c.env...)
	for name, text := range c.files {
		path := filepath.Join(h.user, name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		h.write(t, path, []byte(text))
	}
	return h
}

func (c *installer) isInstalled(t *testing.T, h *home) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(h.user, c.installed))
	check(t, err)
	if len(found) != 1 {
		t.Fatalf("%s: %d files, want one", c.installed, len(found))
	}
	text, err := os.ReadFile(found[0])
	check(t, err)
	if !strings.Contains(string(text), "it squeaks") {
		t.Errorf("the package holds %q", text)
	}
}
