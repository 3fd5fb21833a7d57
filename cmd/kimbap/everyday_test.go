//go:build linux

package main

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The keys that only kimbap holds, by the service they are linked to.
var keys = map[string]string{
	"github":    "ghp_canary4Yd0uR8mQx2LwZ7kTn1VbC6sJpH3aE",
	"openai":    "sk-canary-91b7c0de55aa4f31",
	"anthropic": "sk-ant-canary-3fb0c7e29d8a4415",
	"npm":       "npm_canaryQ8r5T2v9X4z7B1d6F3h0K",
}

// forgotten is a real key that somebody left in the shell.
const forgotten = "ghp_forgottenP3nU7cW1yR9tB5xK2mD8vL6qS4"

// internet are the stubs of the everyday test; each wants its key.
type internet struct {
	api, git, npm, openai, anthropic, plain *upstream
}

func newInternet(t *testing.T, w *world) internet {
	basic := base64.StdEncoding.EncodeToString([]byte("x-access-token:" + keys["github"]))
	return internet{
		api:       w.serve(t, "api.github.com", demands("Authorization", "Bearer "+keys["github"], githubAPI(t))),
		git:       w.serve(t, "github.com", demands("Authorization", "Basic "+basic, gitServer(t))),
		npm:       w.serve(t, "registry.npmjs.org", demands("Authorization", "Bearer "+keys["npm"], registry(t, "registry.npmjs.org"))),
		openai:    w.serve(t, "api.openai.com", demands("Authorization", "Bearer "+keys["openai"], openAI())),
		anthropic: w.serve(t, "api.anthropic.com", demands("X-Api-Key", keys["anthropic"], anthropic())),
		plain: w.serve(t, "example.com", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("an example\n"))
		})),
	}
}

// TestEverydayWork does what people do all day, under the default settings:
// an untouched home with some services linked, and nothing else.
func TestEverydayWork(t *testing.T) {
	for name, uid := range map[string]int{"plain user": daemon, "root": 0} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			h := w.newHome(t)
			if uid != 0 {
				h.plainUser(t, w)
			}
			h.env = append(h.env, "GITHUB_TOKEN="+forgotten)
			h.livesADay(t, newInternet(t, w))
		})
	}
}

func (h *home) livesADay(t *testing.T, net internet) {
	for _, service := range []string{"github", "openai", "anthropic", "npm"} {
		r := h.kimbap(t, keys[service]+"\n", "link", service)
		if !strings.Contains(r.stderr, "the key works") {
			t.Errorf("link %s did not try the key:\n%s", service, r.stderr)
		}
	}
	t.Run("gh", func(t *testing.T) { needProgram(t, installed("gh", "git")); h.worksWithGitHub(t) })
	t.Run("twelve at once", func(t *testing.T) { h.readsManyAtOnce(t) })
	t.Run("git", func(t *testing.T) { h.clonesAndPushes(t, net.git) })
	t.Run("npm install", func(t *testing.T) { needProgram(t, installed("npm")); h.installsPackage(t) })
	t.Run("OpenAI stream", func(t *testing.T) { h.chats(t) })
	t.Run("Anthropic message", func(t *testing.T) { h.asks(t) })
	t.Run("ssh", func(t *testing.T) { needProgram(t, installed("ssh", "ssh-keygen", "/usr/sbin/sshd")); h.logsIn(t) })
	t.Run("host without a service", func(t *testing.T) { h.readsExample(t, net.plain) })
	t.Run("around kimbap", func(t *testing.T) {
		h.says(t, "Bad credentials", "sh", "-c", `curl -sS --noproxy '*' -H "Authorization: Bearer $GITHUB_TOKEN" https://api.github.com/user`)
	})
	t.Run("the program finds no key", func(t *testing.T) { h.searches(t) })
	t.Run("nobody was asked", func(t *testing.T) { h.askedNobody(t) })
	t.Run("the trail is whole", func(t *testing.T) { h.kimbap(t, "", "audit", "verify") })
	t.Run("no key in sight", func(t *testing.T) { h.holdsNoKey(t, append(values(keys), forgotten)...) })
	t.Run("the search can find", func(t *testing.T) { h.searchesUncovered(t) })
}

// says runs a program behind kimbap and wants words in its output.
func (h *home) says(t *testing.T, words string, argv ...string) result {
	t.Helper()
	r := h.run(t, argv...)
	if !strings.Contains(r.stdout, words) {
		t.Errorf("%q said\n%s\nand on stderr\n%s\nwant %q", argv, r.stdout, r.stderr, words)
	}
	return r
}

