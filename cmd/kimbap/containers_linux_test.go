package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"gopkg.in/yaml.v3"
)

const containersDir = "../../examples/containers/"

// image is what a Dockerfile says of its last stage.
type image struct {
	user               string
	env                []string
	entry, cmd, health []string
}

func readImage(t *testing.T) image {
	t.Helper()
	data, err := os.ReadFile(containersDir + "Dockerfile")
	check(t, err)
	_, last, found := strings.Cut(string(data), "\nFROM scratch\n")
	if !found {
		t.Fatal("the image is not made from nothing")
	}
	var i image
	words := func(text string) (out []string) {
		check(t, json.Unmarshal([]byte(text[strings.IndexByte(text, '['):]), &out))
		return out
	}
	for line := range strings.Lines(last) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "USER":
			i.user = rest
		case "ENV":
			i.env = append(i.env, strings.Fields(rest)...)
		case "ENTRYPOINT":
			i.entry = words(rest)
		case "CMD":
			i.cmd = words(rest)
		case "HEALTHCHECK":
			i.health = words(rest)
		case "RUN":
			t.Error("there is no shell to RUN anything with")
		}
	}
	if i.user != "65532:65532" || len(i.entry) != 1 || len(i.cmd) == 0 || len(i.health) == 0 {
		t.Fatalf("the image is %+v", i)
	}
	return i
}

// furnishContainer is a shell's words that make a folder the read-only root of what
// it starts, with /data and /tmp to write, as an engine would.
const furnishContainer = `set -e
root=$1; data=$2; ca=$3; user=$4; shift 4
mount --make-rprivate /
mount --bind "$root" "$root"
mount --bind "$data" "$root/data"
mount --bind "$ca" "$root/ca"
mount -t tmpfs -o mode=1777 none "$root/tmp"
mount -t proc none "$root/proc"
mount -o remount,bind,ro "$root"
exec chroot --userspec="$user" "$root" "$@"`

// container is one whose root holds kimbap alone.
type container struct {
	image image
	*home
	root, data, ca string
}

func newContainer(t *testing.T, w *world) *container {
	t.Helper()
	program, err := workerBuilt()
	check(t, err)
	dir := t.TempDir()
	c := &container{image: readImage(t), home: w.newHome(t), root: dir + "/root", data: dir + "/data", ca: dir + "/ca"}
	for _, d := range []string{"/root/data", "/root/ca", "/root/tmp", "/root/proc", "/root/etc/ssl/certs", "/data", "/ca"} {
		check(t, os.MkdirAll(dir+d, 0o755))
	}
	for _, d := range []string{dir, filepath.Dir(dir)} {
		check(t, os.Chmod(d, 0o755))
	}
	c.dir, c.home.user = c.data, c.data
	check(t, os.Chown(c.data, 65532, 65532))
	check(t, os.Chmod(c.data, 0o700))
	check(t, os.Chown(c.ca, 65532, 65532))
	copyFile(t, program, c.root+"/kimbap")
	copyFile(t, w.roots, c.root+"/etc/ssl/certs/ca-certificates.crt")
	copyFile(t, "/etc/hosts", c.root+"/etc/hosts")
	check(t, os.WriteFile(c.data+"/config.yaml", []byte("egress: {private: allow}\n"), 0o644))
	return c
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	check(t, err)
	check(t, os.MkdirAll(filepath.Dir(to), 0o755))
	check(t, os.WriteFile(to, data, 0o755))
}

func (c *container) argv(args ...string) []string {
	return append([]string{"unshare", "-m", "sh", "-c", furnishContainer, "sh", c.root, c.data, c.ca, c.image.user}, args...)
}

// do runs one command of the image.
func (c *container) do(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	return c.exec(t, append([]string{"PATH=" + os.Getenv("PATH")}, c.image.env...), stdin, c.argv(args...)...)
}

func (c *container) must(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	r := c.do(t, stdin, append(append([]string{}, c.image.entry...), args...)...)
	if r.code != 0 {
		t.Fatalf("%q: exit code %d\n%s\n%s", args, r.code, r.stdout, r.stderr)
	}
	return r.stdout
}

