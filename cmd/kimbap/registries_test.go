//go:build linux

package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
)

// crates is a registry of cargo's over HTTP (a sparse index) with one crate in
// it. A private one wants a key for everything and says so.
func crates(t *testing.T, host string, private bool) http.Handler {
	crate := packed(t, map[string]string{
		"door-hinge-1.2.3/Cargo.toml": "[package]\nname = \"door-hinge\"\nversion = \"1.2.3\"\nedition = \"2021\"\n",
		"door-hinge-1.2.3/src/lib.rs": "pub fn sound() -> &'static str { \"it squeaks\" }\n",
	})
	config, err := json.Marshal(map[string]any{"dl": "https://" + host + "/dl/{crate}/{version}", "api": "https://" + host, "auth-required": private})
	check(t, err)
	entry, err := json.Marshal(map[string]any{
		"name": "door-hinge", "vers": "1.2.3", "deps": []any{}, "features": map[string]any{},
		"cksum": fmt.Sprintf("%x", sha256.Sum256(crate)), "yanked": false,
	})
	check(t, err)
	return files(map[string][]byte{
		"/config.json": config, "/do/or/door-hinge": append(entry, '\n'), "/dl/door-hinge/1.2.3": crate,
	})
}

// pypi is a package index for pip (the simple API, in HTML) with one wheel in it.
func pypi(t *testing.T) http.Handler {
	wheel := zipped(t, map[string]string{
		"door_hinge.py":                       "SOUND = 'it squeaks'\n",
		"door_hinge-1.2.3.dist-info/METADATA": "Metadata-Version: 2.1\nName: door-hinge\nVersion: 1.2.3\n",
		"door_hinge-1.2.3.dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"door_hinge-1.2.3.dist-info/RECORD":   "door_hinge.py,,\ndoor_hinge-1.2.3.dist-info/METADATA,,\ndoor_hinge-1.2.3.dist-info/WHEEL,,\ndoor_hinge-1.2.3.dist-info/RECORD,,\n",
	})
	const name = "door_hinge-1.2.3-py3-none-any.whl"
	return files(map[string][]byte{
		"/simple/door-hinge/": fmt.Appendf(nil, "<!DOCTYPE html><html><body><a href=\"/packages/%s#sha256=%x\">%s</a></body></html>\n", name, sha256.Sum256(wheel), name),
		"/packages/" + name:   wheel,
	})
}

// files answers reads with fixed files.
func files(content map[string][]byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, found := content[r.URL.Path]
		if !found || r.Method != http.MethodGet {
			http.NotFound(w, r)
			return
		}
		if bytes.HasPrefix(data, []byte("<!DOCTYPE")) {
			w.Header().Set("Content-Type", "text/html")
		}
		_, _ = w.Write(data)
	})
}

// zipped makes a .zip.
func zipped(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	archive := zip.NewWriter(&b)
	for name, text := range files {
		file, err := archive.Create(name)
		check(t, err)
		_, err = file.Write([]byte(text))
		check(t, err)
	}
	check(t, archive.Close())
	return b.Bytes()
}
