//go:build browsers && linux

package main

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// `make browsers`: real browsers behind `kimbap run` take its certificate, and the pages that
// they show get no key but that of their own origin.

// browsers are started by sh; $CA names a folder of NSS with the certificates, $PAGE the page.
var browsers = map[string]string{
	"chromium": `mkdir -p "$CA/home/.pki" && ln -s "$CA" "$CA/home/.pki/nssdb" &&
		HOME="$CA/home" chromium --headless --no-sandbox --disable-gpu --dump-dom "$PAGE"`,
	"firefox-esr": `mkdir "$CA/home" && HOME="$CA/home" firefox-esr --headless --no-remote -profile "$CA" --screenshot "$CA/shot.png" "$PAGE"`,
}

// asksTheAPI is a page that asks GitHub's API in each way that needs no preflight. The slow
// image keeps it from being loaded before all are sent.
const asksTheAPI = `<!doctype html><title>page</title>
<script>
	const api = "https://api.github.com"
	fetch(api + "/fetch").catch(() => {})
	fetch(api + "/post", {method: "POST", mode: "no-cors", body: "x"}).catch(() => {})
	new WebSocket("wss://api.github.com/socket")
</script>
<img src="https://api.github.com/image"><iframe src="https://api.github.com/frame"></iframe>
<img src="https://api.github.com/slow">`

func TestPagesInBrowsers(t *testing.T) {
	for name, start := range browsers {
		t.Run(name, func(t *testing.T) {
			needProgram(t, installed(name, "certutil"))
			w := newWorld(t)
			answers := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Access-Control-Allow-Origin", "*")
				w.Header().Set("Content-Type", "text/html")
				switch r.URL.Path {
				case "/page":
					fmt.Fprint(w, asksTheAPI)
				case "/slow":
					time.Sleep(2 * time.Second)
				}
			})
			api := w.serve(t, "api.github.com", answers)
			w.serve(t, "example.com", answers)
			h := w.newHome(t)
			h.kimbap(t, keys["github"]+"\n", "link", "github", "--no-check")
			for host, want := range map[string]string{"example.com": "", "api.github.com": "Bearer " + keys["github"]} {
				script := `export CA="$(mktemp -d)" PAGE="https://` + host + `/page"
					certutil -N --empty-password -d sql:"$CA" &&
					certutil -A -n run -t C,, -i "$NODE_EXTRA_CA_CERTS" -d sql:"$CA" &&
					certutil -A -n world -t C,, -i "` + w.roots + `" -d sql:"$CA" && ` + start
				said := h.exec(t, h.env, "", "kimbap", "run", "--", "sh", "-c", script)
				requests, _ := api.take()
				got := map[string]bool{}
				for _, r := range requests {
					if got[r.Target] = true; r.Header.Get("Authorization") != want && r.Target != "/favicon.ico" {
						t.Errorf("%s of a page of %s had the credential %q", r.Target, host, r.Header.Get("Authorization"))
					}
				}
				for _, way := range []string{"/fetch", "/post", "/socket", "/image", "/frame"} {
					if !got[way] {
						t.Errorf("%s of a page of %s did not come", way, host)
					}
				}
				if t.Failed() {
					t.Logf("exit code %d\n%s\n%s", said.code, said.stdout, said.stderr)
				}
			}
		})
	}
}