func (h *home) worksWithGitHub(t *testing.T) {
	h.says(t, "Teach the door to open", "gh", "pr", "list", "--repo", "octo/door")
	h.says(t, "A door that opens.", "gh", "repo", "view", "octo/door")
	work := filepath.Join(h.user, "for-gh")
	h.exec(t, h.env, "", "git", "init", "--quiet", "--initial-branch=open", work)
	h.exec(t, h.env, "", "git", "-C", work, "remote", "add", "origin", "https://github.com/octo/door.git")
	h.exec(t, h.env, "", "git", "-C", work, "-c", "user.name=o", "-c", "user.email=o@example.com", "commit", "--quiet", "--allow-empty", "-m", "Teach the door to open")
	h.says(t, "https://github.com/octo/door/pull/7",
		"sh", "-c", `cd "$0" && gh pr create --repo octo/door --head open --base main --title "Teach the door to open" --body "It did not."`, work)
}

// readsManyAtOnce does what agents do with their tools: twelve programs that read,
// each of them ten things over its connection. One curl with --parallel is not the
// client for it: at times its 7.88 gives a transfer a connection that is not yet
// up, says "no filter connected" of itself and ends all the others.
func (h *home) readsManyAtOnce(t *testing.T) {
	h.says(t, "\n120\n", "sh", "-c",
		`echo; seq 12 | xargs -P 12 -I N curl -sS -o /dev/null -w '%{http_code}\n' 'https://api.github.com/repos/octo/door/readme?ref=N-[1-10]' | grep -c '^200$'`)
}

// clonesAndPushes also pushes more than git keeps in memory, which it sends in
// chunks, and works with an ssh remote.
func (h *home) clonesAndPushes(t *testing.T, server *upstream) {
	h.run(t, "git", "clone", "--quiet", "https://github.com/octo/door.git", "https")
	h.run(t, "git", "clone", "--quiet", "git@github.com:octo/door.git", "ssh")
	for _, clone := range []string{"https", "ssh"} {
		if text, err := os.ReadFile(filepath.Join(h.user, clone, "README.md")); err != nil || string(text) != "A door that opens.\n" {
			t.Fatalf("the clone holds %q, %v", text, err)
		}
	}
	server.take()
	h.write(t, filepath.Join(h.user, "https", "large"), blob()[:3<<20])
	h.run(t, "sh", "-ec", `cd https; git add .; git -c user.name=o -c user.email=o@example.com commit --quiet -m Large; git push --quiet origin main`)
	requests, _ := server.take()
	if !slices.ContainsFunc(requests, func(r request) bool { return r.Target == "/octo/door.git/git-receive-pack" && r.Length == -1 }) {
		t.Errorf("no push in chunks came: %d requests", len(requests))
	}
	pushed := h.exec(t, h.env, "", "git", "-C", "https", "rev-parse", "main").stdout
	h.says(t, strings.TrimSpace(pushed), "git", "ls-remote", "https://github.com/octo/door.git", "main")
}

func (h *home) installsPackage(t *testing.T) {
	work := filepath.Join(h.user, "for-npm")
	check(t, os.Mkdir(work, 0o755))
	h.owns(t, work)
	h.write(t, filepath.Join(work, "package.json"), []byte(`{"name":"house","version":"1.0.0"}`))
	h.run(t, "npm", "--prefix", work, "install", "door-hinge")
	text, err := os.ReadFile(filepath.Join(work, "node_modules", "door-hinge", "index.js"))
	if err != nil || !strings.Contains(string(text), "it squeaks") {
		t.Errorf("the package holds %q, %v", text, err)
	}
}

func (h *home) chats(t *testing.T) {
	const body = `{"model":"gpt-door","stream":true,"messages":[{"role":"user","content":"hello"}]}`
	h.says(t, `"content":"knock"`, "sh", "-c",
		`curl -sSN https://api.openai.com/v1/chat/completions -H "Authorization: Bearer $OPENAI_API_KEY" -H 'Content-Type: application/json' -d "$0"`, body)
	h.says(t, "knock knock", "/usr/bin/python3", "-c", `
import httpx, json, os, sys
with httpx.stream("POST", "https://api.openai.com/v1/chat/completions", content=sys.argv[1],
                  headers={"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}) as answer:
    words = [line[6:] for line in answer.iter_lines() if line.startswith("data: {")]
print("".join(json.loads(word)["choices"][0]["delta"]["content"] for word in words))
`, body)
}

func (h *home) asks(t *testing.T) {
	h.says(t, "who is there?", "sh", "-c",
		`curl -sS https://api.anthropic.com/v1/messages -H "X-Api-Key: $ANTHROPIC_API_KEY" -H 'Anthropic-Version: 2023-06-01' -H 'Content-Type: application/json' -d "$0"`,
		`{"model":"claude-door","max_tokens":16,"messages":[{"role":"user","content":"knock knock"}]}`)
}

