package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const containersDir = "../../examples/containers/"

// The image's own settings work with a root that cannot be written, as a user with
// no name, without a shell; and an agent in a network where kimbap is the only other
// machine, with the compose file's variables, reaches the API with the key, and
// nothing without kimbap.
func TestTheOnlyWayOutOfTheInnerNetwork(t *testing.T) {
	w := newWorld(t)
	needProgram(t, installed("curl", "ip", "unshare", "nsenter", "chroot", "ldd"))
	api := w.serve(t, "api.github.com", demands("Authorization", "Bearer "+keys["github"], githubAPI(t)))
	c := newContainer(t, w)
	if r := c.do(t, "", c.image.health...); r.code != exitUnreachable {
		t.Errorf("healthy before it runs: exit code %d\n%s", r.code, r.stderr)
	}
	c.start(t)
	c.must(t, keys["github"]+"\n", "link", "github", "--no-check")
	token := strings.TrimSpace(c.must(t, "", "token", "create", "--agent", "agent", "--scope", "*"))
	compose := readCompose(t)
	c.must(t, "", compose.Services["ca"].Command...)
	root, there := minimalRoot(t, c.ca), innerNetwork(t)
	env := []string{"PATH=" + os.Getenv("PATH")}
	for name, value := range compose.Services["agent"].Environment {
		env = append(env, name+"="+strings.ReplaceAll(value, "${KIMBAP_AGENT_TOKEN:-}", token))
	}
	agent := func(args ...string) result {
		return c.exec(t, env, "", there(append([]string{"chroot", "--userspec=1000:1000", root, "/bin/curl", "-sS", "-m", "10"}, args...)...)...)
	}
	api.take()
	if r := agent("https://api.github.com/user"); r.code != 0 || !strings.Contains(r.stdout, `"login":"octo"`) {
		t.Errorf("exit code %d\n%s\n%s", r.code, r.stdout, r.stderr)
	}
	if got, _ := api.take(); len(got) != 1 {
		t.Errorf("the API got %v", got)
	}
	for _, way := range [][]string{
		{"--noproxy", "*", "https://api.github.com/user"},
		{"--noproxy", "*", "-k", "https://93.184.216.11/user"},
		{"--proxy", "http://kimbap:7788", "--proxy-user", "nobody:", "https://api.github.com/user"},
	} {
		if r := agent(way...); r.code == 0 {
			t.Errorf("%q got through\n%s", way, r.stdout)
		}
	}
	if got, n := api.take(); len(got) != 0 || n > 0 {
		t.Errorf("the API got %d connections and %v", n, got)
	}
	if r := c.do(t, "", "/kimbap", "--home", "/elsewhere", "init"); r.code == 0 {
		t.Error("the root can be written")
	}
	c.holdsNoKey(t, keys["github"])
}

// A container with what kimbap env --server --shell docker says reaches the API by the
// proxy of a kimbap elsewhere, with the key, and has neither the key nor the server's
// token; without the token of the port nobody does.
func TestAContainerBehindAServer(t *testing.T) {
	w := newWorld(t)
	needProgram(t, installed("curl", "ip", "unshare", "nsenter", "chroot", "ldd"))
	api := w.serve(t, "api.github.com", demands("Authorization", "Bearer "+keys["github"], githubAPI(t)))
	h := w.newHome(t)
	h.kimbap(t, keys["github"]+"\n", "link", "github", "--no-check")
	far, token := h.far(t)
	url := h.serves(t, "serve", "--proxy", "--listen", "127.0.0.1:0")
	there := innerNetwork(t)
	here := &home{t: t, user: h.user, dir: h.dir, env: append(far, "KIMBAP_SERVER="+url, "KIMBAP_TOKEN_FILE="+token)}
	proxy := here.serves(t, "proxy", "--listen", "10.77.0.1:0", "--auth", "token", "--insecure-listen")

	words := here.exec(t, here.env, "", "kimbap", "env", "--shell", "docker")
	if words.code != 0 {
		t.Fatalf("exit code %d\n%s", words.code, words.stderr)
	}
	env, mounted := []string{"PATH=" + os.Getenv("PATH")}, t.TempDir()
	for _, word := range strings.Fields(words.stdout) {
		flag, value, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		switch flag {
		case "env":
			env = append(env, value)
		case "env-file":
			text, err := os.ReadFile(value)
			check(t, err)
			env = append(env, strings.Fields(string(text))...)
		case "volume":
			from, to, _ := strings.Cut(strings.TrimSuffix(value, ":ro"), ":")
			readableByAll(t, from)
			out, err := exec.Command("cp", "-r", from, filepath.Join(mounted, filepath.Base(to))).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
	}
	if all := strings.Join(env, "\n"); strings.Contains(all, "kmb_") || !strings.Contains(all, "HTTPS_PROXY=http://kimbap:run_") {
		t.Errorf("the container has\n%s", all)
	}
	root := minimalRoot(t, mounted)
	check(t, os.WriteFile(root+"/etc/hosts", []byte("10.77.0.1 host.docker.internal\n93.184.216.11 api.github.com\n"), 0o644))
	get := func(args ...string) result {
		return here.exec(t, env, "", there(append([]string{"chroot", "--userspec=1000:1000", root, "/bin/curl", "-sS", "-m", "10"}, args...)...)...)
	}
	api.take()
	if r := get("https://api.github.com/user"); r.code != 0 || !strings.Contains(r.stdout, `"login":"octo"`) {
		t.Errorf("exit code %d\n%s\n%s", r.code, r.stdout, r.stderr)
	}
	if got, _ := api.take(); len(got) != 1 {
		t.Errorf("the API got %v", got)
	}
	other := strings.Replace(proxy, "http://10.77.0.1", "http://kimbap:run_0@host.docker.internal", 1)
	if r := get("--proxy", other, "https://api.github.com/user"); r.code == 0 || !strings.Contains(r.stderr, "407") {
		t.Errorf("with another token\n%s\n%s", r.stdout, r.stderr)
	}
	if got, n := api.take(); len(got) != 0 || n > 0 {
		t.Errorf("the API got %d connections and %v", n, got)
	}
	h.holdsNoKey(t, keys["github"])
	here.holdsNoKey(t, keys["github"])
}

// readableByAll fails the test where a container's user, who is another, could not
// read what is mounted.
func readableByAll(t *testing.T, path string) {
	t.Helper()
	check(t, filepath.Walk(path, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().Perm()&0o004 == 0 {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		return err
	}))
}