// start starts what the image starts, and waits until its health check is content.
func (c *container) start(t *testing.T) {
	t.Helper()
	argv := c.argv(append(append([]string{}, c.image.entry...), c.image.cmd...)...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, c.image.env...)
	var said bytes.Buffer
	cmd.Stderr = &said
	check(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("at its end: %v\n%s", err, said.String())
		}
	})
	for end := time.Now().Add(deadline); c.do(t, "", c.image.health...).code != 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never got healthy\n%s", said.String())
		}
	}
}

// innerNetwork makes a network with one other machine in it, kimbap, and returns what
// starts a program there.
func innerNetwork(t *testing.T) func(argv ...string) []string {
	t.Helper()
	holder := exec.Command("unshare", "-n", "sh", "-c", "echo up; exec sleep 600")
	out, err := holder.StdoutPipe()
	check(t, err)
	check(t, holder.Start())
	t.Cleanup(func() { _ = holder.Process.Kill(); _ = holder.Wait() })
	_, err = bufio.NewReader(out).ReadString('\n')
	check(t, err)
	pid := fmt.Sprint(holder.Process.Pid)
	for _, line := range []string{
		"ip link add kimbap0 type veth peer name agent0 netns " + pid, "ip address add 10.77.0.1/24 dev kimbap0", "ip link set kimbap0 up",
		"nsenter -t " + pid + " -n ip link set lo up", "nsenter -t " + pid + " -n ip address add 10.77.0.2/24 dev agent0",
		"nsenter -t " + pid + " -n ip link set agent0 up",
	} {
		if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	t.Cleanup(func() { _ = exec.Command("ip", "link", "delete", "kimbap0").Run() })
	return func(argv ...string) []string { return append([]string{"nsenter", "-t", pid, "-n"}, argv...) }
}

// minimalRoot holds curl and the libraries that it names, and no more.
func minimalRoot(t *testing.T, mounted string) string {
	t.Helper()
	root := t.TempDir()
	path, err := exec.LookPath("curl")
	check(t, err)
	copyFile(t, path, root+"/bin/curl")
	out, err := exec.Command("ldd", path).Output()
	check(t, err)
	for _, library := range regexp.MustCompile(`/\S+`).FindAllString(string(out), -1) {
		copyFile(t, library, root+library)
	}
	for _, file := range []string{"ca.pem", "bundle.pem", "clients/kimbap-wgetrc", "clients/trust.jks"} {
		copyFile(t, filepath.Join(mounted, file), root+"/etc/kimbap/"+file)
	}
	check(t, os.WriteFile(root+"/etc/hosts", []byte("10.77.0.1 kimbap\n93.184.216.11 api.github.com\n"), 0o644))
	return root
}

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

// compose is what of the compose file is looked at.
type composeFile struct {
	Services map[string]struct {
		Networks    any
		Command     []string
		ReadOnly    bool     `yaml:"read_only"`
		CapDrop     []string `yaml:"cap_drop"`
		Volumes     []string
		Environment map[string]string
	}
	Networks map[string]struct{ Internal bool }
}

func readCompose(t *testing.T) (c composeFile) {
	t.Helper()
	data, err := os.ReadFile(containersDir + "compose.yaml")
	check(t, err)
	check(t, yaml.Unmarshal(data, &c))
	return c
}

// dockerVariables are those of kimbap env --shell docker for a proxy.
func dockerVariables(t *testing.T, proxy string) map[string]string {
	t.Helper()
	env := append(os.Environ(), "KIMBAP_HOME="+filepath.Join(t.TempDir(), "home"))
	run := func(args ...string) string {
		cmd := exec.Command("kimbap", args...)
		cmd.Env = env
		out, err := cmd.Output()
		check(t, err)
		return string(out)
	}
	run("init", "-q")
	out := map[string]string{}
	for _, word := range strings.Fields(run("env", "-q", "--shell", "docker", "--proxy", proxy)) {
		if pair, ok := strings.CutPrefix(word, "--env="); ok {
			name, value, _ := strings.Cut(pair, "=")
			out[name] = value
		}
	}
	if len(out) < 20 {
		t.Fatalf("only %d variables", len(out))
	}
	return out
}

func sameVariables(t *testing.T, what string, have, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if have[name] != value {
			t.Errorf("%s: %s is %q, and kimbap env says %q", what, name, have[name], value)
		}
	}
}