func (h *home) logsIn(t *testing.T) {
	port, keys := sshServer(t)
	check(t, os.Chmod(filepath.Dir(keys), 0o755))
	h.owns(t, keys, filepath.Join(keys, "id"), filepath.Join(keys, "id.pub"), filepath.Join(keys, "known"))
	h.says(t, "welcome", "ssh", "-T", "-p", port, "-i", filepath.Join(keys, "id"), "-o", "IdentitiesOnly=yes",
		"-o", "UserKnownHostsFile="+filepath.Join(keys, "known"), "-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes", "root@127.0.0.1")
}

// readsExample wants the host's own certificate at the client: it was tunnelled.
func (h *home) readsExample(t *testing.T, example *upstream) {
	r := h.says(t, "an example", "curl", "-sS", "-w", "%{certs}", "https://example.com/")
	own := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: example.cert.Certificate[0]}))
	if !strings.Contains(r.stdout, strings.TrimSpace(own)) {
		t.Errorf("the client saw another certificate than the host's:\n%s", r.stdout)
	}
	servePlain(t, "example.com", "in clear\n")
	h.says(t, "in clear", "curl", "-sS", "http://example.com/")
	requests, _ := example.take()
	if len(requests) != 1 || requests[0].Header.Get("Authorization") != "" {
		t.Errorf("the host got %+v", requests)
	}
}

// search looks for keys with a program's eyes: its environment, the environment
// and the arguments of every process, kimbap's home ($0), the same through the
// root folder of other processes, and below what covers it.
const search = `
	echo "probe starts"
	env
	cat /proc/[0-9]*/environ | tr '\0' '\n'
	cat /proc/[0-9]*/cmdline | tr '\0' ' '
	find "$0" -type f -exec cat {} +
	for root in /proc/[0-9]*/root; do cat "$root$0/master.key" "$root$0/kimbap.db"; done
	umount "$0"; umount -l "$0"; unshare -m umount "$0"; unshare -Urm umount "$0"
	unshare -Urm sh -c 'mount --bind / /mnt && cat "/mnt$0/master.key"' "$0"
	for pid in /proc/[0-9]*; do nsenter -U -m -t "${pid#/proc/}" cat "$0/master.key"; done
	find "$0" -type f -exec cat {} +
	echo "probe ends"`

func (h *home) searches(t *testing.T) {
	master, err := os.ReadFile(filepath.Join(h.dir, "master.key"))
	check(t, err)
	r := h.run(t, "sh", "-c", search, h.dir)
	if !strings.Contains(r.stdout, "probe ends") || !strings.Contains(r.stdout, "OPENAI_API_KEY=sk-kimbap") {
		t.Fatalf("the search did not run:\n%s", r.stderr) // not what it read: that is other processes' too
	}
	for _, secret := range append(values(keys), forgotten, strings.TrimSpace(string(master)), "SQLite format") {
		if strings.Contains(r.stdout, secret) {
			t.Errorf("the program can read %.12q…", secret)
		}
	}
}

// searchesUncovered lets the same search run where it must find things: the
// files, and as root the environment of kimbap, which is closed to the user's
// other programs. It comes last, because what it finds is in the output from then
// on.
func (h *home) searchesUncovered(t *testing.T) {
	r := h.kimbap(t, "", "run", "--no-cover", "--", "sh", "-c", search, h.dir)
	if !strings.Contains(r.stdout, "SQLite format") || h.uid == 0 && !strings.Contains(r.stdout, forgotten) {
		t.Errorf("the search finds nothing even where nothing is covered:\n%s", r.stderr)
	}
	for _, key := range keys {
		if strings.Contains(r.stdout, key) {
			t.Errorf("a stored key is there in clear: %.12q…", key)
		}
	}
}

func (h *home) askedNobody(t *testing.T) {
	var approvals []any
	check(t, json.Unmarshal([]byte(h.kimbap(t, "", "approve", "list", "-o", "json").stdout), &approvals))
	if len(approvals) != 0 {
		t.Errorf("approvals were asked for: %v", approvals)
	}
}

func values(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

// holdsNoKey searches everything that is left: every file below the user's
// home, and all that kimbap and its programs said at -vvv.
func (h *home) holdsNoKey(t *testing.T, secrets ...string) {
	t.Helper()
	places := map[string]string{"the output": h.heard()}
	err := filepath.WalkDir(h.user, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		places[path] = string(data)
		return err
	})
	check(t, err)
	if len(places["the output"]) == 0 || len(places) < 3 {
		t.Fatalf("there is nothing to search: %d places", len(places))
	}
	for place, text := range places {
		for _, secret := range secrets {
			for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte("x-access-token:" + secret))} {
				if strings.Contains(text, form) {
					t.Errorf("%s holds %.12q…", place, form)
				}
			}
		}
	}
}