// What stands in the examples is what kimbap env says today.
func TestExamplesOfContainersAgreeWithEnv(t *testing.T) {
	compose := readCompose(t)
	sameVariables(t, "compose.yaml", compose.Services["agent"].Environment, dockerVariables(t, "http://kimbap:${KIMBAP_AGENT_TOKEN:-}@kimbap:7788"))
	agent, proxy := compose.Services["agent"], compose.Services["kimbap"]
	if fmt.Sprint(agent.Networks) != "[inside]" || !compose.Networks["inside"].Internal || fmt.Sprint(agent.Volumes) != "[ca:/etc/kimbap:ro]" {
		t.Errorf("the agent has networks %v and volumes %v", agent.Networks, agent.Volumes)
	}
	if !proxy.ReadOnly || fmt.Sprint(proxy.CapDrop) != "[ALL]" || fmt.Sprint(proxy.Networks) != "[inside outside]" {
		t.Errorf("kimbap is %+v", proxy)
	}
	pod := readPod(t)
	have := map[string]string{}
	for _, v := range pod.Spec.Containers[0].Env {
		have[v.Name] = v.Value
	}
	sameVariables(t, "kubernetes.yaml", have, dockerVariables(t, "http://kimbap:$(TOKEN)@127.0.0.1:7788"))
	for _, c := range pod.Spec.InitContainers {
		if s := c.SecurityContext; !s.ReadOnlyRootFilesystem || !s.RunAsNonRoot || s.RunAsUser != 65532 {
			t.Errorf("%s: %+v", c.Name, s)
		}
	}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		if m.Name != "ca" || !m.ReadOnly {
			t.Errorf("the agent mounts %+v", m)
		}
	}
	var feature, devcontainer struct{ ContainerEnv map[string]string }
	for file, into := range map[string]any{"feature/devcontainer-feature.json": &feature, "devcontainer.json": &devcontainer} {
		data, err := os.ReadFile(containersDir + file)
		check(t, err)
		check(t, json.Unmarshal(data, into))
	}
	for name, value := range devcontainer.ContainerEnv {
		feature.ContainerEnv[name] = value
	}
	sameVariables(t, "devcontainer", feature.ContainerEnv, dockerVariables(t, "http://kimbap:${localEnv:KIMBAP_AGENT_TOKEN}@host.docker.internal:7788"))
}

// pod is what of the Kubernetes example is looked at.
type pod struct {
	Spec struct {
		InitContainers, Containers []struct {
			Name            string
			Args            []string
			Env             []struct{ Name, Value string }
			SecurityContext struct {
				RunAsUser              int  `yaml:"runAsUser"`
				RunAsNonRoot           bool `yaml:"runAsNonRoot"`
				ReadOnlyRootFilesystem bool `yaml:"readOnlyRootFilesystem"`
			} `yaml:"securityContext"`
			VolumeMounts []struct {
				Name     string
				ReadOnly bool `yaml:"readOnly"`
			} `yaml:"volumeMounts"`
		}
	}
}

func readPod(t *testing.T) pod {
	t.Helper()
	data, err := os.ReadFile(containersDir + "kubernetes.yaml")
	check(t, err)
	var raw struct {
		Spec struct {
			Init yaml.Node `yaml:"initContainers"`
			Main yaml.Node `yaml:"containers"`
		}
	}
	check(t, yaml.NewDecoder(bytes.NewReader(data)).Decode(&raw))
	var p pod
	check(t, raw.Spec.Init.Decode(&p.Spec.InitContainers))
	check(t, raw.Spec.Main.Decode(&p.Spec.Containers))
	return p
}
